package audit

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"drumbeat/disk/memfs"
)

// TestKeySorter checks that all entries come out once, in order and grouped by key, with and without runs
// on disk, also a second time.
func TestKeySorter(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for _, n := range []int{0, 1, 1000, 150_000} {
		mem := memfs.New(1)
		if err := mem.MkdirAll("d"); err != nil {
			t.Fatal(err)
		}
		s := newKeySorter(mem, "d/tmp", 0)
		var want []TaggedKey
		for range n {
			k := TaggedKey{Key: rng.Uint64N(1 << 17), Tag: uint8(rng.IntN(12)), Mark: uint32(rng.IntN(3))}
			want = append(want, k)
			if err := s.add(k); err != nil {
				t.Fatal(err)
			}
		}
		slices.SortFunc(want, func(a, b TaggedKey) int {
			return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Tag, b.Tag), cmp.Compare(a.Mark, b.Mark))
		})
		for range 2 {
			err := s.begin()
			var got, group []TaggedKey
			for err == nil {
				if group, err = s.group(group); len(group) == 0 {
					break
				}
				if len(got) > 0 && got[len(got)-1].Key == group[0].Key {
					t.Fatalf("key %x in two groups", group[0].Key)
				}
				got = append(got, group...)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("%d entries: got %d, %v", n, len(got), err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if names, err := mem.List("d"); err != nil || len(names) > 0 {
			t.Errorf("left over: %q, %v", names, err)
		}
	}
}
