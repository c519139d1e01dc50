package export

import (
	"math/bits"
	"math/rand/v2"
	"testing"
)

// TestTables: hashes that differ in at most nearBits agree in a table, the order of a table can be undone, and
// sorting by it brings together the hashes that agree.
func TestTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		hash, diff := rng.Uint64(), uint64(0)
		for range rng.IntN(nearBits + 1) {
			diff |= 1 << rng.IntN(64)
		}
		if firstTable(diff) < 0 {
			t.Fatalf("no table for the difference %x", diff)
		}
		for i := range nearTables {
			key := forTable(hash, i)
			if back := fromTable(key, i); back != hash {
				t.Fatalf("table %d: %x became %x", i, hash, back)
			}
			high := bits.OnesCount64(tableMask(i))
			agree := diff&tableMask(i) == 0
			if (key^forTable(hash^diff, i))>>(64-high) == 0 != agree {
				t.Fatalf("table %d: %x and %x", i, hash, hash^diff)
			}
		}
	}
	all := uint64(0)
	for _, m := range blockMasks {
		if all&m != 0 {
			t.Error("blocks overlap")
		}
		all |= m
	}
	if all != ^uint64(0) {
		t.Errorf("blocks cover %x", all)
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
