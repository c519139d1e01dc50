package drum

import (
	"errors"
	"fmt"
)

// Fill writes the cache of a store that has none yet: next gives the entries, keys ascending, until ok is false. It is for
// a store that is made anew from what could be read of another one.
func (d *Drum) Fill(next func() (key Key, value []byte, ok bool, err error)) error {
	d.passMu.Lock()
	defer d.passMu.Unlock()
	if err := d.failed(); err != nil {
		return err
	}
	if d.keys.Load() > 0 {
		return fmt.Errorf("drum: fill %s: it has entries", d.opt.Name)
	}
	p := newPass(d)
	err := p.fill(next)
	if closeErr := p.close(); err != nil || closeErr != nil {
		err = fmt.Errorf("drum: fill %s: %w", d.opt.Name, errors.Join(err, closeErr))
		d.fail(err)
	}
	return err
}

func (p *pass) fill(next func() (Key, []byte, bool, error)) error {
	d, bucket := p.d, -1
	last, some := Key(0), false
	for {
		key, value, ok, err := next()
		if err != nil {
			return err
		}
		if ok && some && key <= last {
			return fmt.Errorf("key %x after %x", key, last)
		}
		if i := int(uint64(key) >> d.shift); !ok || i != bucket {
			if bucket >= 0 {
				if err := p.endFill(bucket); err != nil {
					return err
				}
			}
			if !ok {
				return nil
			}
			pf, err := p.file((i + 1) % d.dirs())
			if err != nil {
				return err
			}
			p.w.open(pf, i, d.opt.Codec)
			bucket = i
		}
		last, some = key, true
		if err := p.w.add(uint64(key), value); err != nil {
			return err
		}
	}
}

// endFill makes the part just written the bucket's.
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
