package beast_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"drumbeat/beast"
	"drumbeat/disk/memfs"
)

// putClass places a URL of a class of the only PLD.
func (r *laneRig) putClass(lane int, ledgers []beast.Ledger, class int, budget uint32) beast.Number {
	r.t.Helper()
	defer r.l.Pin()()
	n := r.l.PlaceClass(lane, ledgers, class, budget)
	if err := r.l.Append(lane, n, fmt.Appendf(nil, "pld %d %d", lane, class)); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// again scans QF and places its URLs.
func (r *laneRig) again(place func(lane, class int)) {
	r.t.Helper()
	if err := r.l.StartScan(); err != nil {
		r.t.Fatal(err)
	}
	for {
		rec, ok, err := r.l.ScanPeek()
		if err != nil {
			r.t.Fatal(err)
		}
		if !ok {
			break
		}
		var lane, class int
		if _, err := fmt.Sscanf(string(rec), "pld %d %d", &lane, &class); err != nil {
			r.t.Fatal(err)
		}
		place(lane, class)
		r.l.ScanAdvance()
	}
	if err := r.l.EndScan(); err != nil {
		r.t.Fatal(err)
	}
}

// TestClasses: exact placements of four classes.
func TestClasses(t *testing.T) {
	r := openLanes(t, memfs.New(1), beast.Turns{}, nil)
	ledgers := make([]beast.Ledger, 4)
	const QF = beast.OverBudget
	for i, c := range []struct {
		class int
		times int
		want  beast.Number
	}{
		{0, 10, 1}, // alone: all of the budget
		{0, 1, QF}, // the horizon is 1
		{3, 1, QF}, // begins after the others, so that it counts
	} {
		for range c.times {
			if n := r.putClass(0, ledgers, c.class, 10); n != c.want {
				t.Fatalf("step %d: a URL of class %d goes to queue %d, want %d", i, c.class, n, c.want)
			}
		}
	}
	for range 10 { // queue 1
		if _, _, _, ok := r.take(); !ok {
			t.Fatal("queue 1 has fewer records")
		}
	}
	// Of 10 pages, 2 classes get 1 + 8/9 and 1 + 64/9. Class 0 comes first and leaves the rest of queue 2 free.
	for _, c := range []struct {
		class, fits int
	}{{0, 1}, {3, 8}, {1, 0}} {
		for i := range c.fits + 1 {
			want := beast.Number(2)
			if i == c.fits {
				want = QF
			}
			if n := r.putClass(0, ledgers, c.class, 10); n != want {
				t.Fatalf("URL %d of class %d goes to queue %d, want %d", i, c.class, n, want)
			}
		}
	}
	// A budget of fewer pages than classes: one for each of the highest that have URLs in queues.
	for range 9 {
		r.take()
	}
	for _, c := range []struct {
		class int
		want  beast.Number
	}{{3, 3}, {3, QF}, {0, 3}, {0, QF}, {1, QF}, {2, QF}} {
		if n := r.putClass(0, ledgers, c.class, 2); n != c.want {
			t.Fatalf("budget 2: a URL of class %d goes to queue %d, want %d", c.class, n, c.want)
		}
	}
}

// TestClassesAllEnd: if no class has URLs in queues, each class has place in the next one, whatever the budget.
func TestClassesAllEnd(t *testing.T) {
	for budget := range uint32(4) {
		r := openLanes(t, memfs.New(1), beast.Turns{}, nil)
		ledgers := make([]beast.Ledger, 4)
		for _, class := range []int{3, 2, 1, 0, 0, 3, 1, 0, 2, 0} {
			n := r.putClass(0, ledgers, class, budget+1)
			if n == beast.OverBudget {
				t.Fatalf("budget %d: no place for class %d", budget+1, class)
			}
			if _, _, _, ok := r.take(); !ok {
				t.Fatalf("budget %d: queue %d is empty", budget+1, n)
			}
		}
	}
}

// TestClassesAlone: a class alone is placed exactly as a PLD without classes.
func TestClassesAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(*seedFlag, 1))
	a, b := openLanes(t, memfs.New(1), beast.Turns{}, nil), openLanes(t, memfs.New(1), beast.Turns{}, nil)
	ledgers := make([]beast.Ledger, 4)
	for i := range 2000 {
		if rng.IntN(3) == 0 {
			a.take()
			b.take()
			continue
		}
		budget := uint32(1 + rng.IntN(3))
		if x, y := a.putClass(0, ledgers, 2, budget), b.put("pld", 0, "2", budget); x != y {
			t.Fatalf("step %d: queue %d with classes, %d without", i, x, y)
		}
		if i%100 == 99 {
			a.again(func(int, int) { a.putClass(0, ledgers, 2, budget) })
			b.again(func(int, int) { b.put("pld", 0, "2", budget) })
		}
	}
}

// TestClassesBound: of a PLD a queue holds at most the largest budget in force while it was filled, whatever the
// classes do.
func TestClassesBound(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(*seedFlag, seed))
		turns := beast.Turns{}
		if seed%3 == 0 {
			turns.Weights = []uint32{3, 1}
		}
		r := openLanes(t, memfs.New(1), turns, nil)
		ledgers := [2][]beast.Ledger{make([]beast.Ledger, 4), make([]beast.Ledger, 4)}
		type queue struct {
			lane int
			n    beast.Number
		}
		records, most := map[queue]uint32{}, map[queue]uint32{}
		budget, classes, epoch := uint32(12), 1, uint32(0)
		put := func(lane, class int) {
			n := r.putClass(lane, ledgers[lane], class, budget)
			if n == beast.OverBudget {
				return
			}
			q := queue{lane, n}
			records[q]++
			if most[q] = max(most[q], turns.Share(lane, budget)); records[q] > most[q] {
				t.Fatalf("seed %d: queue %d of lane %d has %d URLs of the PLD, budget %d", seed, n, lane, records[q],
					most[q])
			}
		}
		for range 6000 {
			switch rng.IntN(400) {
			case 0:
				budget = 1 + uint32(rng.IntN(40))
			case 1:
				classes = 1 + rng.IntN(15) // a set of classes
			case 2:
				epoch++
				if _, ok := r.l.Replace(epoch); !ok {
					t.Fatal("Replace while nothing is pinned")
				}
				for {
					_, ok, err := r.l.MovedPeek()
					if err != nil {
						t.Fatal(err)
					}
					if !ok {
						break
					}
					r.l.MovedAdvance()
				}
			case 3, 4, 5:
				r.again(put)
			}
			class, lane := rng.IntN(4), rng.IntN(max(1, len(turns.Weights)))
			if classes>>class&1 == 0 || rng.IntN(3) == 0 {
				r.take()
				continue
			}
			put(lane, class)
		}
	}
}
