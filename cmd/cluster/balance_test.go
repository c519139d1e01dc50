//go:build !noembed

package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cmd/term"
)

// balance returns what cluster balance prints, and checks its exit code. Words have a space between them.
func (r *statusRig) balance(json bool, want int, weights ...float64) string {
	r.t.Helper()
	r.out.Reset()
	c := balanceCmd{File: r.name, connectFlags: connectFlags{Cluster: []string{"nats://" + r.e.Addr().String()}},
		Weight: weights, JSON: json}
	err := c.Run(&r.app)
	if term.ExitCode(err) != want {
		r.t.Errorf("exit code %d, want %d: %v", term.ExitCode(err), want, err)
	}
	if err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(r.out.String()), " ")
}

// tell writes loads of a node: load gives those of each of its slots.
func (r *statusRig) tell(node int, since int64, load func(slot int) cluster.Load) {
	r.t.Helper()
	n := &cluster.NodeLoads{Node: node, Time: time.Now().UTC(), Loads: cluster.Loads{Since: since}, Heavy: r.heavy}
	for slot := range cluster.Slots {
		if r.file.Table.OwnerOf(slot) == node {
			n.Loads.Slots[slot] = load(slot)
		}
	}
	data, err := n.Encode()
	must(r.t, err)
	_, err = r.e.Put(r.t.Context(), cluster.BucketCrawl, cluster.LoadsKey(node), data)
	must(r.t, err)
}

// TestBalance: balance needs the loads of all nodes but abandoned ones, prints them with the moves that it proposes,
// and says which slot is too large. Status prints the largest loads.
func TestBalance(t *testing.T) {
	r := newStatusRig(t)
	even := func(int) cluster.Load { return cluster.Load{Pages: 10, Known: 100, Waiting: 50, Bytes: 1000} }
	r.tell(0, 0, even)
	if text := r.balance(false, term.ExitFailure); !strings.Contains(text, "not told their loads: 1, 2. ") {
		t.Error(text)
	}
	if text := r.status(false, term.ExitFailure); strings.Contains(text, "Largest loads") {
		t.Error(text)
	}
	r.tell(1, 0, even)
	r.tell(2, 0, even)
	text := r.balance(false, term.ExitDone)
	if !strings.HasPrefix(text, "node slots pages waiting known pages of its share waiting of its share known of "+
		"its share 0 1366 13,660 68,300 136,600 1.00 1.00 1.00 1 1365 ") ||
		!strings.HasSuffix(text, " No move is proposed.") {
		t.Error(text)
	}
	text = r.balance(false, term.ExitDone, 1, 1, 0)
	if !strings.Contains(text, " From node 2 to node 0: ") || !strings.Contains(text, " From node 2 to node 1: ") ||
		!strings.Contains(text, " 2 1365 → 0 13,650 ") ||
		!strings.HasSuffix(text, " nothing has moved. --apply carries it out.") {
		t.Error(text)
	}
	r.balance(false, term.ExitUsage, 1, 1)
	r.balance(false, term.ExitUsage, 0, 0, 0)
	r.tell(1, 1_790_000_000, func(int) cluster.Load { return cluster.Load{Pages: 20, Known: 300, Waiting: 150} })
	large := -1
	r.tell(2, 0, func(slot int) cluster.Load {
		if large < 0 {
			large = slot
			return cluster.Load{Pages: 1000, Known: 1_000_000, Waiting: 900_000}
		}
		return even(slot)
	})
	r.heavy = []cluster.Heavy{{PLD: "huge.example", Slot: large, Responses: 900}, {PLD: "b.example", Slot: large,
		Responses: 90}, {PLD: "c.example", Slot: (large + 1) % cluster.Slots, Responses: 9000}}
	r.tell(2, 0, func(slot int) cluster.Load {
		if slot == large {
			return cluster.Load{Pages: 1000, Known: 1_000_000, Waiting: 900_000}
		}
		return even(slot)
	})
	text = r.balance(false, term.ExitDone)
	for _, want := range []string{"Node 1 counts since 2026-09-21 ", "From node 1 to node 0: ",
		"% of all): ", "Node 2 stays at ", " alone has ",
		fmt.Sprintf("Most of slot %d is huge.example: --apply divides its hosts among the nodes.", large)} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	var is balanceReport
	if err := json.Unmarshal([]byte(r.balance(true, term.ExitDone)), &is); err != nil || len(is.Nodes) != 3 ||
		len(is.Above) != 1 || is.Above[0].Slot != large || is.Above[0].Measure != cluster.MeasureWaiting ||
		len(is.Moves) == 0 || is.Nodes[1].Since == nil {
		t.Errorf("%v, %+v, %+v", err, is.Above, is)
	}
	if text := r.status(false, term.ExitFailure); !strings.Contains(text,
		"Largest loads: node 1 has 1.47 times the mean of the pages, node 2 2.34 times that of the waiting URLs.") {
		t.Error(text)
	}
	r.put(cluster.Status{Node: 0, Time: time.Now(), Abandoned: []int{2}})
	if err := json.Unmarshal([]byte(r.balance(true, term.ExitDone)), &is); err != nil || !is.Nodes[2].Abandoned ||
		is.Nodes[2].Slots != is.Nodes[2].SlotsAfter {
		t.Errorf("%v, %+v", err, is)
	}
}

// TestSlotList: slots are printed as ranges, and not without bound.
func TestSlotList(t *testing.T) {
	for want, slots := range map[string][]int{"7": {7}, "0-2, 5": {0, 1, 2, 5}, "": nil,
		"1, 3, 5, 7, 9, 11, 13, 15 and 2 more": {1, 3, 5, 7, 9, 11, 13, 15, 17, 18}} {
		if got := slotList(slots); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
