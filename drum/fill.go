package drum

import (
	"errors"
	"fmt"
)

// Fill writes the cache of an empty store: run passes its entries to add, in ascending order of keys. It
// serves to rebuild a store from what was readable of another one.
func (d *Drum) Fill(run func(add func(key Key, value []byte) error) error) error {
	d.passMu.Lock()
	defer d.passMu.Unlock()
	if err := d.failed(); err != nil {
		return err
	}
	if d.keys.Load() > 0 {
		return fmt.Errorf("drum: fill %s: it has entries", d.opt.Name)
	}
	f := filling{p: newPass(d), bucket: -1}
	err := run(f.add)
	if err == nil {
		err = f.end()
	}
	closeErr := f.p.close()
	f.p.free()
	if err != nil || closeErr != nil {
		err = fmt.Errorf("drum: fill %s: %w", d.opt.Name, errors.Join(err, closeErr))
		d.fail(err)
	}
	return err
}

// filling is a cache being written.
type filling struct {
	p      *pass
	bucket int // bucket whose part is being written; -1 = none
	last   Key
}

func (f *filling) add(key Key, value []byte) error {
	d := f.p.d
	if f.bucket >= 0 && key <= f.last {
		return fmt.Errorf("key %x after %x", key, f.last)
	}
	if i := int(uint64(key) >> d.shift); i != f.bucket {
		if err := f.end(); err != nil {
			return err
		}
		pf, err := f.p.file((i + 1) % d.dirs())
		if err != nil {
			return err
		}
		f.p.w.open(pf, i, d.opt.Codec)
		f.bucket = i
	}
	f.last = key
	return f.p.w.add(uint64(key), value)
}

func (f *filling) end() error {
	if f.bucket < 0 {
		return nil
	}
	return f.p.endFill(f.bucket)
}

// endFill installs the written part in its bucket.
func (p *pass) endFill(i int) error {
	made, err := p.w.finish()
	if err != nil {
		return err
	}
	d := p.d
	d.gate.Lock()
	defer d.gate.Unlock()
	b := &d.buckets[i]
	b.mu.Lock()
	b.part = made
	b.mu.Unlock()
	d.keys.Add(made.keys)
	return d.files.replace(part{}, made)
}
