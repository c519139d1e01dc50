package export

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/weburl"
)

// TestLinkCounts: the links of each pair of PLDs are summed, whatever number of pairs fits in RAM. Pairs without an
// edge are passed over and counted.
func TestLinkCounts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 50 {
		j := &job{ctx: t.Context(), report: new(Report), opt: &Options{FS: memfs.New(1), TempDir: "tmp"},
			Reader: &state.Reader{
				Saved: &state.Saved{Hasher: weburl.NewHasher(weburl.Secret{1}), Suffixes: weburl.NewSuffixes(false)}}}
		key := func(pld int) uint64 { return j.Hasher.PLDKey(fmt.Appendf(nil, "site%d.example", pld)) }
		c := newLinkCounts(j, func(host []byte) (uint64, error) {
			return j.Hasher.PLDKey(j.Suffixes.PLDBytes(host)), nil
		})
		c.limit = 1 + r.IntN(20)
		want := map[[2]uint64]uint64{} // target, source
		plds := 1 + r.IntN(6)
		for range r.IntN(300) {
			from, to := r.IntN(plds), r.IntN(plds)
			row := linkRow{from: fmt.Appendf(nil, "http://www.site%d.example/%d", from, r.IntN(3)),
				to: fmt.Appendf(nil, "https://site%d.example:81/", to)}
			must(t, c.add(&row))
			if len(c.sums) >= c.limit {
				t.Fatalf("%d pairs in RAM, the limit is %d", len(c.sums), c.limit)
			}
			if from != to {
				want[[2]uint64{key(to), key(from)}]++
			}
		}
		must(t, c.sort())
		if round%2 == 0 {
			got := map[[2]uint64]uint64{}
			must(t, c.each(func(from, to, links uint64) error { got[[2]uint64{to, from}] += links; return nil }))
			if !maps.Equal(got, want) {
				t.Fatalf("round %d: %d pairs, want %d", round, len(got), len(want))
			}
			j.end(t)
			continue
		}
		stray := int64(0)
		edges := slices.AppendSeq([][2]uint64{{7, 7}, {key(0), 7}}, maps.Keys(want)) // two have no links
		slices.SortFunc(edges, func(a, b [2]uint64) int { return slices.Compare(a[:], b[:]) })
		for _, e := range edges {
			if want[e] > 0 && r.IntN(3) == 0 {
				stray++
				continue
			}
			if n, err := c.of(e[1], e[0]); err != nil || n != want[e] {
				t.Fatalf("round %d: %x has %d links, %v; want %d", round, e, n, err, want[e])
			}
		}
		if err := c.end(); err != nil || c.stray != stray || (stray > 0) != (len(j.report.Notes) > 0) {
			t.Fatalf("%v, %d pairs without an edge, want %d; notes %q", err, c.stray, stray, j.report.Notes)
		}
		j.end(t)
	}
}

// TestHostPLDs: the other PLDs that link to each host are counted once each, whatever number of pairs fits in RAM.
func TestHostPLDs(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 50 {
		j := &job{ctx: t.Context(), report: new(Report), opt: &Options{FS: memfs.New(1), TempDir: "tmp"},
			Reader: &state.Reader{
				Saved: &state.Saved{Hasher: weburl.NewHasher(weburl.Secret{1}), Suffixes: weburl.NewSuffixes(false)}}}
		h := newHostPLDs(j)
		h.limit = 1 + r.IntN(20)
		want := map[[2]uint64]map[int]bool{} // PLD, host
		plds := 1 + r.IntN(6)
		for range r.IntN(300) {
			from, to := r.IntN(plds), r.IntN(plds)
			host := fmt.Appendf(nil, "w%d.site%d.example", r.IntN(3), to)
			must(t, h.add(&linkRow{from: fmt.Appendf(nil, "http://www%d.site%d.example/", r.IntN(3), from),
				to: fmt.Appendf(nil, "https://%s:81/", host)}))
			if len(h.pairs) >= h.limit {
				t.Fatalf("round %d: %d pairs in RAM, the limit is %d", round, len(h.pairs), h.limit)
			}
			at := [2]uint64{j.PLDKey(host), j.Hasher.HostKey(host)}
			if want[at] == nil {
				want[at] = map[int]bool{}
			}
			if from != to {
				want[at][from] = true
			}
		}
		must(t, h.sort())
		for _, at := range slices.SortedFunc(maps.Keys(want),
			func(a, b [2]uint64) int { return slices.Compare(a[:], b[:]) }) {
			if r.IntN(4) == 0 {
				continue // a host without a URL that was visited
			}
			if n, err := h.of(at[0], at[1]); err != nil || n != int64(len(want[at])) {
				t.Fatalf("round %d: %d PLDs, %v; want %d", round, n, err, len(want[at]))
			}
		}
		j.end(t)
	}
}

// TestReversed: names of the graph of hosts.
func TestReversed(t *testing.T) {
	for host, want := range map[string]string{"www.example.co.uk": "uk.co.example.www", "a": "a", "": "",
		"192.0.2.1": "192.0.2.1", "[2001:db8::1]": "[2001:db8::1]"} {
		if got := string(reversed([]byte(host))); got != want || string(reversed([]byte(got))) != host {
			t.Errorf("%q is %q, want %q", host, got, want)
		}
	}
}

// TestGraph: nodes are numbered in the order of their names, repeated edges count once, and edges whose end has no
// name, because a repair has lost it, are left out and counted.
func TestGraph(t *testing.T) {
	for _, byTarget := range []bool{false, true} {
		j := &job{ctx: t.Context(), report: new(Report), opt: &Options{FS: memfs.New(1), TempDir: "tmp"},
			meter: new(state.ProgressMeter)}
		g := j.newGraph()
		for key, name := range map[uint64]string{1: "org.b", 2: "com.a", 3: "org.b.www"} {
			must(t, g.node(key, []byte(name)))
			must(t, g.node(key, []byte(name)))
		}
		for _, e := range [][2]uint64{{1, 2}, {3, 2}, {1, 2}, {1, 9}, {0, 2}, {2, 3}, {9, 9}} {
			must(t, g.arc(e[0], e[1]))
		}
		var names []string
		must(t, g.number(func(id int64, name []byte) error {
			names = append(names, fmt.Sprint(id, " ", string(name)))
			return nil
		}))
		if want := []string{"0 com.a", "1 org.b", "2 org.b.www"}; !slices.Equal(names, want) {
			t.Errorf("nodes %q, want %q", names, want)
		}
		var edges [][2]uint32
		must(t, g.edges(func(from, to uint32) error {
			edges = append(edges, [2]uint32{from, to})
			return nil
		}, byTarget))
		want := [][2]uint32{{0, 2}, {1, 0}, {2, 0}}
		if byTarget {
			want = [][2]uint32{{1, 0}, {2, 0}, {0, 2}}
		}
		if !slices.Equal(edges, want) || g.lost != 3 || len(j.report.Notes) != 1 {
			t.Errorf("edges %v, want %v; %d lost, notes %q", edges, want, g.lost, j.report.Notes)
		}
		must(t, g.nodes.Close())
		j.end(t)
	}
}
