package drum

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/s2"

	"drumbeat/disk"
)

// Key identifies an entry of the cache. Its leading bits select the bucket. Keys should be uniform hashes.
// If they are not, or if one key owns most of the tuples, set Options.Each.
type Key uint64

// Op is the operation of a tuple. Check and Update are bits; CheckUpdate is their union. The zero Op is
// invalid.
type Op uint8

const (
	// Check asks for the key's state and does not change the cache.
	Check Op = 1
	// Update changes the entry and asks for nothing.
	Update Op = 2
	// CheckUpdate does both in one pass over the cache.
	CheckUpdate Op = Check | Update
)

// String returns the paper's name of the operation.
func (o Op) String() string {
	switch o {
	case Check:
		return "check"
	case Update:
		return "update"
	case CheckUpdate:
		return "check+update"
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// Tuple is the paper's <key, value, aux>, with its operation.
type Tuple struct {
	// Key selects the entry.
	Key Key
	// Op is the operation.
	Op Op
	// Value is the argument of Apply, of at most Options.MaxValueBytes. It may be empty, may differ in
	// length from the cache's values, and must be empty in stores without values.
	Value []byte
	// Aux is returned with the result; Apply does not see it. It must fit into a buffer.
	Aux []byte
}

// Result is the answer to a tuple.
type Result struct {
	// Key and Op are the tuple's.
	Key Key
	Op  Op
	// New is set by Apply. In stores without Apply it means that the key was absent when this tuple was
	// applied.
	New bool
	// Found is true if the cache had the key before the round, or before the run passed to Apply.
	Found bool
	// Result and Out come from Apply.
	Result uint64
	Out    []byte
	// Value and Aux are the tuple's.
	Value []byte
	Aux   []byte
}

// Drum is a disk repository. Add, Full, Pending, Stats, Pause and Resume are safe for concurrent use. One
// Pass and one checkpoint (Freeze, Save, Commit) may run at a time, concurrently with Add.
type Drum struct {
	opt      Options
	shift    uint // right shift of a key that gives its bucket
	keyBytes int  // bytes of a key in a record

	buckets []bucket
	bufs    bufferPool
	logBufs bufferPool
	packs   bufferPool // for compressed blocks

	// gate is held during emission and install of a round, and between Pause and Resume.
	gate     sync.Mutex
	pausing  atomic.Int32 // calls of Pause that wait for the gate
	emitting atomic.Bool

	// passMu is held by Pass. It guards kept, a worker whose memory the next Pass takes over, or nil.
	passMu sync.Mutex
	kept   *pass

	gen    atomic.Uint64 // last generation given to a file
	tuples atomic.Int64  // pending, including sealed ones
	bytes  atomic.Int64  // payload bytes of the pending tuples
	full   atomic.Int64  // buckets whose open input has reached BucketBytes
	sealed atomic.Int64  // buckets with a sealed input
	keys   atomic.Int64  // entries in the cache
	// With text logs: unique texts merged but not emitted, bytes in the logs' files, and whether a pass is
	// in progress.
	unstreamed, logBytes atomic.Int64
	logSealed            atomic.Bool
	lateKeys             atomic.Int64 // of all buckets
	indexBytes           atomic.Int64 // of all parts; see probe.go
	counts               counters
	failure              atomic.Pointer[failure]

	files     files
	texts     texts
	packMeter packMeter

	// held has the files of saved buffers, by directory. fills is the number of the last filling. Freeze
	// and Save, which never overlap, own both.
	held  []*bufferFile
	fills uint64
}

// bucket is one of the k partitions of the key space.
type bucket struct {
	// mu guards open and the pending marks of all streams. It is held while a full buffer is written. Only
	// Pass changes the other fields, under mu and the gate.
	mu     sync.Mutex
	open   *input
	sealed *input // nil unless a merge has started and not ended
	part   part
	late   []uint64 // late keys, ascending; replaced, never changed
	full   bool     // open has reached BucketBytes; counted in Drum.full
	index  partIndex
}

// failure holds the first final error. Later calls return it.
type failure struct{ err error }

// Open opens the store in the state st, or an empty one if st is nil. In the store's directories it deletes
// the files that st does not name, and cuts the others to the length in st.
func Open(opt Options, st *State) (*Drum, error) {
	if st != nil {
		if err := st.check(opt.Set.Len()); err != nil {
			return nil, fmt.Errorf("drum: open %s: %w", opt.Name, err)
		}
		opt.Buckets = st.Buckets
	}
	if err := opt.complete(); err != nil {
		return nil, fmt.Errorf("drum: open %s: %w", opt.Name, err)
	}
	d := &Drum{opt: opt, shift: shiftOf(opt.Buckets), keyBytes: opt.keyBytes()}
	d.bufs.size, d.logBufs.size = opt.BufferBytes, opt.LogBytes
	packed := opt.BufferBytes
	if opt.logged() {
		packed = opt.LogBytes
	}
	d.packs.size = pageUp(s2.MaxEncodedLen(packed) + bucketFrameBytes)
	for dir := range d.dirs() {
		d.held = append(d.held, &bufferFile{dir: dir})
	}
	d.buckets = make([]bucket, opt.Buckets)
	for i := range d.buckets {
		d.buckets[i].open = d.newInput(i)
	}
	if opt.logged() {
		for dir := range d.dirs() {
			d.texts.logs = append(d.texts.logs, d.newLog(dir))
		}
		d.texts.recent = newRecentKeys(opt.recentBytes())
	}
	d.files.init(d)
	if err := d.restore(st); err != nil {
		d.releaseBuffers()
		return nil, fmt.Errorf("drum: open %s: %w", opt.Name, err)
	}
	return d, nil
}

// shiftOf returns the right shift that turns a key into the number of one of k buckets.
func shiftOf(k int) uint { return uint(64 - bits.Len(uint(k-1))) }

// Close frees the memory. Tuples in RAM that no checkpoint has saved are lost. No other call may be running.
func (d *Drum) Close() error {
	if !d.fail(ErrClosed) && d.failed() == ErrClosed {
		return ErrClosed
	}
	d.releaseBuffers()
	if d.kept != nil {
		d.kept.free()
	}
	return nil
}

func (d *Drum) releaseBuffers() {
	for i := range d.buckets {
		b := &d.buckets[i]
		b.mu.Lock()
		for _, in := range []*input{b.open, b.sealed} {
			if in != nil {
				d.release(&in.keys)
				d.release(&in.aux)
			}
		}
		b.mu.Unlock()
	}
	d.releaseLogs()
	d.bufs.freeAll()
	d.logBufs.freeAll()
	d.packs.freeAll()
}

// fail stores err as the final error if there is none yet, and reports whether it did.
func (d *Drum) fail(err error) bool { return d.failure.CompareAndSwap(nil, &failure{err}) }

// failed returns the final error, or nil.
func (d *Drum) failed() error {
	if f := d.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// Full reports whether a merge is due: a bucket has reached BucketBytes, DiskBytes are in use, or an
// interrupted merge must be finished.
func (d *Drum) Full() bool {
	return d.full.Load() > 0 || d.sealed.Load() > 0 || d.logSealed.Load() || d.overDisk()
}

// HalfFull reports whether a merge is due, or the pending tuples take half of the BucketBytes of all
// buckets, counted by TupleBytes.
func (d *Drum) HalfFull() bool {
	tuples, _ := d.Pending()
	return d.Full() || tuples*d.opt.TupleBytes(0) >= int64(d.opt.Buckets)*d.opt.BucketBytes/2
}

func (d *Drum) overDisk() bool {
	return d.opt.DiskBytes > 0 && d.bytes.Load()+d.logBytes.Load() >= d.opt.DiskBytes
}

// Pending returns the number of unanswered tuples and their bytes. Texts in text logs count with their
// bytes on disk.
func (d *Drum) Pending() (tuples, bytes int64) {
	return d.tuples.Load() + d.unstreamed.Load(), d.bytes.Load() + d.logBytes.Load()
}

// Keys returns the number of entries in the cache.
func (d *Drum) Keys() int64 { return d.keys.Load() }

// Pause waits until a running emission ends. No emission starts until Resume.
func (d *Drum) Pause() {
	d.pausing.Add(1)
	defer d.pausing.Add(-1)
	d.gate.Lock()
}

// Resume ends Pause.
func (d *Drum) Resume() { d.gate.Unlock() }

func (d *Drum) dirs() int { return d.opt.Set.Len() }

func (d *Drum) fs() disk.FS { return d.opt.Set.FS }
