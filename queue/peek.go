package queue

import (
	"fmt"

	"drumbeat/disk"
)

// Peek returns the oldest unread record, valid until Advance. ok is false if there is none. Peek reads the
// next block from disk when needed. Repeated calls return the same record. For one reader goroutine.
func (q *Queue) Peek() (rec []byte, ok bool, err error) {
	if q.peekSize > 0 {
		return q.peek, true, nil
	}
	if err := q.failure.get(); err != nil {
		return nil, false, err
	}
	if q.headAt == len(q.head) {
		if ok, err := q.fillHead(); !ok || err != nil {
			return nil, false, err
		}
	}
	rec, size := nextRecord(q.head[q.headAt:])
	if size == 0 {
		return nil, false, fmt.Errorf("queue: read %s: %w", q.opt.Name, q.badRecord())
	}
	q.peek, q.peekSize = rec, size
	return rec, true, nil
}

// Advance moves past the record that Peek returned. It only changes memory. It panics without a preceding
// Peek. For the reader goroutine.
func (q *Queue) Advance() {
	if q.peekSize == 0 {
		panic("BUG: queue: Advance of " + q.opt.Name + " without Peek")
	}
	q.mu.Lock()
	q.headAt += q.peekSize
	q.headRead++
	q.out.records++
	q.out.bytes += int64(len(q.peek))
	q.mu.Unlock()
	q.peek, q.peekSize = nil, 0
}

// fillHead loads the next block, or takes over the tail buffer if there is none. ok is false if there is no
// record.
func (q *Queue) fillHead() (ok bool, err error) {
	for {
		place, err := q.next()
		switch {
		case err != nil || place == nowhere:
			return false, err
		case place == onDisk:
			if err := q.loadBlock(); err != nil {
				return false, fmt.Errorf("queue: read %s: %w", q.opt.Name, err)
			}
		}
		if q.headAt < len(q.head) {
			return true, nil
		}
	}
}

// place says where the records after the head are.
type place int

const (
	nowhere place = iota
	onDisk
	inHead // the tail has become the head
)

// diskBlock returns the segment of the next block to load. ok is false if there is none. The reader calls
// it under mu once the head has been read.
func (q *Queue) diskBlock() (seg Segment, ok bool) {
	for len(q.segments) > 1 && q.readOff >= q.segments[0].Size {
		q.retireFirst()
	}
	if len(q.segments) == 0 || q.readOff >= q.segments[0].Size {
		return Segment{}, false
	}
	return q.segments[0], true
}

// hasBlock reports whether there is a block to load. For the reader goroutine.
func (q *Queue) hasBlock() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, ok := q.diskBlock()
	return ok
}

// retireFirst retires the first segment, which has been read to its end. The caller holds mu.
func (q *Queue) retireFirst() {
	q.retired = append(q.retired, q.segments[0])
	q.segments = q.segments[1:]
	q.readOff, q.readSeq = disk.HeaderBytes, 0
}

// next finds the next records. If no block is left on disk, it makes the tail the head.
func (q *Queue) next() (place, error) {
	q.wmu.Lock()
	defer q.wmu.Unlock()
	if q.in.records == q.out.records {
		return nowhere, nil
	}
	for !q.hasBlock() && q.written != q.sealed {
		q.moved.Wait() // for the oldest block not yet written
	}
	if err := q.failure.get(); err != nil {
		return nowhere, err
	}
	if q.hasBlock() {
		return onDisk, nil
	}
	if len(q.tail) == 0 {
		return nowhere, fmt.Errorf("queue: read %s: %w", q.opt.Name, &disk.CorruptError{
			Path: "tail of " + q.opt.Name,
			Want: fmt.Sprintf("%d more records", q.in.records-q.out.records), Got: "the end",
		})
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	spare := q.head[:0]
	if q.saving.Load() && q.headOff == 0 {
		spare = nil
	}
	q.head, q.tail = q.tail, spare
	q.headAt, q.headRead, q.tailRecords = 0, 0, 0
	q.headOff, q.headSeq = 0, 0
	q.packed = q.packed[:0]
	return inHead, nil
}

// loadBlock reads the next block into the head. It holds no lock during I/O: a state frozen meanwhile still
// counts the block as unread.
func (q *Queue) loadBlock() error {
	q.mu.Lock()
	seg, _ := q.diskBlock()
	off, seq, skip := q.readOff, q.readSeq, q.skip
	dst := q.head[:0]
	if q.saving.Load() && q.headOff == 0 {
		dst = nil // a Frozen may refer to it
	}
	q.mu.Unlock()

	r := segmentReader{set: q.opt.Set, name: q.opt.Name, pool: q.opt.Pool}
	q.packed = q.packed[:0]
	if q.keepPacked {
		r.packed, r.packedCodec = &q.packed, &q.packedCodec
	}
	b, err := r.read(dst, seg, off, seq)
	if err != nil {
		return err
	}
	at, err := skipRecords(b, skip)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.head, q.headAt, q.headRead = b.raw, at, skip
	q.headOff, q.headSeq = b.off, seq
	q.readOff, q.readSeq, q.skip = b.end, seq+1, 0
	return nil
}

// badRecord describes a record of invalid length in a block or tail whose checksum is right.
func (q *Queue) badRecord() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := &disk.CorruptError{
		Path: "tail of " + q.opt.Name, Offset: int64(q.headAt), Want: "a record", Got: "an invalid length",
	}
	if q.headOff != 0 {
		e.Path, e.Offset = segmentPath(q.opt.Set, q.opt.Name, q.segments[0]), q.headOff
	}
	return e
}
