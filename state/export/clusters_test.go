package export

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"drumbeat/disk/memfs"
)

// leastOf finds the least node of each component with union-find.
func leastOf(edges [][2]uint64) map[uint64]uint64 {
	parent := map[uint64]uint64{}
	var find func(n uint64) uint64
	find = func(n uint64) uint64 {
		if p, ok := parent[n]; ok && p != n {
			parent[n] = find(p)
			return parent[n]
		}
		return n
	}
	for _, e := range edges {
		a, b := find(e[0]), find(e[1])
		parent[max(a, b)] = min(a, b)
	}
	least := map[uint64]uint64{}
	for _, e := range edges {
		for _, n := range e {
			if l := find(n); l != n {
				least[n] = l
			}
		}
	}
	return least
}

// TestClusters compares the components of graphs with those of union-find: paths in every order of numbers, stars,
// repeated edges, random graphs, and one that does not fit into RAM.
func TestClusters(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	path := func(n int, number func(i int) int) (edges [][2]uint64) {
		for i := range n - 1 {
			edges = append(edges, [2]uint64{uint64(number(i)), uint64(number(i + 1))})
		}
		return edges
	}
	shuffled := r.Perm(5000)
	var star, random, large [][2]uint64
	for i := range 1000 {
		star = append(star, [2]uint64{500, uint64(i + 501)}, [2]uint64{uint64(i + 501), 500})
		random = append(random, [2]uint64{r.Uint64N(1000), 1000 + r.Uint64N(1000)})
	}
	for i := range 200_000 { // cycles of 100 nodes
		large = append(large, [2]uint64{uint64(i), uint64(i - i%100 + (i+1)%100)})
	}
	for name, c := range map[string]struct {
		edges  [][2]uint64
		rounds int
	}{
		"none":     {nil, 1},
		"one":      {[][2]uint64{{7, 3}}, 2},
		"up":       {path(5000, func(i int) int { return i }), 20},
		"down":     {path(5000, func(i int) int { return 5000 - i }), 20},
		"shuffled": {path(5000, func(i int) int { return shuffled[i] }), 20},
		"star":     {star, 4},
		"random":   {random, 20},
		"large":    {large, 20},
	} {
		fs := memfs.New(1)
		opt := &Options{FS: fs, TempDir: "tmp", RAMBytes: leastRAMBytes}
		j := &job{ctx: context.Background(), opt: opt, report: &Report{}}
		g := j.newClusters()
		for _, e := range c.edges {
			must(t, g.link(e[0], e[1]))
		}
		want := leastOf(c.edges)
		got, err := g.find()
		must(t, err)
		n, last := 0, uint64(0)
		for ; got.ok; must(t, got.next()) {
			if n > 0 && got.key <= last {
				t.Errorf("%s: %d after %d", name, got.key, last)
			}
			last = got.key
			if l := binary.BigEndian.Uint64(got.value); want[got.key] != l || l == got.key {
				t.Errorf("%s: the least of %d is %d, want %d", name, got.key, l, want[got.key])
			}
			n++
		}
		if n != len(want) || g.rounds > c.rounds {
			t.Errorf("%s: %d nodes, want %d; %d rounds", name, n, len(want), g.rounds)
		}
		t.Logf("%s: %d rounds", name, g.rounds)
		for _, end := range j.ends {
			must(t, end())
		}
		if files, err := fs.List("tmp"); err == nil && len(files) > 0 {
			t.Errorf("%s: left %q", name, files)
		}
	}
}
