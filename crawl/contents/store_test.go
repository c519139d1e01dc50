package contents

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/plan"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/state"
)

// TestOwnBodyIsNew: a page whose emission was put off, after its value had entered the store, is still the
// first page with its body. Later ones are not.
func TestOwnBodyIsNew(t *testing.T) {
	p := &plan.Plan{}
	p.Content.BucketBytes, p.Content.BufferBytes = 1<<20, 256<<10
	saved := state.NewSaved(memfs.New(1), []string{"."}, nil)
	c := New(account.New(slog.New(slog.DiscardHandler), nil, nil), saved, Options{Plan: p}, nil, nil, nil)
	if !c.DrumOptions().Yield {
		t.Error("an emission does not yield to checkpoints")
	}
	value := func(url string) []byte {
		v := bodyValue{date: time.Unix(1, 0), url: []byte(url)}
		return v.append(nil)
	}
	a, b := value("http://a.test/"), value("http://b.test/")
	round := func(old []byte, exists bool, values ...[]byte) (items []drum.Item, action drum.Action) {
		c.firsts = c.firsts[:0]
		for _, v := range values {
			items = append(items, drum.Item{Op: drum.CheckUpdate, Value: v})
		}
		_, action = c.apply(1, old, exists, items, nil, nil)
		return items, action
	}
	for _, tt := range []struct {
		what   string
		old    []byte
		values [][]byte
		known  []bool
	}{
		{"none yet", nil, [][]byte{a, b}, []bool{false, true}},
		{"a again after the emission yielded", a, [][]byte{a, b}, []bool{false, true}},
		{"a was emitted, b is left", a, [][]byte{b, a}, []bool{true, true}},
	} {
		items, action := round(tt.old, tt.old != nil, tt.values...)
		for i := range items {
			if known := items[i].Result > 0; known != tt.known[i] || items[i].New == known {
				t.Errorf("%s: page %d: known %v, new %v", tt.what, i, known, items[i].New)
			}
		}
		if want := map[bool]drum.Action{true: drum.Set, false: drum.Keep}[tt.old == nil]; action != want {
			t.Errorf("%s: action %v", tt.what, action)
		}
	}
}

// TestRecentBodies: the table returns the last value of a key or none, also of keys that share a set; a body
// that is asked for stays while others of its set come once.
func TestRecentBodies(t *testing.T) {
	r := newRecentBodies(8 * recentSet)
	defer r.close()
	rng := rand.New(rand.NewPCG(1, 0))
	last, found := map[drum.Key][]byte{}, 0
	for i := range 20000 {
		key := drum.Key(rng.Uint64N(64)) // twice the slots
		if v, ok := r.get(nil, key); ok {
			if found++; !bytes.Equal(v, last[key]) {
				t.Fatalf("key %d: got %q, want %q", key, v, last[key])
			}
		}
		v := fmt.Appendf(nil, "%d %0*d", i, rng.IntN(recentValue-8), 0)
		r.put(key, v)
		last[key] = v
	}
	if found < 20000/4 {
		t.Errorf("%d of 20000 keys were found in a table for half of them", found)
	}
	const hot = 1 << 20
	r.put(hot, []byte("hot"))
	for i := range 100 {
		if _, ok := r.get(nil, hot); !ok {
			t.Fatalf("a body that is asked for was dropped after %d others", i)
		}
		r.put(drum.Key(hot+8*(i+1)), []byte("once"))
	}
	r.put(hot, make([]byte, recentValue+1))
	if v, ok := r.get(nil, hot); !ok || string(v) != "hot" {
		t.Errorf("a value that is too long replaced the other: %q", v)
	}
	none := newRecentBodies(recentSet - 1)
	none.put(hot, []byte("hot"))
	if _, ok := none.get(nil, hot); ok {
		t.Error("a table without room found a body")
	}
}
