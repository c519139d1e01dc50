package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/state"
	"drumbeat/state/condition"
	"drumbeat/state/snapshot"
)

// statuses is the status of this node for people, and reads those of the others. Its goroutines are "status" and
// "watchstatus"; show is safe for concurrent use.
type statuses struct {
	run    *account.Run
	opt    *Options
	gone   *abandoned
	heard  *heard
	doubts *doubts
	outs   *outboxes
	intake *intake
	shares *pageShares
	config *configKeeper
	orders *orders
	tables *tables
	look   func() *snapshot.Snapshot
	heavy  func() []cluster.Heavy

	mu       sync.Mutex   // guards progress; taken before the locks of doubts and of outboxes
	progress []progressOf // by node
}

// progressOf is the last time at which another node took a message, or no message waited for it. The
// goroutine "status" keeps it.
type progressOf struct {
	gone int64
	at   time.Time
}

// show puts the stage's figures into a snapshot.
func (s *statuses) show(sn *snapshot.Snapshot) {
	st := s.opt.Transport.State()
	c := &sn.Cluster
	c.Node, c.Nodes, c.Connected, c.Since, c.Connects = s.opt.Node, s.opt.nodes(), st.Connected, st.Since, st.Connects
	if m := s.heard.mark(s.opt.Node); m != nil {
		c.Idle = m.Idle
	}
	if s.opt.MaxPages > 0 {
		c.PagesLeft = s.shares.left()
	}
	s.orders.show(&c.Orders)
	if why := s.tables.cannotGive.Load(); why != nil {
		c.GiveWhy = *why
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for node, o := range s.outs.boxes {
		if o == nil {
			continue
		}
		f := o.Figures()
		p := snapshot.Pair{Node: node, Added: f.Added.Records(), Waiting: f.Waiting(), WaitingBytes: f.Bytes,
			Abandoned: s.gone.has(node), Departed: s.gone.hasLeft(node), Dropped: f.Dropped.Records(),
			Missing: s.heard.missing(node)}
		if st := s.heard.status(node); st != nil {
			p.Ended, p.Replacing = st.Ended, st.Replacing
		}
		if !p.Abandoned {
			p.Silent = s.heard.silent(node, sn.Time, sn.Elapsed)
		}
		if publisher := s.outs.publishers[node]; publisher != nil {
			p.Published, p.Resends = publisher.Figures()
			p.Held = publisher.Held()
		}
		s.intake.show(&p)
		p.RefusedMarks, p.RefusedMessages = s.doubts.counts(node)
		if was := s.progress[node]; p.Waiting > 0 && !was.at.IsZero() {
			p.Stalled = sn.Time.Sub(was.at)
		}
		c.Pairs = append(c.Pairs, p)
	}
}

// noteProgressOf notes the nodes that have taken messages.
func (s *statuses) noteProgressOf(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for node, o := range s.outs.boxes {
		if o == nil {
			continue
		}
		f := o.Figures()
		if gone := f.Gone.Records(); gone != s.progress[node].gone || f.Waiting() == 0 || s.progress[node].at.IsZero() {
			s.progress[node] = progressOf{gone, now}
		}
	}
}

// status returns the status of the node. pagesPerSecond is the rate since the last status.
func (s *statuses) status(pagesPerSecond float64) *cluster.Status {
	sn := s.look()
	st := &cluster.Status{Node: s.opt.Node, Time: sn.Time.UTC().Round(time.Second), Host: cut(s.opt.Host),
		Version: cut(s.opt.Version), Pages: sn.Count(state.CountPages), PagesPerSecond: pagesPerSecond,
		PagesLeft: sn.Cluster.PagesLeft, Idle: sn.Cluster.Idle, Waits: cut(sn.Wait.Text), Paused: sn.Paused,
		DiskUsed: sn.Disk.Used, DiskLimit: sn.Disk.Limit, Checkpoint: sn.Checkpoint.Number,
		Saved: sn.Saved.UTC().Round(time.Second), Connects: sn.Cluster.Connects, Abandoned: s.gone.nodes(),
		Departed: s.opt.Table.Departed(), Broker: s.opt.Broker}
	st.Orders, st.OrdersWaiting, st.OrderWhy = sn.Cluster.Orders.Taken, sn.Cluster.Orders.Waiting,
		cut(sn.Cluster.Orders.Why)
	st.GiveWhy = cut(sn.Cluster.GiveWhy)
	st.Config, st.Unsifted = s.config.digest(), sn.Unsifted
	v := condition.Of(sn)
	st.State, st.Level, st.Text = string(v.State), string(v.Level), cut(v.Text)
	for p := range state.PlaceFetched {
		st.Queued += sn.Place(p)
	}
	st.Waiting, st.WaitingBytes, st.Slowest = sn.Cluster.Waiting()
	for i := range sn.Cluster.Pairs {
		p := &sn.Cluster.Pairs[i]
		st.Quarantined += p.Quarantined
		st.Refused += p.RefusedMessages + p.RefusedMarks
	}
	if l := &sn.Cluster.Leases; l.On {
		st.Leases = &cluster.LeaseStatus{Held: l.Held, Wanted: l.Wanted,
			Longest: l.Longest.Round(time.Second).Seconds(), URLs: l.URLs, Taken: l.Taken, HandedOver: l.HandedOver,
			Lost: l.Lost, Resting: l.Resting, Starting: l.Starting}
	}
	return st
}

// cut bounds a text of a status.
func cut(text string) string { return text[:min(len(text), 500)] }

// publish writes the status of the node at intervals.
func (s *statuses) publish(ctx context.Context) error {
	last, at := s.run.Accounts.Counter(state.CountPages), time.Now()
	loads := at // when they are due
	for ctx.Err() == nil {
		now := time.Now()
		s.noteProgressOf(now)
		rate := 0.0
		if seconds := now.Sub(at).Seconds(); seconds > 0 {
			pages := s.run.Accounts.Counter(state.CountPages)
			rate = float64(pages-last) / seconds
			last, at = pages, now
		}
		if err := s.opt.put(ctx, cluster.StatusKey(s.opt.Node), s.status(rate)); err != nil {
			s.opt.Log.Debug("waiting to write the status", "error", err)
		}
		if !now.Before(loads) {
			if err := s.putLoads(ctx); err != nil {
				s.opt.Log.Debug("waiting to write the loads of slots", "error", err)
			} else {
				loads = now.Add(cluster.LoadsEvery)
			}
		}
		account.Sleep(ctx, cluster.StatusEvery)
	}
	return nil
}

// putLoads writes the loads of slots.
func (s *statuses) putLoads(ctx context.Context) error {
	l := s.run.Accounts.Loads()
	if l == nil {
		return nil
	}
	return s.opt.put(ctx, cluster.LoadsKey(s.opt.Node),
		&cluster.NodeLoads{Node: s.opt.Node, Time: time.Now().UTC().Round(time.Second), Loads: *l, Heavy: s.heavy()})
}

// publishEnd writes that the node has ended.
func (s *statuses) publishEnd(ctx context.Context, why string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endStatusTimeout)
	defer cancel()
	st := s.status(0)
	st.Ended, st.Waits = why, ""
	if l := st.Leases; l != nil { // its leases are free
		l.Held, l.Wanted, l.Longest, l.Resting, l.Starting = 0, 0, 0, false, false
	}
	if err := errors.Join(s.opt.put(ctx, cluster.StatusKey(st.Node), st), s.putLoads(ctx)); err != nil {
		s.opt.Log.Debug("could not announce the end of this node", "error", err)
	}
}

// endStatusTimeout limits the attempt to write the last status.
const endStatusTimeout = 2 * time.Second

// watch follows the statuses of all nodes.
func (s *statuses) watch(ctx context.Context) error {
	return follow(ctx, s.opt.Transport, cluster.StatusPattern, func(bool) {}, func(v *cluster.Value) error {
		if v.Deleted {
			return nil
		}
		st, err := cluster.DecodeStatus(v.Key, v.Data, s.opt.nodes())
		if err != nil {
			s.opt.Log.Debug("refused a status", "error", err)
			return nil
		}
		s.heard.noteStatus(st)
		return nil
	})
}
