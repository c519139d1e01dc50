package beast_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/queue"
)

// laneRig is a set of lanes whose owner keeps the ledgers in RAM.
type laneRig struct {
	t       *testing.T
	opt     beast.Options
	turns   beast.Turns
	l       *beast.Lanes
	gen     uint64 // of the last checkpoint
	ledgers map[string]*[beast.MaxLanes]beast.Ledger
}

func openLanes(t *testing.T, fs disk.FS, turns beast.Turns, st *beast.State) *laneRig {
	t.Helper()
	r := &laneRig{t: t,
		opt:   beast.Options{Set: disk.Set{FS: fs, Paths: []string{"a", "b"}}, QueuesMax: 64, BlockBytes: 512},
		turns: turns, ledgers: map[string]*[beast.MaxLanes]beast.Ledger{}}
	var err error
	if r.l, err = beast.OpenLanes(r.opt, turns, st); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.l.Close() })
	return r
}

// put places a URL of a PLD. Its record is the PLD, the lane and the name.
func (r *laneRig) put(pld string, lane int, name string, budget uint32) beast.Number {
	r.t.Helper()
	defer r.l.Pin()()
	if r.ledgers[pld] == nil {
		r.ledgers[pld] = new([beast.MaxLanes]beast.Ledger)
	}
	n := r.l.Place(lane, &r.ledgers[pld][lane], budget)
	if err := r.l.Append(lane, n, fmt.Appendf(nil, "%s %d %s", pld, lane, name)); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// take reads a record; ok is false if there is none.
func (r *laneRig) take() (pld string, lane int, name string, ok bool) {
	r.t.Helper()
	rec, ok, err := r.l.Peek()
	if err != nil {
		r.t.Fatal(err)
	}
	if !ok {
		return "", 0, "", false
	}
	if _, err := fmt.Sscan(string(rec), &pld, &lane, &name); err != nil {
		r.t.Fatal(err)
	}
	r.l.Advance()
	return pld, lane, name, true
}

// scan places all URLs of QF again.
func (r *laneRig) scan(budget uint32) {
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
		var pld, name string
		var lane int
		_, _ = fmt.Sscan(string(rec), &pld, &lane, &name)
		r.put(pld, lane, name, budget)
		r.l.ScanAdvance()
	}
	if err := r.l.EndScan(); err != nil {
		r.t.Fatal(err)
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		weights []uint32
		budget  uint32
		want    []uint32
	}{
		{nil, 10, []uint32{10}}, {[]uint32{8, 4, 2, 1}, 10, []uint32{5, 3, 1, 1}},
		{[]uint32{8, 4, 2, 1}, 0, []uint32{0, 0, 0, 0}}, {[]uint32{8, 4, 2, 1}, 1, []uint32{1, 1, 1, 1}},
		{[]uint32{8, 4, 2, 1}, 15000, []uint32{8000, 4000, 2000, 1000}},
		{[]uint32{1, 1, 1}, beast.Unbounded, []uint32{beast.Unbounded, beast.Unbounded, beast.Unbounded}},
		{[]uint32{65536, 1}, 1<<24 - 1, []uint32{16776959, 256}},
	} {
		turns := beast.Turns{Weights: c.weights}
		for lane, want := range c.want {
			if got := turns.Share(lane, c.budget); got != want {
				t.Errorf("share of lane %d with weights %v in %d: %d, want %d", lane, c.weights, c.budget, got, want)
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 { // the shares add up to the budget
		turns := beast.Turns{Weights: make([]uint32, 2+r.IntN(7))}
		for i := range turns.Weights {
			turns.Weights[i] = 1 + r.Uint32N(100)
		}
		budget, sum, least := 1+r.Uint32N(1<<24-1), uint32(0), uint32(0)
		for lane := range turns.Weights {
			share := turns.Share(lane, budget)
			if sum += share; share == 1 {
				least++
			}
		}
		if sum < budget || sum > budget+least {
			t.Fatalf("weights %v: shares of %d add up to %d", turns.Weights, budget, sum)
		}
	}
}

// TestWeights: while all lanes have records they are read by their weights, in a fixed order; a lane without records
// gives its turns to the others; each lane is first in, first out.
func TestWeights(t *testing.T) {
	for _, free := range []bool{false, true} {
		r := openLanes(t, memfs.New(1), beast.Turns{Weights: []uint32{8, 4, 2, 1}, Free: free}, nil)
		for i := range 120 {
			for lane := range 4 {
				r.put("a.test", lane, fmt.Sprint(i), 10_000)
			}
		}
		var read, next [4]int
		order := ""
		for i := range 480 {
			_, lane, name, ok := r.take()
			if !ok {
				t.Fatalf("free %t: no record after %d", free, i)
			}
			if name != fmt.Sprint(next[lane]) {
				t.Fatalf("free %t: record %s of lane %d, want %d", free, name, lane, next[lane])
			}
			next[lane]++
			read[lane]++
			order += fmt.Sprint(lane)
			if i == 149 && read != [4]int{80, 40, 20, 10} {
				t.Errorf("free %t: %v of the first 150 records, want 80, 40, 20, 10", free, read)
			}
		}
		if _, _, _, ok := r.take(); ok || r.l.Waiting() != beast.Empty {
			t.Errorf("free %t: more records than were put", free)
		}
		if order[:15] != order[15:30] || strings.Contains(order[:30], "000") {
			t.Errorf("free %t: order %s, want a period of 15 in which no lane has long runs", free, order[:30])
		}
	}
}

// TestRounds: a PLD that has URLs in one lane only gets its share of the lane in each round, however few the others
// are; with Free the lane continues alone.
func TestRounds(t *testing.T) {
	for _, free := range []bool{false, true} {
		r := openLanes(t, memfs.New(1), beast.Turns{Weights: []uint32{8, 2}, Free: free}, nil)
		for i := range 40 {
			r.put("spam.test", 0, fmt.Sprint(i), 10)
		}
		for pld := range 50 { // many PLDs in the other lane
			r.put(fmt.Sprintf("p%d.test", pld), 1, "x", 10)
		}
		spam := 0
		for range 58 {
			pld, _, _, ok := r.take()
			if !ok {
				break
			}
			if pld == "spam.test" {
				spam++
			}
			if r.l.ScanDue() {
				r.scan(10)
			}
		}
		if !free && spam != 8 || free && spam <= 8 {
			t.Errorf("free %t: a PLD in the better lane alone has %d of the URLs of a round", free, spam)
		}
	}
}

// A property: whatever is put and read, a queue of a lane holds of a PLD no more than the lane's share of its budget, a
// round gives a PLD no more than its budget (or a page a lane), all URLs come out, and a crash continues at the last
// checkpoint.
func TestLanesProperty(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(*seedFlag+seed, 7))
		turns := beast.Turns{Weights: make([]uint32, 2+rnd.IntN(4))}
		for i := range turns.Weights {
			turns.Weights[i] = 1 + rnd.Uint32N(9)
		}
		r := openLanes(t, memfs.New(seed), turns, nil)
		budgets := map[string]uint32{"a.test": 1, "b.test": 3, "c.test": 12}
		plds := []string{"a.test", "b.test", "c.test"}
		filled := map[string]uint32{} // by PLD, lane and queue
		given := map[string]uint32{}  // by PLD and round
		placed := func(pld string, lane int, n beast.Number) {
			if n == beast.OverBudget {
				return
			}
			key := fmt.Sprint(pld, lane, n)
			if filled[key]++; filled[key] > turns.Share(lane, budgets[pld]) {
				t.Fatalf("seed %d: queue %d of lane %d has %d URLs of %s, whose share is %d of %d", seed, n, lane,
					filled[key], pld, turns.Share(lane, budgets[pld]), budgets[pld])
			}
		}
		put, taken := 0, map[string]int{}
		for put < 600 || len(taken) < put {
			if put < 600 && rnd.IntN(3) > 0 {
				pld, lane := plds[rnd.IntN(3)], rnd.IntN(len(turns.Weights))
				placed(pld, lane, r.put(pld, lane, fmt.Sprint(put), budgets[pld]))
				put++
				continue
			}
			pld, _, name, ok := r.take()
			if ok {
				taken[name]++
				key := fmt.Sprint(pld, r.l.Round())
				if given[key]++; given[key] > inRound(&turns, budgets[pld]) {
					t.Fatalf("seed %d: %d URLs of %s in round %d, budget %d", seed, given[key], pld,
						r.l.Round(), budgets[pld])
				}
			}
			if r.l.ScanDue() || !ok && put == 600 {
				r.rescan(rnd, func(pld, name string, lane int) {
					placed(pld, lane, r.put(pld, lane, name, budgets[pld]))
				})
			}
			if rnd.IntN(100) == 0 {
				r = r.restart()
			}
		}
		for name, n := range taken {
			if n != 1 {
				t.Fatalf("seed %d: %s came out %d times", seed, name, n)
			}
		}
	}
}

// rescan reads the failed queue. It skips one in four URLs, as if their hosts had enough.
func (r *laneRig) rescan(rnd *rand.Rand, place func(pld, name string, lane int)) {
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
		if rnd.IntN(4) == 0 { // its host has enough: the next scan has it again
			if _, err := r.l.ScanKeep(1+rnd.IntN(9), func([]byte) bool { return rnd.IntN(4) > 0 }); err != nil {
				r.t.Fatal(err)
			}
			continue
		}
		var pld, name string
		var lane int
		_, _ = fmt.Sscan(string(rec), &pld, &lane, &name)
		place(pld, name, lane)
		r.l.ScanAdvance()
	}
	if err := r.l.EndScan(); err != nil {
		r.t.Fatal(err)
	}
}

// inRound returns the most URLs of a PLD that a round may have.
func inRound(turns *beast.Turns, budget uint32) (n uint32) {
	for lane := range turns.Weights {
		n += turns.Share(lane, budget)
	}
	return n
}

// restart saves a checkpoint, crashes, and opens the lanes in its state, as a manifest has it.
func (r *laneRig) restart() *laneRig {
	r.t.Helper()
	fs := r.opt.Set.FS.(*memfs.FS)
	st := r.save()
	if err := fs.SyncFS("."); err != nil {
		r.t.Fatal(err)
	}
	if err := r.l.Close(); err != nil {
		r.t.Fatal(err)
	}
	again := openLanes(r.t, fs.Crash(), r.turns, st)
	again.ledgers, again.gen = r.ledgers, r.gen
	return again
}

func (r *laneRig) save() *beast.State {
	r.t.Helper()
	f := r.l.Freeze()
	r.gen++
	tails, err := disk.CreateTails(r.opt.Set, r.gen)
	if err != nil {
		r.t.Fatal(err)
	}
	st, err := f.Save(tails)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := tails.Close(); err != nil {
		r.t.Fatal(err)
	}
	if err := f.Commit(); err != nil {
		r.t.Fatal(err)
	}
	data, err := json.Marshal(st)
	if err != nil {
		r.t.Fatal(err)
	}
	st = new(beast.State)
	if err := json.Unmarshal(data, st); err != nil {
		r.t.Fatal(err)
	}
	return st
}

// TestOneLane: the state and the files of one lane are those of a Beast, and either opens the other's state.
func TestOneLane(t *testing.T) {
	fs := memfs.New(1)
	r := openLanes(t, fs, beast.Turns{}, nil)
	for i := range 30 {
		r.put("a.test", 0, fmt.Sprint(i), 10)
	}
	st := r.save()
	data, err := json.Marshal(st)
	if err != nil || strings.Contains(string(data), "More") || strings.Contains(string(data), "Turns") || st.V != 1 {
		t.Errorf("state of one lane %s, %v", data, err)
	}
	_ = r.l.Close()
	b, err := beast.Open(r.opt, st)
	must(t, err)
	defer b.Close()
	if rec, ok, err := b.Peek(); !ok || err != nil || string(rec) != "a.test 0 0" {
		t.Errorf("first record %q, %t, %v", rec, ok, err)
	}
}

// TestLanesState: states with other lanes are refused, and Scan, Files and EachQueue know all lanes.
func TestLanesState(t *testing.T) {
	fs := memfs.New(1)
	r := openLanes(t, fs, beast.Turns{Weights: []uint32{3, 2, 1}}, nil)
	want := map[string]int{}
	for i := range 600 {
		r.put("a.test", i%3, fmt.Sprint(i), 600)
		want[fmt.Sprintf("a.test %d %d", i%3, i)] = i % 3
	}
	st := r.save()
	got := map[string]int{}
	if _, _, err := beast.Scan(r.opt.Set, "beast", st, func(lane int, _ beast.Number, rec []byte) error {
		got[string(rec)] = lane
		return nil
	}, nil); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("scan: %v, %v", got, err)
	}
	if files := strings.Join(beast.Files(r.opt.Set, "beast", st), " "); !strings.Contains(files, "/beast-2/") ||
		!strings.Contains(files, "/beast/") {
		t.Errorf("files %s", files)
	}
	names := 0
	if err := beast.EachQueue("beast", st, func(_ string, _ beast.Number, q *queue.State) (*queue.State, error) {
		names++
		return q, nil
	}); err != nil || names < 6 {
		t.Error(err)
	}
	moved, ok := r.l.Replace(5)
	if !ok || moved == 0 || r.l.Epoch() != 5 || !r.l.Moving() {
		t.Errorf("Replace: %d URLs, %t", moved, ok)
	}
	for _, turns := range []beast.Turns{{}, {Weights: []uint32{1, 1}}, {Weights: []uint32{1, 1, 1, 1}}} {
		if _, err := beast.OpenLanes(r.opt, turns, st); err == nil || !strings.Contains(err.Error(), "3 lanes") {
			t.Errorf("%d weights: %v", len(turns.Weights), err)
		}
	}
	for name, spoil := range map[string]func(*beast.State){
		"version": func(s *beast.State) { s.V = 1 }, "turns": func(s *beast.State) { s.Turns = nil },
		"epoch":   func(s *beast.State) { s.More[0].Epoch = 9 },
		"nested":  func(s *beast.State) { s.More[0].More = make([]beast.State, 1) },
		"credits": func(s *beast.State) { s.Turns.Credits[0] = 1 << 40 },
	} {
		bad := *st
		bad.More = append([]beast.State(nil), st.More...)
		bad.Turns = &beast.TurnsState{Open: st.Turns.Open, Credits: append([]int64(nil), st.Turns.Credits...)}
		spoil(&bad)
		if _, err := beast.OpenLanes(r.opt, r.turns, &bad); err == nil {
			t.Errorf("a state with a bad %s is accepted", name)
		}
	}
	if _, err := beast.Open(r.opt, st); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("one BEAST opens the state of lanes: %v", err)
	}
}
