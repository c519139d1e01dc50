package walk_test

import (
	"flag"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"testing"

	"drumbeat/internal/simweb"
	"drumbeat/internal/walk"
	"drumbeat/weburl"
)

var (
	seedFlag = flag.Uint64("seed", 1, "seed of random tests")
	runsFlag = flag.Int("walk.runs", 1, "webs and walks in TestUniform, with seeds from -seed on")
)

// graph is a web whose links are known.
type graph struct {
	urls  []string
	hosts []uint64
	links [][]uint32 // once each
	in    []int      // number of pages with a link to each
	page  []bool
	seeds []uint32
}

func (g *graph) add(url string, host uint64, page bool) {
	g.urls, g.hosts, g.page, g.in = append(g.urls, url), append(g.hosts, host), append(g.page, page), append(g.in, 0)
	g.links = append(g.links, nil)
}

func (g *graph) link(from, to uint32, known map[uint32]bool) {
	if from != to && !known[to] {
		known[to] = true
		g.links[from] = append(g.links[from], to)
		g.in[to]++
	}
}

// powerLaw returns a web of n pages with 10 links each in the mean. The targets of most links follow a power
// law; a tree makes all pages reachable.
func powerLaw(seed uint64, n int) *graph {
	r := rand.New(rand.NewPCG(seed, 3))
	g := &graph{seeds: []uint32{0}}
	perm := r.Perm(n)
	for i := range n {
		g.add("http://h"+strconv.Itoa(i/50)+".test/"+strconv.Itoa(i), uint64(i/50), true)
	}
	for i := range n {
		known := map[uint32]bool{}
		for j := 2*i + 1; j <= 2*i+2 && j < n; j++ {
			g.link(uint32(i), uint32(j), known)
		}
		for range r.IntN(19) {
			u := r.Float64()
			g.link(uint32(i), uint32(perm[int(float64(n)*u*u*u)]), known)
		}
	}
	return g
}

// simGraph returns the links of a simulated web, with its redirects, errors, and files of other types.
func simGraph(t testing.TB, seed uint64, pages int) *graph {
	o := simweb.Defaults(seed)
	o.Pages, o.Hosts, o.PLDs = pages, pages/11, pages/44
	w, err := simweb.New(o)
	if err != nil {
		t.Fatal(err)
	}
	seeds := map[string]bool{}
	for _, url := range w.Seeds() {
		seeds[url] = true
	}
	e, g, id, hosts := w.Expected("drumbeat"), &graph{}, map[uint64]uint32{}, map[string]uint64{}
	for node := range e.Nodes() {
		url := e.URL(node)
		host := string(weburl.Split([]byte(url)).Host)
		if _, ok := hosts[host]; !ok {
			hosts[host] = uint64(len(hosts))
		}
		if seeds[url] {
			g.seeds = append(g.seeds, uint32(len(g.urls)))
		}
		id[node] = uint32(len(g.urls))
		g.add(url, hosts[host], e.Page(node))
	}
	for node, from := range id {
		known := map[uint32]bool{}
		for _, to := range e.AppendTargets(nil, node) {
			g.link(from, id[to], known)
		}
	}
	return g
}

// visit returns what a walk is told of a page.
func (g *graph) visit(id uint32) *walk.Visit {
	at := func(id uint32) walk.Link {
		return walk.Link{Key: uint64(id), Host: g.hosts[id], URL: []byte(g.urls[id])}
	}
	v := &walk.Visit{Link: at(id), Page: g.page[id], Status: 200}
	for _, to := range g.links[id] {
		v.Links = append(v.Links, at(to))
	}
	return v
}

// run walks until the walk ends. Visits are answered in the order of the wishes, lot by lot.
func (g *graph) run(opt walk.Options) *walk.Walk {
	w := walk.New(opt)
	for _, id := range g.seeds {
		w.Know(g.visit(id))
	}
	for wishes, _ := w.Step(100); len(wishes) > 0 || !w.Idle(); wishes, _ = w.Step(100) {
		for i := range wishes {
			w.Know(g.visit(uint32(wishes[i].Key)))
		}
	}
	return w
}

// classes is the number of classes by in-degree: 0, 1, 2 and 3, 4 to 7, and so on, the last without an end.
const classes = 8

func class(indegree int) int { return min(bits.Len(uint(indegree)), classes-1) }

// shares returns the share of each class in weights of pages.
func (g *graph) shares(weight func(id int) float64) (shares [classes]float64) {
	sum := 0.0
	for id := range g.urls {
		if w := weight(id); w > 0 && g.page[id] {
			shares[class(g.in[id])] += w
			sum += w
		}
	}
	for c := range shares {
		shares[c] /= sum
	}
	return shares
}
