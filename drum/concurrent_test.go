package drum

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// Many adders, passes and checkpoints run concurrently. Each tuple must be answered once, and the tuples of
// an adder with the same key in order. A checkpoint saved meanwhile must hold the moment of its Freeze.
func TestConcurrent(t *testing.T) {
	for _, name := range []string{"mixed", "slow", "log"} {
		for _, ram := range []int64{-1, 2 << 10, 1 << 20} {
			if testing.Short() && ram != 2<<10 {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d bytes of files in RAM", name, max(0, ram)), func(t *testing.T) {
				opt := small(kinds[name])
				opt.cacheRAMBytes = ram
				testConcurrent(t, opt)
			})
		}
	}
}

// Many goroutines add the same keys while passes run in small rounds. The text of each key is emitted once: it is never
// left out where a round finds its key new.
func TestConcurrentRepeats(t *testing.T) {
	const keys, adders = 3000, 6
	opt := small(kinds["log"])
	opt.Set, opt.BucketBytes, opt.RoundTuples = disk.Set{FS: memfs.New(1), Paths: []string{"a", "b"}}, 4<<10, 50
	emitted := map[string]int{}
	opt.Emit = func(rs []Result) error {
		for i := range rs {
			emitted[string(rs[i].Aux)]++
		}
		return nil
	}
	d, err := Open(opt, nil)
	must(t, err)
	var wg, passing sync.WaitGroup
	var done atomic.Bool
	added := make([]map[string]bool, adders)
	for a := range adders {
		added[a] = map[string]bool{}
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(*seedFlag), uint64(a)))
			for i := range 400 {
				ts := make([]Tuple, 1+rng.IntN(100))
				for j := range ts {
					n := rng.Uint64N(uint64(8 * (i + 1))) // the keys of the other goroutines at about this time
					key := Key(n % keys * 0x9e3779b97f4a7c15)
					ts[j] = Tuple{Key: key, Op: CheckUpdate, Aux: fmt.Appendf(nil, "text of %x", key)}
					added[a][string(ts[j].Aux)] = true
				}
				if err := d.Add(ts); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	passing.Go(func() {
		for !done.Load() {
			if _, err := d.Pass(context.Background(), true); err != nil {
				t.Error(err)
				return
			}
		}
	})
	wg.Wait()
	done.Store(true)
	passing.Wait()
	_, err = d.Pass(context.Background(), true)
	must(t, err)
	must(t, d.Close())
	all := map[string]bool{}
	for _, texts := range added {
		for text := range texts {
			all[text] = true
		}
	}
	for text := range all {
		if emitted[text] != 1 {
			t.Fatalf("%q emitted %d times", text, emitted[text])
		}
	}
	if len(emitted) != len(all) {
		t.Errorf("%d texts emitted, %d added", len(emitted), len(all))
	}
}

type concurrent struct {
	t   *testing.T
	set disk.Set
	opt Options
	d   *Drum

	steps sync.RWMutex // as in the crawl: held for reading in a transaction, for writing around Freeze
	added [4]int       // by adder

	mu      sync.Mutex
	emitted map[string]int
	last    map[string]int // by adder and key
}

func (c *concurrent) emit(rs []Result) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range rs {
		var adder, i int
		if _, err := fmt.Sscanf(string(r.Aux), "%d/%d", &adder, &i); err != nil {
			return err
		}
		c.emitted[string(r.Aux)]++
		if c.opt.logged() {
			continue // results without keys
		}
		at := fmt.Sprint(adder, r.Key)
		if last, ok := c.last[at]; ok && last > i {
			c.t.Errorf("adder %d: tuple %d of key %x after %d", adder, i, r.Key, last)
		}
		c.last[at] = i
	}
	return nil
}

func (c *concurrent) add(adder, batches int) error {
	rng := rand.New(rand.NewPCG(5, uint64(adder)))
	for range batches {
		ts := make([]Tuple, rng.IntN(100))
		c.steps.RLock()
		for i := range ts {
			aux := fmt.Appendf(nil, "%d/%d", adder, c.added[adder]+i)
			key := Key(rng.Uint64N(500) << 55)
			if c.opt.logged() {
				key = Key((uint64(c.added[adder]+i)*4 + uint64(adder)) * 0x9e3779b97f4a7c15) // all distinct
			}
			ts[i] = Tuple{Key: key, Op: CheckUpdate, Aux: aux}
		}
		err := c.d.Add(ts)
		c.added[adder] += len(ts)
		c.steps.RUnlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func testConcurrent(t *testing.T, opt Options) {
	c := &concurrent{t: t, opt: opt, emitted: map[string]int{}, last: map[string]int{}}
	c.set = disk.Set{FS: memfs.New(1), Paths: []string{"a", "b"}}
	c.opt.Set, c.opt.Emit = c.set, c.emit
	var err error
	c.d, err = Open(c.opt, nil)
	must(t, err)
	var adders, others sync.WaitGroup
	var done atomic.Bool
	for adder := range c.added {
		adders.Go(func() {
			if err := c.add(adder, 150); err != nil {
				t.Error(err)
			}
		})
	}
	others.Go(func() {
		for i := 0; !done.Load(); i++ {
			if _, err := c.d.Pass(context.Background(), i%3 == 0); err != nil {
				t.Error(err)
				return
			}
		}
	})
	others.Go(func() {
		for gen := uint64(1); !done.Load(); gen++ {
			if err := c.checkpoint(gen); err != nil {
				t.Error(err)
				return
			}
		}
	})
	adders.Wait()
	done.Store(true)
	others.Wait()
	_, err = c.d.Pass(context.Background(), true)
	must(t, err)
	checkRAM(t, c.d)
	for adder, n := range c.added {
		for i := range n {
			if got := c.emitted[fmt.Sprintf("%d/%d", adder, i)]; got != 1 {
				t.Fatalf("tuple %d/%d emitted %d times", adder, i, got)
			}
		}
	}
	must(t, c.d.Close())
}

// checkpoint saves a state while other work continues, and compares its tuples with those of its moment.
func (c *concurrent) checkpoint(gen uint64) error {
	c.d.Pause()
	c.steps.Lock()
	f := c.d.Freeze()
	total := 0
	for _, n := range c.added {
		total += n
	}
	c.mu.Lock()
	total -= len(c.emitted)
	c.mu.Unlock()
	c.steps.Unlock()
	c.d.Resume()
	tails, err := disk.CreateTails(c.set, gen)
	if err != nil {
		return err
	}
	st, err := f.Save(tails)
	if err := errors.Join(err, tails.Close()); err != nil {
		return err
	}
	seen := map[string]bool{}
	note := func(aux []byte) error {
		if seen[string(aux)] || bytes.IndexByte(aux, '/') < 0 {
			c.t.Errorf("tuple %q saved twice", aux)
		}
		seen[string(aux)] = true
		return nil
	}
	err = walk(c.set, c.opt.Name, st, func(t Tuple) error { return note(t.Aux) })
	if err = errors.Join(err, walkUniques(c.set, c.opt.Name, st, note)); err != nil {
		return err
	}
	if len(seen) != total {
		c.t.Errorf("checkpoint %d: got %d tuples saved, want %d", gen, len(seen), total)
	}
	return f.Commit()
}
