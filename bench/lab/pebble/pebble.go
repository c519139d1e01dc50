// Package pebble lets Pebble, an LSM store of today, answer which links are new, beside DRUM in the same
// RAM.
//
//   - pebble: a Get for each link, and a Set where it found nothing.
//   - pebble-seek: what somebody would write who knows DRUM: batches of a quarter of R, and one iterator for
//     each part of a batch that seeks from key to key in ascending order in place of Gets. At 1e7 keys and
//     64 MiB it takes half of the CPU time.
//
// Links wait for a batch that is sorted by key, so that neighbours share blocks and filters, and is divided
// among as many goroutines as there are processors. Each has a write batch of its own, which goes in
// without a log.
//
// R is divided: a sixteenth for the waiting links, and half of that for the garbage that the collector
// allows itself on top; an eighth for what compactions, open tables and the allocator need; a fifth for
// what its allocator, C's, takes beyond what it is asked for (without it the process had 1.4 R, and was
// killed); the rest is Pebble's block cache, which memtables, up to three of a sixteenth of R, are taken
// off.
//
// All choices are in favour of Pebble: no log, no syncs, no compression of the keys, which are random.
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

// target is how many times as fast as Pebble DRUM is to be.
const target = 30

// Methods are the two ways in which Pebble is asked.
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

	loads []string // tables to be taken over
	load  *sstable.Writer
	loadN int
}

// worker answers a range of the sorted batch.
type worker struct {
	db    *pebble.DB
	key   [8]byte
	seeks *pebble.Iterator // nil: Get
	batch *pebble.Batch
	err   error
}

const (
	// tableBytes bounds the tables, so that no filter, of a tenth of them or so, is too large for the cache.
	tableBytes = 16 << 20
	// tableKeys is how many keys a loaded table has, at about 10 bytes each.
	tableKeys = tableBytes / 10
	// allocatorShare of R (one in so many) is what C's allocator takes beyond what it is asked for.
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

// options are settings for filling a store fast with small random keys. Where Pebble's own default isn't
// taken the reason is given.
func options(r int64, fs *diskFS, cache *pebble.Cache, seek bool) *pebble.Options {
	o := &pebble.Options{
		FS:                 fs,
		Cache:              cache,
		FormatMajorVersion: pebble.FormatNewest, // columnar blocks
		DisableWAL:         true,                // nothing has to outlive the process
		Logger:             logger{},
		// The default of 4 MB would make many small tables.
		MemTableSize:                uint64(min(64<<20, max(256<<10, r/16))),
		MemTableStopWritesThreshold: 3,
		// As CockroachDB has them: compact L0 early, never stop writes for it.
		L0CompactionThreshold: 2,
		L0StopWritesThreshold: 1000,
		LBaseMaxBytes:         64 << 20,
		// Compactions on all processors.
		CompactionConcurrencyRange: func() (int, int) { return 1, runtime.GOMAXPROCS(0) },
		MaxOpenFiles:               1000,
	}
	o.Experimental.L0CompactionConcurrency = 2
	for i := range o.TargetFileSizes {
		o.TargetFileSizes[i] = min(int64(2<<20)<<i, tableBytes)
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = pebble.NoFilterPolicy
		if !seek { // seeks don't ask filters
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

// logger drops what Pebble has to say: its errors come back from its calls, or through the listener.
type logger struct{}

func (logger) Infof(string, ...any)  {}
func (logger) Errorf(string, ...any) {}

// Fatalf isn't called for errors of the disk, which diskFS keeps to itself.
func (logger) Fatalf(format string, args ...any) {
	panic("BUG: pebble: " + fmt.Sprintf(format, args...))
}

// Load implements baselines.Index: it writes tables, which Pebble takes over as they are.
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

// loadTable ends a table.
func (s *index) loadTable() error {
	if s.load == nil {
		return nil
	}
	w := s.load
	s.load, s.loadN = nil, 0
	return errors.Join(w.Close(), s.fs.failure())
}

// loadEnd hands the tables to Pebble.
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

// check looks for each key of a sorted part, and sets those that aren't there. The keys of a part are its
// own, so no other worker sets one meanwhile.
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
	// An iterator holds back the memory of what it sees, so it goes before more comes in.
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

// known looks for the key.
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
		errs = nil // what comes of it has been told
	}
	s.cache.Unref()
	return errors.Join(errs...)
}
