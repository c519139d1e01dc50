package extsort

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
)

// blockBytes is the least size of a block but the last, uncompressed.
const blockBytes = 256 << 10

// blockHead is the length of a block's header: length (4) and xxhash64 (8) of the compressed bytes,
// little-endian. The format needs no version: no other process reads a run.
const blockHead = 12

// run is a sorted run on disk.
type run struct {
	s    *Sorter
	f    disk.File
	name string
	size int64

	off  int64 // of the next block
	text []byte
	rest []byte // of text
	rec  []byte
}

// append writes a block.
func (r *run) append(block []byte) error {
	s := r.s
	s.packed = append(s.packed[:0], make([]byte, blockHead)...)
	s.packed = s.enc.EncodeAll(block, s.packed)
	body := s.packed[blockHead:]
	binary.LittleEndian.PutUint32(s.packed, uint32(len(body)))
	binary.LittleEndian.PutUint64(s.packed[4:], xxhash.Sum64(body))
	if _, err := r.f.WriteAt(s.packed, r.size); err != nil {
		return fmt.Errorf("extsort: write %s: %w", r.name, err)
	}
	r.size += int64(len(s.packed))
	return nil
}

// next reads the next record into rec; nil after the last.
func (r *run) next() error {
	if len(r.rest) == 0 {
		if r.off == r.size {
			r.rec, r.text, r.rest = nil, nil, nil
			return nil
		}
		if err := r.load(); err != nil {
			return err
		}
	}
	n, w := binary.Uvarint(r.rest)
	if w <= 0 || n > uint64(len(r.rest)-w) {
		return r.corrupt("a record", "a length beyond the end")
	}
	r.rec, r.rest = r.rest[w:w+int(n):w+int(n)], r.rest[w+int(n):]
	return nil
}

func (r *run) corrupt(want, got string) error {
	return fmt.Errorf("extsort: %w", &disk.CorruptError{Path: r.name, Offset: r.off, Want: want, Got: got})
}

// load reads a block.
func (r *run) load() error {
	var head [blockHead]byte
	if err := disk.ReadFull(r.f, head[:], r.off); err != nil {
		return fmt.Errorf("extsort: read %s: %w", r.name, err)
	}
	n := int64(binary.LittleEndian.Uint32(head[:]))
	if n > r.size-r.off-blockHead {
		return r.corrupt("a block", "a length beyond the end")
	}
	s := r.s
	if int64(cap(s.packed)) < n {
		s.packed = make([]byte, n)
	}
	s.packed = s.packed[:n]
	if err := disk.ReadFull(r.f, s.packed, r.off+blockHead); err != nil {
		return fmt.Errorf("extsort: read %s: %w", r.name, err)
	}
	if want, got := binary.LittleEndian.Uint64(head[4:]), xxhash.Sum64(s.packed); want != got {
		return r.corrupt(fmt.Sprintf("checksum %016x", want), fmt.Sprintf("%016x", got))
	}
	text, err := s.dec.DecodeAll(s.packed, r.text[:0])
	if err != nil {
		return r.corrupt("a zstd frame", err.Error())
	}
	r.text, r.rest = text, text
	r.off += blockHead + n
	return nil
}

// remove closes and deletes the file.
func (r *run) remove() error {
	if r.f == nil {
		return nil
	}
	err := r.f.Close()
	r.f, r.text, r.rest = nil, nil, nil
	if err != nil {
		return fmt.Errorf("extsort: %w", err)
	}
	return r.s.opt.FS.Remove(r.name)
}

// merger merges runs by a heap of their current records.
type merger struct {
	runs []*run
	last *run // whose record next has returned
}

func newMerger(runs []*run) (*merger, error) {
	m := &merger{}
	for _, r := range runs {
		if err := r.next(); err != nil {
			return nil, err
		}
		if r.rec != nil {
			m.runs = append(m.runs, r)
		}
	}
	heap.Init(m)
	return m, nil
}

// next returns the next record; nil after the last.
func (m *merger) next() ([]byte, error) {
	if m.last != nil {
		if err := m.last.next(); err != nil {
			return nil, err
		}
		if m.last.rec == nil {
			heap.Pop(m)
		} else {
			heap.Fix(m, 0)
		}
		m.last = nil
	}
	if len(m.runs) == 0 {
		return nil, nil
	}
	m.last = m.runs[0]
	return m.last.rec, nil
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (m *merger) Len() int           { return len(m.runs) }
func (m *merger) Less(i, j int) bool { return bytes.Compare(m.runs[i].rec, m.runs[j].rec) < 0 }
func (m *merger) Swap(i, j int)      { m.runs[i], m.runs[j] = m.runs[j], m.runs[i] }
func (m *merger) Push(x any)         { m.runs = append(m.runs, x.(*run)) }
func (m *merger) Pop() any {
	r := m.runs[len(m.runs)-1]
	m.runs = m.runs[:len(m.runs)-1]
	return r
}
