package export

import (
	"encoding/binary"
	"errors"
	"fmt"

	"drumbeat/internal/extsort"
)

// carry is what one feed of Follow leaves to the next: what each URL is, some 60 bytes, by key. So the next one reads
// only the files that have grown, and a checkpoint costs a pass over these records instead of a sort of all visits.
// They are on disk if they do not fit into an eighth of the RAM.
type carry struct {
	begun  bool
	at     mark            // the records are those of its checkpoint
	old    *extsort.Sorter // of at; nil: none
	next   *extsort.Sorter // of the feed that runs
	rec    []byte          // the current record of old; nil at the end
	buf    []byte
	sorts  int
	writes []byte // scratch
}

// begin prepares a feed. It tells whether the feed can do without the files that at covers: not after an erasure, which
// has written some of them again.
func (c *carry) begin(j *job) (ready bool, err error) {
	if c.begun && c.at.erasures != j.now.erasures {
		if err := c.old.Close(); err != nil {
			return false, err
		}
		c.begun = false
	}
	c.sorts++
	c.next = extsort.New(extsort.Options{FS: j.opt.FS, Dir: fmt.Sprintf("%s/carry-%d", j.opt.TempDir, c.sorts%2),
		RAMBytes: j.opt.RAMBytes / 8})
	if c.begun {
		c.rec, err = c.old.Next()
	}
	return c.begun, err
}

// seek copies the records before the key, and sets page and last from that of the key, if there is one.
func (c *carry) seek(key uint64, page *pageNow, last *int64) (err error) {
	for c.begun && c.rec != nil {
		of := binary.BigEndian.Uint64(c.rec)
		if of > key {
			return nil
		}
		if of < key {
			if err := c.next.Add(c.rec); err != nil {
				return err
			}
		} else {
			c.buf = append(c.buf[:0], c.rec[8:]...)
			n, w := binary.Varint(c.buf)
			*last, page.has = n, int(c.buf[w])
			b := c.buf[w+1:]
			size, w := binary.Uvarint(b)
			page.digest = append(page.digest[:0], b[w:w+int(size)]...)
			page.redirect = append(page.redirect[:0], b[w+int(size):]...)
		}
		if c.rec, err = c.old.Next(); err != nil {
			return err
		}
	}
	return nil
}

// put adds the record of a key.
func (c *carry) put(key uint64, page *pageNow, last int64) error {
	r := binary.AppendVarint(binary.BigEndian.AppendUint64(c.writes[:0], key), last)
	r = binary.AppendUvarint(append(r, byte(page.has)), uint64(len(page.digest)))
	c.writes = append(append(r, page.digest...), page.redirect...)
	return c.next.Add(c.writes)
}

// end makes the records of the feed those of its checkpoint.
func (c *carry) end(at *mark) (err error) {
	for ; err == nil && c.begun && c.rec != nil; c.rec, err = c.old.Next() {
		if err := c.next.Add(c.rec); err != nil {
			return err
		}
	}
	if err == nil && c.begun {
		err = c.old.Close()
	}
	if err == nil {
		err = c.next.Sort()
	}
	c.begun, c.at, c.old, c.next = true, *at, c.next, nil
	return err
}

// close removes the files.
func (c *carry) close() error {
	var errs []error
	for _, s := range []*extsort.Sorter{c.old, c.next} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}
