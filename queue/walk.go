package queue

import (
	"fmt"

	"drumbeat/disk"
)

// Walk calls fn for each unread record of the queue name in state st, in order, and changes nothing. rec is
// valid during the call. Checksums and counts are verified: damage is a *disk.CorruptError. An error of fn
// ends the walk.
func Walk(set disk.Set, name string, st *State, fn func(rec []byte) error) error {
	if err := st.validate(set.Len()); err != nil {
		return fmt.Errorf("queue: walk %s: %w", name, err)
	}
	w := walker{st: st, fn: fn}
	if err := w.walk(set, name); err != nil {
		return fmt.Errorf("queue: walk %s: %w", name, err)
	}
	if w.records != st.Records || w.bytes != st.Bytes {
		return fmt.Errorf("queue: walk %s: %d records of %d bytes found, the state says %d of %d", name, w.records,
			w.bytes, st.Records, st.Bytes)
	}
	return nil
}

type walker struct {
	st             *State
	fn             func(rec []byte) error
	records, bytes int64
}

func (w *walker) walk(set disk.Set, name string) error {
	if err := w.tail(set, w.st.Head); err != nil {
		return err
	}
	r := segmentReader{set: set, name: name, pool: new(Pool)}
	off, seq, skip := w.st.Offset, w.st.Block, w.st.Skip
	var raw []byte
	for _, seg := range w.st.Segments {
		for off < seg.Size {
			b, err := r.read(raw, seg, off, seq)
			if err != nil {
				return err
			}
			at, err := skipRecords(b, skip)
			if err != nil {
				return err
			}
			n, err := w.each(b.raw[at:], b.path, b.off)
			if err != nil {
				return err
			}
			if n+skip != b.records {
				return &disk.CorruptError{
					Path: b.path, Offset: b.off,
					Want: fmt.Sprintf("%d records", b.records), Got: fmt.Sprintf("%d", n+skip),
				}
			}
			raw, off, seq, skip = b.raw, b.end, seq+1, 0
		}
		if seq != seg.Blocks {
			return &disk.CorruptError{
				Path: segmentPath(set, name, seg), Offset: seg.Size,
				Want: fmt.Sprintf("%d blocks", seg.Blocks), Got: fmt.Sprintf("%d", seq),
			}
		}
		off, seq = disk.HeaderBytes, 0
	}
	return w.tail(set, w.st.Tail)
}

func (w *walker) tail(set disk.Set, ref disk.Ref) error {
	raw, err := disk.ReadTail(set, ref)
	if err != nil {
		return err
	}
	_, err = w.each(raw, fmt.Sprintf("tails %d", ref.Gen), ref.Off)
	return err
}

// each calls fn for the records of raw, which lies at off of path.
func (w *walker) each(raw []byte, path string, off int64) (n uint32, err error) {
	for len(raw) > 0 {
		rec, size := nextRecord(raw)
		if size == 0 {
			return n, &disk.CorruptError{Path: path, Offset: off, Want: "a record", Got: "an impossible length"}
		}
		if err := w.fn(rec); err != nil {
			return n, err
		}
		w.records++
		w.bytes += int64(len(rec))
		raw = raw[size:]
		n++
	}
	return n, nil
}
