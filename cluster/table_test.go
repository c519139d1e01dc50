package cluster

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTableShares: each node has its part of the slots by weight, to within one slot, whatever the weights.
func TestTableShares(t *testing.T) {
	weights := [][]float64{{1}, {1, 1, 1}, {2, 1, 1}, {1e300, 1e300, 1e300}, {1e-300, 1}, {5, 0.001, 3}}
	for _, n := range []int{64, 1000} {
		equal, random := make([]float64, n), make([]float64, n)
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		for i := range n {
			equal[i], random[i] = 1, rng.ExpFloat64()+1e-9
		}
		weights = append(weights, equal, random)
		most := 0.0
		table, err := NewTable(equal)
		must(t, err)
		for node := range n {
			most = max(most, float64(table.Share(node))/Slots)
		}
		if got := LargestShare(n); got != most {
			t.Errorf("%d nodes: largest share %v, want %v", n, got, most)
		}
	}
	for _, w := range weights {
		table, err := NewTable(w)
		must(t, err)
		scale, sum := 0.0, 0.0
		for _, x := range w {
			scale = max(scale, x)
		}
		for _, x := range w {
			sum += x / scale
		}
		shares := make([]int, len(w))
		for _, owner := range table.owners {
			shares[owner]++
		}
		for node, got := range shares {
			if want := Slots * (w[node] / scale) / sum; math.Abs(float64(got)-want) > 1 {
				t.Fatalf("%d nodes: node %d of weight %v has %d slots, want %.1f", len(w), node, w[node], got, want)
			}
		}
	}
}

// TestTableSpreads: two nodes of equal weight do not own neighbouring slots more often than by chance.
func TestTableSpreads(t *testing.T) {
	table, err := NewTable([]float64{1, 1})
	must(t, err)
	same := 0
	for slot := 1; slot < Slots; slot++ {
		if table.owners[slot] == table.owners[slot-1] {
			same++
		}
	}
	if want := Slots / 2; same < want-200 || same > want+200 {
		t.Errorf("%d of %d neighbours have one owner", same, Slots)
	}
}

// TestTableSince: a table tells when slots last moved to or from a node.
func TestTableSince(t *testing.T) {
	since := func(table *Table) (all []int) {
		for node := range table.Nodes() {
			all = append(all, table.Since(node))
		}
		return all
	}
	table, err := NewTable([]float64{1, 1, 1})
	if err != nil {
		t.Fatal(err)
	}
	slot := func(node int) map[int]int {
		return map[int]int{slices.Index(table.owners[:], uint16(node)): (node + 1) % 3}
	}
	for i, step := range []struct {
		next func() (*Table, error)
		want []int
	}{
		{func() (*Table, error) { return table.Give(slot(0)) }, []int{1, 1, 0}},
		{func() (*Table, error) { return table.Grow() }, []int{1, 1, 0, 0}},
		{func() (*Table, error) { return table.Give(slot(2)) }, []int{3, 1, 3, 0}},
		{func() (*Table, error) { return table.Depart(1) }, []int{3, 4, 4, 4}},
		{func() (*Table, error) { return table.Grow() }, []int{3, 4, 4, 4, 0}},
	} {
		next, err := step.next()
		if err != nil {
			t.Fatal(err)
		}
		change := NewTableChange(ChangeGive, table, next, 0, "test")
		data, err := change.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, table, err = DecodeTableChange(data); err != nil {
			t.Fatal(err)
		}
		if got := since(table); !slices.Equal(got, step.want) {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
		change.Since[0] = change.Moves + 1 // later than the table
		if data, err = change.Encode(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := DecodeTableChange(data); !errors.Is(err, ErrTable) {
			t.Errorf("step %d: %v", i, err)
		}
		change.Since = nil // an earlier version
		if data, err = change.Encode(); err != nil {
			t.Fatal(err)
		}
		if _, old, err := DecodeTableChange(data); err != nil || old.Since(0) != change.Moves {
			t.Errorf("step %d: %v, %v", i, old.Since(0), err)
		}
	}
}
