package budget

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"drumbeat/bench/benchtest"
	"drumbeat/disk"
)

func smallStar(t *testing.T) Star {
	t.Helper()
	o := Star{Dirs: []string{t.TempDir()}, PLDs: 500, Edges: 5000, Unique: 0.4, Neighbours: 3000, Checks: 20_000,
		RAMBytes: 4 << 20, Repeats: 1, Seed: *beastSeed + 1}
	must(t, o.Complete())
	return o
}

// TestStarWeb: every pair occurs, no PLD links to itself, and the in-degrees equal those that a map counts.
func TestStarWeb(t *testing.T) {
	for _, kind := range starCases {
		o := smallStar(t)
		w := newStarWeb(&o, kind, 1)
		type pair struct {
			from uint64
			to   uint32
		}
		pairs, degrees := map[pair]int{}, make([]uint32, o.PLDs)
		for range w.links + 100 {
			from, to := w.next()
			if p := (pair{from, to}); pairs[p] == 0 {
				degrees[to]++
			}
			pairs[pair{from, to}]++
			if from == uint64(to) || from >= w.universe {
				t.Fatalf("%s: got a pair of %d and %d", kind, from, to)
			}
		}
		if int64(len(pairs)) != w.pairs || !slices.Equal(degrees, w.seen) || !slices.Equal(degrees, w.degrees) {
			t.Errorf("%s: got %d pairs, want %d, or other in-degrees", kind, len(pairs), w.pairs)
		}
		most := 0
		for _, n := range pairs {
			most = max(most, n)
		}
		if share := float64(most) / float64(w.links); (kind == caseOneKey) != (share > 0.85) {
			t.Errorf("%s: one pair has a share of %.2f", kind, share)
		}
		urls := make([]int, o.PLDs)
		for range 10_000 {
			urls[w.url()]++
		}
		if share := float64(slices.Max(urls)) / 10_000; kind == caseOneKey && share < 0.88 ||
			kind == caseUniform && share > 0.02 {
			t.Errorf("%s: one PLD has a share of %.2f of the URLs", kind, share)
		}
		switch largest := slices.Max(degrees); kind {
		case caseGiant:
			if largest != 3000 || degrees[0] != 3000 {
				t.Errorf("got %d in-neighbours of the giant, want 3000", degrees[0])
			}
		case casePower:
			if largest != degrees[0] || largest < 20*degrees[400] ||
				!slices.IsSortedFunc(degrees, func(a, b uint32) int { return int(b) - int(a) }) {
				t.Errorf("got no power law: %d to %d", largest, degrees[499])
			}
		}
	}
}

// TestPLDNumber: pldNumber inverts pldKey.
func TestPLDNumber(t *testing.T) {
	for n := uint32(1); n < 1<<31; n = n*3 + 1 {
		if got := pldNumber(pldKey(n)); got != n {
			t.Fatalf("got %d, want %d", got, n)
		}
	}
}

// TestStarBudgets: tied PLDs get the budget of the lowest of their ranks, and those tied with rank K+1 get
// B0.
func TestStarBudgets(t *testing.T) {
	w := &starWeb{seen: make([]uint32, 500)} // K = 5, top = 50
	copy(w.seen, []uint32{9, 7, 7, 5, 3, 3})
	got := w.budgets()
	if want := []uint32{50, 34, 34, 26, 10, 10, 10}; !slices.Equal(got[:7], want) {
		t.Errorf("got %d, want %d", got[:7], want)
	}
}

// TestRunStar: at a small size all checks except rates pass, and no file remains.
func TestRunStar(t *testing.T) {
	o := smallStar(t)
	r, err := o.Measure(context.Background(), func(string) {})
	must(t, err)
	text := benchtest.Text(t, r)
	for _, c := range r.Checks {
		if !c.OK() && c.Unit != "x" {
			t.Errorf("%s", c)
		}
	}
	if len(r.Checks) != 9 || len(r.Lines) != 2*len(starCases) {
		t.Errorf("got\n%s", text)
	}
	benchtest.Has(t, text, "BenchmarkStarUpdate/case=giant ", "BenchmarkStarCheck/case=onekey ")
	benchtest.Empty(t, o.Dirs[0])
}

// TestStarRunSeesErrors: wrong in-degrees and budgets are detected.
func TestStarRunSeesErrors(t *testing.T) {
	o := smallStar(t)
	run := &starRun{kind: caseGiant, opt: &o, web: newStarWeb(&o, caseGiant, 1)}
	set := disk.Set{FS: disk.OS(), Paths: o.Dirs}
	if err := run.measure(context.Background(), set); err != nil || run.wrongDegrees != 0 || run.wrongBudgets != 0 {
		t.Fatalf("got %v, %d and %d wrong", err, run.wrongDegrees, run.wrongBudgets)
	}
	if run.largest != 3000 || run.update.passes == 0 || run.update.disk == 0 || run.check.disk == 0 || run.bits <= 0 {
		t.Errorf("got %+v", run)
	}

	o.Dirs = []string{t.TempDir()}
	again, set, ctx := &starRun{kind: caseGiant, opt: &o, web: newStarWeb(&o, caseGiant, 1)},
		disk.Set{FS: disk.OS(), Paths: o.Dirs}, t.Context()
	if _, err := again.open(ctx, set); err != nil {
		t.Fatal(err)
	}
	defer again.star.Close()
	must(t, again.updates(ctx))
	again.star.Refresh()
	copy(again.expect, again.web.budgets())
	again.expect[0]++
	again.web.seen[3]++
	again.web.seen = append(again.web.seen, 1)
	must(t, errors.Join(again.checked(ctx), again.verify(set)))
	// The giant has 3000 of the 7500 pairs and the same share of the URLs.
	if n := again.wrongBudgets; again.wrongDegrees != 2 || n < again.answered/4 || n > again.answered/2 {
		t.Errorf("got %d wrong in-degrees and %d wrong budgets of %d, want 2 and two fifths", again.wrongDegrees, n,
			again.answered)
	}
}

// TestRunStarStops: a cancelled measurement returns an error and leaves no files.
func TestRunStarStops(t *testing.T) {
	o := smallStar(t)
	ctx, cancel := context.WithCancel(context.Background())
	progress := func(what string) {
		if strings.HasPrefix(what, caseGiant) {
			cancel()
		}
	}
	if _, err := o.Measure(ctx, progress); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it cancelled", err)
	}
	benchtest.Empty(t, o.Dirs[0])
}

func TestStarValidate(t *testing.T) {
	err := (&Star{PLDs: 1, Edges: -1, Unique: 2, Neighbours: -1, Checks: 1, RAMBytes: 1, Repeats: -1}).Complete()
	if err == nil || strings.Count(err.Error(), "\n") != 7 {
		t.Errorf("got %v, want 8 faults", err)
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
