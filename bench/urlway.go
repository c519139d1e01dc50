package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"drumbeat/bench/report"
	"drumbeat/drum"
	"drumbeat/parse"
	"drumbeat/weburl"
)

// urlStage is a part of a link's way from its reference to a tuple for URLseen.
type urlStage struct {
	name string
	what string
	each string // what it is counted by
	ns   report.Sample
	run  func() (n int, took time.Duration) // does it for all pages
}

// urlWay has what the stages share.
type urlWay struct {
	res      *urlResult
	parser   *parse.Parser
	page     parse.Page
	extract  *parse.Extractor
	resolver *weburl.Resolver
	hasher   *weburl.Hasher
	suffixes *weburl.Suffixes
	keys     [][]drum.Key // of each page
	fresh    []drum.Key
	seen     []bool
	round    uint64
	small    *drum.RAMCache
	large    *drum.RAMCache
	buf      []byte
	sink     uint64
}

// measureWay measures the stages in turns.
func (res *urlResult) measureWay(ctx context.Context, o *URL) error {
	w := &urlWay{res: res, parser: parse.NewParser(parse.Options{}), extract: parse.NewExtractor(parse.Options{}, weburl.Options{}),
		resolver: weburl.NewResolver(weburl.Options{}), hasher: weburl.NewHasher(weburl.Secret{1}), suffixes: weburl.NewSuffixes(false)}
	if err := fitsRAM("the RAM cache that is probed", o.CacheBytes/8, 9); err != nil {
		return err
	}
	w.prepare(ctx, o)
	defer w.small.Close()
	defer w.large.Close()
	res.way = []*urlStage{
		{name: "parse", each: "link", what: "the references of the page found (package parse)", run: w.timed(w.runParse)},
		{name: "resolve", each: "link", what: "each reference resolved", run: w.runEach},
		{name: "once", each: "link", what: "each reference looked up among those of its page, and resolved if it is no repeat", run: w.runOnce},
		{name: "split", each: "URL", what: "scheme, host, port and path of the URL", run: w.timed(w.runSplit)},
		{name: "pld", each: "URL", what: "PLD of the host by the suffix list, and its key; a crawl does it once for an origin on a page", run: w.timed(w.runPLD)},
		{name: "key", each: "URL", what: "the URL's key: SipHash-2-4", run: w.timed(w.runKey)},
		{name: "record", each: "URL", what: "its record appended", run: w.timed(w.runRecord)},
		{name: "probe-small", each: "URL", what: "RAM cache: known ones of a small crawl, a page at once", run: w.timed(w.runProbeSmall)},
		{name: "probe-large", each: "URL", what: fmt.Sprintf("RAM cache: new ones, %d MiB that are full, a page at once", o.CacheBytes>>20), run: w.timed(w.runProbeLarge)},
	}
	runtime.LockOSThread() // the clock is the thread's
	defer runtime.UnlockOSThread()
	for n := range o.Repeats {
		for _, s := range res.way {
			if err := ctx.Err(); err != nil {
				return err
			}
			s.run()
			runtime.GC()
			took, done := time.Duration(0), 0
			for took < urlSpan {
				n, t := s.run()
				took, done = took+t, done+n
			}
			s.ns = append(s.ns, float64(took)/float64(done))
		}
		o.Progress(fmt.Sprintf("a link's way: %d of %d", n+1, o.Repeats))
	}
	return nil
}

// prepare makes the keys, and fills the large cache twice over.
func (w *urlWay) prepare(ctx context.Context, o *URL) {
	w.small, w.large = drum.NewRAMCache(1<<20), drum.NewRAMCache(o.CacheBytes)
	longest, refs, repeats := 0, 0, 0
	for i := range w.res.pages {
		page := &w.res.pages[i]
		var keys []drum.Key
		for _, url := range page.canonical {
			keys = append(keys, drum.Key(w.hasher.URLKey(url)))
		}
		w.keys, longest = append(w.keys, keys), max(longest, len(keys))
		_, _ = w.extract.ExtractOnce(page.url, page.body, "", func([]byte, *parse.Link) { refs++ }, func(int) { repeats++ }) // its URL is canonical
	}
	w.res.repeats = float64(repeats) / float64(max(1, refs+repeats))
	w.seen, w.fresh = make([]bool, max(longest, 256)), make([]drum.Key, longest)
	rnd, batch := rand.New(rand.NewPCG(o.Seed, 3)), make([]drum.Key, 256)
	o.Progress(fmt.Sprintf("filling a cache of %d MiB", o.CacheBytes>>20))
	for n := int64(0); n < 2*w.large.Entries() && ctx.Err() == nil; n += int64(len(batch)) {
		for i := range batch {
			batch[i] = drum.Key(rnd.Uint64())
		}
		w.large.TestAndSetBatch(batch, w.seen)
	}
}

func (w *urlWay) runParse() (n int) {
	for i := range w.res.pages {
		w.parser.Parse(w.res.pages[i].body, "", &w.page)
		n += len(w.page.Links)
	}
	return n
}

// timed is the time of a stage.
func (w *urlWay) timed(stage func() int) func() (int, time.Duration) {
	return func() (int, time.Duration) {
		start := threadTime()
		n := stage()
		return n, threadTime() - start
	}
}

// afterParse times what is done with a page that has just been parsed, some times over, so that the clock takes little.
func (w *urlWay) afterParse(stage func()) (n int, took time.Duration) {
	const times = 8
	for i := range w.res.pages {
		page := &w.res.pages[i]
		if err := w.extract.Parse(page.url, page.body, ""); err != nil {
			continue // it was canonical when it was loaded
		}
		start := threadTime()
		for range times {
			stage()
		}
		took += threadTime() - start
		n += times * len(w.extract.Page().Links)
	}
	return n, took
}

func (w *urlWay) runEach() (int, time.Duration) {
	emit := func(url []byte, _ *parse.Link) { w.sink += uint64(len(url)) }
	return w.afterParse(func() { w.extract.Each(emit) })
}

func (w *urlWay) runOnce() (int, time.Duration) {
	emit, again := func(url []byte, _ *parse.Link) { w.sink += uint64(len(url)) }, func(int) { w.sink++ }
	return w.afterParse(func() { w.extract.Once(emit, again) })
}

// eachURL does f for all URLs of the pages.
func (w *urlWay) eachURL(f func(url []byte)) (n int) {
	for i := range w.res.pages {
		for _, url := range w.res.pages[i].canonical {
			f(url)
		}
		n += len(w.res.pages[i].canonical)
	}
	return n
}

func (w *urlWay) runSplit() int {
	return w.eachURL(func(url []byte) { w.sink += uint64(len(weburl.Split(url).Host)) })
}

func (w *urlWay) runPLD() int {
	return w.eachURL(func(url []byte) {
		w.sink += w.hasher.PLDKey(w.suffixes.PLDBytes(weburl.Split(url).Host))
	})
}

func (w *urlWay) runKey() int {
	return w.eachURL(func(url []byte) { w.sink += w.hasher.URLKey(url) })
}

func (w *urlWay) runRecord() int {
	rec := weburl.Record{Depth: 3, Via: []byte("/a/page/as/long/as/most"), Found: 1.7e9}
	w.buf = w.buf[:0]
	return w.eachURL(func(url []byte) {
		if len(w.buf) > 8<<10 { // some pages' worth, as a crawl has it
			w.buf = w.buf[:0]
		}
		rec.URL = url
		w.buf = rec.Append(w.buf)
	})
}

func (w *urlWay) runProbeSmall() (n int) {
	for _, keys := range w.keys {
		w.small.TestAndSetBatch(keys, w.seen)
		n += len(keys)
	}
	return n
}

// runProbeLarge makes new keys of the pages' each time; that takes less than a nanosecond.
func (w *urlWay) runProbeLarge() (n int) {
	w.round++
	for _, keys := range w.keys {
		fresh := w.fresh[:len(keys)]
		for i, key := range keys {
			fresh[i] = drum.Key((uint64(key) ^ w.round<<20 ^ uint64(n+i)) * 0x9e3779b97f4a7c15)
		}
		w.large.TestAndSetBatch(fresh, w.seen)
		n += len(keys)
	}
	return n
}
