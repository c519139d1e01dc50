package queue

import (
	"errors"
	"fmt"

	"drumbeat/disk"
)

// stateVersion is the version of State.
const stateVersion = 2

// State is the state of a queue at a Freeze. It belongs in a manifest. The unread records are, in this
// order: those in Head; those of the blocks from Offset in the first segment to the end of the last
// segment, except the first Skip; those in Tail.
type State struct {
	// V is the version, 2. Version 1 referred to segments of version 1.
	V int
	// Records and Bytes count the unread records and their bytes.
	Records, Bytes int64
	// NextSegment and NextDir are the number and directory of the next new segment.
	NextSegment uint64
	NextDir     int
	// Segments holds the segments with unread blocks, and possibly a last one without.
	Segments []Segment `json:",omitempty"`
	// Offset and Block are the position and sequence number of the first unread block in Segments[0]. Skip
	// is the number of its records that have been read.
	Offset int64  `json:",omitempty"`
	Block  uint32 `json:",omitempty"`
	Skip   uint32 `json:",omitempty"`
	// Head and Tail hold the records in RAM. TailRecords is the number of records in Tail.
	Head        disk.Ref `json:",omitzero"`
	Tail        disk.Ref `json:",omitzero"`
	TailRecords uint32   `json:",omitempty"`
}

// validate checks that the state is consistent. dirs is the number of directories.
func (st *State) validate(dirs int) error {
	if st.V != stateVersion {
		return fmt.Errorf("state has version %d; this program reads version %d", st.V, stateVersion)
	}
	var errs []error
	for i, s := range st.Segments {
		if s.Dir < 0 || s.Dir >= dirs {
			errs = append(errs, fmt.Errorf("segment %d is in directory %d of %d", s.Number, s.Dir, dirs))
		}
		if s.Size < disk.HeaderBytes+blockHeaderBytes || s.Number >= st.NextSegment ||
			i > 0 && s.Number <= st.Segments[i-1].Number {
			errs = append(errs, fmt.Errorf("invalid segment %+v", s))
		}
	}
	if len(st.Segments) > 0 && (st.Offset < disk.HeaderBytes || st.Offset > st.Segments[0].Size) {
		errs = append(errs, fmt.Errorf("cursor at %d of %+v", st.Offset, st.Segments[0]))
	}
	if st.Records < 0 || st.Bytes < 0 || st.NextDir < 0 {
		errs = append(errs, fmt.Errorf("negative numbers in %+v", *st))
	}
	return errors.Join(errs...)
}

// Frozen is the state of a queue at one moment. Save and Commit may run while the queue is in use. It is
// for one goroutine.
type Frozen struct {
	q          *Queue
	st         State
	head, tail []byte
	drop       []Segment
	idle       bool // nothing was appended since the previous Freeze
	saved      bool
}

// Freeze captures the current state. It waits for blocks being written, then takes microseconds and only
// changes memory. A caller that needs a state consistent with other structures must not append or advance
// during Freeze. The previous Frozen must have been committed.
func (q *Queue) Freeze() *Frozen {
	q.wmu.Lock()
	defer q.wmu.Unlock()
	q.freezing++
	q.settle()
	q.freezing--
	q.moved.Broadcast()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.frozen != nil {
		panic("BUG: queue: second Freeze of " + q.opt.Name + " before Commit of the first")
	}
	q.dropRead()
	f := &Frozen{q: q, drop: q.retired, tail: q.tail[:len(q.tail):len(q.tail)]}
	q.retired = nil
	f.st = State{
		V:       stateVersion,
		Records: q.in.records - q.out.records, Bytes: q.in.bytes - q.out.bytes,
		NextSegment: q.nextSegment, NextDir: q.nextDir,
		Segments: append([]Segment(nil), q.segments...),
		Offset:   q.readOff, Block: q.readSeq, Skip: q.skip,
		TailRecords: q.tailRecords,
	}
	if q.headAt < len(q.head) {
		if q.headOff == 0 {
			f.head = q.head[q.headAt:]
		} else {
			f.st.Offset, f.st.Block, f.st.Skip = q.headOff, q.headSeq, q.headRead
		}
	}
	q.nextOff = alignUp(q.nextOff)
	f.idle, q.appended = !q.appended, false
	q.frozen = f
	q.saving.Store(len(f.head)+len(f.tail) > 0)
	return f
}

// dropRead retires all segments without unread records. If this includes the last segment, the next block
// starts a new one.
func (q *Queue) dropRead() {
	if q.headAt < len(q.head) && q.headOff != 0 {
		return
	}
	for len(q.segments) > 0 && q.readOff >= q.segments[0].Size {
		q.retireFirst()
	}
	if len(q.segments) == 0 {
		q.segments = nil
		q.readOff, q.readSeq = 0, 0
	}
}

// Save writes the records in RAM to the tail files and returns the state for the manifest. The queue may be
// in use meanwhile.
func (f *Frozen) Save(tails *disk.Tails) (*State, error) {
	q := f.q
	err := q.failure.get()
	if err != nil {
		return nil, err
	}
	if f.st.Head, err = tails.Write(f.st.NextDir, f.head); err == nil {
		f.st.Tail, err = tails.Write(f.st.NextDir, f.tail)
	}
	if err != nil {
		return nil, q.failure.set("save", q.opt.Name, err)
	}
	f.head, f.tail = nil, nil
	f.saved = true
	q.saving.Store(false)
	if f.idle {
		q.trim()
	}
	return &f.st, nil
}

// trim frees the excess capacity of a tail to which nothing was appended since the Freeze before this one.
// Of thousands of queues, many are filled once and read much later. Save calls it, so no lock of the owner
// is held.
func (q *Queue) trim() {
	q.wmu.Lock()
	defer q.wmu.Unlock()
	if !q.appended && cap(q.tail) >= 2*len(q.tail)+firstBufferBytes {
		q.tail = append(make([]byte, 0, len(q.tail)), q.tail...)
	}
}

// Commit deletes the segments that the state no longer names. Call it once the manifest is durable.
func (f *Frozen) Commit() error {
	q := f.q
	if !f.saved {
		panic("BUG: queue: Commit of " + q.opt.Name + " without Save")
	}
	for _, s := range f.drop {
		if err := q.opt.Set.FS.Remove(segmentPath(q.opt.Set, q.opt.Name, s)); err != nil {
			return q.failure.set("commit", q.opt.Name, err)
		}
	}
	q.wmu.Lock()
	q.frozen = nil
	q.wmu.Unlock()
	return nil
}
