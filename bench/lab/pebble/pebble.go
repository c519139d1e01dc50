// Package pebble makes Pebble, an LSM store, a method of package baselines, to compare it with DRUM in the
// same RAM.
//
//   - pebble: one Get per link, and a Set if it found nothing.
//   - pebble-seek: Pebble used like DRUM: batches of a quarter of R, and for each part of a batch one
//     iterator that seeks the keys in ascending order, instead of Gets. At 1e7 keys and 64 MiB it takes half
//     of the CPU time.
//
// Links wait for a batch, sorted by key so that neighbours share blocks and filters. One goroutine per
// processor handles a range of it, with a write batch of its own that is applied without a log.
//
// R is divided as follows. The waiting links get a sixteenth, and half of that again for garbage on the Go
// heap. Compactions, open tables and the allocator get an eighth. Pebble's allocator, C's, gets a fifth for
// what it takes beyond its requests (without this the process used 1.4 R and was killed). The rest is
// Pebble's block cache, less the memtables: up to three of a sixteenth of R each.
//
// All choices favour Pebble: no log, no syncs, no compression of the random keys.
//
// # Concurrency
//
// A store is for one goroutine. The goroutines of a batch end with the call that started them, Pebble's own
// with Close.
package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"runtime"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"

	"drumbeat/bench/baselines"
)

// target is the speed that DRUM must reach, as a multiple of Pebble's.
const target = 30

// Methods returns the two ways to use Pebble.
func Methods() []baselines.Method {
	method := func(name string, seek bool, target float64) baselines.Method {
		return baselines.Method{Name: name, Target: target, Open: func(o baselines.Options) (baselines.Store, error) {
			share := o.RAMBytes / 16
			if seek {
				share = o.RAMBytes / 4
			}
			return baselines.NewBatched(name, o, share, func() (baselines.Index, error) { return open(o, share, seek) })
		}}
	}
	return []baselines.Method{method("pebble", false, target), method("pebble-seek", true, 0)}
}

// index is the store of keys.
type index struct {
	fs      *diskFS
	dir     string
	seek    bool
	db      *pebble.DB
	cache   *pebble.Cache
	opts    *pebble.Options
	workers []worker

	loads []string // tables to ingest
	load  *sstable.Writer
	loadN int
}

// worker handles a range of the sorted batch.
type worker struct {
	db    *pebble.DB
	key   [8]byte
	seeks *pebble.Iterator // nil: use Get
	batch *pebble.Batch
	err   error
}

const (
	// tableBytes bounds the tables, so that no filter, about a tenth of a table, is too large for the
	// cache.
	tableBytes = 16 << 20
	// tableKeys is the number of keys of a loaded table, at about 10 bytes each.
	tableKeys = tableBytes / 10
	// allocatorShare is the divisor of R for the memory that C's allocator takes beyond its requests.
	allocatorShare = 5
)

func open(o baselines.Options, share int64, seek bool) (*index, error) {
	r := o.RAMBytes
	s := &index{fs: &diskFS{fs: o.FS}, dir: o.Dir, seek: seek, workers: make([]worker, runtime.GOMAXPROCS(0))}
	s.cache = pebble.NewCache(r - share - share/2 - r/8 - r/allocatorShare)
	s.opts = options(r, s.fs, s.cache, seek)
	db, err := pebble.Open(o.Dir, s.opts)
	if err = errors.Join(err, s.fs.failure()); err != nil {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
		s.cache.Unref()
		return nil, err
	}
	s.db = db
	for i := range s.workers {
		s.workers[i].db = db
	}
	return s, nil
}

// options returns settings for fast writes of small random keys. A comment gives the reason for each
// deviation from Pebble's defaults.
func options(r int64, fs *diskFS, cache *pebble.Cache, seek bool) *pebble.Options {
	o := &pebble.Options{
		FS:                 fs,
		Cache:              cache,
		FormatMajorVersion: pebble.FormatNewest, // columnar blocks
		DisableWAL:         true,                // nothing must survive the process
		Logger:             logger{},
		// The default of 4 MB would make too many small tables.
		MemTableSize:                uint64(min(64<<20, max(256<<10, r/16))),
		MemTableStopWritesThreshold: 3,
		// Like CockroachDB: compact L0 early, never stop writes for it.
		L0CompactionThreshold: 2,
		L0StopWritesThreshold: 1000,
		LBaseMaxBytes:         64 << 20,
		// Compact on all processors.
		CompactionConcurrencyRange: func() (int, int) { return 1, runtime.GOMAXPROCS(0) },
		MaxOpenFiles:               1000,
	}
	o.Experimental.L0CompactionConcurrency = 2
	for i := range o.TargetFileSizes {
		o.TargetFileSizes[i] = min(int64(2<<20)<<i, tableBytes)
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = pebble.NoFilterPolicy
		if !seek { // seeks don't use filters
			o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		}
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	}
	o.EventListener = &pebble.EventListener{
		BackgroundError: fs.note,
		DataCorruption:  func(i pebble.DataCorruptionInfo) { fs.note(i.Details) },
	}
	return o
}

// logger discards Pebble's messages: its errors come back from its calls or through the listener.
type logger struct{}

func (logger) Infof(string, ...any)  {}
func (logger) Errorf(string, ...any) {}

// Fatalf panics. diskFS hides disk errors from Pebble, so they don't cause a call.
func (logger) Fatalf(format string, args ...any) {
	panic("BUG: pebble: " + fmt.Sprintf(format, args...))
}

// Load implements baselines.Index: it writes tables, which Pebble ingests.
func (s *index) Load(keys []uint64) error {
	var key [8]byte
	for _, k := range keys {
		if s.load == nil {
			name := path.Join(s.dir, fmt.Sprintf("load-%d", len(s.loads)))
			f, err := s.fs.Create(name, "")
			if err != nil {
				return err
			}
			s.loads = append(s.loads, name)
			o := s.opts.MakeWriterOptions(6, s.db.TableFormat())
			s.load = sstable.NewWriter(objstorageprovider.NewFileWritable(f), o)
		}
		binary.BigEndian.PutUint64(key[:], k)
		if err := s.load.Set(key[:], nil); err != nil {
			return err
		}
		if s.loadN++; s.loadN == tableKeys {
			if err := s.loadTable(); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadTable finishes a table.
func (s *index) loadTable() error {
	if s.load == nil {
		return nil
	}
	w := s.load
	s.load, s.loadN = nil, 0
	return errors.Join(w.Close(), s.fs.failure())
}

// loadEnd makes Pebble ingest the tables.
func (s *index) loadEnd(ctx context.Context) error {
	if len(s.loads) == 0 {
		return nil
	}
	if err := s.loadTable(); err != nil {
		return err
	}
	loads := s.loads
	s.loads = nil
	return errors.Join(s.db.Ingest(ctx, loads), s.fs.failure())
}

// Check implements baselines.Index. It doesn't wait for compactions.
func (s *index) Check(ctx context.Context, b baselines.Batch) error {
	if err := s.loadEnd(ctx); err != nil {
		return err
	}
	var wg sync.WaitGroup
	for i, from := 0, 0; i < len(s.workers); i++ {
		to := from + (b.Len()-from)/(len(s.workers)-i)
		for to > from && to < b.Len() && b.Key(to) == b.Key(to-1) {
			to++
		}
		part := b.Part(from, to)
		from = to
		wg.Go(func() { s.workers[i].check(ctx, part, s.seek) })
	}
	wg.Wait()
	errs := []error{s.fs.failure()}
	for i := range s.workers {
		errs = append(errs, s.workers[i].err)
	}
	return errors.Join(errs...)
}

// check looks up each key of a sorted part and sets the missing ones. Parts are disjoint, so no other
// worker sets these keys.
func (w *worker) check(ctx context.Context, b baselines.Batch, seek bool) {
	w.err = nil
	if w.batch == nil {
		w.batch = w.db.NewBatch()
	}
	if seek {
		if w.seeks, w.err = w.db.NewIter(nil); w.err != nil {
			return
		}
		defer w.endSeeks()
	}
	for i := range b.Len() {
		if i%4096 == 0 && ctx.Err() != nil {
			w.err = ctx.Err()
			return
		}
		if i > 0 && b.Key(i) == b.Key(i-1) {
			continue
		}
		binary.BigEndian.PutUint64(w.key[:], b.Key(i))
		known, err := w.known()
		if err == nil && !known {
			b.SetFresh(i)
			err = w.batch.Set(w.key[:], nil, nil)
		}
		if err != nil {
			w.err = err
			return
		}
	}
	// An iterator pins memory, so close it before new data comes in.
	if w.endSeeks(); w.err == nil && !w.batch.Empty() {
		w.err = w.batch.Commit(pebble.NoSync)
	}
	w.batch.Reset()
}

// endSeeks closes the iterator.
func (w *worker) endSeeks() {
	if w.seeks != nil {
		w.err = errors.Join(w.err, w.seeks.Close())
		w.seeks = nil
	}
}

// known looks up the current key.
func (w *worker) known() (bool, error) {
	if w.seeks != nil {
		if w.seeks.SeekGE(w.key[:]) {
			return bytes.Equal(w.seeks.Key(), w.key[:]), nil
		}
		return false, w.seeks.Error()
	}
	_, closer, err := w.db.Get(w.key[:])
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, closer.Close()
}

// Stats implements baselines.Index.
func (s *index) Stats(st *baselines.Stats) {
	m := s.db.Metrics()
	st.FileBytes, st.Merges = int64(m.DiskSpaceUsage()), m.Compact.Count
}

// Close implements baselines.Index.
func (s *index) Close() error {
	var errs []error
	if s.load != nil {
		errs = append(errs, s.load.Close())
	}
	for i := range s.workers {
		if b := s.workers[i].batch; b != nil {
			errs = append(errs, b.Close())
		}
	}
	errs = append(errs, s.db.Close())
	if s.fs.failure() != nil {
		errs = nil // consequences of an error already reported
	}
	s.cache.Unref()
	return errors.Join(errs...)
}
