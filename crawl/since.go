package crawl

import (
	"errors"
	"fmt"
	"strings"

	"drumbeat/crawl/contents"
	"drumbeat/crawl/options"
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
	stores  []contents.Earlier // of readers
	secret  weburl.Secret
	took    []state.Earlier // from each crawl
}

// openEarlier opens the crawls.
func openEarlier(fsys disk.FS, o *options.Output) (e *earlier, err error) {
	e = new(earlier)
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	for i, all := range o.Since {
		name := strings.Join(all, ",")
		dirs, out := splitOutput(fsys, all)
		if len(dirs) == 0 {
			return e, fmt.Errorf("crawl: earlier crawl %s: all of these are output directories; name the "+
				"directories of its state, too: %w", name, state.ErrIncompatible)
		}
		r, err := state.OpenReader(fsys, dirs, out)
		if err != nil {
			return e, fmt.Errorf("crawl: earlier crawl %s: %w", name, err)
		}
		e.readers = append(e.readers, r)
		e.took = append(e.took, state.Earlier{Dirs: dirs, Out: out, Crawl: r.CrawlID})
		if r.Activity() == state.StateRunning {
			return e, fmt.Errorf("crawl: earlier crawl %s is running: stop it first: %w", name, state.ErrIncompatible)
		}
		if len(out) > 0 && !r.SeparateOut {
			return e, fmt.Errorf("crawl: earlier crawl %s has no output directories, so %s is of another crawl: %w",
				strings.Join(dirs, ","), strings.Join(out, ","), state.ErrIncompatible)
		}
		if r.Out.Len() == 0 && o.SinceKnown != options.KnownAll {
			return e, fmt.Errorf("crawl: the indexes of earlier crawl %s are in its output directories, and "+
				"--since-known reads them: name these directories, too (--since %[1]s,OUT): %[2]w", name,
				state.ErrIncompatible)
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

// splitOutput separates the output directories of a crawl from its others.
func splitOutput(fsys disk.FS, all []string) (dirs, out []string) {
	for _, dir := range all {
		if id, err := disk.ReadIdentity(fsys, dir); err == nil && id.Kind == state.KindOutput {
			out = append(out, dir)
		} else {
			dirs = append(dirs, dir) // state.OpenReader reports what is wrong with it
		}
	}
	return dirs, out
}

// open opens the stores of contents of the crawls.
func (e *earlier) open() ([]contents.Earlier, error) {
	if e == nil {
		return nil, nil
	}
	for _, r := range e.readers {
		st, err := state.Part[drum.State](r.Manifest, state.NameContent)
		if err != nil {
			return nil, err
		}
		e.stores = append(e.stores, contents.Earlier{Set: r.Set, State: st})
	}
	return e.stores, nil
}

// taken returns what a crawl took from earlier ones when it began, m is its manifest. feedEarlier completes it.
func (e *earlier) taken(m *state.Manifest) []state.Earlier {
	switch {
	case m != nil && m.Run != nil:
		return m.Run.Earlier
	case e == nil:
		return nil
	}
	for i := range e.stores {
		e.took[i].Bodies = e.stores[i].Bodies
	}
	return e.took
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
	earlier, err := c.earlier.open()
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
	c.earlier, err = openEarlier(o.Disk.FS, &o.Output)
	return err
}
