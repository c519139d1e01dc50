package node

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/state/snapshot"
)

// orders carries out the orders that other nodes have taken (cluster.Order), and gives them those of this node. The
// directories of the nodes keep the orders; the broker only carries them: a node writes each one that it has carried
// out and that the broker has lost. Its goroutines are "orders" and "watchorders"; show is safe for concurrent use.
type orders struct {
	run  *account.Run
	opt  *Options
	own  func() []*cluster.Order // those that this node has taken
	take func(ctx context.Context, o *cluster.Order, later bool) error
	wake account.Signal

	mu     sync.Mutex // guards the fields below
	listed bool       // the broker's orders are known
	broker map[string]atBroker
	known  int               // orders that this node has taken
	faults map[string]string // why orders could not be carried out, by key
	told   time.Time         // when the goroutine "orders" last said why
}

// atBroker is an order of the broker.
type atBroker struct {
	stamp    int64 // 0: the value is not an order
	revision uint64
	order    *cluster.Order // nil once this node has taken it
}

const (
	// ordersAgain is the time after which all orders of the broker are listed again: it may lose some without a sign.
	ordersAgain = 10 * time.Minute
	// mostOrders bounds the keys at the broker that a node knows: all nodes may take the last orders at once, and
	// others may write values that are none.
	mostOrders = 4 * cluster.MaxOrders
)

// watch follows the orders of the broker.
func (s *orders) watch(ctx context.Context) error {
	for ctx.Err() == nil {
		s.list(ctx)
		account.Sleep(ctx, transportRetry)
	}
	return nil
}

// list lists the orders of the broker and follows them, for ordersAgain or until an error of the broker.
func (s *orders) list(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, ordersAgain)
	defer cancel()
	w, err := s.opt.Transport.Watch(ctx, cluster.BucketCrawl, cluster.OrderPattern)
	if err != nil {
		return
	}
	defer w.Close()
	listed, now := false, map[string]atBroker{}
	_ = followOne(ctx, w, func(bool) {
		listed = true
		s.mu.Lock()
		s.listed, s.broker = true, now
		s.mu.Unlock()
		s.wake.Raise()
	}, func(v *cluster.Value) error {
		s.note(now, v)
		if listed {
			s.wake.Raise()
		}
		return nil
	})
}

// note notes a value of the broker.
func (s *orders) note(to map[string]atBroker, v *cluster.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.Deleted {
		delete(to, v.Key)
		return
	}
	if _, is := to[v.Key]; !is && len(to) >= mostOrders {
		return
	}
	o, err := cluster.DecodeOrder(v.Key, v.Data, s.opt.Secret)
	if err != nil {
		s.opt.Log.Warn("refused an order of another node", "error", err)
		o = &cluster.Order{}
	}
	at := atBroker{stamp: o.Stamp, revision: v.Revision, order: o}
	if o.Stamp == 0 {
		at.order = nil
	}
	to[v.Key] = at
}

// keep carries out orders, and gives those of this node to the others.
func (s *orders) keep(ctx context.Context) error {
	for ctx.Err() == nil {
		every := account.WakeAfter
		own := map[string]*cluster.Order{}
		for _, o := range s.own() {
			own[o.Key()] = o
		}
		if due, listed := s.due(own); len(due) > 0 {
			s.carryOut(ctx, due)
		} else if listed && s.publish(ctx, own) != nil {
			every = transportRetry
		}
		s.run.Await(ctx, s.wake, every)
	}
	return nil
}

// due returns the orders that this node has not taken, the oldest first.
func (s *orders) due(own map[string]*cluster.Order) (due []*cluster.Order, listed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = len(own)
	maps.DeleteFunc(s.faults, func(key, _ string) bool { return s.broker[key].order == nil })
	for key, at := range s.broker {
		if at.order == nil {
			continue
		}
		if has := own[key]; has == nil || has.Stamp < at.stamp && has.Rule != "" {
			due = append(due, at.order)
			continue
		}
		at.order = nil
		s.broker[key] = at
	}
	slices.SortFunc(due, func(a, b *cluster.Order) int {
		return cmp.Or(cmp.Compare(a.Stamp, b.Stamp), cmp.Compare(a.Key(), b.Key()))
	})
	return due, s.listed
}

// carryOut carries out orders. One that is refused waits, as an order that erases pages while slots move here.
func (s *orders) carryOut(ctx context.Context, due []*cluster.Order) {
	for i, o := range due {
		later := slices.ContainsFunc(due[i+1:], func(next *cluster.Order) bool { return next.ID != "" && !next.Later })
		err := s.take(ctx, o, later)
		s.mu.Lock()
		if delete(s.faults, o.Key()); err != nil {
			s.faults[o.Key()] = err.Error()
		}
		tell := err != nil && time.Since(s.told) >= doubtLogEvery
		if tell {
			s.told = time.Now()
		}
		s.mu.Unlock()
		switch {
		case err == nil && o.Rule != "":
			s.opt.Log.Info("an order of the cluster is carried out", "rule", o.Rule, "off", o.Off, "who", o.Who)
		case err == nil:
			s.opt.Log.Info("an order of the cluster is carried out: pages are erased", "order", o.ID, "who", o.Who)
		case tell:
			s.opt.Log.Error("an order of the cluster could not be carried out: trying again every minute",
				"order", o.Key(), "error", err)
		}
	}
}

// publish writes the orders of this node that the broker lacks or has in an older form.
func (s *orders) publish(ctx context.Context, own map[string]*cluster.Order) error {
	for key, o := range own {
		s.mu.Lock()
		at, is := s.broker[key]
		s.mu.Unlock()
		if is && at.stamp >= o.Stamp || is && at.stamp > 0 && o.Rule == "" {
			continue
		}
		data, err := o.Encode(s.opt.Secret)
		if err != nil {
			s.opt.Log.Error("the other nodes do not get an order", "order", key, "error", err)
			continue
		}
		var revision uint64
		if is {
			revision, err = s.opt.Transport.Update(ctx, cluster.BucketCrawl, key, data, at.revision)
		} else {
			revision, err = s.opt.Transport.Create(ctx, cluster.BucketCrawl, key, data)
		}
		switch {
		case errors.Is(err, cluster.ErrExists), errors.Is(err, cluster.ErrChanged): // the watcher reads the other one
		case err != nil:
			s.opt.Log.Debug("waiting to give an order to the other nodes", "order", key, "error", err)
			return err
		default:
			s.mu.Lock()
			if s.broker[key].revision < revision {
				s.broker[key] = atBroker{stamp: o.Stamp, revision: revision}
			}
			s.mu.Unlock()
		}
	}
	return nil
}

// show puts the figures of orders into a snapshot.
func (s *orders) show(to *snapshot.Orders) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to.Taken, to.Waiting = s.known, len(s.faults)
	for _, why := range s.faults {
		to.Why = max(to.Why, why) // the same one each time
	}
}
