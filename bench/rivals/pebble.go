package rivals

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
)

// pebbleStore is an LSM store of today: per link a Get, and a Set where it found nothing. Links wait for a batch, with their
// text in RAM, which is sorted by key, so that neighbours share blocks and filters, and divided among as many goroutines as
// there are processors. Each has a write batch of its own, which goes in without a log.
//
// R is divided: a sixteenth for the waiting links, and half of that for the garbage that the collector allows itself on top;
// an eighth for what compactions, open tables and the allocator need; the rest is Pebble's block cache, which memtables, up
// to three of a sixteenth of R, are taken off.
//
// PebbleSeek is what somebody would write who knows DRUM: a quarter of R for the batch, and for each part of it one iterator
// that seeks from key to key in ascending order in place of Gets. At 1e7 keys and 64 MiB it takes half of the CPU time.
type pebbleStore struct {
	base
	fs    *pebbleFS
	db    *pebble.DB
	cache *pebble.Cache
	opts  *pebble.Options

	batch   []pair // as in mercatorB
	arena   []byte // the texts, in order of arrival
	workers []pebbleWorker

	loads []string // tables to be taken over
	load  *sstable.Writer
	loadN int
}

// pebbleWorker answers a range of the sorted batch.
type pebbleWorker struct {
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
	// meanTextBytes divides the RAM of waiting links between keys and texts.
	meanTextBytes = 96
)

func openPebble(b base) (Store, error) {
	r := b.o.RAMBytes
	s := &pebbleStore{base: b, fs: &pebbleFS{fs: b.o.FS}, workers: make([]pebbleWorker, runtime.GOMAXPROCS(0))}
	seek := b.name == PebbleSeek
	share := r / 16
	if seek {
		share = r / 4
	}
	n := share / (pairBytes + meanTextBytes)
	s.batch, s.arena = make([]pair, 0, n), make([]byte, 0, max(2*MaxTextBytes, n*meanTextBytes))
	// An eighth of R and a fifth are for what Pebble holds besides, and what its allocator, C's, takes beyond what it is asked
	// for: without the fifth the process had 1.4 R, and was killed.
	s.cache = pebble.NewCache(r - share - share/2 - r/8 - r/allocatorShare)
	s.opts = pebbleOptions(r, s.fs, s.cache, seek)
	s.stats.RAMBytes = r
	db, err := pebble.Open(b.o.Dir, s.opts)
	if err = errors.Join(err, s.fs.failure()); err != nil {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
		s.cache.Unref()
		return nil, fmt.Errorf("rivals: open %s: %w", s.name, err)
	}
	s.db = db
	for i := range s.workers {
		s.workers[i].db = db
	}
	return s, nil
}

// pebbleOptions are settings for filling a store fast with small random keys. Where Pebble's own default isn't taken the
// reason is given.
func pebbleOptions(r int64, fs *pebbleFS, cache *pebble.Cache, seek bool) *pebble.Options {
	o := &pebble.Options{
		FS:                 fs,
		Cache:              cache,
		FormatMajorVersion: pebble.FormatNewest, // columnar blocks
		DisableWAL:         true,                // nothing has to outlive the process
		Logger:             pebbleLogger{},
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

// pebbleLogger drops what Pebble has to say: its errors come back from its calls, or through the listener.
type pebbleLogger struct{}

func (pebbleLogger) Infof(string, ...any)  {}
func (pebbleLogger) Errorf(string, ...any) {}

// Fatalf isn't called for errors of the disk, which pebbleFS keeps to itself.
func (pebbleLogger) Fatalf(format string, args ...any) {
	panic("BUG: rivals: pebble: " + fmt.Sprintf(format, args...))
}

// Load implements Store: it writes tables, which Pebble takes over as they are.
func (s *pebbleStore) Load(keys []uint64) error {
	if err := s.checkLoad(keys); err != nil {
		return err
	}
	var key [8]byte
	for _, k := range keys {
		if s.load == nil {
			name := path.Join(s.o.Dir, fmt.Sprintf("load-%d", len(s.loads)))
			f, err := s.fs.Create(name, "")
			if err != nil {
				return s.fail("load", err)
			}
			s.loads = append(s.loads, name)
			o := s.opts.MakeWriterOptions(6, s.db.TableFormat())
			s.load = sstable.NewWriter(objstorageprovider.NewFileWritable(f), o)
		}
		binary.BigEndian.PutUint64(key[:], k)
		if err := s.load.Set(key[:], nil); err != nil {
			return s.fail("load", err)
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
func (s *pebbleStore) loadTable() error {
	if s.load == nil {
		return nil
	}
	w := s.load
	s.load, s.loadN = nil, 0
	return s.fail("load", errors.Join(w.Close(), s.fs.failure()))
}

// loadEnd hands the tables to Pebble.
func (s *pebbleStore) loadEnd() error {
	if len(s.loads) == 0 {
		return nil
	}
	if err := s.loadTable(); err != nil {
		return err
	}
	loads := s.loads
	s.loads = nil
	err := s.db.Ingest(context.Background(), loads)
	return s.fail("load", errors.Join(err, s.fs.failure()))
}

// Add implements Store.
func (s *pebbleStore) Add(links []Link) error {
	if err := s.checkLinks(links); err != nil {
		return err
	}
	if err := s.loadEnd(); err != nil {
		return err
	}
	for i := range links {
		l := &links[i]
		if len(s.batch) == cap(s.batch) || len(s.arena)+len(l.Text) > cap(s.arena) {
			if err := s.check(context.Background()); err != nil {
				return err
			}
		}
		tag := uint64(len(s.batch))<<tagNumber | uint64(len(l.Text))<<tagLength
		s.batch = append(s.batch, pair{l.Key, tag})
		s.arena = append(s.arena, l.Text...)
	}
	return nil
}

// Flush implements Store. It doesn't wait for compactions.
func (s *pebbleStore) Flush(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	if err := s.loadEnd(); err != nil {
		return err
	}
	return s.check(ctx)
}

// check answers the batch.
func (s *pebbleStore) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return s.fail("check", err)
	}
	if len(s.batch) == 0 {
		return nil
	}
	sortPairs(s.batch)
	var wg sync.WaitGroup
	rest := s.batch
	for i := range s.workers {
		n := len(rest) / (len(s.workers) - i)
		for n > 0 && n < len(rest) && rest[n].key == rest[n-1].key {
			n++
		}
		part := rest[:n]
		rest = rest[n:]
		wg.Go(func() { s.workers[i].check(ctx, part, s.name == PebbleSeek) })
	}
	wg.Wait()
	errs := []error{s.fs.failure()}
	for i := range s.workers {
		errs = append(errs, s.workers[i].err)
	}
	if err := errors.Join(errs...); err != nil {
		return s.fail("check", err)
	}
	s.stats.Batches++
	s.stats.BatchLinks += int64(len(s.batch))
	restoreArrival(s.batch)
	rest, text := s.batch, s.arena
	for _, p := range rest {
		n := int(p.tag >> tagLength & tagLengthMask)
		if err := s.put(true, Link{p.key, text[:n:n]}, p.tag&tagFresh != 0); err != nil {
			return err
		}
		text = text[n:]
	}
	s.batch, s.arena = s.batch[:0], s.arena[:0]
	return s.putOut(true)
}

// check looks for each key of a sorted part, and sets those that aren't there. The keys of a part are its own, so no
// other worker sets one meanwhile.
func (w *pebbleWorker) check(ctx context.Context, ps []pair, seek bool) {
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
	for i := range ps {
		if i%4096 == 0 && ctx.Err() != nil {
			w.err = ctx.Err()
			return
		}
		if i > 0 && ps[i].key == ps[i-1].key {
			continue
		}
		binary.BigEndian.PutUint64(w.key[:], ps[i].key)
		known, err := w.known()
		if err == nil && !known {
			ps[i].tag |= tagFresh
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
func (w *pebbleWorker) endSeeks() {
	if w.seeks != nil {
		w.err = errors.Join(w.err, w.seeks.Close())
		w.seeks = nil
	}
}

// known looks for the key.
func (w *pebbleWorker) known() (bool, error) {
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

// Stats implements Store.
func (s *pebbleStore) Stats() Stats {
	st := s.stats
	if s.db != nil {
		m := s.db.Metrics()
		st.FileBytes, st.Seeks, st.Merges = int64(m.DiskSpaceUsage()), m.BlockCache.Misses, m.Compact.Count
	}
	return st
}

// Close implements Store.
func (s *pebbleStore) Close() error {
	if s.err == ErrClosed {
		return nil
	}
	var errs []error
	s.stats = s.Stats()
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
	s.err, s.db, s.batch, s.arena = ErrClosed, nil, nil, nil
	return errors.Join(append(errs, s.removeDir())...)
}
