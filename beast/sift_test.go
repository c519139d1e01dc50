package beast_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// siftRig is a Beast whose records are to be sifted. The names of those that leave begin with "x".
type siftRig struct {
	t      *testing.T
	opt    beast.Options
	b      *beast.Beast
	rnd    *rand.Rand
	made   int
	left   map[string]int // by record: how often it has left, or was read
	again  []string       // records of the scan and of Replace, to be placed again
	gen    uint64
	sifted bool // the records are to be sifted
}

func newSiftRig(t *testing.T, seed uint64) *siftRig {
	r := &siftRig{t: t, rnd: rand.New(rand.NewPCG(seed, 7)), left: map[string]int{}}
	r.opt = beast.Options{Set: disk.Set{FS: memfs.New(seed), Paths: []string{"d0", "d1"}}, SegmentBytes: 1 << 10,
		BlockBytes: 128}
	var err error
	r.b, err = beast.Open(r.opt, nil)
	must(t, err)
	t.Cleanup(func() { must(t, r.b.Close()) })
	return r
}

// add appends n records. Once the slots have left, no record of them comes any more.
func (r *siftRig) add(n int, kinds string) {
	for range n {
		name := fmt.Sprintf("%c%d", kinds[r.rnd.IntN(len(kinds))], r.made)
		r.made++
		r.left[name] = 0
		r.put(name)
	}
}

func (r *siftRig) put(name string) {
	n := beast.OverBudget
	if r.rnd.IntN(3) > 0 {
		var l beast.Ledger
		n = r.b.Place(&l, 1) + beast.Number(r.rnd.IntN(4))
	}
	must(r.t, r.b.Append(n, []byte(name)))
}

// end notes that a record has left.
func (r *siftRig) end(name string) {
	if r.left[name]++; r.left[name] > 1 {
		r.t.Fatalf("%s has left %d times", name, r.left[name])
	}
}

// keep is the function of Sift.
func (r *siftRig) keep(_ beast.Number, rec []byte) (bool, error) {
	if rec[0] == 'x' {
		r.end(string(rec))
	}
	return rec[0] != 'x', nil
}

// save makes a checkpoint, and returns its state.
func (r *siftRig) save() *beast.State {
	f := r.b.Freeze()
	r.gen++
	tails, err := disk.CreateTails(r.opt.Set, r.gen)
	must(r.t, err)
	st, err := f.Save(tails)
	must(r.t, err)
	must(r.t, tails.Close())
	must(r.t, f.Commit())
	return st
}

func (r *siftRig) reopen(st *beast.State) {
	must(r.t, r.b.Close())
	var err error
	r.b, err = beast.Open(r.opt, st)
	must(r.t, err)
}

// read reads a record of the current queue.
func (r *siftRig) read() bool {
	rec, ok, err := r.b.Peek()
	must(r.t, err)
	if ok {
		name := string(rec)
		if name[0] == 'x' && r.sifted && !r.b.Sifting() {
			r.t.Fatalf("%s was not sifted", name)
		}
		r.b.Advance()
		r.end(name)
	}
	return ok
}

// scan reads some records of QF, and places them again.
func (r *siftRig) scan() {
	if !r.b.Scanning() {
		must(r.t, r.b.StartScan())
	}
	for range 8 {
		rec, ok, err := r.b.ScanPeek()
		must(r.t, err)
		if !ok {
			must(r.t, r.b.EndScan())
			break
		}
		name := string(rec)
		r.b.ScanAdvance()
		r.again = append(r.again, name)
	}
	r.place()
}

func (r *siftRig) replace() {
	if !r.b.Moving() {
		r.b.Replace(r.b.Epoch() + 1)
	}
	for range 8 {
		rec, ok, err := r.b.MovedPeek()
		must(r.t, err)
		if !ok {
			break
		}
		name := string(rec)
		r.b.MovedAdvance()
		r.again = append(r.again, name)
	}
	r.place()
}

func (r *siftRig) place() {
	for _, name := range r.again {
		r.put(name)
	}
	r.again = r.again[:0]
}

// TestSift: in any order of sifting, reading, appending and restarts, each record that leaves comes to the function
// once or is read while records are unsifted, and no other one does. Afterwards none is left in any queue.
func TestSift(t *testing.T) {
	for seed := range uint64(60) {
		r := newSiftRig(t, seed+*seedFlag)
		r.add(200+r.rnd.IntN(400), "xyz")
		for range r.rnd.IntN(50) {
			r.read()
		}
		switch r.rnd.IntN(4) {
		case 0:
			r.scan()
		case 1:
			r.replace()
		}
		st := r.save()
		st.Sift()
		r.sifted = true
		if !sifts(st) {
			t.Fatal("no record is unsifted")
		}
		r.reopen(st)
		for r.b.Sifting() {
			most := 1 + r.rnd.IntN(40)
			switch r.rnd.IntN(6) {
			case 0:
				r.read()
			case 1:
				r.add(r.rnd.IntN(10), "yz")
			case 2:
				_, err := r.b.SiftCurrent(most, r.keep)
				must(t, err)
			case 3:
				r.reopen(r.save())
			default:
				_, err := r.b.Sift(most, r.keep)
				must(t, err)
			}
		}
		if sifts(r.save()) {
			t.Error("records are unsifted in the state")
		}
		r.drain()
	}
}

// sifts reports whether a state has unsifted records.
func sifts(st *beast.State) bool {
	return slices.ContainsFunc(slices.Concat(st.Queues, st.Moved, st.Failed),
		func(q beast.QueueState) bool { return q.Unsifted > 0 })
}

// drain reads all records that are left.
func (r *siftRig) drain() {
	for {
		for r.read() {
		}
		r.replace()
		for r.b.Moving() {
			r.replace()
		}
		if r.b.Stats().OverBudgetRecords == 0 && r.b.AtEnd() && r.b.Waiting() == beast.Empty {
			break
		}
		r.scan()
	}
	for name, n := range r.left {
		if n != 1 {
			r.t.Errorf("%s has left %d times", name, n)
		}
	}
}

// TestSiftKeepsOrder: what stays in a queue that is sifted at once comes out as if nothing had been sifted.
func TestSiftKeepsOrder(t *testing.T) {
	r := newSiftRig(t, 1)
	var want []string
	for i := range 500 {
		name := fmt.Sprintf("%c%d", "xy"[r.rnd.IntN(2)], i)
		must(t, r.b.Append(beast.Number(1+i/100), []byte(name)))
		if name[0] == 'y' {
			want = append(want, name)
		}
	}
	st := r.save()
	st.Sift()
	r.reopen(st)
	for r.b.Sifting() {
		n, err := r.b.Sift(7, r.keep)
		must(t, err)
		if n == 0 {
			t.Fatal("records are unsifted in a queue that is not read")
		}
	}
	var got []string
	for {
		rec, ok, err := r.b.Peek()
		must(t, err)
		if !ok {
			break
		}
		got = append(got, string(rec))
		r.b.Advance()
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %s, want %s", strings.Join(got, " "), strings.Join(want, " "))
	}
}
