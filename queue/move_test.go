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

// TestMoveTo moves random runs of records from one queue to another, with checkpoints of both and restarts between.
// Each record is read once, from either queue, or moved on.
func TestMoveTo(t *testing.T) {
	for seed := *seedFlag; seed < *seedFlag+uint64(rounds(60)); seed++ {
		rng := rand.New(rand.NewPCG(seed, 11))
		mem := memfs.New(seed)
		must(t, mountDirs(mem))
		set, err := newSet(mem)
		must(t, err)
		block := []int{200, 1000, 5000}[rng.IntN(3)]
		var queues [2]*Queue
		open := func(i int, st *State) {
			queues[i], err = Open(Options{Set: set, Name: fmt.Sprint("q", i), BlockBytes: block, SegmentBytes: 3000}, st)
			must(t, err)
		}
		open(0, nil)
		open(1, nil)
		left := map[string]bool{}
		for i := range 400 {
			rec := bytes.Repeat(fmt.Appendf(nil, "%c%d ", 'a'+byte(i/50%3), i), 1+rng.IntN(4))
			left[string(rec)] = true
			must(t, queues[0].Append(rec))
		}
		whole, gen := 0, uint64(0)
		for round := 0; len(left) > 0; round++ {
			from, to := queues[round%2], queues[1-round%2]
			stay := 'a' + byte(rng.IntN(4))
			for {
				rec, ok, err := from.Peek()
				must(t, err)
				if !ok {
					break
				}
				moves := func(rec []byte) bool { return rec[0] != stay }
				if rec[0] == stay || rng.IntN(10) == 0 {
					if n, err := from.MoveTo(to, 9, func([]byte) bool { return false }); n != 0 || err != nil {
						t.Fatalf("seed %d: %d records that stay have moved: %v", seed, n, err)
					}
					if !left[string(rec)] {
						t.Fatalf("seed %d: %q is read twice", seed, rec)
					}
					delete(left, string(rec))
					from.Advance()
					continue
				}
				blocks := to.sealed
				n, err := from.MoveTo(to, 1+rng.IntN(80), moves)
				must(t, err)
				if n == 0 {
					t.Fatalf("seed %d: %q does not move", seed, rec)
				}
				whole += int(to.sealed - blocks)
				if rng.IntN(8) == 0 {
					gen++
					states := saveAll(t, set, gen, queues[:])
					if rng.IntN(2) == 0 {
						for i := range queues {
							must(t, queues[i].Close())
							open(i, states[i])
						}
					}
					from, to = queues[round%2], queues[1-round%2]
				}
			}
			if n, size := from.Len(); n != 0 || size != 0 {
				t.Fatalf("seed %d: %d records of %d bytes left", seed, n, size)
			}
			size := 0
			for rec := range left {
				size += len(rec)
			}
			if n, sum := to.Len(); int(n) != len(left) || int(sum) != size {
				t.Fatalf("seed %d: %d records of %d bytes, want %d of %d", seed, n, sum, len(left), size)
			}
		}
		if whole == 0 && block == 200 {
			t.Errorf("seed %d: no block moved", seed)
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

// TestMoveToKeepsBlocks moves a queue whose blocks are all of one kind: they keep their bytes and are not decoded for a
// second time.
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
