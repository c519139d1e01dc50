package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"drumbeat/bench/measure"
	"drumbeat/bench/result"
	"drumbeat/drum"
	"drumbeat/internal/cputime"
	"drumbeat/internal/human"
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
	// Keys per second of CPU time of one thread: new keys, and keys of the crawl-like stream, with its hits.
	fresh, crawl result.Sample
	crawlHits    float64
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
	now, _ := cputime.RSS(0)
	return now
}

// speeds measures our cache.
func (res *cacheResult) speeds(ctx context.Context, c *Options) error {
	s := &res.speed
	if err := fitsRAM("the cache of the speed measurement", c.Entries, 8); err != nil {
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
	// feed reads keys and sends them in batches of a page. It returns the CPU time of the sending, and the hits.
	feed := func(source keySource) (time.Duration, int64, error) {
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
		for i := 0; i < speedKeys; i += pageLinks {
			cache.TestAndSetBatch(batch[i:i+pageLinks], seen[i:i+pageLinks])
		}
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
		if _, _, err := feed(fresh); err != nil {
			return err
		}
	}
	if before == 0 {
		return errors.New("bench: cache: the kernel does not report the memory use of this process")
	}
	s.bytes = float64(residentBytes()-before) / float64(s.entries)
	// The number of sites is in the same proportion to the entries as at 16M entries in Table IV.
	stream := newCacheStream(DefaultStream(max(10, int(float64(c.Entries)/(16<<20/paperSpan)/pageLinks))))
	for n := range c.Repeats {
		c.progress(fmt.Sprintf("speed of %d entries, %d of %d", s.entries, n+1, c.Repeats))
		if err := s.repeat(c, n == 0, stream, fresh, feed); err != nil {
			return err
		}
	}
	return nil
}

// repeat measures one thread once. In the first call the stream fills the cache.
func (s *cacheSpeeds) repeat(c *Options, first bool, stream, fresh keySource,
	feed func(keySource) (time.Duration, int64, error)) error {
	measure := func(to *result.Sample, source keySource, warm, rounds int64) (hits float64, err error) {
		var took time.Duration
		var sum int64
		for i := -warm; i < rounds; i++ {
			t, n, err := feed(source)
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
	if s.crawlHits, err = measure(&s.crawl, stream, warm, speedRounds); err != nil {
		return err
	}
	_, err = measure(&s.fresh, fresh, 1, speedRounds)
	return err
}

// fitsRAM returns an error if the entries take more than three quarters of the machine's RAM.
func fitsRAM(what string, entries, entryBytes int64) error {
	if have := result.ThisMachine().RAMBytes; have > 0 && entries > have/4*3/entryBytes {
		return fmt.Errorf("bench: cache: %s with %s needs %s, more than three quarters of the %s of RAM: "+
			"lower --size or --entries",
			what, human.Counted(entries, "entry", "entries"), human.Bytes(entries*entryBytes), human.Bytes(have))
	}
	return nil
}
