package url

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"runtime"
	"runtime/debug"
	"time"

	"drumbeat/bench/measure"
	"drumbeat/bench/report"
	"drumbeat/weburl"
)

// urlMethods are the ways from a reference to a canonical URL. Each gets what it takes for its input, bases that are parsed
// already, and returns the bytes it made, so that nothing is left out.
var urlMethods = [...]struct {
	name string
	run  func(r *weburl.Resolver, groups []*urlGroup) int
}{
	{"ours", resolveOurs},
	{"net/url", resolveStd},
	{"whatwg-url", resolveLib},
}

// Indices of urlMethods.
const (
	methodOurs = iota
	methodStd
	methodLib
)

func resolveOurs(r *weburl.Resolver, groups []*urlGroup) (bytes int) {
	buf := make([]byte, 0, weburl.DefaultMaxBytes+1)
	for _, g := range groups {
		for _, ref := range g.refs {
			buf, _ = r.AppendResolve(buf[:0], g.base, ref) // what is no URL is empty
			bytes += len(buf)
		}
	}
	return bytes
}

func resolveStd(_ *weburl.Resolver, groups []*urlGroup) (bytes int) {
	for _, g := range groups {
		for _, ref := range g.refTexts {
			if u, err := url.Parse(ref); err == nil {
				u = g.stdBase.ResolveReference(u)
				u.Fragment, u.RawFragment = "", ""
				bytes += len(u.String())
			}
		}
	}
	return bytes
}

func resolveLib(_ *weburl.Resolver, groups []*urlGroup) (bytes int) {
	for _, g := range groups {
		for _, ref := range g.refTexts {
			if u, err := g.libBase.Parse(ref); err == nil {
				bytes += len(u.Href(true))
			}
		}
	}
	return bytes
}

// urlCase is a set of references and what the methods take for them.
type urlCase struct {
	name   string
	plain  bool
	like   string
	groups []*urlGroup
	refs   int
	bytes  float64 // mean length of a reference
	ns     [len(urlMethods)]report.Sample
	allocs [len(urlMethods)]float64
	alloc  [len(urlMethods)]float64 // bytes
}

func newURLCase(name string, groups []*urlGroup) *urlCase {
	c := &urlCase{name: name, groups: groups}
	for _, g := range groups {
		c.refs += len(g.refs)
		for _, ref := range g.refs {
			c.bytes += float64(len(ref))
		}
	}
	c.bytes /= float64(max(1, c.refs))
	return c
}

// urlSpan is the CPU time that a measurement takes at least: a thousand times what the clock resolves.
const urlSpan = 10 * time.Millisecond

// measure measures a method once. CPU time is that of the process, in which nothing else runs: what the garbage collector
// takes is the method's.
func (c *urlCase) measure(method int, r *weburl.Resolver) {
	run := urlMethods[method].run
	run(r, c.groups) // also the first time: bases and references come into the CPU's cache
	runtime.GC()
	heap := measure.Heap()
	start, n := measure.CPUTime(), 0
	took := time.Duration(0)
	for took < urlSpan {
		for range 1 + n {
			run(r, c.groups)
		}
		n += 1 + n
		took = measure.CPUTime() - start
	}
	allocs, bytes := heap()
	links := float64(n * c.refs)
	c.ns[method] = append(c.ns[method], float64(took)/links)
	c.allocs[method] = float64(allocs) / links
	c.alloc[method] = float64(bytes) / links
	if c.allocs[method] < float64(n+10)/links { // the buffer of a run, and what reading the clock takes
		c.allocs[method], c.alloc[method] = 0, 0
	}
}

// measure measures all cases, the methods in turns.
func (res *urlResult) measure(ctx context.Context, o *Options) error {
	if err := res.makeCases(o); err != nil {
		return err
	}
	// The collector runs as it would in a crawl, where the heap is some hundred megabytes: seldom.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	r := weburl.NewResolver(weburl.Options{})
	for n := range o.Repeat {
		for _, c := range append(res.cases, res.lengths...) {
			for method := range urlMethods {
				if err := ctx.Err(); err != nil {
					return err
				}
				c.measure(method, r)
			}
		}
		res.progress(fmt.Sprintf("references: %d of %d", n+1, o.Repeat))
	}
	return nil
}

// urlLengths are the lengths of the figure's references.
var urlLengths = []int{4, 8, 16, 32, 64, 128, 256}

// makeCases makes the references of each kind, and the mix.
func (res *urlResult) makeCases(o *Options) error {
	base, err := weburl.NewBase([]byte(caseBase))
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(o.Seed, 2))
	for _, kind := range urlKinds {
		var refs [][]byte
		for range caseRefs {
			refs = append(refs, []byte(makeRef(rnd, kind.name)))
		}
		g, err := newURLGroup(base, refs)
		if err != nil {
			return err
		}
		c := newURLCase(kind.name, []*urlGroup{&g})
		c.plain, c.like = kind.plain, kind.like
		res.cases = append(res.cases, c)
	}
	mix := make([]*urlGroup, len(res.pages))
	for i := range res.pages {
		mix[i] = &res.pages[i].group
	}
	c := newURLCase("mix", mix)
	c.plain, c.like = true, "all links of the pages"
	res.cases = append(res.cases, c)
	for _, n := range urlLengths {
		var refs [][]byte
		for range caseRefs {
			refs = append(refs, makeLength(rnd, n))
		}
		g, err := newURLGroup(base, refs)
		if err != nil {
			return err
		}
		res.lengths = append(res.lengths, newURLCase(fmt.Sprintf("length-%d", n), []*urlGroup{&g}))
	}
	return nil
}
