package drum

import (
	"context"
	"math/rand/v2"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestLateKeys: a store that gets a key at a time, with a pass for each, writes much less than a page a key,
// and has all keys at each checkpoint, which is also the state of an earlier version once there are no late
// keys.
func TestLateKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(*seedFlag), 1))
	opt := small(kinds["log"])
	w := newWorld(t, memfs.New(1), opt, 2)
	must(t, w.open())
	one := func(key Key) {
		must(t, w.add([]Tuple{{Key: key, Op: CheckUpdate}}))
		_, err := w.d.Pass(context.Background(), true)
		must(t, err)
	}
	var keys []Key
	written := int64(0)
	const n = 400
	for i := range n {
		key := Key(rng.Uint64())
		if i > 0 && i%5 == 0 { // an old key that is not in the table of recent ones after a restart
			key = keys[rng.IntN(len(keys))]
		}
		keys = append(keys, key)
		one(key)
		if i%50 == 49 {
			must(t, w.checkpoint(nil))
			st, late := w.durable().State, 0
			for j := range st.Parts {
				late += len(st.Parts[j].Late)
			}
			if late == 0 || int64(late) != w.d.lateKeys.Load() || st.Keys() != w.d.Keys() {
				t.Errorf("%d late keys, the store has %d; %d keys, the store has %d", late, w.d.lateKeys.Load(),
					st.Keys(), w.d.Keys())
			}
			for _, key := range keys {
				if _, found, err := Lookup(w.set, opt.Name, st, key); err != nil || !found {
					t.Fatalf("key %x: found %v, %v", key, found, err)
				}
			}
			_, cache := w.want()
			w.checkCache(cache)
			written += w.d.Stats().CacheWritten
			must(t, w.d.Close())
			must(t, w.open())
		}
	}
	if written > n*pageBytes/4 {
		t.Errorf("%d bytes written of the cache for %d keys, want at most a quarter of a page each", written, n)
	}
	w.manyLate(t, rng)
	m := w.durable()
	m.State.V = leastStateVersion
	must(t, w.d.Close())
	o := opt
	o.Set = w.set
	d, err := Open(o, m.State)
	must(t, err)
	if d.Keys() != w.d.Keys() {
		t.Errorf("%d keys, want %d", d.Keys(), w.d.Keys())
	}
	must(t, d.Close())
	must(t, w.open())
	must(t, w.finish())
}

// manyLate adds more keys in a round than may be late.
func (w *world) manyLate(t *testing.T, rng *rand.Rand) {
	for i := range w.d.buckets {
		ts := make([]Tuple, fewKeys+1)
		for j := range ts {
			ts[j] = Tuple{Key: Key(i)<<w.d.shift | Key(rng.Uint64()>>2), Op: CheckUpdate}
		}
		must(t, w.add(ts))
	}
	_, err := w.d.Pass(context.Background(), true)
	must(t, err)
	must(t, w.checkpoint(nil))
	if late := w.d.lateKeys.Load(); late != 0 {
		t.Errorf("%d late keys after large rounds", late)
	}
}

// TestManyLateKeys: small passes do not rewrite the parts of a large store, each time that they find new
// keys, and checkpoints and restarts keep these keys.
func TestManyLateKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(*seedFlag), 3))
	opt := small(kinds["log"])
	opt.BucketBytes = 4 << 20 // so that all blocks have indexes
	w := newWorld(t, memfs.New(1), opt, 2)
	must(t, w.open())
	var keys []Key
	add := func(n int) {
		ts := make([]Tuple, n)
		for i := range ts {
			key := Key(rng.Uint64())
			if len(keys) > 0 && rng.IntN(4) == 0 {
				key = keys[rng.IntN(len(keys))]
			}
			keys = append(keys, key)
			ts[i] = Tuple{Key: key, Op: CheckUpdate}
		}
		must(t, w.add(ts))
		_, err := w.d.Pass(context.Background(), true)
		must(t, err)
	}
	const each = 320 // late keys a bucket
	for w.d.Keys() < int64(opt.Buckets*each*lateShare) {
		add(1 << 12)
	}
	changed, rewritten := w.d.Stats().Changed, 0
	const passes = 48
	for i := range passes {
		add(each * opt.Buckets / 20)
		must(t, w.checkpoint(nil))
		if i%8 == 7 {
			_, cache := w.want()
			w.checkCache(cache)
		}
		if now := w.d.Stats().Changed; now > changed {
			rewritten++
			changed = now
		}
		if rng.IntN(4) == 0 {
			must(t, w.d.Close())
			must(t, w.open())
			changed = w.d.Stats().Changed
		}
	}
	if late := w.d.lateKeys.Load(); rewritten == 0 || rewritten > passes/3 || late == 0 {
		t.Errorf("%d of %d passes have rewritten parts, %d late keys", rewritten, passes, late)
	}
	must(t, w.finish())
}

// TestLateKeysAreFew: late keys are bounded in a bucket and in all.
func TestLateKeysAreFew(t *testing.T) {
	opt := small(kinds["log"])
	opt.Buckets, opt.Set = 1<<9, disk.Set{FS: memfs.New(1), Paths: []string{"d"}}
	d, err := Open(opt, nil)
	must(t, err)
	defer d.Close()
	rng := rand.New(rand.NewPCG(uint64(*seedFlag), 2))
	most := int64(0)
	for range 20 {
		for range 2 << 9 {
			must(t, d.Add([]Tuple{{Key: Key(rng.Uint64()), Op: CheckUpdate}}))
		}
		_, err := d.Pass(t.Context(), true)
		must(t, err)
		for i := range d.buckets {
			if n := len(d.buckets[i].late); n > fewKeys {
				t.Fatalf("bucket %d has %d late keys", i, n)
			}
		}
		most = max(most, d.lateKeys.Load())
	}
	if limit := int64(maxLateKeys + fewKeys*max(1, opt.Workers)); most > limit || most < maxLateKeys/2 {
		t.Errorf("at most %d late keys, want up to %d", most, limit)
	}
}
