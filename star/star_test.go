package star_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/star"
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 = from the clock")
	longFlag = flag.Bool("long", false, "run the random tests for longer")
)

// model holds the expected state in maps and slices. A check is a number; checks has its PLD.
type model struct {
	edges    map[star.Edge]bool
	checks   map[uint32]uint64   // PLD of every check
	answered map[uint32]int64    // queue number of each answered check
	order    map[uint64][]uint32 // checks of each PLD in order of arrival
	fetched  map[uint64][2]int64 // pages, bytes
	seen     map[uint64]bool     // PLDs that must have a record
}

func newModel() *model {
	return &model{edges: map[star.Edge]bool{}, checks: map[uint32]uint64{}, answered: map[uint32]int64{},
		order: map[uint64][]uint32{}, fetched: map[uint64][2]int64{}, seen: map[uint64]bool{}}
}

func (m *model) clone() *model {
	c := newModel()
	for e := range m.edges {
		c.edges[e] = true
	}
	for n, pld := range m.checks {
		c.checks[n] = pld
	}
	for n, at := range m.answered {
		c.answered[n] = at
	}
	for pld, o := range m.order {
		c.order[pld] = slices.Clone(o)
	}
	for pld, f := range m.fetched {
		c.fetched[pld] = f
	}
	for pld := range m.seen {
		c.seen[pld] = true
	}
	return c
}

func (m *model) indegrees() map[uint64]uint32 {
	d := map[uint64]uint32{}
	for e := range m.edges {
		d[e.To]++
	}
	return d
}

// rig drives a Star and the model.
type rig struct {
	t       *testing.T
	rng     *rand.Rand
	mem     *memfs.FS
	opt     star.Options
	s       *star.Star
	plds    []uint64
	next    uint32
	gen     uint64
	durable []byte
	saved   *model

	mu     sync.Mutex // guards m and pinned: with a Pass in the background, Emit runs concurrently with the test
	m      *model
	pinned int
}

func newRig(t *testing.T, seed uint64, dirs, plds int) *rig {
	r := &rig{t: t, rng: rand.New(rand.NewPCG(seed, 3)), mem: memfs.New(seed), m: newModel()}
	r.saved = r.m.clone()
	for i := range dirs {
		name := fmt.Sprintf("/d%d", i)
		must(t, errors.Join(r.mem.MkdirAll(name+"/state"), r.mem.SyncFS(name)))
		r.opt.Set.Paths = append(r.opt.Set.Paths, name)
	}
	for range plds {
		r.plds = append(r.plds, r.rng.Uint64())
	}
	r.opt.Set.FS = r.mem
	r.opt.Edges = drum.Options{Buckets: 4, BufferBytes: 4096, BucketBytes: 16 << 10}
	r.opt.Indegree = drum.Options{Buckets: 4, BufferBytes: 4096, BucketBytes: 16 << 10}
	r.opt.Place, r.opt.Emit, r.opt.Pin = r.place, r.emit, r.pin
	r.opt.MaxPlaced = uint32(seed % 2 * 30)
	r.open()
	return r
}

func (r *rig) open() {
	r.t.Helper()
	var st *star.State
	if r.durable != nil {
		st = new(star.State)
		if err := json.Unmarshal(r.durable, st); err != nil {
			r.t.Fatal(err)
		}
	}
	s, err := star.Open(r.opt, st)
	if err != nil {
		r.t.Fatal(err)
	}
	r.s = s
}

// testPart returns the part of a check. place returns it in the lowest digits of the number.
func testPart(n uint32) uint8 { return uint8(n % 5 * (n % 3)) }

// place numbers the URLs of a PLD in its ledger. Every tenth fails.
func (r *rig) place(ledger *[16]byte, pages uint32, part, _ uint8) int64 {
	if pages == 0 {
		r.t.Error("Place: got a budget of 0 pages")
	}
	if r.pinned == 0 {
		r.t.Error("Place without a pin")
	}
	n := binary.LittleEndian.Uint64(ledger[:])
	binary.LittleEndian.PutUint64(ledger[:], n+1)
	if n%10 == 9 {
		return -1
	}
	return int64(n)<<8 | int64(part)
}

func (r *rig) pin() func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pinned++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.pinned--
	}
}

// emit checks that the answers of a PLD come in order of arrival, once, with the number that Place returned.
func (r *rig) emit(placed []star.Placed) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range placed {
		n := binary.LittleEndian.Uint32(p.Aux)
		if _, twice := r.m.answered[n]; twice || r.m.checks[n] != p.PLD {
			r.t.Errorf("check %d of PLD %x: answered twice (%t) or for PLD %x", n, r.m.checks[n], twice, p.PLD)
		}
		r.m.answered[n] = p.Number
		at := slices.Index(r.m.order[p.PLD], n)
		want := int64(at)<<8 | int64(testPart(n))
		if at%10 == 9 {
			want = -1
		}
		if most := int(r.opt.MaxPlaced); most > 0 && at-at/10 >= most { // the number placed before this one
			want = star.OverLimit
		}
		if p.Number != want || p.Budget < 10 || p.Budget > 10_000 {
			r.t.Errorf("check %d, number %d of its PLD: got %+v, want queue %d", n, at, p, want)
		}
	}
	return nil
}

// some returns a PLD, preferring small indexes.
func (r *rig) some() uint64 {
	n := len(r.plds)
	return r.plds[min(r.rng.IntN(n), r.rng.IntN(n), r.rng.IntN(n))]
}

func (r *rig) step() error {
	switch r.rng.IntN(4) {
	case 0:
		var edges []star.Edge
		for range r.rng.IntN(60) {
			edges = append(edges, star.Edge{From: r.some(), To: r.some()})
		}
		r.mu.Lock()
		for _, e := range edges {
			if e.From != e.To {
				r.m.edges[e] = true
				r.m.seen[e.To] = true
			}
		}
		r.mu.Unlock()
		return r.s.AddEdges(edges)
	case 1:
		pld, pages, bytes := r.some(), int64(r.rng.IntN(5)), int64(r.rng.IntN(10000))
		r.mu.Lock()
		f := r.m.fetched[pld]
		r.m.fetched[pld] = [2]int64{f[0] + pages, f[1] + bytes}
		r.m.seen[pld] = true
		r.mu.Unlock()
		return r.s.Fetched(pld, pages, bytes)
	default:
		return r.check(1 + r.rng.IntN(60))
	}
}

func (r *rig) check(n int) error {
	var checks []star.CheckTuple
	r.mu.Lock()
	for range n {
		pld := r.some()
		aux := binary.LittleEndian.AppendUint32(nil, r.next)
		aux = append(aux, make([]byte, r.rng.IntN(80))...)
		checks = append(checks, star.CheckTuple{PLD: pld, Part: testPart(binary.LittleEndian.Uint32(aux)), Aux: aux})
		r.m.checks[r.next] = pld
		r.m.order[pld] = append(r.m.order[pld], r.next)
		r.m.seen[pld] = true
		r.next++
	}
	r.mu.Unlock()
	return r.s.Check(checks)
}

// checkpoint makes a checkpoint, with some steps between Freeze and Save.
func (r *rig) checkpoint(steps int) error {
	r.s.Pause()
	f := r.s.Freeze()
	r.mu.Lock()
	snap := r.m.clone()
	r.mu.Unlock()
	r.s.Resume()
	for range steps {
		if err := r.step(); err != nil {
			return err
		}
	}
	r.gen++
	tails, err := disk.CreateTails(r.opt.Set, r.gen)
	if err != nil {
		return err
	}
	st, err := f.Save(tails)
	if err == nil {
		err = tails.Close()
	}
	for _, p := range r.opt.Set.Paths {
		if err == nil {
			err = r.opt.Set.FS.SyncFS(p)
		}
	}
	if err != nil {
		return err
	}
	if r.durable, err = json.Marshal(st); err != nil {
		r.t.Fatal(err)
	}
	r.saved = snap
	if err := f.Commit(); err != nil {
		return err
	}
	return disk.RemoveTails(r.opt.Set, func(gen uint64) bool { return gen == r.gen })
}

func (r *rig) reopen(mem *memfs.FS) {
	r.t.Helper()
	_ = r.s.Close()
	r.mem, r.opt.Set.FS = mem, mem
	r.m = r.saved.clone()
	r.pinned = 0
	r.open()
	r.walkChecks()
}

// walkChecks compares the waiting checks of the saved state.
func (r *rig) walkChecks() {
	r.t.Helper()
	if r.durable == nil {
		return
	}
	st := new(star.State)
	if err := json.Unmarshal(r.durable, st); err != nil {
		r.t.Fatal(err)
	}
	left := map[uint32]bool{}
	err := star.WalkChecks(r.opt.Set, "pld", st, func(aux []byte) error {
		left[binary.LittleEndian.Uint32(aux)] = true
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	want := len(r.saved.checks) - len(r.saved.answered)
	if len(left) != want || st.Checks != int64(want) {
		r.t.Fatalf("WalkChecks: got %d, state says %d, want %d", len(left), st.Checks, want)
	}
	edges := map[star.Edge]bool{}
	must(r.t, star.WalkEdges(r.opt.Set, "pld", st, func(e star.Edge) error { edges[e] = true; return nil }))
	if !maps.Equal(edges, r.saved.edges) {
		r.t.Errorf("WalkEdges: got %d edges, want %d, or others", len(edges), len(r.saved.edges))
	}
	for _, pld := range r.plds {
		known, err := star.LookUp(r.opt.Set, "pld", st, pld, func(aux []byte) error {
			n := binary.LittleEndian.Uint32(aux)
			if !left[n] || r.saved.checks[n] != pld {
				r.t.Errorf("LookUp of PLD %x: check %d waits, want one of %x", pld, n, r.saved.checks[n])
			}
			delete(left, n)
			return nil
		})
		must(r.t, err)
		if known.Merged.Fetched < known.Record.Fetched ||
			known.Waiting == 0 && !reflect.DeepEqual(known.Merged, known.Record) {
			r.t.Errorf("LookUp of PLD %x: %+v", pld, known)
		}
	}
	if len(left) > 0 {
		r.t.Errorf("LookUp of all PLDs misses checks %v", left)
	}
}

// finish merges everything and compares the records with the model.
func (r *rig) finish() {
	r.t.Helper()
	for range 4 {
		if _, err := r.s.Pass(context.Background(), true); err != nil {
			r.t.Fatal(err)
		}
	}
	if n := r.s.PendingChecks(); n != 0 || len(r.m.answered) != len(r.m.checks) {
		r.t.Fatalf("%d checks pending, %d of %d answered", n, len(r.m.answered), len(r.m.checks))
	}
	must(r.t, r.checkpoint(2))
	for range 4 { // the checkpoint's steps
		_, err := r.s.Pass(context.Background(), true)
		must(r.t, err)
	}
	must(r.t, r.checkpoint(0))
	st := new(star.State)
	must(r.t, json.Unmarshal(r.durable, st))
	degrees, found := r.m.indegrees(), 0
	err := star.WalkPLDs(r.opt.Set, "pld", st, func(pld uint64, p star.PLD) error {
		found++
		f := r.m.fetched[pld]
		want := star.PLD{Indegree: degrees[pld], Fetched: uint32(f[0]), Bytes: uint64(f[1]), Ledger: p.Ledger,
			FirstSeen: p.FirstSeen, Placed: uint32(len(r.m.order[pld]) - len(r.m.order[pld])/10)}
		calls := len(r.m.order[pld])
		if most := r.opt.MaxPlaced; most > 0 && want.Placed >= most {
			// Over the limit Place is not called.
			for want.Placed = most; calls > 0 && uint32(calls-1-(calls-1)/10) >= most; calls-- {
			}
		}
		if !reflect.DeepEqual(p, want) || binary.LittleEndian.Uint64(p.Ledger[:]) != uint64(calls) || p.FirstSeen == 0 {
			r.t.Errorf("PLD %x: got %+v, want %+v", pld, p, want)
		}
		if known, err := star.LookUp(r.opt.Set, "pld", st, pld, nil); err != nil || !known.Found ||
			!reflect.DeepEqual(known.Record, p) || !reflect.DeepEqual(known.Merged, p) {
			r.t.Errorf("LookUp of PLD %x: %+v, %v, want %+v", pld, known, err, p)
		}
		now, err := star.BudgetOf(r.opt.Set, st, r.opt.Budgets, pld, &p)
		nominal, pages := r.s.Budget(max(p.Indegree, r.prior(pld)))
		if err != nil || now.Nominal != nominal || now.Pages != pages {
			r.t.Errorf("BudgetOf in-degree %d: %+v, %v, want %d, %d", p.Indegree, now, err, nominal, pages)
		}
		return nil
	})
	if known, errNone := star.LookUp(r.opt.Set, "pld", st, 12345, nil); known.Found || errNone != nil {
		r.t.Errorf("LookUp of no PLD: %+v, %v", known, errNone)
	}
	if err != nil || found != len(r.m.seen) || r.s.NumPLDs() != int64(found) {
		r.t.Fatalf("WalkPLDs: got %d PLDs, %v; NumPLDs %d; want %d", found, err, r.s.NumPLDs(), len(r.m.seen))
	}
	r.checkTops(degrees, st)
}

// checkTops compares the rankings with the model: they are exact over crashes, and a repair makes the same.
func (r *rig) checkTops(degrees map[uint64]uint32, st *star.State) {
	r.t.Helper()
	values := [3]map[uint64]uint64{{}, {}, {}}
	for pld, d := range degrees {
		values[star.ByIndegree][pld] = uint64(d)
	}
	for pld, f := range r.m.fetched {
		values[star.ByPages][pld], values[star.ByBytes][pld] = uint64(f[0]), uint64(f[1])
	}
	for order, all := range values {
		want := slices.DeleteFunc(slices.Sorted(maps.Values(all)), func(v uint64) bool { return v == 0 })
		slices.Reverse(want)
		top := r.s.Top(star.Order(order), 20)
		if n := len(want); len(top) != min(n, 20) {
			r.t.Errorf("order %d: %d PLDs ranked, want %d", order, len(top), min(n, 20))
		}
		for i, p := range top {
			if p.Value != all[p.PLD] || i < len(want) && p.Value != want[i] {
				r.t.Errorf("order %d, rank %d: PLD %x has %d, got %d, want %d", order, i+1, p.PLD, all[p.PLD],
					p.Value, want[i])
			}
		}
	}
	_, tops, err := star.MakeRankings(r.opt.Set, "pld", st, 20)
	saved, bad := disk.ReadTail(r.opt.Set, st.Tops)
	if err != nil || bad != nil || !bytes.Equal(tops, saved) {
		r.t.Errorf("MakeRankings: %v, %v; got %d bytes, want the %d bytes of the checkpoint", err, bad,
			len(tops), len(saved))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestModel(t *testing.T) {
	sd := *seedFlag
	if sd == 0 {
		sd = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", sd)
	rounds := 12
	if testing.Short() {
		rounds = 5
	}
	if *longFlag {
		rounds = 1000
	}
	for round := range rounds {
		r := newRig(t, sd+uint64(round), 1+round%2, 5+round*20)
		for range 12 {
			if r.rng.IntN(3) == 0 {
				r.mem.CrashAfter(1 + r.rng.IntN(80))
			}
			err := r.work()
			switch {
			case err != nil && !errors.Is(err, disk.ErrCrashed):
				t.Fatalf("round %d: %v", round, err)
			case err != nil, r.rng.IntN(4) == 0:
				if r.rng.IntN(2) == 0 {
					r.reopen(r.mem.Crash())
				} else {
					r.reopen(r.mem.Kill())
				}
			default:
				r.mem.CrashAfter(0)
				r.walkChecks()
			}
		}
		r.mem.CrashAfter(0)
		r.finish()
		must(t, r.s.Close())
	}
}

// work runs steps, with passes between or concurrent with them, and a checkpoint.
func (r *rig) work() error {
	background := make(chan error, 1)
	beside := r.rng.IntN(2) == 0
	if beside {
		go func() {
			_, err := r.s.Pass(context.Background(), true)
			background <- err
		}()
	}
	err := func() error {
		for range 5 + r.rng.IntN(30) {
			if err := r.step(); err != nil {
				return err
			}
			if !beside && r.rng.IntN(10) == 0 {
				if _, err := r.s.Pass(context.Background(), r.rng.IntN(3) == 0); err != nil {
					return err
				}
				r.s.Refresh()
			}
		}
		return r.checkpoint(r.rng.IntN(3))
	}()
	if beside {
		err = errors.Join(err, <-background)
	}
	return err
}

// One PLD has 90 % of the tuples. Rounds must stay within BucketBytes, and nothing may be lost or reordered.
func TestSkew(t *testing.T) {
	r := newRig(t, 1, 1, 50)
	for range 20_000 / 100 {
		var checks []star.CheckTuple
		r.mu.Lock()
		for range 100 {
			pld := r.plds[0]
			if r.rng.IntN(10) == 0 {
				pld = r.some()
			}
			r.m.checks[r.next] = pld
			r.m.order[pld] = append(r.m.order[pld], r.next)
			r.m.seen[pld] = true
			checks = append(checks,
				star.CheckTuple{PLD: pld, Part: testPart(r.next), Aux: binary.LittleEndian.AppendUint32(nil, r.next)})
			r.next++
		}
		r.mu.Unlock()
		must(t, r.s.Check(checks))
		for r.s.Full() {
			_, err := r.s.Pass(context.Background(), false)
			must(t, err)
		}
	}
	r.finish()
	_, st := r.s.Stats()
	if st.RoundPeakBytes > r.opt.Indegree.BucketBytes {
		t.Errorf("a round took %d bytes, want at most %d", st.RoundPeakBytes, r.opt.Indegree.BucketBytes)
	}
	if st.Rounds < 50 {
		t.Errorf("got %d rounds, want many", st.Rounds)
	}
}

// In-degrees count each other PLD once, whatever the number of links. A higher in-degree raises the budget
// after Refresh.
func TestReputation(t *testing.T) {
	r := newRig(t, 1, 1, 300)
	for i := range 200 {
		for range 3 {
			must(t, r.s.AddEdges([]star.Edge{{From: r.plds[i], To: r.plds[0]}, {From: r.plds[i], To: r.plds[i]}}))
		}
		must(t, r.s.AddEdges([]star.Edge{{From: r.plds[0], To: r.plds[i+1]}}))
		r.m.edges[star.Edge{From: r.plds[0], To: r.plds[i+1]}] = true
		if i > 0 {
			r.m.edges[star.Edge{From: r.plds[i], To: r.plds[0]}] = true
		}
	}
	_, err := r.s.Pass(context.Background(), true)
	must(t, err)
	top := r.s.Top(star.ByIndegree, 1)
	if len(top) != 1 || top[0] != (star.Ranked{PLD: r.plds[0], Value: 199}) {
		t.Fatalf("Top: got %v, want PLD %x with 199", top, r.plds[0])
	}
	before, _ := r.s.Budget(199)
	r.s.Refresh()
	after, pages := r.s.Budget(199)
	if before != 10 || after != 20 || pages <= after {
		t.Errorf("budget: got %d, then %d (%d pages), want 10, then 20", before, after, pages)
	}
	if other, _ := r.s.Budget(1); other != 10 {
		t.Errorf("budget of others: got %d, want 10", other)
	}
	// The current function must survive a restart.
	must(t, r.checkpoint(0))
	r.reopen(r.mem.Crash())
	if again, p := r.s.Budget(199); again != after || p != pages {
		t.Errorf("budget after reopening: got %d, %d, want %d, %d", again, p, after, pages)
	}
}

func TestOptions(t *testing.T) {
	if _, err := star.Open(star.Options{}, nil); err == nil {
		t.Error("empty options: got nil, want an error")
	}
	r := newRig(t, 1, 1, 1)
	if _, err := star.Open(r.opt, &star.State{V: 7}); err == nil {
		t.Error("unknown version: got nil, want an error")
	}
	if n := r.opt.RAMBytes(); n < 2*8*4096 {
		t.Errorf("RAMBytes: got %d", n)
	}
}
