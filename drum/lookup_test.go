package drum

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/damage"
)

// lookUpAll returns the results of Lookup and WalkKey for some keys.
func lookUpAll(set disk.Set, name string, st *State, keys []Key) (map[string]int, error) {
	items := map[string]int{}
	var errs []error
	for _, key := range keys {
		value, found, err := Lookup(set, name, st, key)
		if errs = append(errs, err); found {
			items[fmt.Sprintf("entry %x %x", key, value)]++
		}
		errs = append(errs, WalkKey(set, name, st, key, func(t Tuple) error {
			if t.Key != key {
				return fmt.Errorf("key %x, want %x", t.Key, key)
			}
			if st.Aux == AuxLog {
				items["text "+string(t.Aux)]++
			} else {
				items[tupleItem(t)]++
			}
			return nil
		}))
	}
	return items, errors.Join(errs...)
}

// lookupsChecked is the number of keys that checkLookups looks up.
const lookupsChecked = 60

// checkLookups compares lookups with the walks, for some keys of a store and as many other keys.
func (w *world) checkLookups() {
	w.t.Helper()
	m := w.durable()
	keyOf := map[string]Key{} // by text
	keys := []Key{0, math.MaxUint64}
	added := w.saved[m.Gen].added
	for i, t := range added {
		keyOf[string(t.Aux)] = t.Key
		if len(added) < lookupsChecked || i%(len(added)/lookupsChecked) == 0 {
			keys = append(keys, t.Key, t.Key+1)
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	got, err := lookUpAll(w.set, w.opt.Name, m.State, keys)
	must(w.t, err)
	want := map[string]int{}
	asked := func(key Key) bool { _, yes := slices.BinarySearch(keys, key); return yes }
	must(w.t, walkCache(w.set, w.opt.Name, m.State, func(key Key, value []byte) error {
		if asked(key) {
			want[fmt.Sprintf("entry %x %x", key, value)]++
		}
		return nil
	}))
	must(w.t, walk(w.set, w.opt.Name, m.State, func(t Tuple) error {
		item := tupleItem(t)
		if m.State.Aux == AuxLog {
			t.Key, item = keyOf[string(t.Aux)], "text "+string(t.Aux)
		}
		if asked(t.Key) {
			want[item]++
		}
		return nil
	}))
	if !maps.Equal(got, want) {
		w.t.Fatalf("lookups: %d items, the walks find %d", len(got), len(want))
	}
}

// A lookup in damaged files must return the original data or an error that names the file.
func TestLookupOfDamagedFiles(t *testing.T) {
	for _, kind := range []string{"variable", "log", "seen"} {
		s := newSoundStore(t, kind, 2)
		var keys []Key
		var want map[string]int
		found := 0
		damage.Seeds(func(edits, flips []byte) {
			if len(edits) > 0 {
				return
			}
			var got map[string]int
			var err error
			changed := s.Use(t, nil, flips, func(fsys *memfs.FS, st *State) error {
				set := disk.Set{FS: fsys, Paths: s.Dirs}
				if want == nil {
					keys = someKeys(t, set, st)
				}
				got, err = lookUpAll(set, "s", st, keys)
				return err
			})
			switch {
			case want == nil:
				must(t, err)
				if want = got; len(want) < len(keys)/3 {
					t.Fatalf("%d items of %d keys", len(want), len(keys))
				}
			case err != nil && !damage.Named(err, changed):
				t.Fatalf("%v names none of %v", err, changed)
			case err != nil:
				found++
			case !maps.Equal(got, want):
				t.Fatalf("no damage found in %v but %d items, want %d", changed, len(got), len(want))
			}
		})
		if found == 0 {
			t.Errorf("%s: no damage was ever found", kind)
		}
	}
}

// someKeys returns keys of the cache and of the inputs.
func someKeys(t *testing.T, set disk.Set, st *State) (keys []Key) {
	add := func(key Key) { keys = append(keys, key, key+1) }
	must(t, walkCache(set, "s", st, func(key Key, _ []byte) error { add(key); return nil }))
	w, err := newWalker(set, "s", st)
	must(t, err)
	saved, err := w.buffers(st)
	must(t, err)
	for i := range st.Inputs {
		if is := &st.Inputs[i]; st.Aux == AuxLog {
			must(t, w.eachNumber(is, saved, func(key, _ uint64) { add(Key(key)) }))
		} else {
			must(t, w.input(is, saved, func(t Tuple) error { add(t.Key); return nil }))
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for i := range keys[:len(keys)/lookupsChecked] {
		keys[i] = keys[i*lookupsChecked]
	}
	return keys[:len(keys)/lookupsChecked]
}

// lookupStore creates a checkpointed store of n keys.
func lookupStore(t testing.TB, set disk.Set, n, buckets int) *State {
	d, err := Open(Options{Set: set, Name: "s", Buckets: buckets, Op: CheckUpdate, Codec: Rice, Aux: AuxLog,
		BufferBytes: 64 << 10, LogBytes: 1 << 20, BucketBytes: 16 << 20}, nil)
	must(t, err)
	defer d.Close()
	batch := make([]Tuple, 0, 1000)
	for i := range n {
		batch = append(batch, Tuple{Key: lookupKey(i), Op: CheckUpdate, Aux: []byte("x")})
		if len(batch) == cap(batch) || i == n-1 {
			must(t, d.Add(batch))
			batch = batch[:0]
			if i%(1<<20) < 1000 || i == n-1 {
				_, err := d.Pass(context.Background(), i == n-1)
				must(t, err)
			}
		}
	}
	d.Pause()
	st, err := d.Freeze().Save(nil)
	must(t, err)
	d.Resume()
	return st
}

// lookupKey returns the i-th key. The keys are uniform and distinct.
func lookupKey(i int) Key { return Key(uint64(i+1) * 0x9e3779b97f4a7c15) }

// A lookup reads the headers of a bucket's blocks and one block, whatever the size of the store.
func TestLookupReadsLittle(t *testing.T) {
	mem := memfs.New(1)
	meter := disk.NewMeter(mem)
	set := disk.Set{FS: meter, Paths: []string{"d"}}
	const n = 200_000
	st := lookupStore(t, set, n, 4)
	for i := range 50 {
		before := meter.Counts()
		_, found, err := Lookup(set, "s", st, lookupKey(i*997))
		must(t, err)
		bytes := meter.Counts().ReadBytes - before.ReadBytes
		if !found || bytes > 64<<10 {
			t.Fatalf("key %d: found %v in %d bytes read", i, found, bytes)
		}
	}
}

// BenchmarkLookup looks up keys in a store of -lookup.keys keys. B/lookup is the number of bytes read.
func BenchmarkLookup(b *testing.B) {
	meter := disk.NewMeter(disk.OS())
	set := disk.Set{FS: meter, Paths: []string{b.TempDir()}}
	st := lookupStore(b, set, *lookupKeys, 64)
	for _, c := range []struct {
		name  string
		first int
	}{{"seen", 0}, {"unseen", *lookupKeys}} {
		b.Run(c.name, func(b *testing.B) {
			before := meter.Counts()
			for i := range b.N {
				key := lookupKey(c.first + i*7919%*lookupKeys)
				_, found, err := Lookup(set, "s", st, key)
				must(b, err)
				if found != (c.first == 0) {
					b.Fatalf("key %x: found %v", key, found)
				}
				if !found {
					must(b, WalkKey(set, "s", st, key, func(Tuple) error { return nil }))
				}
			}
			now := meter.Counts()
			b.ReportMetric(float64(now.ReadBytes-before.ReadBytes)/float64(b.N), "B/lookup")
			b.ReportMetric(float64(now.Reads-before.Reads)/float64(b.N), "reads/lookup")
		})
	}
}

var lookupKeys = flag.Int("lookup.keys", 1_000_000, "keys of BenchmarkLookup's store")
