package drum

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/internal/damage"
)

// world is a store with its input and output, and a manifest on the same file system: a small crawl.
type world struct {
	t   testing.TB
	set disk.Set
	opt Options // without Set and Emit
	d   *Drum

	cancel   func() // if not nil, Emit calls it after cancelIn batches
	cancelIn int

	grown bool // directories were added

	now   history
	saved map[uint64]history // by generation of the manifest
	gen   uint64
}

// history is everything that happened to a store up to a moment.
type history struct {
	added   []Tuple
	emitted []Result
}

func (h history) clone() history { return history{slices.Clone(h.added), slices.Clone(h.emitted)} }

type manifest struct {
	Gen   uint64
	State *State
}

const manifestName = "d0/manifest"

func newWorld(t testing.TB, fsys disk.FS, opt Options, dirs int) *world {
	w := &world{t: t, opt: opt, saved: map[uint64]history{}}
	w.set.FS = fsys
	for i := range dirs {
		w.set.Paths = append(w.set.Paths, fmt.Sprintf("d%d", i))
	}
	return w
}

// durable returns the durable manifest, which must exist.
func (w *world) durable() (m manifest) {
	w.t.Helper()
	if must(w.t, damage.LoadManifest(w.set.FS, manifestName, &m)); m.State == nil {
		w.t.Fatal("no durable state")
	}
	return m
}

// open opens the store in the state of the durable manifest.
func (w *world) open() error {
	var m manifest
	if err := damage.LoadManifest(w.set.FS, manifestName, &m); err != nil {
		return err
	}
	w.now, w.gen = w.saved[m.Gen].clone(), m.Gen
	opt := w.opt
	opt.Set = w.set
	opt.Emit = func(rs []Result) error {
		if len(rs) == 0 || len(rs) > batchResults {
			w.t.Errorf("batch of %d results", len(rs))
		}
		if w.cancelIn--; w.cancelIn == 0 && w.cancel != nil {
			w.cancel()
		}
		for _, r := range rs {
			r.Out, r.Value, r.Aux = bytes.Clone(r.Out), bytes.Clone(r.Value), bytes.Clone(r.Aux)
			w.now.emitted = append(w.now.emitted, r)
		}
		return nil
	}
	if err := disk.RemoveTails(w.set, func(gen uint64) bool { return gen == m.Gen }); err != nil {
		return err
	}
	var err error
	w.d, err = Open(opt, m.State)
	if err == nil && w.opt.Name == "plain" { // as an older version of the program wrote them
		for _, log := range w.d.texts.logs {
			if log.next == 0 {
				log.s.kind = plainBlocks
			}
		}
	}
	return err
}

// add adds tuples. The aux of a tuple is its number.
func (w *world) add(ts []Tuple) error {
	for i := range ts {
		ts[i].Aux = fmt.Appendf(ts[i].Aux, "%d", len(w.now.added)+i)
	}
	for i := range ts {
		c := ts[i]
		c.Value, c.Aux = bytes.Clone(c.Value), bytes.Clone(c.Aux)
		w.now.added = append(w.now.added, c)
	}
	return w.d.Add(ts)
}

// checkpoint runs the checkpoint protocol. It calls between after Freeze and before Save.
func (w *world) checkpoint(between func() error) error {
	w.d.Pause()
	f := w.d.Freeze()
	snapshot := w.now.clone()
	w.d.Resume()
	if between != nil {
		if err := between(); err != nil {
			return err
		}
	}
	gen := w.gen + 1
	tails, err := disk.CreateTails(w.set, gen)
	if err != nil {
		return err
	}
	st, err := f.Save(tails)
	if err = errors.Join(err, tails.Close()); err != nil {
		return err
	}
	w.saved[gen] = snapshot
	if err := damage.StoreManifest(w.set.FS, manifestName, manifest{gen, st}, w.set.Paths...); err != nil {
		return err
	}
	w.gen = gen
	if err := f.Commit(); err != nil {
		return err
	}
	return disk.RemoveTails(w.set, func(g uint64) bool { return g == gen })
}

// finish merges everything and compares the whole history and the cache with the reference.
func (w *world) finish() error {
	for range 2 {
		if _, err := w.d.Pass(context.Background(), true); err != nil {
			return err
		}
	}
	if n, b := w.d.Pending(); n != 0 || b != 0 {
		w.t.Errorf("got %d tuples, %d bytes pending after an early pass", n, b)
	}
	if err := w.checkpoint(nil); err != nil {
		return err
	}
	w.check()
	return nil
}

// want computes the reference: the expected result of each tuple, by number, and the cache.
func (w *world) want() (results []Result, cache map[Key]string) {
	cache = map[Key]string{}
	var arena Arena
	for _, t := range w.now.added {
		r := Result{Key: t.Key, Op: t.Op, Value: t.Value, Aux: t.Aux}
		old, exists := cache[t.Key]
		apply := w.opt.Apply
		if apply == nil {
			apply = ApplyCheckUpdate
		}
		items := []Item{{Op: t.Op, Value: t.Value}}
		value, action := apply(t.Key, []byte(old), exists, items, &arena, nil)
		switch action {
		case Set:
			cache[t.Key] = string(value)
		case Expunge:
			delete(cache, t.Key)
		}
		r.New = items[0].New
		if w.opt.Apply != nil {
			r.Result, r.Out = items[0].Result, bytes.Clone(items[0].Out)
		}
		results = append(results, r)
	}
	return results, cache
}

func (w *world) wants(r *Result) bool {
	if w.opt.logged() {
		return r.New
	}
	return w.opt.wants(r)
}

func (w *world) check() {
	t := w.t
	t.Helper()
	want, cache := w.want()
	seen := map[int]bool{}
	lastOf := map[uint64]int{}
	for _, r := range w.now.emitted {
		i, err := strconv.Atoi(string(r.Aux[bytes.LastIndexByte(r.Aux, '.')+1:]))
		if err != nil || i >= len(want) {
			t.Fatalf("got aux %q", r.Aux)
		}
		if seen[i] {
			t.Fatalf("tuple %d emitted twice", i)
		}
		seen[i] = true
		if r.Found && r.New && w.opt.Name != "variable" { // entries may be expunged in between
			t.Fatalf("tuple %d both new and found", i)
		}
		x := &want[i]
		if w.opt.logged() {
			r.Key = x.Key // results of logs have no key
		}
		if r.Key != x.Key || r.Op != x.Op || r.New != x.New || r.Result != x.Result || !bytes.Equal(r.Out, x.Out) ||
			!bytes.Equal(r.Value, x.Value) || !bytes.Equal(r.Aux, x.Aux) {
			t.Fatalf("result %d: got %+v, want %+v", i, r, x)
		}
		order := uint64(r.Key) >> w.d.shift
		if w.opt.logged() {
			order %= uint64(w.set.Len())
		}
		if last, ok := lastOf[order]; ok && last > i && !(w.grown && w.opt.logged()) {
			t.Fatalf("bucket or log %d: tuple %d after %d", order, i, last)
		}
		lastOf[order] = i
	}
	for i := range want {
		if w.wants(&want[i]) && !seen[i] {
			t.Fatalf("tuple %d of %d was not emitted", i, len(want))
		}
	}
	w.checkCache(cache)
}

// checkCache compares the cache of the durable state with the reference.
func (w *world) checkCache(cache map[Key]string) {
	t := w.t
	t.Helper()
	m := w.durable()
	last, n := Key(0), 0
	err := walkCache(w.set, w.opt.Name, m.State, func(key Key, value []byte) error {
		if n > 0 && key <= last {
			t.Fatalf("cache: key %x after %x", key, last)
		}
		if want, ok := cache[key]; !ok || want != string(value) {
			t.Fatalf("cache: key %x: got %q, want %q (%v)", key, value, want, ok)
		}
		last = key
		n++
		return nil
	})
	must(t, err)
	if n != len(cache) || int64(n) != w.d.Keys() {
		t.Fatalf("cache: got %d keys, counter %d, want %d", n, w.d.Keys(), len(cache))
	}
}

// applyTest changes values by rules that depend on all arguments of Apply, tuple by tuple. The split into
// runs and rounds must not matter.
func applyTest(key Key, old []byte, exists bool, run []Item, a *Arena, dst []byte) ([]byte, Action) {
	value, action := append(dst, old...), Keep
	for i := range run {
		it := &run[i]
		it.New = !exists
		it.Result = xxhash.Sum64(value) ^ uint64(key)
		it.Out = a.Bytes(min(len(value), 12))
		copy(it.Out, value)
		switch {
		case it.Op == Check:
		case len(it.Value)%7 == 3:
			value, exists, action = value[:0], false, Expunge
		case it.Op == Update:
			value, exists, action = append(value[:0], it.Value...), true, Set
		default:
			value = append(value, it.Value...)
			value, exists, action = value[max(0, len(value)-40):], true, Set
		}
	}
	return value, action
}

// applyCount, for fixed values, counts the updates of a key.
func applyCount(_ Key, old []byte, exists bool, run []Item, _ *Arena, dst []byte) ([]byte, Action) {
	n, action := uint64(0), Keep
	if exists {
		n = binary.LittleEndian.Uint64(old)
	}
	for i := range run {
		run[i].Result, run[i].New = n, n == 0
		if run[i].Op&Update != 0 {
			n++
			action = Set
		}
	}
	return append(binary.LittleEndian.AppendUint64(dst, n), "...."...), action
}

// applyReplace is the rule of plain stores of values. New is as in ApplyCheckUpdate. Out is the value
// before the tuple, so OutBytes must be the length of the longest value. Update and CheckUpdate replace the
// value by theirs.
func applyReplace(_ Key, old []byte, exists bool, run []Item, _ *Arena, dst []byte) ([]byte, Action) {
	present, value, action := exists, old, Keep
	for i := range run {
		it := &run[i]
		it.New = !present
		if present && it.Op&Check != 0 {
			it.Out = value
		}
		if it.Op&Update != 0 {
			present, value, action = true, it.Value, Set
		}
	}
	return append(dst, value...), action
}

// kinds are the configurations that the tests use. M is 4 KiB.
var kinds = map[string]Options{
	"seen":  {Name: "urlSeen", Op: CheckUpdate, Codec: Rice, Workers: 2, Wanted: func(r *Result) bool { return r.New }},
	"mixed": {Name: "mixed", Codec: Raw, Workers: 4, RoundTuples: 30},
	"slow":  {Name: "slow", Apply: ApplyCheckUpdate, Each: true, RoundTuples: 100},
	"first": {Name: "first", ValueBytes: -1, MaxValueBytes: 100, Workers: 2, Codec: Rice},
	"count": {Name: "count", Apply: applyCount, ValueBytes: 12, MaxValueBytes: 100, Each: true,
		RoundTuples: 7, Codec: Rice},
	"variable": {
		Name: "variable", Apply: applyTest, ValueBytes: -1, MaxValueBytes: 300, OutBytes: 12,
	},
	"log": {Name: "log", Op: CheckUpdate, Aux: AuxLog, SpanBytes: 64, LogBytes: 8192, Codec: Rice, Workers: 3},
	"packed": {Name: "packed", Op: CheckUpdate, Aux: AuxLog, SpanBytes: 64, LogBytes: 4096, Codec: Rice,
		PackTexts: PackAlways},
	"plain": {Name: "plain", Op: CheckUpdate, Aux: AuxLog, SpanBytes: 64, LogBytes: 8192, Codec: Rice, Workers: 2},
	"replace": {
		Name: "replace", Apply: applyReplace, ValueBytes: -1, MaxValueBytes: 100, OutBytes: 100, Each: true,
	},
}

// small sets sizes in opt at which a few thousand tuples exercise all paths.
func small(opt Options) Options {
	opt.Buckets, opt.BufferBytes, opt.BucketBytes, opt.ReadChunkBytes, opt.workerTuples = 4, 4096, 16<<10, 4096, 512
	return opt
}

// tuples draws n tuples. Many keys repeat; in the skewed kinds most tuples have the same key.
func (w *world) tuples(rng *rand.Rand, n int) []Tuple {
	ts := make([]Tuple, n)
	for i := range ts {
		t := &ts[i]
		t.Key = Key(rng.Uint64N(3000) * 0x9e3779b97f4a7c15)
		if w.opt.Each && rng.IntN(3) > 0 {
			t.Key = 77 << 56
		}
		if t.Op = w.opt.Op; t.Op == 0 {
			t.Op = Op(rng.IntN(3) + 1)
		}
		if w.opt.ValueBytes != 0 {
			t.Value = make([]byte, rng.IntN(rng.IntN(min(40, w.opt.MaxValueBytes))+1))
			for j := range t.Value {
				t.Value[j] = byte('a' + rng.IntN(26))
			}
		}
		t.Aux = append(bytes.Repeat([]byte("x"), rng.IntN(rng.IntN(200)+1)), '.')
	}
	return ts
}

// checkWalk compares the tuples that wait in the durable state with those added and not merged.
func (w *world) checkWalk() {
	w.t.Helper()
	m := w.durable()
	h := w.saved[m.Gen].clone()
	left := map[string]*Tuple{}
	for i := range h.added {
		left[string(h.added[i].Aux)] = &h.added[i]
	}
	err := walk(w.set, w.opt.Name, m.State, func(t Tuple) error {
		x := left[string(t.Aux)]
		if x != nil && w.opt.logged() {
			t.Key = x.Key
		}
		if x == nil || t.Key != x.Key || t.Op != x.Op || !bytes.Equal(t.Value, x.Value) {
			w.t.Fatalf("walk: got %+v, want %+v", t, x)
		}
		delete(left, string(t.Aux))
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	err = walkUniques(w.set, w.opt.Name, m.State, func(aux []byte) error {
		if left[string(aux)] == nil {
			w.t.Fatalf("walk: unique text %s also waits", aux)
		}
		h.emitted = append(h.emitted, Result{Aux: bytes.Clone(aux)})
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range h.emitted {
		if left[string(r.Aux)] == nil {
			w.t.Fatalf("walk: tuple %s waits though it was emitted", r.Aux)
		}
		delete(left, string(r.Aux))
	}
	want, _ := w.want()
	for i := range want {
		if r := &want[i]; w.wants(r) && left[string(r.Aux)] != nil {
			w.t.Fatalf("walk: tuple %s neither waits nor was emitted", r.Aux)
		}
	}
}
