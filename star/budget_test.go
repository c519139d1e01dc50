package star

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

func completed(t *testing.T, b Budgets) Budgets {
	t.Helper()
	if err := b.complete(); err != nil {
		t.Fatal(err)
	}
	return b
}

// falling returns n distinct in-degrees in ascending order.
func falling(n int, smallest uint32) []uint32 {
	d := make([]uint32, n)
	for i := range d {
		d[i] = smallest + uint32(n-1-i)
	}
	return d
}

// The paper's crawl: 33 million PLDs; budgets fall linearly from 10,000 to 10 over the first 10,000 ranks.
func TestPaperBudgets(t *testing.T) {
	c := newCurve(completed(t, Budgets{}), 33e6, falling(10_001, 100))
	if c.k != 10_000 || c.top != 10_000 || c.scale != 1 {
		t.Fatalf("got K %d, top %g, scale %g, want 10000, 10000, 1", c.k, c.top, c.scale)
	}
	for _, tc := range []struct{ degree, want uint32 }{
		{10_100, 10_000}, // rank 1
		{99_999, 10_000}, // has risen above rank 1 since
		{10_099, 9999},
		{5_101, 5006}, // rank 5000
		{101, 11},     // rank 10000
		{100, 10},     // rank 10001
		{50, 10}, {1, 10}, {0, 10},
	} {
		nominal, pages := c.budgets(tc.degree)
		if nominal != tc.want || pages != tc.want {
			t.Errorf("in-degree %d: got %d, %d, want %d", tc.degree, nominal, pages, tc.want)
		}
	}
}

func TestSmallCrawls(t *testing.T) {
	for _, tc := range []struct {
		plds       int64
		k          int
		top, scale float64
	}{
		{0, 0, 10, 1000}, {1, 0, 10, 1000}, {50, 0, 10, 20}, {500, 5, 50, 2}, {1000, 10, 100, 1},
		{10_000, 100, 1000, 1}, {1_000_000, 10_000, 10_000, 1}, {33_000_000, 10_000, 10_000, 1},
	} {
		c := newCurve(completed(t, Budgets{}), tc.plds, falling(10_001, 1))
		if c.k != tc.k || c.top != tc.top || c.scale != tc.scale {
			t.Errorf("V = %d: got K %d, top %g, scale %g, want %d, %g, %g", tc.plds, c.k, c.top, c.scale, tc.k,
				tc.top, tc.scale)
		}
	}
	// Scaling changes the pages per queue, not the nominal budget, which politeness uses.
	c := newCurve(completed(t, Budgets{}), 500, []uint32{9, 8, 7, 6, 5, 4})
	if nominal, pages := c.budgets(9); nominal != 50 || pages != 100 {
		t.Errorf("rank 1 of 500: got %d, %d, want 50, 100", nominal, pages)
	}
	if nominal, pages := c.budgets(0); nominal != 10 || pages != 20 {
		t.Errorf("others of 500: got %d, %d, want 10, 20", nominal, pages)
	}
	c = newCurve(completed(t, Budgets{QueuePages: Unscaled}), 1, nil)
	if _, pages := c.budgets(0); pages != 10 {
		t.Errorf("unscaled: got %d, want 10", pages)
	}
}

// PLDs of equal in-degree must get equal budgets. PLDs tied with ranks beyond K get B0.
func TestTies(t *testing.T) {
	c := newCurve(completed(t, Budgets{}), 400, []uint32{9, 7, 7, 5, 5})
	for _, tc := range []struct{ degree, want uint32 }{{9, 40}, {8, 33}, {7, 25}, {6, 18}, {5, 10}, {4, 10}} {
		if got, _ := c.budgets(tc.degree); got != tc.want {
			t.Errorf("in-degree %d: got %d, want %d", tc.degree, got, tc.want)
		}
	}
}

func TestOtherFunctions(t *testing.T) {
	degrees := []uint32{9, 7, 5, 3}
	for _, tc := range []struct {
		f       Function
		degrees []uint32
		degree  uint32
		want    uint32
	}{
		{Equal, degrees, 9, 10}, {Equal, degrees, 0, 10},
		{Popular, degrees, 9, 30}, {Popular, degrees, 5, 30}, {Popular, degrees, 3, 0}, {Popular, degrees, 0, 0},
		{Popular, nil, 0, 10}, {Popular, []uint32{1, 1, 1, 1}, 1, 10},
		{Proportional, degrees, 0, 10}, {Proportional, degrees, 2, 10}, {Proportional, degrees, 5, 17},
		{Proportional, degrees, 9, 30}, {Proportional, degrees, 1 << 31, 30}, {Proportional, nil, 5, 10},
		{Inverse, degrees, 0, 30}, {Inverse, degrees, 2, 10}, {Inverse, degrees, 1000, 1},
	} {
		c := newCurve(completed(t, Budgets{Function: tc.f, QueuePages: Unscaled}), 300, tc.degrees)
		if got, _ := c.budgets(tc.degree); got != tc.want {
			t.Errorf("%v, in-degree %d of %v: got %d, want %d", tc.f, tc.degree, tc.degrees, got, tc.want)
		}
	}
	for _, name := range []string{"paper", "equal", "popular", "inverse", "proportional"} {
		if f, err := ParseFunction(name); err != nil || f.String() != name {
			t.Errorf("ParseFunction(%s): got %v, %v", name, f, err)
		}
	}
	if _, err := ParseFunction("x"); err == nil {
		t.Error("ParseFunction(x): got nil, want an error")
	}
}

func TestValidate(t *testing.T) {
	for _, b := range []Budgets{{Function: 9}, {Default: 20, Max: 10}, {Max: MaxBudget + 1}, {Ranks: -1},
		{QueuePages: -2}} {
		if b.Validate() == nil {
			t.Errorf("%+v: got nil, want an error", b)
		}
	}
}

// The ranking must hold the largest of values that only grow.
func TestRanking(t *testing.T) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 1))
	r := newRanking(50)
	all := map[uint64]uint64{}
	for range 20_000 {
		pld := uint64(rng.IntN(1000))
		all[pld] += uint64(rng.IntN(3))
		r.set(pld, all[pld])
	}
	var want []uint64
	for _, d := range all {
		want = append(want, d)
	}
	slices.Sort(want)
	slices.Reverse(want)
	got := r.sorted()
	if len(got) != 50 {
		t.Fatalf("got %d, want 50", len(got))
	}
	for i, p := range got {
		if p.Value != want[i] || all[p.PLD] != p.Value {
			t.Errorf("seed %d: rank %d: got %+v, want value %d", seed, i+1, p, want[i])
		}
	}
	coded := appendRanking(nil, got, []uint32{3, 2})
	ranked, degrees, err := decodeRanking(coded)
	if err != nil || !slices.Equal(ranked, got) || !slices.Equal(degrees, []uint32{3, 2}) {
		t.Errorf("decoded: got %v, %v, %v", ranked, degrees, err)
	}
	for n := range len(coded) {
		if _, _, err := decodeRanking(coded[:n]); err == nil {
			t.Errorf("decoded %d of %d bytes: got nil, want an error", n, len(coded))
		}
	}
}

func TestRecordCoding(t *testing.T) {
	p := PLD{Indegree: 1, FirstSeen: 0x02030405, Placed: 6, Fetched: 7, Bytes: 8}
	p.Ledger[0], p.Ledger[15] = 0xaa, 0xbb
	want := "01000000" + "05040302" + "aa0000000000000000000000000000bb" + "06000000" + "07000000" + "0800000000000000"
	b := p.Append(nil)
	if got := hex.EncodeToString(b); got != want || len(b) != RecordBytes {
		t.Errorf("coding: got %s, want %s", got, want)
	}
	var q PLD
	if q.Decode(b); !reflect.DeepEqual(q, p) {
		t.Errorf("decoded: got %+v, want %+v", q, p)
	}
	if b := appendEdges(nil, 0x0102); !bytes.Equal(b, []byte{1, 2, 1, 0, 0}) {
		t.Errorf("edges: got %x", b)
	}
	if b := appendFetched(nil, 3, 4); !bytes.Equal(b, []byte{2, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("fetched: got %x", b)
	}
	q.Placed = 1<<32 - 2
	for range 3 {
		addSaturated(&q.Placed, 1)
	}
	if q.Placed != 1<<32-1 {
		t.Errorf("saturated count: got %d", q.Placed)
	}
}

// TestBudgetsWithoutSearch checks that the shortcut for low in-degrees gives the budgets of the function,
// for any known in-degrees.
func TestBudgetsWithoutSearch(t *testing.T) {
	for f := Paper; f <= Proportional; f++ {
		for _, degrees := range [][]uint32{nil, {3}, {9, 9, 7, 7, 7, 2}, {5, 5, 5, 5, 5, 5, 5},
			{8, 6, 4, 4, 4, 4, 4}, {9, 8, 7, 6, 5, 4, 3}} {
			for _, plds := range []int64{0, 50, 400, 600} {
				c := newCurve(Budgets{Function: f, Default: 10, Max: 1000, Ranks: 6, QueuePages: 10_000}, plds, degrees)
				for d := range uint32(12) {
					nominal, pages := c.budgets(d)
					if n, p := c.compute(d); n != nominal || p != pages {
						t.Errorf("%v, %d PLDs, %d known, in-degree %d: got %d, %d, want %d, %d", f, plds, degrees,
							d, nominal, pages, n, p)
					}
				}
			}
		}
	}
}

// TestEdgeForm checks the example of docs/reference/files/star.md. Key and value must give both ends of an edge,
// also for an edge and its reverse.
func TestEdgeForm(t *testing.T) {
	e := Edge{From: 0x0102030405060708, To: 0x1112131415161718}
	if got := e.key(); got != 0x1704620807e983f0 {
		t.Errorf("key of %x: got %x", e, got)
	}
	for _, e := range []Edge{e, {From: e.To, To: e.From}, {To: 1}, {From: 1}, {From: 1<<64 - 1, To: 1<<64 - 1}} {
		if got := decodeEdge(e.key(), binary.LittleEndian.AppendUint64(nil, e.To)); got != e {
			t.Errorf("got %x, want %x", got, e)
		}
	}
}
