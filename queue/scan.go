package queue

import (
	"encoding/binary"
	"fmt"

	"drumbeat/disk"
)

// Scan calls fn for each unread record of queue name in state st, in order, and changes nothing. rec is valid
// during the call. An error of fn ends the scan. Scan verifies checksums and counts. It passes each error to
// damaged and continues after the damaged part. If damaged is nil, the first damage, a *disk.CorruptError,
// ends the scan. Scan returns the number of records of the state that it could not read.
func Scan(
	set disk.Set, name string, st *State, fn func(rec []byte) error, damaged func(error) error,
) (lost int64, err error) {
	if err := st.validate(set.Len()); err != nil {
		return 0, fmt.Errorf("queue: scan %s: %w", name, err)
	}
	if damaged == nil {
		damaged = func(err error) error { return err }
	}
	s := scanner{st: st, fn: fn, set: set, name: name, damaged: damaged}
	if err := s.run(); err != nil {
		return 0, fmt.Errorf("queue: scan %s: %w", name, err)
	}
	lost = st.Records - s.records
	if (lost != 0 || s.bytes != st.Bytes) && !s.hurt || lost < 0 {
		err := fmt.Errorf("queue: scan %s: found %d records of %d bytes, but the state has %d of %d bytes", name,
			s.records, s.bytes, st.Records, st.Bytes)
		if err := damaged(err); err != nil {
			return 0, err
		}
	}
	return max(0, lost), nil
}

// ScanCalendar is Scan for the records of a calendar, in the order of due times. dueMillis is the time at
// which the record becomes available, in unix milliseconds.
func ScanCalendar(
	set disk.Set, name string, st *CalendarState, fn func(dueMillis int64, rec []byte) error, damaged func(error) error,
) (lost int64, err error) {
	if err := st.validate(); err != nil {
		return 0, fmt.Errorf("queue: scan %s: %w", name, err)
	}
	for _, s := range st.Slots {
		each := func(rec []byte) error { return fn(s.Due, rec) }
		n, err := Scan(set, binName(name, s.Number), s.Queue, each, damaged)
		if err != nil {
			return lost, err
		}
		lost += n
	}
	return lost, nil
}

type scanner struct {
	set            disk.Set
	name           string
	st             *State
	fn             func(rec []byte) error
	damaged        func(error) error
	records, bytes int64 // passed to fn
	hurt           bool  // damage was reported

	head         [blockHeaderBytes]byte
	payload, raw []byte
	coder        coder
}

func (s *scanner) report(err error) error {
	s.hurt = true
	return s.damaged(err)
}

func (s *scanner) run() error {
	if err := s.scanTail(s.st.Head); err != nil {
		return err
	}
	at := segmentPlace{off: s.st.Offset, seq: s.st.Block, skip: s.st.Skip}
	for _, seg := range s.st.Segments {
		if err := s.segment(seg, at); err != nil {
			return err
		}
		at = segmentPlace{off: disk.HeaderBytes}
	}
	return s.scanTail(s.st.Tail)
}

// scanTail passes on the records that were in RAM.
func (s *scanner) scanTail(ref disk.Ref) error {
	raw, err := disk.ReadTail(s.set, ref)
	if err != nil {
		return s.report(err)
	}
	_, err = s.each(raw, fmt.Sprintf("tails %d", ref.Gen), ref.Off)
	return err
}

// each calls fn for the records of raw, which is at off of path.
func (s *scanner) each(raw []byte, path string, off int64) (n uint32, err error) {
	for len(raw) > 0 {
		rec, size := nextRecord(raw)
		if size == 0 {
			return n, &disk.CorruptError{Path: path, Offset: off, Want: "a record", Got: "an invalid length"}
		}
		if err := s.fn(rec); err != nil {
			return n, err
		}
		s.records++
		s.bytes += int64(len(rec))
		raw = raw[size:]
		n++
	}
	return n, nil
}

// segmentPlace is the position of a block, its sequence number, and the number of its records that have
// been read.
type segmentPlace struct {
	off  int64
	seq  uint32
	skip uint32
}

func (s *scanner) segment(seg Segment, at segmentPlace) error {
	path := segmentPath(s.set, s.name, seg)
	f, err := s.set.FS.OpenRead(path)
	if err != nil {
		return s.report(err)
	}
	defer f.Close()
	hurt := false
	if at.seq == 0 {
		h := disk.Header{Kind: segmentKind, Version: segmentVersion, Number: seg.Number, Place: uint64(seg.Dir)}
		if err := disk.CheckHeader(f, h); err != nil {
			if err := s.report(err); err != nil {
				return err
			}
		}
	}
	for at.off < seg.Size {
		b, err := s.read(f, seg, at)
		if err == nil {
			if err := s.block(b, at.skip); err != nil {
				return err
			}
			at = segmentPlace{off: b.end, seq: at.seq + 1}
			continue
		}
		if err := s.report(err); err != nil {
			return err
		}
		var ok bool
		if at, ok = s.next(f, seg, at); !ok {
			return nil
		}
		hurt = true
	}
	if at.seq != seg.Blocks && !hurt {
		return s.report(&disk.CorruptError{
			Path: path, Offset: seg.Size,
			Want: fmt.Sprintf("%d blocks", seg.Blocks), Got: fmt.Sprintf("%d", at.seq),
		})
	}
	return nil
}

// read reads the block at a place, or after the gap there.
func (s *scanner) read(f disk.File, seg Segment, at segmentPlace) (block, error) {
	head, off, err := readHeader(f, s.head[:0], seg, at.off)
	if err != nil {
		return block{}, err
	}
	h, err := parseBlockHeader(head, f.Name(), off, at.seq)
	if err != nil {
		return block{}, err
	}
	return s.readBlock(f, seg, off, head, h)
}

// readBlock reads and verifies the payload of a block.
func (s *scanner) readBlock(f disk.File, seg Segment, off int64, head []byte, h blockHeader) (block, error) {
	end := off + blockHeaderBytes + int64(h.stored)
	if end > seg.Size {
		return block{}, &disk.CorruptError{
			Path: f.Name(), Offset: off,
			Want: fmt.Sprintf("a block that ends by %d", seg.Size), Got: fmt.Sprintf("one that ends at %d", end),
		}
	}
	s.payload = grow(s.payload[:0], int(h.stored))
	if err := disk.ReadFull(f, s.payload, off+blockHeaderBytes); err != nil {
		return block{}, err
	}
	raw, err := decodeBlock(s.raw, head, s.payload, h, blockPlace{f.Name(), off}, &s.coder)
	return block{raw: raw, records: h.records, path: f.Name(), off: off, end: end}, err
}

// block passes on the unread records of an intact block.
func (s *scanner) block(b block, skip uint32) error {
	at, err := skipRecords(b, skip)
	if err != nil {
		return s.report(err)
	}
	n, err := s.each(b.raw[at:], b.path, b.off)
	if err != nil {
		return err
	}
	if n+skip != b.records {
		return s.report(&disk.CorruptError{
			Path: b.path, Offset: b.off,
			Want: fmt.Sprintf("%d records", b.records), Got: fmt.Sprintf("%d", n+skip),
		})
	}
	return nil
}

// next finds the next intact block after a damaged one.
func (s *scanner) next(f disk.File, seg Segment, at segmentPlace) (segmentPlace, bool) {
	place := segmentPlace{}
	place.off = disk.FindMagic(f, at.off+1, seg.Size, blockMagic, func(off int64) bool {
		var head [blockHeaderBytes]byte
		if off+blockHeaderBytes > seg.Size || disk.ReadFull(f, head[:], off) != nil {
			return false
		}
		place.seq = binary.LittleEndian.Uint32(head[4:])
		h, err := parseBlockHeader(head[:], f.Name(), off, place.seq)
		if err != nil || place.seq < at.seq {
			return false
		}
		_, err = s.readBlock(f, seg, off, head[:], h)
		return err == nil
	})
	if place.seq == at.seq {
		place.skip = at.skip
	}
	return place, place.off >= 0
}

// Files returns the paths of the segments that st names.
func Files(set disk.Set, name string, st *State) []string {
	var names []string
	for _, seg := range st.Segments {
		if seg.Dir >= 0 && seg.Dir < set.Len() {
			names = append(names, segmentPath(set, name, seg))
		}
	}
	return names
}

// Sizes returns the bytes of each of these files that st uses. Later bytes were written after st.
func Sizes(set disk.Set, name string, st *State) map[string]int64 {
	sizes := map[string]int64{}
	for _, seg := range st.Segments {
		if seg.Dir >= 0 && seg.Dir < set.Len() {
			sizes[segmentPath(set, name, seg)] = seg.Size
		}
	}
	return sizes
}

// CalendarFiles is Files for a calendar.
func CalendarFiles(set disk.Set, name string, st *CalendarState) []string {
	var names []string
	for _, s := range st.Slots {
		names = append(names, Files(set, binName(name, s.Number), s.Queue)...)
	}
	return names
}

// EachBin calls fn with the name and state of the queue of every slot of st, and stores the result in st.
func EachBin(name string, st *CalendarState, fn func(qname string, q *State) (*State, error)) error {
	for i := range st.Slots {
		q, err := fn(binName(name, st.Slots[i].Number), st.Slots[i].Queue)
		if err != nil {
			return err
		}
		st.Slots[i].Queue = q
	}
	return nil
}
