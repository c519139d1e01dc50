package queue

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestMoveTo moves random runs of records from one queue to another, with checkpoints of both and restarts
// between. Each record is read once, from either queue, or moved on.
func TestMoveTo(t *testing.T) {
	for seed := *seedFlag; seed < *seedFlag+uint64(rounds(60)); seed++ {
		w := newMoveWorld(t, seed)
		for round := 0; len(w.left) > 0; round++ {
			w.scan(round%2, 1-round%2)
			size := 0
			for rec := range w.left {
				size += len(rec)
			}
			n, sum := w.queues[round%2].Len()
			m, all := w.queues[1-round%2].Len()
			if n != 0 || sum != 0 || int(m) != len(w.left) || int(all) != size {
				t.Fatalf("seed %d: %d records of %d bytes and %d of %d, want none and %d of %d", seed, n, sum, m, all,
					len(w.left), size)
			}
		}
		if w.whole == 0 && w.block == 200 {
			t.Errorf("seed %d: no block moved", seed)
		}
	}
}

// moveWorld has two queues between which records move, and those that are left.
type moveWorld struct {
	*testing.T
	rng    *rand.Rand
	set    disk.Set
	queues [2]*Queue
	block  int
	left   map[string]bool
	gen    uint64
	whole  int // blocks moved
}

func newMoveWorld(t *testing.T, seed uint64) *moveWorld {
	w := &moveWorld{T: t, rng: rand.New(rand.NewPCG(seed, 11)), left: map[string]bool{}}
	mem := memfs.New(seed)
	must(t, mountDirs(mem))
	var err error
	w.set, err = newSet(mem)
	must(t, err)
	w.block = []int{200, 1000, 5000}[w.rng.IntN(3)]
	for i := range w.queues {
		w.open(i, nil)
	}
	for i := range 400 {
		rec := bytes.Repeat(fmt.Appendf(nil, "%c%d ", 'a'+byte(i/50%3), i), 1+w.rng.IntN(4))
		w.left[string(rec)] = true
		must(t, w.queues[0].Append(rec))
	}
	return w
}

func (w *moveWorld) open(i int, st *State) {
	q, err := Open(Options{Set: w.set, Name: fmt.Sprint("q", i), BlockBytes: w.block, SegmentBytes: 3000}, st)
	must(w, err)
	w.queues[i] = q
}

// scan reads one queue to its end. Records of one kind are read, the others move, or are read by chance.
func (w *moveWorld) scan(from, to int) {
	stay := 'a' + byte(w.rng.IntN(4))
	moves := func(rec []byte) bool { return rec[0] != stay }
	for {
		q := w.queues[from]
		rec, ok, err := q.Peek()
		if must(w, err); !ok {
			return
		}
		if rec[0] == stay || w.rng.IntN(10) == 0 {
			if n, err := q.MoveTo(w.queues[to], 9, func([]byte) bool { return false }); n != 0 || err != nil {
				w.Fatalf("%d records that stay have moved: %v", n, err)
			}
			if !w.left[string(rec)] {
				w.Fatalf("%q is read twice", rec)
			}
			delete(w.left, string(rec))
			q.Advance()
			continue
		}
		blocks := w.queues[to].sealed
		n, err := q.MoveTo(w.queues[to], 1+w.rng.IntN(80), moves)
		if must(w, err); n == 0 {
			w.Fatalf("%q does not move", rec)
		}
		w.whole += int(w.queues[to].sealed - blocks)
		if w.rng.IntN(8) == 0 {
			w.checkpoint()
		}
	}
}

// checkpoint saves both queues, and opens them again now and then.
func (w *moveWorld) checkpoint() {
	w.gen++
	states := saveAll(w.T, w.set, w.gen, w.queues[:])
	if w.rng.IntN(2) == 0 {
		for i, q := range w.queues {
			must(w, q.Close())
			w.open(i, states[i])
		}
	}
}

// saveAll saves all queues as one checkpoint and returns their states.
func saveAll(t *testing.T, set disk.Set, gen uint64, queues []*Queue) (states []*State) {
	t.Helper()
	tails, err := disk.CreateTails(set, gen)
	must(t, err)
	var frozen []*Frozen
	for _, q := range queues {
		frozen = append(frozen, q.Freeze())
	}
	for _, f := range frozen {
		st, err := f.Save(tails)
		must(t, err)
		states = append(states, st)
	}
	must(t, tails.Close())
	for _, f := range frozen {
		must(t, f.Commit())
	}
	return states
}

// TestMoveToKeepsBlocks moves a queue whose blocks are all of one kind: they keep their bytes and are not
// decoded for a second time.
func TestMoveToKeepsBlocks(t *testing.T) {
	mem := memfs.New(*seedFlag)
	must(t, mountDirs(mem))
	set, err := newSet(mem)
	must(t, err)
	var queues [2]*Queue
	for i := range queues {
		queues[i], err = Open(Options{Set: set, Name: fmt.Sprint("q", i), BlockBytes: 1 << 12}, nil)
		must(t, err)
	}
	for i := range 10_000 {
		must(t, queues[0].Append(fmt.Appendf(nil, "http://www.example.com/path/%d", i)))
	}
	blocks := queues[0].sealed
	n, err := queues[0].MoveTo(queues[1], 1<<30, func([]byte) bool { return true })
	if must(t, err); n != 10_000 || queues[1].sealed < blocks-1 {
		t.Fatalf("moved %d records, %d of %d blocks", n, queues[1].sealed, blocks)
	}
	var numbers []int
	for {
		rec, ok, err := queues[1].Peek()
		if must(t, err); !ok {
			break
		}
		var i int
		_, err = fmt.Sscanf(string(rec), "http://www.example.com/path/%d", &i)
		must(t, err)
		numbers = append(numbers, i)
		queues[1].Advance()
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		if i != n {
			t.Fatalf("record %d: got %d", i, n)
		}
	}
	if len(numbers) != 10_000 {
		t.Fatalf("%d records", len(numbers))
	}
}
