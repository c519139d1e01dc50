package baselines

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// emitLinks is the largest number of links per call of Emit: large enough to make the call cheap, small
// enough for the L1 cache.
const emitLinks = 512

// emitBytes is the size of the two arrays of a batch for Emit.
const emitBytes = emitLinks * (32 + 1)

// base is the common part of all stores.
type base struct {
	name  string
	o     Options
	stats Stats
	err   error // the first one, which ends the store

	links []Link // a batch for Emit
	fresh []bool

	loaded  bool   // Load was called
	lastKey uint64 // the last key of Load
}

// newBase checks the options and creates the directory.
func newBase(name string, o Options) (base, error) {
	if o.FS == nil || o.Dir == "" || o.Emit == nil {
		return base{}, fmt.Errorf("baselines: open %s: it needs a file system, a directory and Emit", name)
	}
	if o.RAMBytes < MinRAMBytes || o.RAMBytes > MaxRAMBytes {
		return base{}, fmt.Errorf("baselines: open %s: RAM of %d bytes, want %d to %d",
			name, o.RAMBytes, int64(MinRAMBytes), int64(MaxRAMBytes))
	}
	b := base{name: name, o: o, links: make([]Link, 0, emitLinks), fresh: make([]bool, 0, emitLinks)}
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return b, fmt.Errorf("baselines: open %s: %w", name, err)
	}
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return b, fmt.Errorf("baselines: open %s: %w", name, err)
	}
	if len(names) > 0 {
		return b, fmt.Errorf("baselines: open %s: directory %s is not empty: it contains %s", name, o.Dir,
			names[0])
	}
	return b, nil
}

// removeDir removes the directory with all files of the store.
func (b *base) removeDir() error {
	names, err := b.o.FS.List(b.o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, n := range names {
		errs = append(errs, b.o.FS.Remove(path.Join(b.o.Dir, n)))
	}
	errs = append(errs, b.o.FS.Remove(b.o.Dir))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("baselines: close %s: %w", b.name, err)
	}
	return nil
}

// Stats implements Store.
func (b *base) Stats() Stats { return b.stats }

// fail ends the store with err, or returns the error that ended it before. It ignores a nil err.
func (b *base) fail(action string, err error) error {
	if b.err == nil && err != nil {
		b.err = fmt.Errorf("baselines: %s %s: %w", b.name, action, err)
	}
	return b.err
}

// checkLinks checks the links; an invalid link ends the store.
func (b *base) checkLinks(links []Link) error {
	if b.err != nil {
		return b.err
	}
	for i := range links {
		if n := len(links[i].Text); n == 0 || n > MaxTextBytes {
			return b.fail("add", fmt.Errorf("text of %d bytes, want 1 to %d", n, MaxTextBytes))
		}
	}
	b.stats.Links += int64(len(links))
	return nil
}

// checkLoad checks that the keys ascend; otherwise it ends the store.
func (b *base) checkLoad(keys []uint64) error {
	if b.err != nil {
		return b.err
	}
	if b.stats.Links > 0 {
		return b.fail("load", errors.New("a link was added before"))
	}
	for _, k := range keys {
		if b.loaded && k <= b.lastKey {
			return b.fail("load", fmt.Errorf("key %#x follows %#x: keys must ascend", k, b.lastKey))
		}
		b.loaded, b.lastKey = true, k
	}
	b.stats.Known += int64(len(keys))
	return nil
}

// checkLoadLinks does for LoadLinks what checkLoad does for Load.
func (b *base) checkLoadLinks(links []Link) error {
	if b.loaded {
		return b.fail("load", errors.New("Load was called before LoadLinks: call one of them only"))
	}
	if err := b.checkLinks(links); err != nil {
		return err
	}
	b.stats.Links -= int64(len(links))
	if b.stats.Links > 0 {
		return b.fail("load", errors.New("a link was added before"))
	}
	return nil
}

// emit passes on links with their verdicts; they follow the previous links in order of arrival.
func (b *base) emit(links []Link, fresh []bool) error {
	first := b.stats.Answered
	for _, f := range fresh {
		if f {
			b.stats.Fresh++
			b.stats.Known++
		}
	}
	b.stats.Answered += int64(len(links))
	if len(links) == 0 {
		return nil
	}
	return b.fail("emit", b.o.Emit(first, links, fresh))
}

// put adds a link to the batch for Emit. link.Text must stay valid until the batch is emitted.
func (b *base) put(link Link, fresh bool) error {
	b.links = append(b.links, link)
	b.fresh = append(b.fresh, fresh)
	if len(b.links) < emitLinks {
		return nil
	}
	return b.putOut()
}

// putOut emits the batch.
func (b *base) putOut() error {
	err := b.emit(b.links, b.fresh)
	b.links, b.fresh = b.links[:0], b.fresh[:0]
	return err
}

// meanText returns the mean length of the texts.
func meanText(links []Link) int {
	sum := 0
	for i := range links {
		sum += len(links[i].Text)
	}
	return sum / max(1, len(links))
}
