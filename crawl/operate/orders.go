package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/state/changes"
	"drumbeat/state/erase"
)

// Orders that all nodes of a cluster carry out (cluster.Order): rules that are blocked or unblocked, and requests to
// erase pages that name an order. The journal of changes and the requests and records of erasures say which of them
// this node has carried out, and have their content, so that package node can give them to nodes that were away.

// orderList are the requests to erase pages of the cluster that this node has taken, by cluster.Order.ID. Operator.mu
// guards it.
type orderList map[string]*taken

// taken is a request that all nodes carry out.
type taken struct {
	request erase.Request
	bytes   int // of its value
}

// openOrders reads the orders that this node has taken.
func (o *Operator) openOrders() error {
	if o.opt.Cluster == nil {
		return nil
	}
	all, err := erase.Ordered(o.saved.Set)
	o.ordered = orderList{}
	for i := range all {
		o.noteOrder(&all[i])
	}
	return err
}

// noteOrder notes a request that is durable. The caller holds mu, or no goroutine runs yet.
func (o *Operator) noteOrder(r *erase.Request) {
	n := 0
	if data, err := orderOf(r).Encode(o.opt.Cluster); err == nil {
		n = len(data)
	}
	o.ordered[r.Order] = &taken{*r, n}
}

// orderOf returns a request as an order.
func orderOf(r *erase.Request) *cluster.Order {
	return &cluster.Order{Stamp: r.Time.UnixMilli(), Who: r.Who, ID: r.Order, Reason: r.Reason, Later: r.Later,
		Targets: r.Targets}
}

// ruleBytes is about what the value of an order about a rule takes beside the rule.
const ruleBytes = 200

// roomForOrder returns why no further order of n bytes may go to all nodes; "" if it may. The caller holds mu.
func (o *Operator) roomForOrder(n int) string {
	rules := o.journal.Settings().Orders
	for rule := range rules {
		n += ruleBytes + len(rule)
	}
	for _, t := range o.ordered {
		n += t.bytes
	}
	if len(rules)+len(o.ordered) < cluster.MaxOrders && n <= cluster.MaxOrdersBytes {
		return ""
	}
	return fmt.Sprintf("the cluster keeps at most %d orders of %d MiB", cluster.MaxOrders,
		cluster.MaxOrdersBytes>>20)
}

// stamp makes a change of the blacklist an order to all nodes of a cluster. It reports whether that order was carried
// out here before, and so nothing is to be done. The caller holds mu.
func (o *Operator) stamp(c *changes.Change) (done bool) {
	if o.opt.Cluster == nil || c.Op != changes.OpBlock && c.Op != changes.OpUnblock || c.Rule == "" {
		return false
	}
	s := o.journal.Settings()
	known, is := s.Orders[c.Rule]
	blocks, off := slices.Contains(s.Blocked, c.Rule), c.Op == changes.OpUnblock
	switch {
	case c.Stamp != 0: // of another node
		return known.Stamp >= c.Stamp
	case is && known.Off == off && blocks != off: // the operator gives it to several nodes
		c.Stamp, c.Who, c.Time = known.Stamp, known.Who, time.UnixMilli(known.Stamp).UTC()
		return true
	case off && !blocks:
		return false // the journal refuses it
	case !is:
		if c.Alone = o.roomForOrder(ruleBytes + len(c.Rule)); c.Alone != "" {
			return false
		}
	}
	c.Stamp = max(time.Now().UnixMilli(), known.Stamp+1)
	return false
}

// orderErasure makes a request the order that it names, if all nodes can carry it out. The caller holds mu.
func (o *Operator) orderErasure(r *erase.Request, ask *erase.Ask) {
	if ask.Order == "" || o.opt.Cluster == nil {
		return
	}
	if r.Order = ask.Order; !ask.Time.IsZero() { // of another node: the broker has it
		return
	}
	data, err := orderOf(r).Encode(o.opt.Cluster)
	switch {
	case r.Hide:
		r.Alone = "the broker and the records of the other nodes would name the hidden targets"
	case errors.Is(err, cluster.ErrTooLarge):
		r.Alone = fmt.Sprintf("the list has more than %d KiB", cluster.MaxOrderBytes>>10)
	case err != nil:
		r.Alone = err.Error()
	default:
		r.Alone = o.roomForOrder(len(data))
	}
	if r.Alone != "" {
		r.Order = ""
	}
}

// Orders returns the orders of the cluster that this node has taken. The caller must not change them.
func (o *Operator) Orders() (all []*cluster.Order) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for rule, x := range o.journal.Settings().Orders {
		all = append(all, &cluster.Order{Stamp: x.Stamp, Who: x.Who, Rule: rule, Off: x.Off})
	}
	for _, t := range o.ordered {
		all = append(all, orderOf(&t.request))
	}
	return all
}

// TakeOrder carries out an order that another node has taken, as Make and Erase do. later says that others follow, so
// that pages are erased with those.
func (o *Operator) TakeOrder(ctx context.Context, x *cluster.Order, later bool) (err error) {
	var late account.LateLog
	defer func() { late.Tell() }()
	if x.Rule != "" {
		c := changes.Change{Op: changes.OpBlock, Rule: x.Rule, Stamp: x.Stamp, Who: x.Who}
		if x.Off {
			c.Op = changes.OpUnblock
		}
		_, err = o.Make(ctx, c, &late)
		return err
	}
	_, err = o.Erase(ctx, &erase.Ask{Order: x.ID, Time: time.UnixMilli(x.Stamp), Who: x.Who, Reason: x.Reason,
		Later: x.Later || later, Source: erase.Source{List: strings.NewReader(strings.Join(x.Targets, "\n")),
			ListName: "order " + x.ID}}, &late)
	return err
}
