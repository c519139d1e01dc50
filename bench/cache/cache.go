package cache

import (
	"context"
	"errors"
	"math"
	"runtime"
	gosync "sync"
	"time"

	"drumbeat/bench/measure"
	"drumbeat/bench/result"
	"drumbeat/drum"
)

// Options holds the parameters of the measurement of the RAM cache in front of URLseen, sections V.A and
// V.B of the paper. The fields are flags of command bench. A zero means the default.
type Options struct {
	Trace   string  `placeholder:"FILE"`
	From    int64   `type:"count" placeholder:"N" default:"0"`
	Hosts   int     `type:"count" placeholder:"N"`
	Sizes   []int64 `name:"size" type:"count" placeholder:"N"`
	Entries int64   `type:"count" placeholder:"N" default:"16_777_216"`
	Repeats int     `name:"repeat" type:"count" placeholder:"N"`
	Seed    uint64  `type:"count" placeholder:"N" default:"1"`
	Quick   bool

	// Stream is the generated stream; the zero value means DefaultStream(Hosts).
	Stream   Stream `kong:"-"`
	progress func(what string)
}

// leastEntries is the smallest size of our cache.
const leastEntries = 512

// Complete fills in defaults and returns all faults, joined.
func (c *Options) Complete() error {
	if c.Stream == (Stream{}) {
		measure.Default(&c.Hosts, measure.Quick(c.Quick, 250, 2000))
		measure.Default(&c.Seed, 1)
		c.Stream = DefaultStream(c.Hosts)
		c.Stream.Seed = c.Seed
	}
	measure.Default(&c.Entries, 16<<20)
	measure.Default(&c.Repeats, measure.Quick(c.Quick, 3, 5))
	need, faults := measure.Faults("cache")
	need(c.Entries >= 1<<14 && c.Entries <= 1<<31, "--entries %d: want 16,384 to 2^31", c.Entries)
	for _, n := range c.Sizes {
		need(n >= leastEntries && n <= 1<<31, "--size %d: want %d to 2^31", n, leastEntries)
	}
	need(c.Stream.Hosts >= 10 && c.Stream.Hosts <= 1e8, "--hosts %d: want 10 to 1e8", c.Stream.Hosts)
	need(c.From >= 0, "--from %d: want 0 or more", c.From)
	need(c.From == 0 || c.Trace != "", "--from skips links of a trace: give --trace, too")
	need(c.Repeats >= 1 && c.Repeats <= 100, "--repeat %d: want 1 to 100", c.Repeats)
	return faults()
}

// policy is one of the compared caches.
type policy struct {
	name string
	// make returns an empty cache and a function that frees it.
	make func(entries int) (keyCache, func())
}

// The policies to which the report refers by name.
const (
	nameOurs  = "ours"
	nameLRU   = "exact LRU"
	nameClock = "CLOCK"
)

func policies() []policy {
	return []policy{
		{nameOurs, func(n int) (keyCache, func()) {
			c := drum.NewRAMCache(8 * int64(n))
			return ours{c}, c.Close
		}},
		{nameLRU, func(n int) (keyCache, func()) { return newExactLRU(n), func() {} }},
		{nameClock, func(n int) (keyCache, func()) { return newClock(n), func() {} }},
	}
}

// keySource is a stream of keys. read fills keys and returns their number; fewer keys without an error mean
// the end.
type keySource interface {
	read(keys []uint64) (int, error)
}

// hitRate is the result of one policy at one size.
type hitRate struct {
	size   cacheSize
	policy string
	// links is the number of counted links, after equally many that filled the cache; hits of them were in
	// it.
	links, hits int64
	// cold is the number of hits of all links, from the empty cache on.
	cold float64
}

func (h *hitRate) share() float64 { return float64(h.hits) / float64(h.links) }

// cacheSize is a number of entries to measure.
type cacheSize struct {
	entries int
	// span is the size in units of tau_h l S, 0 if unknown.
	span float64
	// printed is the row of Table IV for this size, or -1.
	printed int
}

// Measure measures speeds and hit rates.
func (c Options) Measure(ctx context.Context, progress func(what string)) (*result.Report, error) {
	if err := c.Complete(); err != nil {
		return nil, err
	}
	c.progress = progress
	r := result.New("cache", "RAM cache in front of URLseen: hit rates, speed, bytes per entry")
	res := &cacheResult{}
	var sizes []cacheSize
	if c.Trace != "" {
		var err error
		if sizes, err = res.traceSizes(&c); err != nil {
			return nil, err
		}
	}
	// Measure speeds first: huge pages are still free then, and exact LRU's gigabytes use most of them.
	err := res.speeds(ctx, &c)
	if err != nil {
		return nil, err
	}
	if c.Trace == "" {
		err = res.streamRates(ctx, &c)
	} else {
		err = res.traceRates(ctx, &c, sizes)
	}
	if err != nil {
		return nil, err
	}
	res.report(&c, r)
	return r, nil
}

// cacheResult holds everything that one measurement measured.
type cacheResult struct {
	rates []hitRate
	// links and generations describe the trace; from is the number of links skipped.
	links, from int64
	generations int
	// pagesPerSecond (S), linksPerPage (l) and delay (tau_h) are those of the traced crawl; 0 if they are not known.
	pagesPerSecond, linksPerPage float64
	delay                        time.Duration
	speed                        cacheSpeeds
}

// rateTask is one policy at one size and the part of the source that it reads: skip links, then warm links
// that fill the cache, then measure links that count.
type rateTask struct {
	size                cacheSize
	skip, warm, measure int64
	policy              policy
}

// rateChunk is the number of links per read.
const rateChunk = 1 << 16

// run reads the source from its start.
func (t *rateTask) run(ctx context.Context, source keySource) (hitRate, error) {
	cache, free := t.policy.make(t.size.entries)
	defer free()
	out := hitRate{size: t.size, policy: t.policy.name}
	keys := make([]uint64, rateChunk)
	total := int64(0)
	for at := int64(0); at < t.skip+t.warm+t.measure; {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		end := t.skip + t.warm + t.measure
		for _, edge := range []int64{t.skip + t.warm, t.skip} {
			if at < edge {
				end = edge
			}
		}
		n, err := source.read(keys[:min(rateChunk, end-at)])
		if err != nil {
			return out, err
		}
		if n == 0 {
			break
		}
		if at >= t.skip {
			hits := int64(0)
			for _, key := range keys[:n] {
				if cache.testAndSet(key) {
					hits++
				}
			}
			if total += hits; at >= t.skip+t.warm {
				out.hits, out.links = out.hits+hits, out.links+int64(n)
			}
		}
		at += int64(n)
	}
	out.cold = float64(total) / float64(max(1, t.warm+out.links))
	return out, nil
}

// runRates runs tasks on all CPUs, each on a source of its own, the largest first.
func runRates(ctx context.Context, tasks []rateTask, open func() (keySource, func() error, error),
	progress func(string)) ([]hitRate, error) {
	threads := min(len(tasks), runtime.GOMAXPROCS(0))
	for _, t := range tasks { // one per thread at a time; exact LRU takes most RAM
		if err := fitsRAM("a measurement of hit rates", int64(t.size.entries), 32*int64(threads)); err != nil {
			return nil, err
		}
	}
	out, errs := make([]hitRate, len(tasks)), make([]error, len(tasks))
	tell := measure.EverySecond(progress)
	var mu gosync.Mutex // guards next, done and tell
	next, done := len(tasks), 0
	var wg gosync.WaitGroup
	for range threads {
		wg.Go(func() {
			for {
				mu.Lock()
				next--
				i := next
				mu.Unlock()
				if i < 0 {
					return
				}
				source, done1, err := open()
				if err == nil {
					out[i], err = tasks[i].run(ctx, source)
					err = errors.Join(err, done1())
				}
				errs[i] = err
				mu.Lock()
				done++
				tell("hit rates: %d of %d caches", done, len(tasks))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return out, errors.Join(errs...)
}

// paperIV is Table IV: entries, and hit rates in percent at N0 of one and of four billion pages.
var paperIV = []struct {
	entries float64
	name    string
	one     string
	four    string
}{
	{256 << 10, "256K", "19", "16"}, {4 << 20, "4M", "26", "22"}, {8 << 20, "8M", "68", "59"},
	{16 << 20, "16M", "71", "67"}, {64 << 20, "64M", "73", "73"}, {512 << 20, "512M", "80", "78"},
}

// paperSpan is IRLbot's peak of tau_h l S in section V.A.
const paperSpan = 7.3e6

// betweenSizes are sizes between those of Table IV, in units of tau_h l S: at 0.8 LRU just fails to hold the
// links of a host delay.
var betweenSizes = []float64{0.14, 0.3, 0.8, 1, 1.35, 1.7, 4.5, 25}

// streamRates measures with the generated stream. Section V.A seeks to N0 in the trace and counts the next
// 10E links. Here N0 is late enough for sites to return. Half of the 10E links, and at least eight host
// delays, fill the cache.
func (res *cacheResult) streamRates(ctx context.Context, c *Options) error {
	span := c.Stream.Span()
	var sizes []cacheSize
	add := func(entries, of float64, printed int) {
		n := max(leastEntries, int(entries)&^127)
		sizes = append(sizes, cacheSize{entries: n, span: of, printed: printed})
	}
	for _, n := range c.Sizes {
		add(float64(n), float64(n)/span, -1)
	}
	if len(c.Sizes) == 0 {
		for i, p := range paperIV {
			add(p.entries/paperSpan*span, p.entries/paperSpan, i)
		}
		for _, f := range betweenSizes {
			if !c.Quick {
				add(f*span, f, -1)
			}
		}
	}
	skip := 1.5 * float64(c.Stream.ReturnWindow) * c.Stream.PagesPerStay * span
	res.from = int64(skip)
	var tasks []rateTask
	for _, s := range sorted(sizes) {
		half := 5 * float64(s.entries)
		for _, p := range policies() {
			tasks = append(tasks, rateTask{size: s, skip: int64(skip), policy: p,
				warm: int64(max(half, 8*span)), measure: int64(max(half, 4*span))})
		}
	}
	open := func() (keySource, func() error, error) {
		return newCacheStream(c.Stream), func() error { return nil }, nil
	}
	var err error
	res.rates, err = runRates(ctx, tasks, open, c.progress)
	return err
}

// rate returns the result of a policy at a size.
func (res *cacheResult) rate(name string, entries int) *hitRate {
	for i := range res.rates {
		if h := &res.rates[i]; h.policy == name && h.size.entries == entries {
			return h
		}
	}
	return &hitRate{cold: math.NaN()}
}
