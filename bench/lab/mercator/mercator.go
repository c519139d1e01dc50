package mercator

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"

	"drumbeat/bench/baselines"
	"drumbeat/drum"
)

// Name is the name of the method.
const Name = "mercator-a"

// These divide RAMBytes.
const (
	recentBytes = 64       // of a key in the map of recent keys
	textBytes   = 96       // assumed mean length of a text
	linkBytes   = 32       // of a waiting link without its text
	readers     = 16       // look-ups at once
	emitLinks   = 512      // links per call of Emit
	chunkBytes  = 64 << 10 // of a merge's reads and writes
)

// Method returns Mercator-A.
func Method() baselines.Method {
	return baselines.Method{Name: Name, Open: func(o baselines.Options) (baselines.Store, error) { return open(o) }}
}

// waiting is a link of the batch.
type waiting struct {
	k      key
	length int
	known  bool // found in the cache
	fresh  bool
}

// store is Mercator-A.
type store struct {
	o     baselines.Options
	stats baselines.Stats
	err   error // the first one, which ends the store

	popular *drum.RAMCache
	recent  map[key]struct{}
	most    int // keys in recent
	file    keyFile
	lastKey uint64
	loads   *appender // while Load is called
	batch   []waiting // in order of arrival
	arena   []byte    // their texts
	order   []int32   // the links that are looked up, by key

	links []baselines.Link // for Emit
	fresh []bool
}

func open(o baselines.Options) (*store, error) {
	if o.FS == nil || o.Dir == "" || o.Emit == nil || o.RAMBytes < baselines.MinRAMBytes || o.RAMBytes > baselines.MaxRAMBytes {
		return nil, fmt.Errorf("mercator: open %s: want a file system, a directory, Emit, and %d to %d bytes of RAM",
			o.Dir, baselines.MinRAMBytes, int64(baselines.MaxRAMBytes))
	}
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, fmt.Errorf("mercator: open %s: %w", o.Dir, err)
	}
	quarter := o.RAMBytes / 4
	n := quarter / (linkBytes + textBytes)
	s := &store{o: o, popular: drum.NewRAMCache(quarter), recent: map[key]struct{}{}, most: int(quarter / recentBytes),
		file:  keyFile{fs: o.FS, dir: o.Dir, most: int(quarter / 2 / firstBytes)},
		batch: make([]waiting, 0, n), arena: make([]byte, 0, max(n*textBytes, 2*baselines.MaxTextBytes)), order: make([]int32, 0, n)}
	s.stats.RAMBytes = o.RAMBytes
	return s, nil
}

// fail ends the store with an error.
func (s *store) fail(action string, err error) error {
	if s.err == nil && err != nil {
		s.err = fmt.Errorf("mercator: %s: %w", action, err)
	}
	return s.err
}

// Load implements baselines.Store.
func (s *store) Load(keys []uint64) error {
	if s.err != nil {
		return s.err
	}
	var err error
	if s.loads == nil {
		if s.stats.Links+s.stats.Known > 0 {
			return s.fail("load", errors.New("after the first link"))
		}
		if s.loads, err = s.file.begin(); err != nil {
			return s.fail("load", err)
		}
	}
	for i, k := range keys {
		if (i > 0 || s.stats.Known > 0) && k <= s.lastKey {
			return s.fail("load", fmt.Errorf("key %#x after %#x: want ascending keys", k, s.lastKey))
		}
		s.lastKey = k
		if err := s.loads.add(key{uint32(k >> 32), k}); err != nil { // a site that keeps the order
			return s.fail("load", err)
		}
	}
	s.stats.Known += int64(len(keys))
	return nil
}

// LoadLinks implements baselines.TextLoader.
func (s *store) LoadLinks(links []baselines.Link) error {
	if s.err == nil && (s.loads != nil || s.stats.Links > 0) {
		return s.fail("load", errors.New("links after keys, or after the first link"))
	}
	for _, l := range links {
		if s.err != nil {
			break
		}
		k := keyOf(l)
		s.recent[k] = struct{}{}
		if len(s.recent) >= s.most {
			if err := s.merge(context.Background()); err != nil {
				return err
			}
		}
	}
	s.stats.Known = s.file.keys + int64(len(s.recent))
	return s.err
}

// endLoad makes the loaded keys known.
func (s *store) endLoad() error {
	if s.loads == nil {
		return nil
	}
	w := s.loads
	s.loads = nil
	return s.fail("load", s.file.replace(w))
}

// Add implements baselines.Store.
func (s *store) Add(links []baselines.Link) error {
	if s.err != nil {
		return s.err
	}
	if err := s.endLoad(); err != nil {
		return err
	}
	for _, l := range links {
		if n := len(l.Text); n == 0 || n > baselines.MaxTextBytes {
			return s.fail("add", fmt.Errorf("text of %d bytes: want 1 to %d", n, baselines.MaxTextBytes))
		}
		if len(s.batch) == cap(s.batch) || len(s.arena)+len(l.Text) > cap(s.arena) {
			if err := s.check(context.Background()); err != nil {
				return err
			}
		}
		s.batch = append(s.batch, waiting{k: keyOf(l), length: len(l.Text), known: s.popular.TestAndSet(drum.Key(l.Key))})
		s.arena = append(s.arena, l.Text...)
		s.stats.Links++
	}
	return nil
}

// Flush implements baselines.Store.
func (s *store) Flush(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	if err := s.endLoad(); err != nil {
		return err
	}
	return s.check(ctx)
}

// check answers the waiting links.
func (s *store) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return s.fail("check", err)
	}
	if len(s.batch) == 0 {
		return nil
	}
	if len(s.recent)+len(s.batch) > s.most {
		if err := s.merge(ctx); err != nil {
			return err
		}
	}
	s.order = s.order[:0]
	for i := range s.batch {
		if !s.batch[i].known {
			s.order = append(s.order, int32(i))
		}
	}
	slices.SortFunc(s.order, func(a, b int32) int {
		if c := s.batch[a].k.compare(s.batch[b].k); c != 0 {
			return c
		}
		return int(a - b)
	})
	if err := s.lookUp(ctx); err != nil {
		return s.fail("look up", err)
	}
	s.stats.Batches++
	s.stats.BatchLinks += int64(len(s.batch))
	return s.answer()
}

// lookUp marks the first link of each key that is not known. Readers share the sorted links.
func (s *store) lookUp(ctx context.Context) error {
	var wait sync.WaitGroup
	errs := make([]error, readers)
	rest := s.order
	for i := range readers {
		n := len(rest) / (readers - i)
		for n > 0 && n < len(rest) && s.batch[rest[n]].k == s.batch[rest[n-1]].k {
			n++ // all links of a key belong to one reader
		}
		part := rest[:n]
		rest = rest[n:]
		wait.Go(func() { errs[i] = s.lookUpPart(ctx, part) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (s *store) lookUpPart(ctx context.Context, order []int32) error {
	block := s.file.blocks()
	for i, at := range order {
		w := &s.batch[at]
		if i > 0 && s.batch[order[i-1]].k == w.k {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, ok := s.recent[w.k]; ok {
			continue
		}
		found, err := block.has(w.k)
		if err != nil {
			return err
		}
		w.fresh = !found
	}
	return nil
}

// answer emits the batch in order of arrival, and empties it.
func (s *store) answer() error {
	text := s.arena
	for i := range s.batch {
		w := &s.batch[i]
		if w.fresh {
			s.recent[w.k] = struct{}{}
			s.stats.Fresh++
			s.stats.Known++
		}
		s.links = append(s.links, baselines.Link{Key: w.k.url, Text: text[:w.length:w.length]})
		s.fresh = append(s.fresh, w.fresh)
		text = text[w.length:]
		if len(s.links) < emitLinks && i < len(s.batch)-1 {
			continue
		}
		first := s.stats.Answered
		s.stats.Answered += int64(len(s.links))
		if err := s.o.Emit(first, s.links, s.fresh); err != nil {
			return s.fail("emit", err)
		}
		s.links, s.fresh = s.links[:0], s.fresh[:0]
	}
	s.batch, s.arena = s.batch[:0], s.arena[:0]
	return nil
}

// merge writes the recent keys into the file.
func (s *store) merge(ctx context.Context) error {
	if len(s.recent) == 0 {
		return nil
	}
	keys := make([]key, 0, len(s.recent))
	for k := range s.recent {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, key.compare)
	before := s.file.keys
	if err := s.file.merge(ctx, keys); err != nil {
		return s.fail("merge", err)
	}
	clear(s.recent)
	s.stats.Merges++
	s.stats.MergeKeys += before + s.file.keys
	s.stats.MergeBytes += keyBytes * (before + s.file.keys)
	return nil
}

// Stats implements baselines.Store.
func (s *store) Stats() baselines.Stats {
	st := s.stats
	st.FileBytes = keyBytes * s.file.keys
	return st
}

// Close implements baselines.Store.
func (s *store) Close() error {
	if errors.Is(s.err, baselines.ErrClosed) {
		return nil
	}
	s.stats = s.Stats()
	s.err = baselines.ErrClosed
	s.popular.Close()
	s.batch, s.arena, s.recent, s.order = nil, nil, nil, nil
	var loading error
	if s.loads != nil {
		loading = s.loads.f.Close()
	}
	errs := []error{loading, s.file.close()}
	names, err := s.o.FS.List(s.o.Dir)
	for _, name := range names {
		errs = append(errs, s.o.FS.Remove(path.Join(s.o.Dir, name)))
	}
	return errors.Join(append(errs, err, s.o.FS.Remove(s.o.Dir))...)
}

var _ interface {
	baselines.Store
	baselines.TextLoader
} = (*store)(nil)
