package cluster

import (
	"strings"
	"testing"

	"drumbeat/weburl"
)

// TestTableMove: a move gives slots of one node, or of all, to another, and no others; the file keeps the
// table, and tables have different sums even if they give each slot the same owner.
func TestTableMove(t *testing.T) {
	was, err := NewTable([]float64{1, 1, 1})
	must(t, err)
	one, err := was.Move(100, 2000, 0, 2)
	must(t, err)
	all, err := one.Move(0, Slots-1, -1, 1)
	must(t, err)
	for slot := range Slots {
		want := was.OwnerOf(slot)
		if slot >= 100 && slot <= 2000 && want == 0 {
			want = 2
		}
		if one.OwnerOf(slot) != want || all.OwnerOf(slot) != 1 {
			t.Fatalf("slot %d of node %d went to %d, want %d; then to %d", slot, was.OwnerOf(slot), one.OwnerOf(slot),
				want, all.OwnerOf(slot))
		}
	}
	there, err := was.Move(7, 7, -1, (was.OwnerOf(7)+1)%3)
	must(t, err)
	back, err := there.Move(7, 7, -1, was.OwnerOf(7))
	if err != nil || back.Sum() == was.Sum() || back.owners != was.owners || back.Moves() != 2 {
		t.Errorf("a slot that moved and moved back: %v, %d moves", err, back.Moves())
	}
	for _, bad := range [][4]int{{-1, 4, -1, 1}, {5, 4, -1, 1}, {0, Slots, -1, 1}, {0, 9, -1, 3}, {0, 9, -2, 1},
		{0, 9, 3, 1}, {0, 9, 1, 1}} {
		if _, err := was.Move(bad[0], bad[1], bad[2], bad[3]); err == nil {
			t.Errorf("Move(%v): no error", bad)
		}
	}

	f := File{Crawl: strings.Repeat("0a", 16), Secret: weburl.Secret{1}, Table: all}
	data, err := f.Encode()
	must(t, err)
	again, err := DecodeFile(data)
	if err != nil || again.Table.Sum() != all.Sum() || again.Table.Moves() != 2 {
		t.Fatalf("a file after two moves: %v", err)
	}
	for _, change := range []string{`"moves": 1`, `"moves": -2`, `"mover": 2`} {
		if _, err := DecodeFile([]byte(strings.Replace(string(data), `"moves": 2`, change, 1))); err == nil {
			t.Errorf("a file with %s: no error", change)
		}
	}
}
