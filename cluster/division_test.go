package cluster

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"drumbeat/disk/memfs"
	"drumbeat/weburl"
)

// equalTable is a table of nodes with equal weights.
func equalTable(t *testing.T, nodes int) *Table {
	t.Helper()
	table, err := NewTable(slices.Repeat([]float64{1}, nodes))
	must(t, err)
	return table
}

// TestDivide: hosts of a PLD move between nodes by changes, with those of one node at a time. What a change and the
// file say of them comes back as it was.
func TestDivide(t *testing.T) {
	f, err := NewFile([]float64{1, 1, 1})
	must(t, err)
	table, hasher := equalTable(t, 3), weburl.NewHasher(f.Secret)
	slot := weburl.Slot(hasher.PLDKey([]byte("example.org")))
	owner := table.OwnerOf(slot)
	others := slices.DeleteFunc([]int{0, 1, 2}, func(node int) bool { return node == owner })
	all := EvenParts([]int{0, 1, 2})
	next, err := table.Divide("example.org", slot, &all)
	must(t, err)
	if got := Givers(table, next); !slices.Equal(got, []int{owner}) {
		t.Errorf("givers %v, want %d", got, owner)
	}
	if got := Takers(table, next); !slices.Equal(got, others) {
		t.Errorf("takers %v, want %v", got, others)
	}
	for _, node := range others {
		if got := HostsCome(table, next, node); !slices.Equal(got, []int{slot}) {
			t.Errorf("node %d gets hosts of slots %v", node, got)
		}
		if next.Since(node) != 1 || next.PartsOf([]byte("example.org")).Share(node) < 0.3 {
			t.Errorf("node %d: last change %d, share %v", node, next.Since(node), all.Share(node))
		}
	}
	if next.Sum() == table.Sum() || next.PartsOf([]byte("example.com")) != nil || next.OwnerOf(slot) != owner {
		t.Error("the table is that of before, or has another PLD or owner")
	}
	data, err := NewTableChange(ChangeGive, table, next, owner, "id").Encode()
	must(t, err)
	change, again, err := DecodeTableChange(data)
	must(t, err)
	if again.Sum() != next.Sum() || change.V != DividedVersion || !change.Gives(owner) {
		t.Errorf("the change %+v has the table %x, want %x", change, again.Sum(), next.Sum())
	}
	f.Table = next
	data, err = f.Encode()
	must(t, err)
	if f, err := DecodeFile(data); err != nil || f.Table.Sum() != next.Sum() {
		t.Errorf("the file has another table: %v", err)
	}
	f.Table, err = table.Divide("example.org", (slot+1)%Slots, &all)
	must(t, err)
	data, err = f.Encode()
	must(t, err)
	if _, err := DecodeFile(data); !errors.Is(err, ErrTable) || !strings.Contains(err.Error(), "example.org") ||
		next.CheckSlots(hasher) != nil {
		t.Errorf("the file has a divided PLD of another slot: %v", err)
	}
	back := EvenParts([]int{owner})
	if _, err := next.Divide("example.org", slot, &back); err == nil {
		t.Error("hosts leave two nodes in one change")
	}
	for i, node := range next.PartsOf([]byte("example.org")) { // node by node
		if back[i] = node; int(node) == others[0] {
			back[i] = uint16(owner)
		}
	}
	next, err = next.Divide("example.org", slot, &back)
	must(t, err)
	last := EvenParts([]int{owner})
	next, err = next.Divide("example.org", slot, &last)
	must(t, err)
	if next.Divided() {
		t.Error("the PLD is still divided")
	}
}

// TestDividedNodesLeave: a node that gives all its slots, or is lost, has no hosts of divided PLDs afterwards.
func TestDividedNodesLeave(t *testing.T) {
	table, all := equalTable(t, 3), EvenParts([]int{0, 1, 2})
	table, err := table.Divide("example.org", slices.IndexFunc(table.owners[:], func(n uint16) bool { return n == 1 }),
		&all)
	must(t, err)
	lost, err := table.Depart(2)
	must(t, err)
	if nodes := lost.PartsOf([]byte("example.org")).Nodes(); !slices.Equal(nodes, []int{0, 1}) {
		t.Errorf("after node 2 was lost: %v", nodes)
	}
	to := map[int]int{}
	for slot := range Slots {
		if table.OwnerOf(slot) == 2 {
			to[slot] = slot % 2
		}
	}
	gave, err := table.Give(to)
	must(t, err)
	if nodes := gave.PartsOf([]byte("example.org")).Nodes(); !slices.Equal(nodes, []int{0, 1}) {
		t.Errorf("after node 2 gave its slots: %v", nodes)
	}
	if _, err := gave.Depart(2); err != nil {
		t.Error(err)
	}
	bad := EvenParts([]int{0, 3})
	if _, err := table.Divide("example.org", 0, &bad); err == nil {
		t.Error("a node that does not exist gets hosts")
	}
}

// TestDamagedDivisions: a value with divided PLDs that cannot be is refused.
func TestDamagedDivisions(t *testing.T) {
	table, all := equalTable(t, 2), EvenParts([]int{0, 1})
	next, err := table.Divide("example.org", 7, &all)
	must(t, err)
	good := NewTableChange(ChangeGive, table, next, table.OwnerOf(7), "id")
	for name, change := range map[string]func(c *TableChange){
		"none":       func(c *TableChange) { c.Divided[0].PLD = "" },
		"long":       func(c *TableChange) { c.Divided[0].PLD = strings.Repeat("a", 256) },
		"slot":       func(c *TableChange) { c.Divided[0].Slot = Slots },
		"short":      func(c *TableChange) { c.Divided[0].Nodes = c.Divided[0].Nodes[:8] },
		"no base64":  func(c *TableChange) { c.Divided[0].Nodes = "?" },
		"other node": func(c *TableChange) { c.Divided[0].Nodes = "//8" + c.Divided[0].Nodes[3:] },
		"twice":      func(c *TableChange) { c.Divided = append(c.Divided, c.Divided[0]) },
		"many":       func(c *TableChange) { c.Divided = slices.Repeat(c.Divided, MaxDivided+1) },
	} {
		c := *good
		c.Divided = slices.Clone(good.Divided)
		change(&c)
		data, err := json.Marshal(&c)
		must(t, err)
		if _, _, err := DecodeTableChange(data); !errors.Is(err, ErrTable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckedRecords: a URL that is new goes to the node that visits its host in a message that older programs refuse,
// and counts as a link.
func TestCheckedRecords(t *testing.T) {
	b := newBox(t, memfs.New(1))
	must(t, b.AddLink(keyOf("a"), []byte("a")))
	must(t, b.AddChecked(keyOf("b"), []byte("b")))
	must(t, b.Flush())
	b.save(true)
	if got, totals := b.takeBoth(DividedVersion); len(got.links) != 2 || totals.Links.N != 2 {
		t.Errorf("%q, %d in the totals, want 2", got.links, totals.Links.N)
	}
}
