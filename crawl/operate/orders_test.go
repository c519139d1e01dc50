package operate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/roomtest"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/state/erase"
)

// append adds a change to the journal of a room that is closed then.
func (r *room) append(c changes.Change) {
	r.T.Helper()
	err := r.o.Close()
	j, err2 := changes.Open(r.Saved.Set.FS, r.Saved.Set.Path(0, state.ChangesName), 0)
	if err = errors.Join(err, err2); err == nil {
		_, err = j.Append(c, time.Now())
		err = errors.Join(err, j.Close())
	}
	if err != nil {
		r.T.Fatal(err)
	}
}

// ask asks for pages to be erased, by an order of its own unless the request names one.
func (r *room) ask(a *erase.Ask) (*erase.Request, error) {
	if a.Who, a.Reason, a.Later = "eve", "a test", true; a.Order == "" {
		r.asked++
		a.Order = fmt.Sprintf("%016x", r.asked)
	}
	return r.o.Erase(r.T.Context(), a, &r.late)
}

// TestOrders: a node says which orders all nodes carry out, and why not others. Orders survive a power cut. An order of
// another node that comes late, or twice, changes nothing.
func TestOrders(t *testing.T) {
	r := openIn(roomtest.New(t, 100), []byte("a secret"))
	ask := func(a erase.Ask) (*erase.Request, error) { return r.ask(&a) }
	host := erase.Source{Hosts: []string{"a.test"}}
	first, err := ask(erase.Ask{Source: host})
	if err != nil || first.Order == "" || first.Alone != "" {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := ask(erase.Ask{Source: host, Order: first.Order}); err != nil || again.Number != first.Number {
		t.Errorf("the same order: %+v, %v", again, err)
	}
	for _, bad := range []erase.Ask{{Source: erase.Source{Hosts: []string{"b.test"}}, Order: first.Order},
		{Source: host, Order: "x"}} {
		if _, err := ask(bad); !changes.IsRefused(err) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	var long []string
	for i := range 100 {
		long = append(long, fmt.Sprintf("http://a.test/%d/%s", i, strings.Repeat("x", 7900)))
	}
	for want, a := range map[string]erase.Ask{"hidden": {Source: host, Hide: true},
		"768 KiB": {Source: erase.Source{URLs: long}}} {
		if alone, err := ask(a); err != nil || alone.Order != "" || !strings.Contains(alone.Alone, want) {
			t.Errorf("%s: %v, %q", want, err, alone.Alone)
		}
	}
	r.make(changes.Change{Op: changes.OpBlock, Rule: "host b.test"})
	take := func(o cluster.Order) {
		t.Helper()
		if err := r.o.TakeOrder(t.Context(), &o, true); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	take(cluster.Order{Stamp: 1, Rule: "- host b.test", Off: true}) // older
	take(cluster.Order{Stamp: 2, Rule: "- host c.test", Off: true}) // of a rule that this node never had
	take(cluster.Order{Stamp: 3, Rule: "- host d.test", Who: "adam"})
	other := cluster.Order{Stamp: 4e12, ID: strings.Repeat("ef", 8), Reason: "r", Targets: []string{"http://d.test/"}}
	take(other)
	take(other)
	check := func(when string) {
		t.Helper()
		if s := r.o.Settings(); strings.Join(s.Blocked, " ") != "- host b.test - host d.test" || len(s.Orders) != 3 {
			t.Errorf("%s: %+v", when, s)
		}
		kinds := map[string]int{}
		for _, o := range r.o.Orders() {
			kinds[o.Rule+o.ID]++
			if _, err := o.Encode(nil); err != nil || o.Stamp == 0 {
				t.Errorf("%s: %+v, %v", when, o, err)
			}
		}
		if len(kinds) != 5 || kinds[first.Order] != 1 || kinds[other.ID] != 1 {
			t.Errorf("%s: %v", when, kinds)
		}
	}
	check("at first")
	r = r.again()
	check("after a power cut")
}

// TestOrdersFull: an order for which the cluster has no room is carried out here, and says so. One about a rule that
// the cluster has needs no room.
func TestOrdersFull(t *testing.T) {
	r := openIn(roomtest.New(t, 100), []byte("a secret"))
	many := changes.Change{Op: changes.OpBlock, Stamp: 5}
	for i := range cluster.MaxOrders {
		many.Rules = append(many.Rules, fmt.Sprintf("- host h%d.test", i))
	}
	r.append(many)
	r = r.again()
	made, err := r.o.Make(t.Context(), changes.Change{Op: changes.OpBlock, Rule: "host z.test"}, &r.late)
	if err != nil || made.Stamp != 0 || !strings.Contains(made.Alone, "at most 10000 orders") {
		t.Errorf("a rule too many: %+v, %v", made, err)
	}
	if made, err = r.o.Make(t.Context(), changes.Change{Op: changes.OpUnblock, Rule: "host h7.test"},
		&r.late); err != nil || made.Stamp == 0 {
		t.Errorf("a rule that the orders have: %+v, %v", made, err)
	}
	alone, err := r.ask(&erase.Ask{Source: erase.Source{Hosts: []string{"a.test"}}})
	if err != nil || !strings.Contains(alone.Alone, "at most 10000 orders") {
		t.Errorf("a request too many: %+v, %v", alone, err)
	}
}
