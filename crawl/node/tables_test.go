package node

import (
	"errors"
	"log/slog"
	"slices"
	"testing"

	"drumbeat/admit"
	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/state"
	"drumbeat/weburl"
)

// giving returns the tables of node 2, which gets slots of node 3, while node 1 gets slots of node 0.
func giving(t *testing.T) *tables {
	t.Helper()
	before, err := cluster.NewTable([]float64{1, 1, 1, 1})
	if err != nil {
		t.Fatal(err)
	}
	to := map[int]int{}
	for slot := range cluster.Slots {
		if owner := before.OwnerOf(slot); slot%2 == 0 && (owner == 0 || owner == 3) {
			to[slot] = max(1, owner-1)
		}
	}
	next, err := before.Give(to)
	if err != nil {
		t.Fatal(err)
	}
	return &tables{opt: &Options{Log: slog.New(slog.DiscardHandler), Node: 2, Table: before},
		saved: &state.Saved{Hasher: weburl.NewHasher(weburl.Secret{})}, wake: account.NewSignal(),
		gone: &abandoned{gone: make([]bool, 4)}, moves: make([]int, 4), reads: make([]int, 4), table: next,
		next: cluster.NewTableChange(cluster.ChangeGive, before, next, 0, "test")}
}

// TestOrphaned: a taker begins without its only giver once that was abandoned and another giver has given its slots,
// since nothing can undo the change any more.
func TestOrphaned(t *testing.T) {
	for _, x := range []struct {
		gone []bool // nodes 0 and 3
		has  bool   // node 0 has the table
		want bool
	}{
		{[]bool{false, true}, true, true}, {[]bool{false, true}, false, false}, {[]bool{false, false}, true, false},
		{[]bool{true, false}, true, false},
	} {
		tb := giving(t)
		tb.gone.gone[0], tb.gone.gone[3] = x.gone[0], x.gone[1]
		if x.has {
			tb.moves[0] = 1
		}
		if got := tb.orphaned() != nil; got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
}

// TestComingFrom: only slots of a giver that has begun come from it. Its end counts once.
func TestComingFrom(t *testing.T) {
	tb := giving(t)
	if givers := tb.givesHere(tb.next, tb.table); !slices.Equal(givers, []int{3}) {
		t.Fatalf("slots come from %v", givers)
	}
	of := tb.slotsFrom(tb.table, 3)
	if of.Len() == 0 || tb.comingFrom(3).Len() != 0 {
		t.Fatalf("%d slots, %d before they come", of.Len(), tb.comingFrom(3).Len())
	}
	tb.arrive(func(a arrival) arrival { a.change = tb.next; return a.begun(of) })
	if tb.comingFrom(3) != of || tb.comingFrom(0).Len() != 0 || tb.comingFrom(1).Len() != 0 {
		t.Errorf("%d slots come from node 3 of %d, %d from node 0", tb.comingFrom(3).Len(), of.Len(),
			tb.comingFrom(0).Len())
	}
	for range 2 { // once by the giver's end, once because it was abandoned
		tb.arrive(func(a arrival) arrival { return a.ended(3, false, []int{0, 3}) })
		if a := tb.arriving(); a.arrived || len(a.from) != 1 {
			t.Errorf("%+v after the end of one of two givers", a.from)
		}
	}
	tb.arrive(func(a arrival) arrival { return a.ended(0, true, []int{0, 3}) })
	if a := tb.arriving(); !a.arrived || !a.seedsAgain {
		t.Errorf("%v, %v after the end of both", a.arrived, a.seedsAgain)
	}
}

// TestEndsKnown: of a message that was in quarantine, the end of slots counts if their begin is there or came before.
// The end of another change or of another node does not.
func TestEndsKnown(t *testing.T) {
	tb := giving(t)
	begin, err := tb.next.Encode()
	if err != nil {
		t.Fatal(err)
	}
	part := func(kind cluster.MovedKind, data []byte) admit.MovedPart {
		return admit.MovedPart{Kind: kind, Data: data}
	}
	end := part(cluster.MovedEnd, cluster.AppendMovedEnd(nil, uint64(tb.next.Moves), false, new(cluster.MovedSums)))
	other := part(cluster.MovedEnd, cluster.AppendMovedEnd(nil, uint64(tb.next.Moves)+1, false, new(cluster.MovedSums)))
	in := &intake{tables: tb, inlet: new(admit.Inlet)}
	for _, x := range []struct {
		begun bool
		from  int
		parts []admit.MovedPart
		want  bool
	}{
		{false, 3, nil, true}, {false, 3, []admit.MovedPart{end}, false}, {true, 3, []admit.MovedPart{end}, true},
		{true, 3, []admit.MovedPart{other}, false}, {true, 1, []admit.MovedPart{end}, false},
		{false, 3, []admit.MovedPart{{Kind: cluster.MovedBegin, Data: begin}, end}, true},
	} {
		tb.arrival = arrival{}
		if x.begun {
			tb.arrival.change = tb.next
		}
		if in.inlet.Parts = x.parts; in.endsKnown(x.from) != x.want {
			t.Errorf("%+v", x)
		}
	}
}

// TestForeignTable: a table of more nodes than the change can lead to is refused, and changes nothing.
func TestForeignTable(t *testing.T) {
	tb := giving(t)
	tb.next, tb.table = nil, nil
	more, err := cluster.NewTable(slices.Repeat([]float64{1}, 9))
	if err != nil {
		t.Fatal(err)
	}
	to := map[int]int{}
	for slot := range cluster.Slots {
		if more.OwnerOf(slot) == 8 {
			to[slot] = 0
		}
	}
	next, err := more.Give(to)
	if err != nil {
		t.Fatal(err)
	}
	data, err := cluster.NewTableChange(cluster.ChangeGive, more, next, 0, "more").Encode()
	if err != nil {
		t.Fatal(err)
	}
	tb.note(t.Context(), &cluster.Value{Data: data})
	if tb.next != nil || tb.changing() {
		t.Error("the table was taken")
	}
}

// TestForeignSlot: a table in which a divided PLD has another slot than its name gives is refused, from the broker and
// from a giver.
func TestForeignSlot(t *testing.T) {
	tb := giving(t)
	tb.next, tb.table = nil, nil
	slot := weburl.Slot(tb.saved.Hasher.PLDKey([]byte("example.org")))
	for _, is := range []int{(slot + 1) % cluster.Slots, slot} {
		giver := tb.opt.Table.OwnerOf(is)
		parts := cluster.EvenParts([]int{giver, 2, (giver + 1) % 4})
		next, err := tb.opt.Table.Divide("example.org", is, &parts)
		must(t, err)
		data, err := cluster.NewTableChange(cluster.ChangeGive, tb.opt.Table, next, giver, "divide").Encode()
		must(t, err)
		tb.note(t.Context(), &cluster.Value{Data: data})
		in := &admit.Inlet{Parts: []admit.MovedPart{{Kind: cluster.MovedBegin, Data: data}}}
		_, err = tb.begins(in, giver)
		if (tb.next != nil) != (is == slot) || errors.Is(err, cluster.ErrMessage) == (is == slot) {
			t.Errorf("slot %d of %d: %+v, %v", is, slot, tb.next, err)
		}
	}
}
