package walk_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"drumbeat/internal/walk"
)

// parts is a walk of several nodes, whose hosts belong to them in turn. They take their turns at random.
type parts struct {
	t     *testing.T
	g     *graph
	opt   walk.Options
	r     *rand.Rand
	nodes []*walk.Walk
	logs  []saved
	away  [][]walk.Departure // by node: walkers on their way to it
	wants []uint32
	twice map[uint32]bool // URLs that were wished
	loads int             // a node is loaded again before one in loads turns
}

func newParts(t *testing.T, g *graph, nodes, loads int, opt walk.Options) *parts {
	p := &parts{t: t, g: g, opt: opt, loads: loads, r: rand.New(rand.NewPCG(opt.Seed[0], 8)),
		logs: make([]saved, nodes), away: make([][]walk.Departure, nodes), twice: map[uint32]bool{}}
	for node := range nodes {
		p.nodes = append(p.nodes, walk.New(p.of(node)))
	}
	for _, id := range g.seeds {
		p.nodes[p.owner(uint64(id))].Know(g.visit(id))
	}
	return p
}

func (p *parts) owner(key uint64) int { return int(p.g.hosts[key]) % len(p.logs) }

func (p *parts) of(node int) walk.Options {
	opt := p.opt
	opt.Part, opt.Seed[1] = walk.Part{From: node, To: node + 1, Of: len(p.logs)}, uint64(node)
	return opt
}

func (p *parts) others(node int) walk.Others {
	o := walk.Others{Hosts: make([]int64, len(p.nodes)), Elsewhere: func(key uint64) (int, bool) {
		return p.owner(key), p.owner(key) != node
	}}
	for i, w := range p.nodes {
		if i != node {
			o.Hosts[i] = int64(w.Hosts())
		}
	}
	return o
}

// want notes a URL for which a walker waits.
func (p *parts) want(node int, key uint64) {
	id := uint32(key)
	if p.owner(key) != node || p.twice[id] {
		p.t.Fatalf("node %d wishes %s; twice: %t", node, p.g.urls[id], p.twice[id])
	}
	p.twice[id] = true
	p.wants = append(p.wants, id)
}

// turn lets a node do something, and reports whether it had anything to do. Sometimes the node is loaded again before.
func (p *parts) turn(node int) bool {
	w := p.nodes[node]
	if p.r.IntN(p.loads) == 0 {
		w = p.logs[node].load(p.t, p.of(node), w)
		p.nodes[node] = w
	}
	if in := p.away[node]; len(in) > 0 {
		p.away[node] = in[1:]
		if d := &in[0]; d.URL == "" {
			w.Come(d.Purse, nil)
		} else if w.Come(d.Purse, &walk.Link{Key: d.Key, Host: p.g.hosts[d.Key], URL: []byte(d.URL)}) {
			p.want(node, d.Key)
		}
		return true
	}
	w.SetOthers(p.others(node))
	if w.Idle() {
		return false
	}
	wishes, away := w.Step(1 + p.r.IntN(20))
	for i := range wishes {
		p.want(node, wishes[i].Key)
	}
	for _, d := range away {
		p.away[d.Node] = append(p.away[d.Node], d)
	}
	return true
}

// run walks until no node has anything to do.
func (p *parts) run() {
	for busy := true; busy; {
		busy = false
		for range 2 * len(p.nodes) {
			busy = p.turn(p.r.IntN(len(p.nodes))) || busy
		}
		for node := range p.nodes {
			busy = p.turn(node) || busy
		}
		for len(p.wants) > 0 && (p.r.IntN(3) > 0 || !busy) {
			i := p.r.IntN(len(p.wants))
			id := p.wants[i]
			p.wants[i] = p.wants[len(p.wants)-1]
			p.wants = p.wants[:len(p.wants)-1]
			p.nodes[p.owner(uint64(id))].Know(p.g.visit(id))
			busy = true
		}
	}
}

// sample puts the parts of the sample together, as docs/howto/prepare/sample.md does. It returns the weights by URL.
func (p *parts) sample() map[string]float64 {
	type row struct {
		missed float64
		linked int
		page   bool
		seed   bool
	}
	rows := map[string]*row{}
	for node, w := range p.nodes {
		for _, s := range w.SamplePart(func(key uint64) bool { return p.owner(key) != node }) {
			r := rows[s.URL]
			if r == nil {
				r = &row{}
				rows[s.URL] = r
			}
			r.missed, r.linked = r.missed+s.Missed, r.linked+s.Linked
			r.page, r.seed = r.page || s.Status > 0, r.seed || s.Seed
		}
	}
	weights, once, twice := map[string]float64{}, 0.0, 0.0
	for url, r := range rows {
		if !r.page {
			continue
		}
		weights[url] = 1
		if !r.seed {
			weights[url] = -1 / math.Expm1(r.missed)
		}
		switch r.linked {
		case 1:
			once += weights[url]
		case 2:
			twice += weights[url]
		}
	}
	for url := range weights {
		if rows[url].linked == 1 && twice > 0 {
			weights[url] *= 1 + once/(2*twice)
		}
	}
	return weights
}

// check checks that all walkers are at a node, and that they have visited as many URLs as those of one.
func (p *parts) check() (steps int64) {
	p.t.Helper()
	visited, walkers := 0, 0
	for node, w := range p.nodes {
		f := w.Figures()
		visited, walkers, steps = visited+f.Visited, walkers+f.Walkers, steps+f.Steps
		if n := len(p.away[node]) + w.Waiting(); n > 0 {
			p.t.Errorf("node %d: %d walkers or URLs are on their way", node, n)
		}
	}
	if visited != p.opt.URLs || walkers != p.opt.Walkers {
		p.t.Errorf("%d nodes: %d URLs visited, want %d; %d walkers, want %d", len(p.nodes), visited, p.opt.URLs,
			walkers, p.opt.Walkers)
	}
	return steps
}

// TestNodes: the sample of several nodes is as near to the web as that of one node (TestUniform).
func TestNodes(t *testing.T) {
	t.Parallel()
	counts := []int{3}
	if *runsFlag > 1 {
		counts = []int{1, 3, 8}
	}
	for run := range *runsFlag {
		seed := *seedFlag + uint64(run)
		g := powerLaw(seed, 30_000)
		truth := g.shares(func(int) float64 { return 1 })
		opt := options(100, len(g.urls)*3/4)
		opt.Seed[0] = seed
		for _, nodes := range counts {
			p := newParts(t, g, nodes, 10_000, opt)
			p.run()
			steps := p.check()
			weights, sum := p.sample(), 0.0
			got := g.shares(func(id int) float64 { sum += weights[g.urls[id]]; return weights[g.urls[id]] })
			worst := 0.0
			for c := range truth {
				if truth[c] >= 0.05 {
					worst = max(worst, math.Abs(got[c]/truth[c]-1))
				}
			}
			t.Logf("%d nodes, seed %d: %d steps, the classes are off by %.1f %% at most, %.0f pages estimated", nodes,
				seed, steps, 100*worst, sum)
			if worst > 0.05 {
				t.Errorf("%d nodes: a class is off by %.1f %%", nodes, 100*worst)
			}
		}
	}
}

// TestNodesSaved: nodes that are saved and loaded at any time lose no walker and double none, and wish each URL once.
func TestNodesSaved(t *testing.T) {
	t.Parallel()
	for run := range uint64(5) {
		g := powerLaw(*seedFlag+run, 500)
		opt := options(18, 360)
		opt.Seed[0] = *seedFlag + run
		p := newParts(t, g, 2+int(run), 20, opt)
		p.run()
		p.check()
	}
}

// TestNodesLost: a node that has a walker fewer or more than its log says is damaged.
func TestNodesLost(t *testing.T) {
	t.Parallel()
	g := powerLaw(*seedFlag, 500)
	p := newParts(t, g, 2, 20, options(18, 360))
	p.run()
	w, log := p.nodes[0], p.logs[0]
	log.take(t, w)
	walkers := w.Freeze().Append(nil)
	if _, err := log.loadWith(p.of(0), walkers); err != nil {
		t.Fatal(err)
	}
	changed := 0
	for i, rec := range log {
		if i%7 == 0 && (rec[0] == 5 || rec[0] == 6) { // a walker has left, or has come
			without := slices.Delete(slices.Clone(log), i, i+1)
			if _, err := without.loadWith(p.of(0), walkers); !errors.Is(err, walk.ErrDamaged) {
				t.Fatalf("without record %d of the log: %v", i, err)
			}
			changed++
		}
	}
	if changed < 10 {
		t.Errorf("only %d records of walkers that have left or come", changed)
	}
}
