package move

import (
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"drumbeat/drum"
)

// sourceOf returns the entries of a store, whose values name it.
func sourceOf(name string, keys []drum.Key) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for _, key := range keys {
			if !yield(entry{key, []byte(name)}) {
				return
			}
		}
	}
}

// TestMerge: random stores that share keys give each key once, in order, with the value of the first store that has it.
func TestMerge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		first := map[drum.Key]string{}
		var sources []iter.Seq[entry]
		for s := range r.IntN(5) {
			keys := make([]drum.Key, r.IntN(20))
			for i := range keys {
				keys[i] = drum.Key(r.IntN(30))
			}
			slices.Sort(keys)
			keys = slices.Compact(keys)
			name := string(rune('a' + s))
			for _, key := range keys {
				if _, known := first[key]; !known {
					first[key] = name
				}
			}
			sources = append(sources, sourceOf(name, keys))
		}
		var got []drum.Key
		if err := merge(sources, func(e entry) error {
			if got = append(got, e.key); string(e.value) != first[e.key] {
				t.Errorf("key %d has the value of store %s, want %s", e.key, e.value, first[e.key])
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		want := make([]drum.Key, 0, len(first))
		for key := range first {
			want = append(want, key)
		}
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Fatalf("merged keys %d, want %d", got, want)
		}
	}
}

// TestMergeStops: an error of add ends the merge, and the sources are not read further.
func TestMergeStops(t *testing.T) {
	full, read := errors.New("disk full"), 0
	source := func(yield func(entry) bool) {
		for key := drum.Key(0); key < 100 && yield(entry{key: key}); key++ {
			read++
		}
	}
	added := 0
	err := merge([]iter.Seq[entry]{source}, func(entry) error {
		if added++; added == 3 {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) || added != 3 || read > 3 {
		t.Errorf("merge: error %v after %d entries added and %d read, want %v after 3", err, added, read, full)
	}
}
