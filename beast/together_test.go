package beast

import (
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestPlaceTogether: two PLDs share each queue of the lane; one that finds no queue below the horizon keeps
// its ledger; one whose queue has been reached gets another.
func TestPlaceTogether(t *testing.T) {
	l, err := OpenLanes(Options{Set: disk.Set{FS: memfs.New(1), Paths: []string{"d"}}},
		Turns{Weights: []uint32{2, 1}, Free: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var a, b, c Ledger
	place := func(ledger *Ledger, want Number) {
		t.Helper()
		if n := l.PlaceTogether(1, ledger, 2); n != want {
			t.Fatalf("queue %d, want %d", n, want)
		}
	}
	place(&a, 1)
	place(&b, 1)
	place(&c, OverBudget)
	if c != (Ledger{}) || l.Reached(1, &a) || l.Reached(1, &c) {
		t.Errorf("ledger %+v after a failure; reached %t, %t", c, l.Reached(1, &a), l.Reached(1, &c))
	}
	for range 3 {
		place(&a, 1)
	}
	if err := l.Append(1, 1, []byte("a")); err != nil {
		t.Fatal(err)
	}
	if !l.BestDry() {
		t.Error("lane 0 is not dry")
	}
	if _, ok, err := l.Peek(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if !l.Reached(1, &a) || !l.Reached(1, &b) || l.Reached(1, &c) {
		t.Errorf("reached: %t, %t, %t", l.Reached(1, &a), l.Reached(1, &b), l.Reached(1, &c))
	}
	place(&c, 2)
	place(&a, 2)
	place(&b, OverBudget)
}
