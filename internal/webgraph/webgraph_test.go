package webgraph

import (
	"context"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"drumbeat/disk"
)

// build makes a graph of the successors of each node.
func build(t testing.TB, nodes int, arcs [][2]uint32) *Graph {
	t.Helper()
	slices.SortFunc(arcs, func(a, b [2]uint32) int { return int(a[1])<<32 - int(b[1])<<32 + int(a[0]) - int(b[0]) })
	b, err := New(disk.OS(), t.TempDir()+"/graph", uint32(nodes))
	if err != nil {
		t.Fatal(err)
	}
	b.full = 8 << 10
	for _, a := range arcs {
		if err := b.Add(a[0], a[1]); err != nil {
			t.Fatal(err)
		}
	}
	g, err := b.End()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func options(t testing.TB) Options {
	return Options{FS: disk.OS(), Dir: t.TempDir(), RAMBytes: 64 << 20, Workers: 2}
}

// random makes a graph like that of the web: the targets have few or very many arcs, and most are near.
func random(seed uint64, nodes, arcs int) (list [][2]uint32) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range arcs {
		from := rnd.IntN(nodes)
		to := (from + rnd.IntN(20)) % nodes
		if rnd.IntN(3) == 0 {
			to = int(float64(nodes) * math.Pow(rnd.Float64(), 4))
		}
		list = append(list, [2]uint32{uint32(from), uint32(to)})
	}
	return list
}

// TestExact: small graphs, whose values are known.
func TestExact(t *testing.T) {
	// 0 -> 1 -> 2 -> 0 and 3 -> 0; arcs that are repeated, and loops, do not count.
	g := build(t, 5, [][2]uint32{{0, 1}, {1, 2}, {2, 0}, {3, 0}, {3, 0}, {0, 0}, {4, 4}})
	if g.Arcs() != 4 || g.Nodes() != 5 || g.OutDegree(3) != 1 || g.OutDegree(4) != 0 {
		t.Errorf("%d arcs, %d nodes", g.Arcs(), g.Nodes())
	}
	h, exact, err := g.Harmonic(context.Background(), options(t))
	if want := []float32{2.5, 1 + 0.5 + 0.5, 1 + 0.5 + 1.0/3, 0, 0}; err != nil || !exact || !slices.Equal(h, want) {
		t.Errorf("harmonic %v, want %v (%v)", h, want, err)
	}
	// Solved by hand: x3 = x4 = b, x0 = b + d(x2+x3), x1 = b + d x0, x2 = b + d x1, with b = (1-d)/5 + d x4/5.
	p, err := g.PageRank(context.Background(), options(t))
	d := damping
	b := (1 - d) / (5 - d) // x4 = b = (1-d)/5 + d b/5
	x0 := (b + d*(b+d*b) + d*b) / (1 - d*d*d)
	want := []float64{x0, b + d*x0, b + d*(b+d*x0), b, b}
	for v := range want {
		if err != nil || math.Abs(float64(p[v])-want[v]) > 1e-5 {
			t.Errorf("PageRank %v, want %v (%v)", p, want, err)
			break
		}
	}
	if got := Positions([]float32{1, 5, 3, 5}); !slices.Equal(got, []uint32{4, 1, 3, 2}) {
		t.Errorf("positions %v", got)
	}
	empty := build(t, 0, nil)
	if p, err := empty.PageRank(context.Background(), options(t)); err != nil || len(p) != 0 {
		t.Errorf("an empty graph: %v, %v", p, err)
	}
}

// TestHyperBall: estimates are near the exact values, whatever the number of workers and of parts in RAM, and a node
// with more predecessors than a block holds counts them all.
func TestHyperBall(t *testing.T) {
	const nodes = 70_000
	arcs := random(7, nodes, 200_000)
	for v := range uint32(nodes) {
		if v%3 > 0 {
			arcs = append(arcs, [2]uint32{v, 50_000})
		}
	}
	g := build(t, nodes, arcs)
	if len(g.tasks()) < 4 || len(g.blocks) == len(g.tasks()) {
		t.Fatalf("%d blocks, %d of them begin with a node", len(g.blocks), len(g.tasks()))
	}
	opt := options(t)
	whole, err := g.hyperBall(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/counters.0", "/counters.1"} { // as a killed process leaves them
		if err := os.WriteFile(opt.Dir+name, make([]byte, 100), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	opt.Workers, opt.RAMBytes = 1, nodes*nodeBytes+(maxBlockNodes*2)*(registers+1)
	parts, err := g.hyperBall(context.Background(), opt)
	if err != nil || !slices.Equal(whole, parts) {
		t.Errorf("in parts it has other values (%v)", err)
	}
	opt.RAMBytes--
	if _, err = g.hyperBall(context.Background(), opt); err == nil {
		t.Error("too little RAM is enough")
	} else if want := (*MemoryError)(nil); !errors.As(err, &want) {
		t.Error(err)
	}
	// Exact values of some nodes, among them the largest.
	some := []uint32{0, 1, 50_000, 50_001, 7, 69_999, 60_000}
	exact := harmonicOf(t, g, some)
	for i, v := range some {
		// The counters of one node at several distances err alike.
		if e := math.Abs(float64(whole[v])/exact[i] - 1); e > 0.5 {
			t.Errorf("node %d: %.0f, exactly %.0f", v, whole[v], exact[i])
		}
	}
	if at := Positions(whole)[50_000]; at > 200 {
		t.Errorf("the node with most arcs is at position %d", at)
	}
}

// harmonicOf searches from some nodes.
func harmonicOf(t *testing.T, g *Graph, some []uint32) (values []float64) {
	from := make([][]uint32, g.nodes)
	err := g.parallel(context.Background(), 1, func(r *reader, _ int, t task) error {
		return r.each(t, func(v uint32, list []uint32) { from[v] = append(from[v], list...) })
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range some {
		seen, now := make([]bool, g.nodes), []uint32{v}
		seen[v] = true
		sum := 0.0
		for d := 1.0; len(now) > 0; d++ {
			var next []uint32
			for _, w := range now {
				for _, u := range from[w] {
					if !seen[u] {
						seen[u] = true
						next = append(next, u)
					}
				}
			}
			sum += float64(len(next)) / d
			now = next
		}
		values = append(values, sum)
	}
	return values
}

// TestCounters: the union of counters is the counter of the union, and sizes are estimated with the error that their
// authors state.
func TestCounters(t *testing.T) {
	squares, runs := 0.0, 0
	for n := uint32(1); n < 3000; n = n*3/2 + 1 {
		for first := uint32(0); first < 40*n; first += n {
			var c, d, all counter
			for v := first; v < first+n; v++ {
				one := begin(v)
				all.union(&one)
				if v%2 == 0 {
					c.union(&one)
				} else {
					d.union(&one)
				}
			}
			if c.union(&d); c != all || c.union(&d) {
				t.Fatalf("the union of two counters is %v, not %v", c, all)
			}
			e := all.size()/float64(n) - 1
			squares += e * e
			runs++
		}
	}
	if e := math.Sqrt(squares / float64(runs)); e > 0.15 {
		t.Errorf("the standard error of %d counters is %.2f", runs, e)
	}
}

// TestDamage: a damaged file is an error.
func TestDamage(t *testing.T) {
	g := build(t, 1000, random(1, 1000, 5000))
	if _, err := g.f.WriteAt([]byte{7}, 100); err != nil {
		t.Fatal(err)
	}
	damage := (*disk.CorruptError)(nil)
	if _, err := g.PageRank(context.Background(), options(t)); !errors.As(err, &damage) {
		t.Errorf("a damaged graph: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := build(t, 10, nil).hyperBall(ctx, options(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	b, err := New(disk.OS(), t.TempDir()+"/graph", 10)
	if err != nil || b.Add(1, 5) != nil || b.Add(0, 5) == nil || b.Add(0, 4) == nil || b.Add(10, 5) == nil {
		t.Error("arcs in a wrong order are accepted")
	}
	b.Abort()
}

var large = flag.Int("arcs", 0, "arcs of TestLarge, in millions")

// TestLarge: with -arcs, how long a large graph takes, 40 arcs a node.
func TestLarge(t *testing.T) {
	if *large == 0 {
		t.Skip("needs -arcs")
	}
	nodes := *large * 25_000
	b, err := New(disk.OS(), t.TempDir()+"/graph", uint32(nodes))
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	list := make([]uint32, 0, nodes)
	for v := range nodes {
		list = list[:0]
		for range int(14 * math.Pow(rnd.Float64(), -0.65)) {
			u := v + int(math.Pow(rnd.Float64(), 8)*float64(nodes))
			list = append(list, uint32(u%nodes))
		}
		slices.Sort(list)
		for _, u := range list {
			if err := b.Add(u, uint32(v)); err != nil {
				t.Fatal(err)
			}
		}
	}
	g, err := b.End()
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	size, _ := g.f.Size()
	t.Logf("%d nodes, %d arcs, %d bytes", nodes, g.Arcs(), size)
	opt := Options{FS: disk.OS(), Dir: t.TempDir(), RAMBytes: 2 << 30, Workers: 2}
	opt.Progress = func(step int, change float64) { t.Logf("step %d: %g", step, change) }
	if _, err := g.PageRank(context.Background(), opt); err != nil {
		t.Fatal(err)
	}
	if _, err := g.hyperBall(context.Background(), opt); err != nil {
		t.Fatal(err)
	}
}
