package crawl

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"drumbeat/cluster/lease"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// How the nodes of a cluster share networks and addresses.
const (
	PolitenessLease = "lease" // one node at a time visits a network: all delays and limits hold over all nodes
	PolitenessShare = "share" // each node uses its share of the limits: rates hold, delays only on average
)

const (
	DefaultLeaseTTL  = 10 * time.Minute
	longestExchange  = 5 * time.Minute  // if Cluster.Longest says nothing
	leasePatience    = 2 * time.Minute  // a URL that waits longer for a network moves to disk
	evictUnheldEvery = 10 * time.Second // interval of that check
	endLeasesTimeout = 10 * time.Second // limits the release of all leases at the end
)

// leaseStage takes the leases of networks for the URLs in RAM. Its goroutines are "leases" and "leasewait".
type leaseStage struct {
	*engine
	leases     *lease.Leases // nil: this crawl has one node, or its nodes share networks
	deferrals  *deferrals
	dispatcher *dispatcher
	waiting    atomic.Int64 // URLs in RAM that waited for a network at evictWaiting's last check
}

// leases reports whether nodes visit networks in turn.
func (o *Options) leases() bool {
	return o.Cluster != nil && o.Cluster.Table.Nodes() > 1 && o.Cluster.Politeness != PolitenessShare
}

// shares returns the number of nodes that divide the limits of addresses and networks.
func (o *Options) shares() int {
	if o.Cluster == nil || o.leases() {
		return 1
	}
	return o.Cluster.Table.Nodes()
}

// open creates the leases. The scheduler must exist.
func (s *leaseStage) open(m *state.Manifest) error {
	if !s.opt.leases() {
		return nil
	}
	c := s.opt.Cluster
	longest := c.Longest
	if longest == 0 {
		longest = longestExchange
	}
	s.leases = lease.New(lease.Options{Transport: c.Transport, Polite: s.polite, Node: c.Node, Nodes: c.Table.Nodes(),
		Run: rand.Uint64() | 1, TTL: c.leaseTTL(), Longest: longest, New: m == nil, Clock: c.Clock, Opened: s.dispatcher.morePages,
		Problem: func(text string, err error) { s.opt.Log.Error(text, "error", err) }})
	return nil
}

func (c *Cluster) leaseTTL() time.Duration {
	if c.LeaseTTL == 0 {
		return DefaultLeaseTTL
	}
	return c.LeaseTTL
}

// start starts the goroutines.
func (s *leaseStage) start(ctx context.Context) {
	if s.leases == nil {
		return
	}
	s.engine.start(ctx, "leases", s.run)
	s.engine.start(ctx, "leasewait", s.evictWaiting)
}

func (s *leaseStage) run(ctx context.Context) error {
	err := s.leases.Run(ctx)
	if errors.Is(err, lease.ErrTwice) {
		return fmt.Errorf("crawl: %w: %w", err, state.ErrIncompatible)
	}
	return err
}

// processContext returns a context that ends with the current process of another node, if there are leases.
func (s *leaseStage) processContext(node int) context.Context {
	if s.leases == nil {
		return context.Background()
	}
	return s.leases.ProcessContext(node)
}

// mayFetch reports whether requests may begin. They rest if this node has not reached the broker for too
// long: other nodes may then visit its networks.
func (s *leaseStage) mayFetch() bool { return s.leases == nil || s.leases.MayFetch() }

// noRequests reports whether requests for robots.txt cannot begin yet: the node rests, or it has just started
// and new networks wait until the other nodes have claimed theirs. URLs that wait for such a request are not
// late.
func (s *leaseStage) noRequests() bool {
	if s.leases == nil {
		return false
	}
	f := s.leases.Figures()
	return f.Resting || f.Guarded && f.Age < 2*s.leases.StartDelay()
}

// evictWaiting moves URLs that have waited long for a network to disk, so that RAM has room for others.
func (s *leaseStage) evictWaiting(ctx context.Context) error {
	for sleep(ctx, evictUnheldEvery) {
		if err := s.transact(func(tx *transaction) error {
			items, left := s.polite.EvictUnheld(time.Now(), leasePatience)
			s.waiting.Store(int64(left))
			tx.nothing = len(items) == 0
			return s.deferrals.evicted(tx, items, state.ReasonNetworkLease)
		}); err != nil {
			return err
		}
	}
	return nil
}

// end announces that no exchange is in progress here, so that the other nodes need not wait.
func (s *leaseStage) end(ctx context.Context) {
	if s.leases == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLeasesTimeout)
	defer cancel()
	if err := s.leases.End(ctx); err != nil {
		s.opt.Log.Warn("other nodes get the networks of this one only after --cluster-lease", "error", err)
	}
}

// show puts the figures of leases into a snapshot.
func (s *leaseStage) show(sn *Snapshot) {
	if s.leases == nil {
		return
	}
	f := s.leases.Figures()
	sn.Cluster.Leases = snapshot.Leases{On: true, Held: f.Held, Wanted: f.Wanted, Longest: f.Longest, Taken: f.Taken, HandedOver: f.HandedOver,
		Lost: f.Lost, Unreadable: f.Unreadable, Replaced: f.Replaced, Refused: f.Refused, Collected: f.Collected, RoomBytes: f.Room.Bytes,
		RoomLimit: f.Room.Limit, Guarded: f.Guarded, Resting: f.Resting, Starting: f.Starting, URLs: s.waiting.Load() + sn.Deferred[state.ReasonNetworkLease.String()]}
}

// why returns the reason why nothing may be fetched; "" if requests may begin.
func (s *leaseStage) why() string {
	if s.mayFetch() {
		return ""
	}
	f, broker := s.leases.Figures(), s.opt.Cluster.Transport.State().Connected
	switch {
	case !f.Resting:
		return ""
	case f.Starting && broker:
		return fmt.Sprintf("the other nodes: they must read this node's heartbeats for %v from its start (--cluster-lease)", s.leases.StartDelay())
	case f.Starting:
		return "the broker (--cluster): the other nodes must first read this node's heartbeats"
	case broker:
		return fmt.Sprintf("the other nodes: they must read this node's heartbeats again for %v (--cluster-lease)", s.leases.StartDelay())
	}
	return "the broker: after so long without it, other nodes may visit this node's networks (--cluster-lease)"
}
