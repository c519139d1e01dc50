package queue

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
)

const (
	defaultSegmentBytes = 64 << 20
	defaultBlockBytes   = 256 << 10
	// firstBufferBytes is the capacity of a queue's first buffer. Most of a crawl's thousands of queues stay
	// small.
	firstBufferBytes = 4 << 10
	maxBlockBytes    = 4 << 20
)

// Options say how a Queue or Calendar is kept. All but Set and Name may change between runs.
type Options struct {
	// Set is the directories; segments go round them.
	Set disk.Set
	// Name is the queue's place under state/ in each directory; it may have several elements. Unique in the
	// Set.
	Name string
	// SegmentBytes is the length at which a segment file ends; 0 = 64 MiB. Space is freed by whole segments.
	SegmentBytes int64
	// BlockBytes is the length of a block before compression, and of the largest buffers; 0 = 256 KiB, at
	// most 4 MiB.
	BlockBytes int
	// Pool lends scratch buffers; nil = one of its own. Share it among many queues.
	Pool *Pool
}

// Validate returns all faults of o, joined.
func (o Options) Validate() error {
	var errs []error
	if o.Set.FS == nil || o.Set.Len() == 0 {
		errs = append(errs, errors.New("queue: no directories"))
	}
	if o.Name == "" {
		errs = append(errs, errors.New("queue: no name"))
	}
	if o.SegmentBytes < 0 {
		errs = append(errs, fmt.Errorf("queue: segments of %d bytes", o.SegmentBytes))
	}
	if o.BlockBytes < 0 || o.BlockBytes > maxBlockBytes {
		errs = append(errs, fmt.Errorf("queue: blocks of %d bytes, at most %d", o.BlockBytes, maxBlockBytes))
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	if o.BlockBytes == 0 {
		o.BlockBytes = defaultBlockBytes
	}
	if o.Pool == nil {
		o.Pool = new(Pool)
	}
	return o
}

// Queue is a FIFO of byte records. In order: the head buffer, which the reader reads; the unread blocks of
// the segments; the tail buffer, which takes appended records. A head buffer came from a segment, or it was
// the tail buffer when there was nothing between.
//
// Append, Len and Freeze may be called concurrently by anybody. Peek and Advance are for one reader
// goroutine.
type Queue struct {
	opt Options

	// saving says that a Frozen whose Save hasn't ended may refer to the buffers, so they must not be used
	// again.
	saving atomic.Bool
	// failure is the error of the first failed write, or ErrClosed; final.
	failure failure

	// wmu guards the tail; no I/O is done under it. Taken before mu. A tail that is full is sealed and gets a ticket,
	// the number of those sealed before it, and is written when that many have been written: whoever sealed it then has
	// the turn, and with it next…, behind and the end of segments.
	wmu         sync.Mutex
	tail        []byte
	tailRecords uint32
	appended    bool  // since the last Freeze
	in          tally // appended since Open, and what was there then
	sealed      uint64
	written     uint64
	moved       sync.Cond // on wmu: written has grown, or freezing has become 0
	freezing    int       // those who wait for written == sealed; nothing is sealed meanwhile
	frozen      *Frozen   // the outstanding one

	nextOff     int64
	nextSegment uint64
	nextDir     int
	behind      int64 // of the last segment: what the disk was asked to write

	// mu guards the fields below; no I/O is done under it. Only the reader goroutine writes out…skip and
	// peek….
	mu       sync.Mutex
	out      tally     // read since Open
	segments []Segment // the last is being written; the first is being read
	retired  []Segment // read to the end, deleted by a Commit
	readOff  int64     // of the next block to load, in segments[0]
	readSeq  uint32
	skip     uint32 // records of the next block to load that have been read, after Open
	head     []byte
	headAt   int    // offset of the next record
	headRead uint32 // records read of the head
	headOff  int64  // of the head's block in segments[0]; 0 = the head is in RAM only
	headSeq  uint32

	// Reader goroutine only: the record that Peek returned, peekSize its length in the head (0 = none).
	peek     []byte
	peekSize int
}

// tally counts records and their bytes.
type tally struct{ records, bytes int64 }

// Open opens the queue as it was when st was frozen, or an empty one if st is nil. It deletes segments that
// st does not name, and cuts the last to its length. There is no file before the first block is written.
func Open(opt Options, st *State) (*Queue, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	q := newQueue(opt.withDefaults())
	if st == nil {
		st = &State{V: stateVersion, NextDir: q.nextDir}
	}
	if err := st.validate(opt.Set.Len()); err != nil {
		return nil, fmt.Errorf("queue: open %s: %w", opt.Name, err)
	}
	if err := q.load(st); err != nil {
		return nil, fmt.Errorf("queue: open %s: %w", opt.Name, err)
	}
	return q, nil
}

// New returns an empty queue without looking at the disk: its name must be one that has no files. The owner of many
// queues, who has removed what its state didn't name, opens new ones with it inside a step.
func New(opt Options) (*Queue, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	return newQueue(opt.withDefaults()), nil
}

// newQueue is New with valid options. The first segments of many queues spread over the directories.
func newQueue(opt Options) *Queue {
	q := &Queue{opt: opt, nextDir: int(xxhash.Sum64String(opt.Name) % uint64(opt.Set.Len()))}
	q.moved.L = &q.wmu
	return q
}

func (q *Queue) load(st *State) error {
	keep := map[Segment]bool{}
	for _, s := range st.Segments {
		if err := cutSegment(q.opt.Set, q.opt.Name, s); err != nil {
			return err
		}
		keep[Segment{Number: s.Number, Dir: s.Dir}] = true
	}
	err := removeSegments(q.opt.Set, q.opt.Name, func(s Segment) bool { return keep[s] })
	if err != nil {
		return err
	}
	if q.head, err = disk.ReadTail(q.opt.Set, st.Head); err != nil {
		return err
	}
	if q.tail, err = disk.ReadTail(q.opt.Set, st.Tail); err != nil {
		return err
	}
	q.tailRecords = st.TailRecords
	q.in = tally{st.Records, st.Bytes}
	q.segments = append([]Segment(nil), st.Segments...)
	q.readOff, q.readSeq, q.skip = st.Offset, st.Block, st.Skip
	q.nextSegment, q.nextDir = st.NextSegment, st.NextDir%q.opt.Set.Len()
	if n := len(st.Segments); n > 0 {
		q.nextOff = alignUp(st.Segments[n-1].Size)
		q.behind = q.nextOff
	}
	return nil
}

// Len returns the number of unread records and their bytes. Safe for concurrent use.
func (q *Queue) Len() (records, bytes int64) {
	q.wmu.Lock()
	defer q.wmu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.in.records - q.out.records, q.in.bytes - q.out.bytes
}

// Name returns the queue's name.
func (q *Queue) Name() string { return q.opt.Name }

// Close ends the use of the queue. What was not saved is lost to the next Open, as after a crash.
func (q *Queue) Close() error { return q.failure.close() }

// Destroy closes the queue if it is open and deletes its files at once. It may be called only when no durable
// manifest and no Frozen to be saved names them: the owner of many queues calls it when it commits a state in
// which the queue is gone.
func (q *Queue) Destroy() error {
	if err := q.Close(); err != nil && !errors.Is(err, ErrClosed) {
		return err
	}
	q.wmu.Lock()
	defer q.wmu.Unlock()
	q.settle()
	if q.nextSegment == 0 {
		return nil // it never had a file
	}
	return Remove(q.opt.Set, q.opt.Name)
}
