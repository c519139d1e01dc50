package audit

import (
	"math/rand/v2"
	"slices"
	"testing"

	"drumbeat/disk/memfs"
)

// TestKeySorter checks that all entries come out once, in order and grouped by key, with and without runs
// on disk; that Close removes the runs; and that a wrong byte in a run is an error.
func TestKeySorter(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for _, n := range []int{0, 1, 1000, 150_000} {
		mem := memfs.New(1)
		if err := mem.MkdirAll("d"); err != nil {
			t.Fatal(err)
		}
		s := newKeySorter(mem, "d/tmp", leastSortBytes)
		var want []TaggedKey
		for range n {
			k := TaggedKey{Key: rng.Uint64N(1 << 17), Tag: uint8(rng.IntN(12)), Mark: uint32(rng.IntN(3))}
			want = append(want, k)
			if err := s.Add(k); err != nil {
				t.Fatal(err)
			}
		}
		if got := cap(s.buf) * taggedKeyRAM; got > 2*leastSortBytes {
			t.Errorf("%d entries take %d bytes of RAM, want %d", n, got, leastSortBytes)
		}
		slices.SortFunc(want, compareTagged)
		read := func() (got []TaggedKey, err error) {
			st, err := s.sorted()
			if err != nil {
				return nil, err
			}
			defer st.Close()
			var group []TaggedKey
			for {
				var ok bool
				if group, ok, err = st.group(group); err != nil || !ok {
					return got, err
				}
				if len(got) > 0 && got[len(got)-1].Key == group[0].Key {
					t.Fatalf("key %x in two groups", group[0].Key)
				}
				got = append(got, group...)
			}
		}
		got, err := read()
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%d entries: got %d, %v", n, len(got), err)
		}
		if len(s.runs) > 0 {
			f, err := mem.Open(s.runs[0].Name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt([]byte{0xff, 0xff}, 2000); err != nil {
				t.Fatal(err)
			}
			if _, err := read(); err == nil {
				t.Error("a wrong byte in a run: no error")
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
