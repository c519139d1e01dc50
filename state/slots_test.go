package state

import (
	"encoding/json"
	"testing"

	"drumbeat/cluster"
	"drumbeat/weburl"
)

// TestSlots: the nodes of a table own each slot once, and a set of slots survives its text.
func TestSlots(t *testing.T) {
	table, err := cluster.NewTable([]float64{1, 2, 1})
	if err != nil {
		t.Fatal(err)
	}
	for slot := range weburl.Slots {
		owners := 0
		for node := range table.Nodes() {
			if s := SlotsOf(table, node); s.Has(slot) {
				owners++
			}
		}
		if owners != 1 {
			t.Fatalf("slot %d has %d owners", slot, owners)
		}
	}
	f := Frozen{Nodes: 3, Slots: SlotsOf(table, 1)}
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var back Frozen
	if err := json.Unmarshal(data, &back); err != nil || back != f {
		t.Fatalf("a set of slots: %v, %+v, want %+v", err, back, f)
	}
	for _, bad := range []string{`{"slots":"00"}`, `{"slots":"zz"}`} {
		if err := json.Unmarshal([]byte(bad), new(Frozen)); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
	if data, err := json.Marshal(Frozen{}); err != nil || json.Unmarshal(data, &back) != nil ||
		!(Frozen{}).Slots.IsZero() {
		t.Errorf("no slots: %s, %v", data, err)
	}
}
