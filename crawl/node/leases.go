package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"drumbeat/cluster/lease"
	"drumbeat/crawl/account"
	"drumbeat/internal/human"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

const (
	longestExchange  = 5 * time.Minute  // if LeaseOptions say nothing
	leasePatience    = 2 * time.Minute  // a URL that waits longer for a network moves to disk
	evictUnheldEvery = 10 * time.Second // interval of that check
	endLeasesTimeout = 10 * time.Second // limits the release of all leases at the end
)

// Leases takes the leases of networks for the URLs in RAM. Its goroutines are "leases" and "leasewait".
type Leases struct {
	run     *account.Run
	opt     LeaseOptions
	others  LeaseOthers
	heaps   *polite.Scheduler
	leases  *lease.Leases // nil: this crawl has one node
	waiting atomic.Int64  // URLs in RAM that waited for a network at evictWaiting's last check
}

// LeaseOptions are the options of Leases.
type LeaseOptions struct {
	Log   *slog.Logger
	Lease lease.Options // Transport, Node, Nodes, TTL, Longest (0: 5 minutes) and Clock; zero for a crawl of one node
}

// LeaseOthers are the stages that Leases call.
type LeaseOthers struct {
	// Evicted takes URLs from RAM that wait for a network. It is part of a transaction.
	Evicted func(tx *account.Tx, items []*polite.Item) error
	Opened  func() // requests may begin
}

// NewLeases returns the leases of a node. Open opens them.
func NewLeases(run *account.Run, opt LeaseOptions) *Leases { return &Leases{run: run, opt: opt} }

// Wire gives the leases the stages that they call.
func (s *Leases) Wire(others LeaseOthers) { s.others = others }

// Open creates the leases, if this crawl has several nodes. isNew says that the node has not crawled before.
func (s *Leases) Open(heaps *polite.Scheduler, isNew bool) {
	o := s.opt.Lease
	if o.Nodes < 2 {
		return
	}
	s.heaps = heaps
	o.Polite, o.New, o.Opened, o.Run, o.Longest = heaps, isNew, s.others.Opened, rand.Uint64()|1,
		cmp.Or(o.Longest, longestExchange)
	o.Problem = func(text string, err error) { s.opt.Log.Error(text, "error", err) }
	s.leases = lease.New(o)
}

// Start starts the goroutines.
func (s *Leases) Start(ctx context.Context) {
	if s.leases == nil {
		return
	}
	s.run.Start(ctx, "leases", s.keep)
	s.run.Start(ctx, "leasewait", s.evictWaiting)
}

// keep runs the leases until ctx ends.
func (s *Leases) keep(ctx context.Context) error {
	err := s.leases.Run(ctx)
	if errors.Is(err, lease.ErrTwice) {
		return fmt.Errorf("crawl: %w: %w", err, state.ErrIncompatible)
	}
	return err
}

// ProcessContext returns a context that ends with the current process of another node, if there are leases.
func (s *Leases) ProcessContext(node int) context.Context {
	if s.leases == nil {
		return context.Background()
	}
	return s.leases.ProcessContext(node)
}

// MayFetch reports whether requests may begin. They rest if this node has not reached the broker for too
// long: other nodes may then visit its networks.
func (s *Leases) MayFetch() bool { return s.leases == nil || s.leases.MayFetch() }

// NoRequests reports whether requests for robots.txt cannot begin yet: the node rests, or it has just started
// and new networks wait until the other nodes have claimed theirs. URLs that wait for such a request are not
// late.
func (s *Leases) NoRequests() bool {
	if s.leases == nil {
		return false
	}
	f := s.leases.Figures()
	return f.Resting || f.Guarded && f.Age < 2*s.leases.StartDelay()
}

// evictWaiting moves URLs that have waited long for a network to disk, so that RAM has room for others.
func (s *Leases) evictWaiting(ctx context.Context) error {
	for account.Sleep(ctx, evictUnheldEvery) {
		if err := s.run.Transact(func(tx *account.Tx) error {
			items, left := s.heaps.EvictUnheld(time.Now(), leasePatience)
			s.waiting.Store(int64(left))
			tx.Nothing = len(items) == 0
			return s.others.Evicted(tx, items)
		}); err != nil {
			return err
		}
	}
	return nil
}

// End announces that no exchange is in progress here, so that the other nodes need not wait. If suspend is set, the
// next run of this process begins at once, and continues with the leases.
func (s *Leases) End(ctx context.Context, suspend bool) {
	if s.leases == nil || suspend && s.leases.Suspend() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLeasesTimeout)
	defer cancel()
	if err := s.leases.End(ctx); err != nil {
		s.opt.Log.Warn("other nodes can visit this node's networks only after --cluster-lease", "error", err)
	}
}

// Show puts the figures of leases into a snapshot.
func (s *Leases) Show(sn *snapshot.Snapshot) {
	if s.leases == nil {
		return
	}
	f := s.leases.Figures()
	sn.Cluster.Leases = snapshot.Leases{On: true, Held: f.Held, Wanted: f.Wanted, Longest: f.Longest, Taken: f.Taken,
		HandedOver: f.HandedOver, Lost: f.Lost, Unreadable: f.Unreadable, Replaced: f.Replaced, Refused: f.Refused,
		Collected: f.Collected, RoomBytes: f.Room.Bytes, RoomLimit: f.Room.Limit, Guarded: f.Guarded,
		Resting: f.Resting, Starting: f.Starting, Losses: f.Losses, URLs: s.waiting.Load() +
			sn.Deferred[state.ReasonNetworkLease.String()]}
}

// Why returns the reason why nothing may be fetched; "" if requests may begin.
func (s *Leases) Why() string {
	if s.MayFetch() {
		return ""
	}
	f, broker := s.leases.Figures(), s.opt.Lease.Transport.State().Connected
	switch {
	case !f.Resting:
		return ""
	case f.Starting && broker:
		return fmt.Sprintf("the other nodes: they must receive this node's heartbeats for %s after its start "+
			"(--cluster-lease)", human.Exact(s.leases.StartDelay().Round(time.Millisecond)))
	case f.Starting:
		return "the broker (--cluster): the other nodes must first receive this node's heartbeats"
	case broker:
		return fmt.Sprintf("the other nodes: they must receive this node's heartbeats again for %s (--cluster-lease)",
			human.Exact(s.leases.StartDelay().Round(time.Millisecond)))
	}
	return "the broker: it has been away so long that other nodes may visit this node's networks (--cluster-lease)"
}
