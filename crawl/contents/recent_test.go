package contents

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"drumbeat/drum"
)

// TestRecentBodies: the table returns the last value of a key or none, also of keys that share a set; a body that is
// asked for stays while others of its set come once.
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
