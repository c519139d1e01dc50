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
	// firstBufferBytes is the capacity of a queue's first buffer. A crawl has thousands of queues, and most
	// stay small.
	firstBufferBytes = 4 << 10
	maxBlockBytes    = 4 << 20
)

// Options configure a Queue or Calendar. All except Set and Name may change between runs.
type Options struct {
	// Set is the set of directories. Segments use them in rotation.
	Set disk.Set
	// Name is the queue's path under state/ in each directory; it may have several elements. It must be
	// unique in the Set.
	Name string
	// SegmentBytes is the size at which a segment file ends; 0 means 64 MiB. Disk space is freed by whole
	// segments.
	SegmentBytes int64
	// BlockBytes is the size of a block before compression, and of the largest buffers; 0 means 256 KiB.
	// The maximum is 4 MiB.
	BlockBytes int
	// Pool provides scratch buffers. Many queues should share one; nil means a private one.
	Pool *Pool
}

// Validate returns all errors in o, joined.
func (o Options) Validate() error {
	var errs []error
	if o.Set.FS == nil || o.Set.Len() == 0 {
		errs = append(errs, errors.New("queue: no directories"))
	}
	if o.Name == "" {
		errs = append(errs, errors.New("queue: no name"))
	}
	if o.SegmentBytes < 0 {
		errs = append(errs, fmt.Errorf("queue: SegmentBytes is %d, less than 0", o.SegmentBytes))
	}
	if o.BlockBytes < 0 || o.BlockBytes > maxBlockBytes {
		errs = append(errs, fmt.Errorf("queue: BlockBytes is %d, not between 0 and %d", o.BlockBytes, maxBlockBytes))
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

// Queue is a FIFO of byte records. The records are, in order, in the head buffer, from which the reader
// reads; in the unread blocks of the segments; and in the tail buffer, which takes appended records. The
// head buffer was filled from a segment, or was the tail buffer while no block was on disk.
//
// Append, Len and Freeze are safe for concurrent use. Peek and Advance are for one reader goroutine.
type Queue struct {
	opt Options

	// saving is true while a Frozen that is not saved yet may refer to the buffers. They must not be reused
	// then.
	saving atomic.Bool
	// failure holds the error of the first failed write, or ErrClosed. It is final.
	failure failure

	// wmu guards the fields down to frozen; no I/O is done under it. It is taken before mu. A full tail is
	// sealed and gets a ticket: the number of tails sealed before it. It may be written once written equals
	// its ticket. The goroutine that sealed it then owns the fields nextOff to behind and the end of
	// segments.
	wmu         sync.Mutex
	tail        []byte
	tailRecords uint32
	appended    bool      // since the last Freeze
	in          tally     // appended since Open, plus the unread records at Open
	sealed      uint64    // tails sealed
	written     uint64    // of these, written or failed
	moved       sync.Cond // on wmu: written has grown, or freezing has dropped
	freezing    int       // number of calls waiting for written == sealed; nothing is sealed meanwhile
	frozen      *Frozen   // not committed yet

	nextOff     int64
	nextSegment uint64
	nextDir     int
	behind      int64 // end of the write-behind in the last segment

	// mu guards the fields below; no I/O is done under it. Only the reader goroutine changes out and the
	// head fields, so it reads them without mu.
	mu       sync.Mutex
	out      tally     // read since Open
	segments []Segment // the last is being written; the first is being read
	retired  []Segment // read to the end; the next Commit deletes them
	readOff  int64     // offset of the next block to load, in segments[0]
	readSeq  uint32
	skip     uint32 // records already read of the next block to load, after Open
	head     []byte
	headAt   int    // offset of the next record
	headRead uint32 // records read of the head
	headOff  int64  // offset of the head's block in segments[0]; 0 = the head is only in RAM
	headSeq  uint32

	// Reader goroutine only: the record that Peek returned, and its size in the head (0 = none).
	peek     []byte
	peekSize int
	// Reader goroutine only: the head's block as it is stored, if it is compressed. MoveTo asks for it.
	keepPacked  bool
	packed      []byte
	packedCodec uint32
}

// tally counts records and their bytes.
type tally struct{ records, bytes int64 }

// Open opens the queue in the state st, or an empty one if st is nil. It deletes segments that st does not
// name, and cuts the last one to its recorded length. No file exists before the first block is written.
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

// New returns an empty queue without disk access. No files may exist under its name. The owner of many
// queues, having removed those that its state does not name, opens new ones with it inside a transaction.
func New(opt Options) (*Queue, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	return newQueue(opt.withDefaults()), nil
}

// newQueue is New for valid options. It spreads the first segments of many queues over the directories.
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

// Len returns the number of unread records and their bytes, uncompressed. It is safe for concurrent use.
func (q *Queue) Len() (records, bytes int64) {
	q.wmu.Lock()
	defer q.wmu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.in.records - q.out.records, q.in.bytes - q.out.bytes
}

// DiskBytes returns the size of the segments, with those that the next Commit deletes. It is safe for concurrent use.
func (q *Queue) DiskBytes() (n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, list := range [][]Segment{q.segments, q.retired} {
		for _, s := range list {
			n += s.Size
		}
	}
	return n
}

func (q *Queue) Name() string { return q.opt.Name }

// Clear drops all records without reading them: a queue whose blocks are damaged can be cleared, too. The next Commit
// deletes its files. No Append may run meanwhile. For the reader goroutine.
func (q *Queue) Clear() {
	q.wmu.Lock()
	defer q.wmu.Unlock()
	q.settle()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.out = q.in
	for len(q.segments) > 0 {
		q.retireFirst()
	}
	q.segments, q.readOff, q.readSeq, q.skip = nil, 0, 0, 0 // the next block starts a new segment
	q.tail, q.tailRecords = nil, 0                          // a Frozen may refer to the buffers
	q.head, q.headAt, q.headRead, q.headOff, q.headSeq = nil, 0, 0, 0, 0
	q.peek, q.peekSize = nil, 0
	q.packed = nil
	q.appended = true
}

// Close closes the queue. As after a crash, the next Open finds only what was saved.
func (q *Queue) Close() error { return q.failure.close() }

// Destroy closes the queue if it is open and deletes its files at once. No durable manifest and no unsaved
// Frozen may name them. The owner of many queues calls it when it commits a state without the queue.
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
