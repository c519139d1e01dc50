package drum

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/s2"

	"drumbeat/disk"
)

// Key identifies an entry of the cache. Keys should be uniform hashes; where they are not, or where one key
// owns most of the tuples, set Options.Each. The leading bits select the bucket.
type Key uint64

// Op says what a tuple asks for. Check and Update are the bits of which CheckUpdate is the union. The zero Op
// is invalid.
type Op uint8

const (
	// Check asks for the key's state and leaves the cache as it is.
	Check Op = 1
	// Update changes the entry and asks nothing.
	Update Op = 2
	// CheckUpdate does both in one pass through the cache.
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
	// Op is what to do with it.
	Op Op
	// Value is what Apply sees; at most Options.MaxValueBytes, empty in stores without values. It may be empty
	// and need not have the length of the cache's values.
	Value []byte
	// Aux comes back with the result; Apply doesn't see it. It must fit into a buffer.
	Aux []byte
}

// Result is the answer to one tuple.
type Result struct {
	// Key and Op are the tuple's.
	Key Key
	Op  Op
	// New is set by Apply; in stores without Apply: the key was absent when this tuple's turn came.
	New bool
	// Found is true when the cache had the key before the round (before the run that Apply saw).
	Found bool
	// Result and Out are what Apply gave.
	Result uint64
	Out    []byte
	// Value and Aux are the tuple's.
	Value []byte
	Aux   []byte
}

// Drum is one disk repository. Add, Full, Pending, Stats, Pause and Resume are safe for concurrent use; one
// Pass and one checkpoint (Freeze, Save, Commit) run at a time, beside Adds.
type Drum struct {
	opt      Options
	shift    uint // of a key, to get its bucket
	keyBytes int  // of a key in a record

	buckets []bucket
	bufs    bufferPool
	logBufs bufferPool
	packs   bufferPool // for compressed blocks

	// gate is held during emission and install of a round, and between Pause and Resume.
	gate     sync.Mutex
	emitting atomic.Bool

	// passMu is held by Pass.
	passMu sync.Mutex

	gen    atomic.Uint64 // last generation given to a file
	tuples atomic.Int64  // pending, sealed ones included
	bytes  atomic.Int64  // payload bytes of the pending tuples
	full   atomic.Int64  // buckets whose open input reached BucketBytes
	sealed atomic.Int64  // buckets with a sealed input
	keys   atomic.Int64  // entries in the cache
	// With text logs: unique texts merged and not emitted, bytes of the logs' files, whether a pass is under
	// way.
	unstreamed, logBytes atomic.Int64
	logSealed            atomic.Bool
	counts               counters
	failure              atomic.Pointer[failure]

	files files
	texts texts

	// held has the files of saved buffers, by directory; fills is the number of the last filling. Freeze and Save own
	// them, which take turns.
	held  []*bufferFile
	fills uint64
}

// bucket is one of the k partitions of the key space.
type bucket struct {
	// mu guards open and the pending marks of all streams, and is held while a full buffer is written. The rest
	// is changed by Pass alone, under mu and the gate.
	mu     sync.Mutex
	open   *input
	sealed *input // nil unless a merge has begun and not ended
	part   part
	full   bool // open has BucketBytes; counted in Drum.full
}

// failure is the first error after which nothing is done any more.
type failure struct{ err error }

// Open opens the store that st describes, or an empty one if st is nil. Files in the store's own directories
// that st does not name are deleted, named ones are cut to the named length.
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
	}
	d.files.init(d)
	if err := d.restore(st); err != nil {
		d.releaseBuffers()
		return nil, fmt.Errorf("drum: open %s: %w", opt.Name, err)
	}
	return d, nil
}

// shiftOf returns how far keys are shifted to give the number of one of k buckets.
func shiftOf(k int) uint { return uint(64 - bits.Len(uint(k-1))) }

// Close frees the memory. What is in RAM and not saved by a checkpoint is gone. No other call may be running.
func (d *Drum) Close() error {
	if !d.fail(ErrClosed) && d.failed() == ErrClosed {
		return ErrClosed
	}
	d.releaseBuffers()
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

// fail makes err the sticky error unless there is one; it tells whether it did.
func (d *Drum) fail(err error) bool {
	return d.failure.CompareAndSwap(nil, &failure{err})
}

// failed returns the sticky error.
func (d *Drum) failed() error {
	if f := d.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// Full is true when a merge is due: a bucket has BucketBytes, DiskBytes are in use, or an interrupted merge
// waits to be ended.
func (d *Drum) Full() bool {
	return d.full.Load() > 0 || d.sealed.Load() > 0 || d.logSealed.Load() || d.overDisk()
}

// HalfFull is true when a merge is due, or when what waits fills half of all buckets, as far as it counts there (TupleBytes).
func (d *Drum) HalfFull() bool {
	tuples, _ := d.Pending()
	return d.Full() || tuples*d.opt.TupleBytes(0) >= int64(d.opt.Buckets)*d.opt.BucketBytes/2
}

func (d *Drum) overDisk() bool {
	return d.opt.DiskBytes > 0 && d.bytes.Load()+d.logBytes.Load() >= d.opt.DiskBytes
}

// Pending returns the number of tuples that have not been answered, and their bytes (of text logs those on
// disk).
func (d *Drum) Pending() (tuples, bytes int64) {
	return d.tuples.Load() + d.unstreamed.Load(), d.bytes.Load() + d.logBytes.Load()
}

// Keys returns the number of entries in the cache.
func (d *Drum) Keys() int64 { return d.keys.Load() }

// Pause waits until a running emission has ended and lets none begin until Resume.
func (d *Drum) Pause() { d.gate.Lock() }

// Resume ends Pause.
func (d *Drum) Resume() { d.gate.Unlock() }

func (d *Drum) dirs() int { return d.opt.Set.Len() }

func (d *Drum) fs() disk.FS { return d.opt.Set.FS }
