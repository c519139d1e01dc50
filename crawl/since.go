package crawl

import (
	"errors"
	"fmt"
	"strings"

	"drumbeat/crawl/contents"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/state"
	"drumbeat/weburl"
)

// earlier are the crawls of Options.Output.Since: a new crawl takes their secret, so that their keys of bodies are its
// own, and copies these keys with the captures that have the bodies. The first checkpoint has them all, and is made
// before the first fetch. After a crash before it the next run begins once more; later runs take nothing. The goroutine
// that opens the crawl uses it alone.
type earlier struct {
	readers []*state.Reader
	secret  weburl.Secret
}

// openEarlier opens the crawls.
func openEarlier(fsys disk.FS, since [][]string) (e *earlier, err error) {
	e = new(earlier)
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	for i, dirs := range since {
		name := strings.Join(dirs, ",")
		r, err := state.OpenReader(fsys, dirs, nil)
		if err != nil {
			return e, fmt.Errorf("crawl: earlier crawl %s: %w", name, err)
		}
		e.readers = append(e.readers, r)
		if r.Activity() == state.StateRunning {
			return e, fmt.Errorf("crawl: earlier crawl %s is running: stop it first: %w", name, state.ErrIncompatible)
		}
		secret, err := r.OpenSecret(r.Manifest)
		if err != nil {
			return e, err
		}
		if i > 0 && secret != e.secret {
			return e, fmt.Errorf("crawl: earlier crawl %s has other keys than the ones before it; only crawls that "+
				"descend from one another by --since have the same: %w", name, state.ErrIncompatible)
		}
		e.secret = secret
	}
	return e, nil
}

// contents returns the stores of contents of the crawls.
func (e *earlier) contents() (all []contents.Earlier, err error) {
	if e == nil {
		return nil, nil
	}
	for _, r := range e.readers {
		st, err := state.Part[drum.State](r.Manifest, state.NameContent)
		if err != nil {
			return nil, err
		}
		if st != nil {
			all = append(all, contents.Earlier{Set: r.Set, State: st})
		}
	}
	return all, nil
}

func (e *earlier) close() {
	if e == nil {
		return
	}
	for _, r := range e.readers {
		r.Close()
	}
	e.readers = nil
}

// openContents makes the store of contents ready.
func (c *crawler) openContents(m *state.Manifest) error {
	earlier, err := c.earlier.contents()
	if err != nil {
		return err
	}
	return c.content.Open(m, earlier)
}

// openSince opens the earlier crawls, before the directories of this one.
func (c *crawler) openSince() (err error) {
	o := &c.opt
	if len(o.Output.Since) == 0 {
		return nil
	}
	if o.Cluster != nil {
		return errors.New("crawl: an earlier crawl is not for a node of a cluster")
	}
	c.earlier, err = openEarlier(o.Disk.FS, o.Output.Since)
	return err
}
