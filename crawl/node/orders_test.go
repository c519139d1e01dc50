package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/state/snapshot"
)

// orderNode is the part orders of a node, with a list in place of an operator.
type orderNode struct {
	*orders
	guard   sync.Mutex // guards the fields below
	list    []*cluster.Order
	refused error // of requests to erase
	taken   []string
}

func newOrderNode(t *testing.T, net *mem.Net, number int, list ...*cluster.Order) *orderNode {
	e := net.Transport(number)
	t.Cleanup(func() { must(t, e.Close()) })
	log := slog.New(slog.DiscardHandler)
	n := &orderNode{orders: &orders{run: account.New(log, nil, nil), wake: account.NewSignal(),
		opt: &Options{Log: log, Node: number, Transport: e, Secret: []byte("secret")}, faults: map[string]string{}},
		list: list}
	n.own = func() []*cluster.Order {
		n.guard.Lock()
		defer n.guard.Unlock()
		return slices.Clone(n.list)
	}
	n.take = func(_ context.Context, o *cluster.Order, later bool) error {
		n.guard.Lock()
		defer n.guard.Unlock()
		if o.ID != "" && n.refused != nil {
			return n.refused
		}
		if n.taken = append(n.taken, o.Key()); later && o.ID != "" {
			n.taken[len(n.taken)-1] += " later"
		}
		n.list = slices.DeleteFunc(n.list, func(old *cluster.Order) bool { return old.Key() == o.Key() })
		n.list = append(n.list, o)
		return nil
	}
	return n
}

func (n *orderNode) start(ctx context.Context) (done chan error) {
	done = make(chan error, 2)
	go func() { done <- n.watch(ctx) }()
	go func() { done <- n.keep(ctx) }()
	return done
}

// TestOrdersTravel: each node carries out what the other one has, the oldest first, pages with the last request. One
// that is refused is tried again. Values that are no orders are replaced, and lost ones written again.
func TestOrdersTravel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := mem.New(mem.Options{})
		id := func(digit string) string { return strings.Repeat(digit, cluster.OrderIDBytes) }
		rule := &cluster.Order{Stamp: 10, Rule: "- host a"}
		erase := []*cluster.Order{{Stamp: 20, ID: id("1"), Targets: []string{"http://a/"}},
			{Stamp: 30, ID: id("2"), Targets: []string{"http://b/"}}}
		a := newOrderNode(t, net, 0, erase[1], rule, erase[0])
		b := newOrderNode(t, net, 1, &cluster.Order{Stamp: 5, Rule: "- host a", Off: true})
		b.refused = errors.New("slots move to this node")
		_, err := a.opt.Transport.Put(t.Context(), cluster.BucketCrawl, rule.Key(), []byte("{}"))
		must(t, err)
		_, err = a.opt.Transport.Put(t.Context(), cluster.BucketCrawl, cluster.OrderPattern[:6]+"other", []byte("{}"))
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		first, second := a.start(ctx), b.start(ctx)
		defer func() { stop(); must(t, <-first, <-first, <-second, <-second) }()
		time.Sleep(5 * time.Minute)
		var sn snapshot.Orders
		if b.show(&sn); sn != (snapshot.Orders{Taken: 1, Waiting: 2, Why: b.refused.Error()}) {
			t.Errorf("%+v", sn)
		}
		b.guard.Lock()
		b.refused = nil
		b.guard.Unlock()
		time.Sleep(5 * time.Minute)
		sn = snapshot.Orders{}
		if b.show(&sn); sn != (snapshot.Orders{Taken: 3}) {
			t.Errorf("%+v", sn)
		}
		a.guard.Lock()
		b.guard.Lock()
		if want := []string{rule.Key(), erase[0].Key() + " later", erase[1].Key()}; !slices.Equal(b.taken, want) ||
			len(a.taken) > 0 {
			t.Errorf("%q, want %q; %q", b.taken, want, a.taken)
		}
		b.guard.Unlock()
		a.guard.Unlock()
		for what, lose := range map[string]func(){"all values": net.Wipe, "the last ones": func() {
			net.LoseValues(cluster.BucketCrawl, 2)
		}} {
			lose()
			time.Sleep(5 * time.Minute)
			values := net.Values(cluster.BucketCrawl)
			for _, o := range a.own() {
				if got, err := cluster.DecodeOrder(o.Key(), []byte(values[o.Key()]), a.opt.Secret); err != nil ||
					got.Stamp != o.Stamp {
					t.Errorf("after the broker has lost %s: %+v, %v", what, got, err)
				}
			}
		}
	})
}
