package queue

import (
	"errors"
	"math/rand/v2"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// world is a queue under random operations. Its model is a range of record numbers.
type world struct {
	t        *testing.T
	rng      *rand.Rand
	mem      *memfs.FS
	set      disk.Set
	opt      Options
	q        *Queue
	maxLen   int
	from, to int
	gen      uint64
}

// TestQueueModel runs random appends, reads and checkpoints with other work between their steps. It crashes
// at random operations, by kill and by power cut. After each crash the queue must hold exactly the records
// of the last durable freeze.
func TestQueueModel(t *testing.T) {
	for seed := *seedFlag; seed < *seedFlag+uint64(rounds(150)); seed++ {
		w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 7)), mem: memfs.New(seed)}
		w.opt = Options{
			Name:         "some/queue",
			BlockBytes:   []int{200, 1000, 5000}[w.rng.IntN(3)],
			SegmentBytes: []int64{1, 3000, 20000}[w.rng.IntN(3)],
		}
		w.maxLen = []int{0, 30, 400}[w.rng.IntN(3)]
		must(t, mountDirs(w.mem))
		for range 6 {
			w.reopen(seed)
			w.mem.CrashAfter(w.rng.IntN(120))
			err := w.run(w.rng.IntN(60))
			if err != nil && !errors.Is(err, disk.ErrCrashed) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if w.rng.IntN(2) == 0 {
				w.mem = w.mem.Crash()
			} else {
				w.mem = w.mem.Kill()
			}
		}
	}
}

// reopen opens the queue from the durable manifest and compares it with the model.
func (w *world) reopen(seed uint64) {
	w.t.Helper()
	set, err := newSet(w.mem)
	must(w.t, err)
	w.set, w.opt.Set = set, set
	m, err := readManifest(set)
	must(w.t, err)
	w.from, w.to, w.gen = m.From, m.To, m.Gen
	if w.q, err = Open(w.opt, m.Queue); err != nil {
		w.t.Fatalf("seed %d: %v", seed, err)
	}
	if n, _ := w.q.Len(); int(n) != w.to-w.from {
		w.t.Fatalf("seed %d: %d records, want %d", seed, n, w.to-w.from)
	}
	if m.Queue == nil {
		return
	}
	if err := walkAll(set, w.opt.Name, m, w.maxLen); err != nil {
		w.t.Fatalf("seed %d: %v", seed, err)
	}
	if got, want := len(segmentFiles(w.t, set, w.opt.Name)), len(m.Queue.Segments); got != want {
		w.t.Fatalf("seed %d: %d segment files after open, the state names %d", seed, got, want)
	}
}

func (w *world) run(steps int) error {
	for range steps {
		if w.rng.IntN(4) > 0 {
			if err := w.step(); err != nil {
				return err
			}
			continue
		}
		w.gen++
		m := &manifest{Gen: w.gen, From: w.from, To: w.to}
		err := checkpoint(w.set, w.q, m, func() error {
			for range w.rng.IntN(3) {
				if err := w.step(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := walkAll(w.set, w.opt.Name, m, w.maxLen); err != nil {
			return err
		}
	}
	return nil
}

// step appends or reads some records, or drops all.
func (w *world) step() error {
	if w.rng.IntN(30) == 0 {
		if w.rng.IntN(2) == 0 { // with a record at hand
			if _, _, err := w.q.Peek(); err != nil {
				return err
			}
		}
		w.q.Clear()
		w.from = w.to
		return nil
	}
	if w.rng.IntN(2) == 0 {
		for range w.rng.IntN(60) {
			if err := w.q.Append(record(w.to, w.maxLen)); err != nil {
				return err
			}
			w.to++
		}
		return nil
	}
	for range w.rng.IntN(80) {
		rec, ok, err := w.q.Peek()
		if err != nil {
			return err
		}
		if !ok {
			if w.from != w.to {
				return errors.New("empty too early")
			}
			return nil
		}
		if string(rec) != string(record(w.from, w.maxLen)) {
			return errors.New("wrong record")
		}
		w.from++
		w.q.Advance()
	}
	return nil
}
