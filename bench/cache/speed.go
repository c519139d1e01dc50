package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	gosync "sync"
	"time"

	"drumbeat/bench/measure"
	"drumbeat/bench/result"
	"drumbeat/drum"
)

// pageLinks is the number of keys in a batch: the links of a page.
const pageLinks = paperLinksPerPage

// speedKeys keys are generated before the clock starts; then they go to the cache in batches. Keys and
// answers fit into the CPU's cache, like the links of a page just parsed. Each measurement takes
// speedRounds rounds of them.
const (
	speedKeys   = pageLinks << 10
	speedRounds = 48
)

// cacheSpeeds holds the speeds of our cache.
type cacheSpeeds struct {
	entries int64
	// Keys per second of CPU time of one thread: new keys in batches, keys of the crawl-like stream in
	// batches, and new keys one by one. hits are those of the stream.
	fresh, crawl, single result.Sample
	crawlHits            float64
	// all is keys per second of wall time with one thread per CPU; allCPU is per second of CPU time.
	all, allCPU result.Sample
	threads     int
	// bytes is the RAM per entry, from the resident memory of the process.
	bytes float64
}

// freshKeys yields unique keys: those of one of many sequences.
type freshKeys struct{ n uint64 }

func (f *freshKeys) read(keys []uint64) (int, error) {
	for i := range keys {
		f.n++
		keys[i] = mix64(f.n)
	}
	return len(keys), nil
}

// residentBytes returns the resident memory of the process after a garbage collection.
func residentBytes() int64 {
	debug.FreeOSMemory()
	return measure.RSS()
}

// speeds measures our cache.
func (res *cacheResult) speeds(ctx context.Context, c *Options) error {
	s := &res.speed
	s.threads = runtime.GOMAXPROCS(0)
	if err := fitsRAM("the cache whose speed is measured", c.Entries, 8); err != nil {
		return err
	}
	keys, seen := make([]uint64, speedKeys), make([]bool, speedKeys)
	batch := make([]drum.Key, speedKeys)
	for i := range keys { // touch the memory to make it resident
		keys[i], seen[i], batch[i] = 1, true, 1
	}
	before := residentBytes()
	cache := drum.NewRAMCache(8 * c.Entries)
	defer cache.Close()
	s.entries = cache.Entries()
	// feed reads keys and sends them in batches. It returns the CPU time of the sending, and the hits.
	feed := func(source keySource, one bool) (time.Duration, int64, error) {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		if _, err := source.read(keys); err != nil {
			return 0, 0, err
		}
		for i, k := range keys {
			batch[i] = drum.Key(k)
		}
		start := measure.ThreadTime()
		feedBatches(cache, batch, seen, one)
		took := measure.ThreadTime() - start
		hits := int64(0)
		for _, h := range seen {
			if h {
				hits++
			}
		}
		return took, hits, nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fresh := &freshKeys{}
	for n := int64(0); n < 2*c.Entries; n += speedKeys {
		if _, _, err := feed(fresh, false); err != nil {
			return err
		}
	}
	if before == 0 {
		return errors.New("bench: cache: the kernel does not say how much memory this process has")
	}
	s.bytes = float64(residentBytes()-before) / float64(s.entries)
	// The number of sites is in the same proportion to the entries as at 16M entries in Table IV.
	stream := newCacheStream(DefaultStream(max(10, int(float64(c.Entries)/(16<<20/paperSpan)/pageLinks))))
	for n := range c.Repeats {
		c.progress(fmt.Sprintf("speed of %d entries, %d of %d", s.entries, n+1, c.Repeats))
		if err := s.repeat(c, n == 0, stream, fresh, feed); err != nil {
			return err
		}
		if err := s.together(ctx, cache, uint64(n)); err != nil {
			return err
		}
	}
	return nil
}

// feedBatches sends keys in batches of a page, or one by one.
func feedBatches(cache *drum.RAMCache, batch []drum.Key, seen []bool, one bool) {
	if one {
		for i, k := range batch {
			seen[i] = cache.TestAndSet(k)
		}
		return
	}
	for i := 0; i+pageLinks <= len(batch); i += pageLinks {
		cache.TestAndSetBatch(batch[i:i+pageLinks], seen[i:i+pageLinks])
	}
}

// repeat measures one thread once. In the first call the stream fills the cache.
func (s *cacheSpeeds) repeat(c *Options, first bool, stream, fresh keySource,
	feed func(keySource, bool) (time.Duration, int64, error)) error {
	measure := func(to *result.Sample, source keySource, one bool, warm, rounds int64) (hits float64, err error) {
		var took time.Duration
		var sum int64
		for i := -warm; i < rounds; i++ {
			t, n, err := feed(source, one)
			if err != nil {
				return 0, err
			}
			if i >= 0 {
				took, sum = took+t, sum+n
			}
		}
		*to = append(*to, float64(rounds*speedKeys)/took.Seconds())
		return float64(sum) / float64(rounds*speedKeys), nil
	}
	var err error
	warm := c.Entries/speedKeys + 1
	if first {
		warm *= 3
	}
	if s.crawlHits, err = measure(&s.crawl, stream, false, warm, speedRounds); err != nil {
		return err
	}
	if _, err = measure(&s.fresh, fresh, false, 1, speedRounds); err != nil {
		return err
	}
	_, err = measure(&s.single, fresh, true, 0, speedRounds/4)
	return err
}

// together measures one thread per CPU at the same time, with new keys.
func (s *cacheSpeeds) together(ctx context.Context, cache *drum.RAMCache, round uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	wall, cpu := make([]time.Duration, s.threads), make([]time.Duration, s.threads)
	begin := make(chan struct{})
	var ready, done gosync.WaitGroup
	ready.Add(s.threads)
	for t := range s.threads {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			fresh := freshKeys{1<<62 | round<<48 | uint64(t)<<32}
			keys, batch, seen := make([]uint64, speedKeys), make([]drum.Key, speedKeys), make([]bool, speedKeys)
			ready.Done()
			<-begin
			for range speedRounds {
				_, _ = fresh.read(keys) // never fails
				for i, k := range keys {
					batch[i] = drum.Key(k)
				}
				start, startCPU := time.Now(), measure.ThreadTime()
				feedBatches(cache, batch, seen, false)
				cpu[t] += measure.ThreadTime() - startCPU
				wall[t] += time.Since(start)
			}
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
	var all, perCPU float64
	for t := range s.threads {
		all += speedRounds * speedKeys / wall[t].Seconds()
		perCPU += speedRounds * speedKeys / cpu[t].Seconds() / float64(s.threads)
	}
	s.all, s.allCPU = append(s.all, all), append(s.allCPU, perCPU)
	return nil
}

// fitsRAM returns an error if the entries take more than three quarters of the machine's RAM.
func fitsRAM(what string, entries, entryBytes int64) error {
	if have := result.ThisMachine().RAMBytes; have > 0 && entries > have/4*3/entryBytes {
		return fmt.Errorf("bench: cache: %s with %d entries takes %d MB, too much for %d MB of RAM: want fewer entries",
			what, entries, entries/1e6*entryBytes, have/1e6)
	}
	return nil
}
