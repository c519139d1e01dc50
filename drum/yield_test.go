package drum

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// ownValue is ApplyCheckUpdate for values that differ for each tuple. It knows its own value.
func ownValue(_ Key, old []byte, exists bool, run []Item, _ *Arena, dst []byte) ([]byte, Action) {
	action := Keep
	for i := range run {
		if !exists {
			old, exists, action, run[i].New = run[i].Value, true, Set, true
		} else if i == 0 && bytes.Equal(old, run[i].Value) {
			run[i].New = true
		}
	}
	return append(dst, old...), action
}

// verdict is an emitted result.
type verdict struct {
	aux string
	new bool
}

// addNumbered adds tuples with texts of their own, and returns which of the texts have new keys.
func addNumbered(t *testing.T, d *Drum, tuples, keys int) map[string]bool {
	t.Helper()
	want, seen := map[string]bool{}, map[Key]bool{}
	for i := range tuples {
		key := Key(uint64(i*i%keys+1) * 0x9e3779b97f4a7c15)
		text := fmt.Sprintf("tuple %d %030d", i, i)
		want[text], seen[key] = !seen[key], true
		must(t, d.Add([]Tuple{{Key: key, Op: CheckUpdate, Value: []byte(text), Aux: []byte(text)}}))
	}
	return want
}

// checkVerdicts: all tuples were emitted, with these verdicts.
func checkVerdicts(t *testing.T, what string, got []verdict, want map[string]bool, tuples int) {
	t.Helper()
	if len(got) != tuples {
		t.Errorf("%s: %d of %d tuples emitted", what, len(got), tuples)
	}
	for _, v := range got {
		if w, ok := want[v.aux]; !ok || w != v.new {
			t.Fatalf("%s: %q has new %v", what, v.aux, v.new)
		}
	}
}

// TestYield: an emission must let each Pause through after one batch. A store that is restored from the state taken
// then must emit the rest of the round with the verdicts of the round, and so must the store that continues.
func TestYield(t *testing.T) {
	const tuples, keys = 3000, 1100 // one batch has 512, a block of aux 100
	var emitted []verdict
	var pausers, passing sync.WaitGroup
	pause, d := true, (*Drum)(nil)
	paused := make(chan int) // the tuples emitted when Pause returned
	opt := Options{Name: "yield", Buckets: 2, BufferBytes: 4096, ValueBytes: -1, MaxValueBytes: 48,
		BucketBytes: 1 << 20, Codec: Rice, Apply: ownValue, Yield: true, Emit: func(rs []Result) error {
			for i := range rs {
				emitted = append(emitted, verdict{string(rs[i].Aux), rs[i].New})
			}
			if !pause {
				return nil
			}
			pause = false
			pausers.Go(func() {
				d.Pause()
				paused <- len(emitted)
			})
			for d.pausing.Load() == 0 {
				runtime.Gosched()
			}
			return nil
		}}
	mem := memfs.New(*seedFlag)
	opt.Set = disk.Set{FS: mem, Paths: []string{"a", "b"}}
	d, err := Open(opt, nil)
	must(t, err)
	want := addNumbered(t, d, tuples, keys)
	var states []*State
	var images []*memfs.FS
	var befores []int
	passing.Go(func() {
		if _, err := d.Pass(context.Background(), true); err != nil {
			t.Error(err)
		}
		pausers.Wait()
		close(paused)
	})
	for before := range paused {
		if last := befores; len(last) > 0 && before-last[len(last)-1] > 2*batchResults {
			t.Errorf("Pause waited for %d tuples", before-last[len(last)-1])
		}
		f := d.Freeze()
		pause = len(states) < 8
		befores = append(befores, before)
		st, err := f.Save(nil)
		must(t, err)
		must(t, f.Commit())
		states, images = append(states, st), append(images, mem.Fork(uint64(len(states))))
		d.Resume()
	}
	passing.Wait()
	checkVerdicts(t, "the store that continued", emitted, want, tuples)
	must(t, d.Close())
	if len(states) < 8 || befores[0] > batchResults {
		t.Errorf("%d pauses, the first after %d tuples", len(states), befores[0])
	}
	all := emitted
	for i, st := range states {
		emitted = append([]verdict(nil), all[:befores[i]]...)
		opt.Set.FS = images[i]
		d, err = Open(opt, st)
		must(t, err)
		_, err = d.Pass(context.Background(), true)
		must(t, err)
		checkVerdicts(t, fmt.Sprintf("restored after %d", befores[i]), emitted, want, tuples)
		must(t, d.Close())
	}
}
