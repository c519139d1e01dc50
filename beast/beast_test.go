package beast_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 = from the clock")
	longFlag = flag.Bool("long", false, "run the random tests for longer")
)

// model is a Beast of maps and slices, with its own version of the placement rule.
type model struct {
	s, h, last int64
	scans      int64
	queues     map[int64][]string
	failed     []string
	old        []string
	scanning   bool
	ledgers    map[int]ledger         // by PLD
	fill       map[int64]map[int]fill // everything ever put into a queue, by PLD

	floor int64    // of the last Replace
	epoch uint32   // of the ledgers
	moved []string // records that Replace took out of their queues
}

// fill counts the records of a PLD put into a queue. budget is the largest budget in force when one was put.
type fill struct{ records, budget int }

type ledger struct {
	next  int64
	used  int
	epoch uint32
}

func newModel() *model {
	return &model{h: 1, queues: map[int64][]string{}, ledgers: map[int]ledger{}, fill: map[int64]map[int]fill{}}
}

func (m *model) clone() *model {
	c := *m
	c.queues, c.ledgers, c.fill = map[int64][]string{}, maps.Clone(m.ledgers), map[int64]map[int]fill{}
	for n, q := range m.queues {
		c.queues[n] = slices.Clone(q)
	}
	for n, f := range m.fill {
		c.fill[n] = maps.Clone(f)
	}
	c.failed, c.old, c.moved = slices.Clone(m.failed), slices.Clone(m.old), slices.Clone(m.moved)
	return &c
}

func (m *model) place(pld, budget int) int64 {
	l, s := m.ledgers[pld], max(m.s, m.floor)
	if l.epoch != m.epoch {
		l = ledger{epoch: m.epoch}
		m.ledgers[pld] = l
	}
	if l.next <= s {
		l = ledger{next: s + 1, epoch: m.epoch}
	}
	if budget > 0 && l.used >= budget {
		l = ledger{next: l.next + 1, epoch: m.epoch}
	}
	if budget == 0 || l.next > s+m.h {
		return -1
	}
	l.used++
	m.ledgers[pld] = l
	return l.next
}

func (m *model) append(n int64, pld, budget int, rec string) {
	if n < 0 {
		m.failed = append(m.failed, rec)
		return
	}
	m.queues[n] = append(m.queues[n], rec)
	if m.fill[n] == nil {
		m.fill[n] = map[int]fill{}
	}
	f := m.fill[n][pld]
	m.fill[n][pld] = fill{f.records + 1, max(f.budget, budget)}
}

// front returns the record that must come next, and moves s. Nothing may be pinned.
func (m *model) front() (string, bool) {
	if len(m.queues[m.s]) == 0 {
		next := int64(0)
		for n, q := range m.queues {
			if n > m.s && len(q) > 0 && (next == 0 || n < next) {
				next = n
			}
		}
		if next == 0 {
			return "", false
		}
		delete(m.queues, m.s)
		delete(m.fill, m.s)
		m.s = next
	}
	return m.queues[m.s][0], true
}

func (m *model) startScan(max int64) {
	if m.s-m.last >= m.h {
		m.h = min(2*m.h, max)
	}
	m.last, m.scanning = m.s, true
	m.scans++
	m.old, m.failed = m.failed, nil
}

func (m *model) replace(epoch uint32) {
	m.epoch, m.floor = epoch, max(m.s, m.floor)
	var numbers []int64
	for n := range m.queues {
		if n > m.s {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		m.floor = max(m.floor, n)
		m.moved = append(m.moved, m.queues[n]...)
		delete(m.queues, n)
		delete(m.fill, n)
	}
}

func (m *model) records() int {
	n := len(m.failed) + len(m.old) + len(m.moved)
	for _, q := range m.queues {
		n += len(q)
	}
	return n
}

// rig drives a Beast and the model in parallel.
type rig struct {
	t       *testing.T
	rng     *rand.Rand
	mem     *memfs.FS
	opt     beast.Options
	b       *beast.Beast
	m       *model
	budgets []int
	next    int // number of the next record
	gen     uint64
	durable []byte // manifest
	saved   *model
}

func newRig(t *testing.T, seed uint64, dirs int) *rig {
	r := &rig{t: t, rng: rand.New(rand.NewPCG(seed, 2)), mem: memfs.New(seed), m: newModel()}
	r.saved = r.m.clone()
	r.opt.Set.FS, r.opt.QueuesMax = r.mem, 1024
	for i := range dirs {
		name := fmt.Sprintf("/d%d", i)
		must(t, r.mem.MkdirAll(name+"/state"))
		r.opt.Set.Paths = append(r.opt.Set.Paths, name)
		must(t, r.mem.SyncFS(name))
	}
	r.open()
	return r
}

func (r *rig) open() {
	r.t.Helper()
	var st *beast.State
	if r.durable != nil {
		st = new(beast.State)
		if err := json.Unmarshal(r.durable, st); err != nil {
			r.t.Fatal(err)
		}
	}
	b, err := beast.Open(r.opt, st)
	if err != nil {
		r.t.Fatal(err)
	}
	r.b = b
}

func record(n, pld, size int) string {
	rec := binary.LittleEndian.AppendUint32(nil, uint32(n))
	rec = binary.LittleEndian.AppendUint32(rec, uint32(pld))
	for len(rec) < size {
		rec = append(rec, byte(n))
	}
	return string(rec)
}

func pldOf(rec []byte) int { return int(binary.LittleEndian.Uint32(rec[4:])) }

// isPart reports whether the URLs of a PLD of the model stand for those of the PLD before that share a part of its
// budget.
func isPart(pld int) bool { return pld%2 == 1 }

// ledger returns the ledger of a PLD of the model and of the part of it, in the later epoch of both.
func (r *rig) ledger(pld int) beast.Ledger {
	l := beast.Ledger{Epoch: uint16(max(r.m.ledgers[pld].epoch, r.m.ledgers[pld^1].epoch))}
	for _, p := range []int{pld, pld ^ 1} {
		if m := r.m.ledgers[p]; uint16(m.epoch) == l.Epoch {
			*l.FillOf(isPart(p)) = beast.Fill{Next: beast.Number(m.next), Used: uint32(m.used)}
		}
	}
	return l
}

// place passes a batch of records through Place and Append, as a round of STAR does, with reads in between.
func (r *rig) place(plds []int, recs []string) error {
	release := r.b.Pin()
	defer release()
	numbers := make([]int64, len(recs))
	for i, p := range plds {
		ledger := r.ledger(p)
		numbers[i] = r.m.place(p, r.budgets[p])
		place := r.b.Place
		if isPart(p) {
			place = r.b.PlacePart
		}
		if got := place(&ledger, uint32(r.budgets[p])); got != beast.Number(numbers[i]) {
			r.t.Fatalf("Place PLD %d, budget %d, s %d, h %d: got %d, want %d; ledger then %+v", p, r.budgets[p], r.m.s,
				r.m.h, got, numbers[i], ledger)
		}
		var b [beast.LedgerBytes]byte
		ledger.Encode(&b)
		if got, want := beast.DecodeLedger(&b), r.ledger(p); got != want {
			r.t.Fatalf("ledger of PLD %d: got %+v, want %+v", p, got, want)
		}
	}
	for i, rec := range recs {
		if err := r.b.Append(beast.Number(numbers[i]), []byte(rec)); err != nil {
			return err
		}
		r.m.append(numbers[i], plds[i], r.budgets[plds[i]], rec)
		if f := r.m.fill[numbers[i]][plds[i]]; f.records > f.budget {
			r.t.Fatalf("queue %d holds %d of PLD %d, largest budget was %d", numbers[i], f.records, plds[i], f.budget)
		}
	}
	return nil
}

func (r *rig) read(n int) error {
	for range n {
		want, ok := r.m.front()
		rec, got, err := r.b.Peek()
		if err != nil {
			return err
		}
		if got != ok || string(rec) != want {
			r.t.Fatalf("Peek at s %d: got %x, %t, want %x, %t", r.m.s, rec, got, want, ok)
		}
		if !ok {
			return nil
		}
		r.b.Advance()
		r.m.queues[r.m.s] = r.m.queues[r.m.s][1:]
	}
	return nil
}

func (r *rig) scan(n int) error {
	if !r.m.scanning {
		due := r.m.s-r.m.last >= r.m.h
		if got := r.b.ScanDue(); got != due {
			r.t.Fatalf("ScanDue at s %d, last %d, h %d: got %t, want %t", r.m.s, r.m.last, r.m.h, got, due)
		}
		if _, ok := r.m.clone().front(); !due && ok {
			return nil
		}
		r.m.startScan(int64(r.opt.QueuesMax))
		if err := r.b.StartScan(); err != nil {
			return err
		}
	}
	for range n {
		rec, ok, err := r.b.ScanPeek()
		if err != nil {
			return err
		}
		if ok != (len(r.m.old) > 0) || ok && string(rec) != r.m.old[0] {
			r.t.Fatalf("ScanPeek: got %x, %t, want one of %d", rec, ok, len(r.m.old))
		}
		if !ok {
			r.m.scanning = false
			return r.b.EndScan()
		}
		// The way through STAR's buckets, and the cursor: one step each here.
		s := string(rec)
		p := pldOf(rec)
		r.b.ScanAdvance()
		r.m.old = r.m.old[1:]
		if err := r.place([]int{p}, []string{s}); err != nil {
			return err
		}
	}
	return nil
}

// replace changes the budget function, and places some of the moved records.
func (r *rig) replace(n int) error {
	if len(r.m.moved) == 0 && r.rng.IntN(4) == 0 {
		r.m.replace(r.m.epoch + 1 + r.rng.Uint32N(5))
		moved, ok := r.b.Replace(r.m.epoch)
		if !ok || moved != int64(len(r.m.moved)) {
			r.t.Fatalf("Replace: %d records, %t, want %d", moved, ok, len(r.m.moved))
		}
	}
	for range n {
		rec, ok, err := r.b.MovedPeek()
		if err != nil {
			return err
		}
		if ok != (len(r.m.moved) > 0) || ok && string(rec) != r.m.moved[0] {
			r.t.Fatalf("MovedPeek: got %x, %t, want one of %d", rec, ok, len(r.m.moved))
		}
		if !ok {
			return nil
		}
		s, p := string(rec), pldOf(rec)
		r.b.MovedAdvance()
		r.m.moved = r.m.moved[1:]
		if err := r.place([]int{p}, []string{s}); err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) checkpoint() error {
	f := r.b.Freeze()
	snap := r.m.clone()
	if r.rng.IntN(2) == 0 { // stages continue before Save
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
	if err != nil {
		return err
	}
	if err := tails.Close(); err != nil {
		return err
	}
	for _, p := range r.opt.Set.Paths {
		if err := r.opt.Set.FS.SyncFS(p); err != nil {
			return err
		}
	}
	data, err := json.Marshal(st)
	if err != nil {
		r.t.Fatal(err)
	}
	r.durable, r.saved = data, snap
	if err := f.Commit(); err != nil {
		return err
	}
	return disk.RemoveTails(r.opt.Set, func(gen uint64) bool { return gen == r.gen })
}

func (r *rig) reopen(mem *memfs.FS) {
	r.mem, r.opt.Set.FS = mem, mem
	r.m = r.saved.clone()
	r.open()
	r.compareState()
}

func (r *rig) compareState() {
	r.t.Helper()
	st := r.b.Stats()
	if int64(st.Current) > r.m.s || int64(st.Horizon) != r.m.h || st.Scanning != r.m.scanning || st.Scans != r.m.scans {
		r.t.Fatalf("got %+v, want s %d, h %d, scanning %t", st, r.m.s, r.m.h, r.m.scanning)
	}
	if n := st.CurrentRecords + st.SpreadRecords + st.MovedRecords + st.OverBudgetRecords; n != int64(r.m.records()) {
		r.t.Fatalf("got %d records, want %d", n, r.m.records())
	}
}

func (r *rig) walk() {
	r.t.Helper()
	if r.durable == nil {
		return
	}
	st := new(beast.State)
	if err := json.Unmarshal(r.durable, st); err != nil {
		r.t.Fatal(err)
	}
	n := 0
	if _, _, err := beast.Scan(r.opt.Set, "beast", st, func(int, beast.Number, []byte) error { n++; return nil },
		nil); err != nil {
		r.t.Fatal(err)
	}
	if n != r.saved.records() {
		r.t.Fatalf("Scan: got %d records, want %d", n, r.saved.records())
	}
}

func (r *rig) step() error {
	switch r.rng.IntN(11) {
	default:
		n := 1 + r.rng.IntN(20)
		plds, recs := make([]int, n), make([]string, n)
		for i := range n {
			plds[i] = min(r.rng.IntN(len(r.budgets)), r.rng.IntN(len(r.budgets)))
			recs[i] = record(r.next, plds[i], 8+r.rng.IntN(60))
			r.next++
		}
		return r.place(plds, recs)
	case 3, 4, 5:
		return r.read(1 + r.rng.IntN(30))
	case 6, 7:
		return r.scan(1 + r.rng.IntN(40))
	case 8:
		return r.replace(r.rng.IntN(20))
	case 9:
		p := r.rng.IntN(len(r.budgets))
		r.budgets[p] = []int{0, 1, 2, 5, 20}[r.rng.IntN(5)]
		return nil
	}
}

func TestModel(t *testing.T) {
	sd := *seedFlag
	if sd == 0 {
		sd = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", sd)
	rounds := 40
	if testing.Short() {
		rounds = 12
	}
	if *longFlag {
		rounds = 4000
	}
	for round := range rounds {
		r := newRig(t, sd+uint64(round), 1+round%3)
		r.opt.QueuesMax, r.opt.BlockBytes, r.opt.SegmentBytes = 1<<(round%6), 4096, 16<<10
		must(t, r.b.Close())
		r.open()
		r.budgets = make([]int, 1+r.rng.IntN(30))
		for i := range r.budgets {
			r.budgets[i] = []int{1, 2, 5, 10}[r.rng.IntN(4)]
		}
		for range 20 {
			if r.rng.IntN(3) == 0 {
				r.mem.CrashAfter(1 + r.rng.IntN(60))
			}
			err := func() error {
				for range 10 + r.rng.IntN(60) {
					if err := r.step(); err != nil {
						return err
					}
				}
				return r.checkpoint()
			}()
			switch {
			case err != nil && !errors.Is(err, disk.ErrCrashed):
				t.Fatalf("round %d: %v", round, err)
			case err != nil || r.rng.IntN(4) == 0:
				if r.rng.IntN(2) == 0 {
					r.reopen(r.mem.Crash())
				} else {
					r.reopen(r.mem.Kill())
				}
				r.walk()
			default:
				r.mem.CrashAfter(0)
				r.walk()
				r.compareState()
			}
		}
		r.drain()
	}
}

// drain reads everything, with scans as needed. Nothing may be lost, whatever the budgets.
func (r *rig) drain() {
	r.t.Helper()
	for i := range r.budgets {
		r.budgets[i] = max(r.budgets[i], 1)
	}
	total, read := r.m.records(), 0
	for r.m.records() > 0 {
		before := r.m.records()
		must(r.t, r.read(1000))
		read += before - r.m.records()
		must(r.t, r.replace(1000))
		must(r.t, r.scan(1000))
	}
	if read != total {
		r.t.Fatalf("read %d records, want %d", read, total)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
