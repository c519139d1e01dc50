package crawl

import (
	"context"
	"errors"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// The status of a node of a cluster for people, and the statuses of the others.

// progressOf is the last time at which another node took a message, or no message waited for it. The
// goroutine "status" keeps it.
type progressOf struct {
	gone int64
	at   time.Time
}

// show puts the stage's figures into a snapshot.
func (s *clusterStage) show(sn *Snapshot) {
	if !s.on() {
		return
	}
	st := s.opt.Cluster.Transport.State()
	c := &sn.Cluster
	c.Node, c.Nodes, c.Connected, c.Since, c.Connects = s.node, s.nodes, st.Connected, st.Since, st.Connects
	if m := s.heard.mark(s.node); m != nil {
		c.Idle = m.Idle
	}
	if s.opt.Limits.MaxPages > 0 {
		c.PagesLeft = max(0, s.pageLimit()-s.Counter(state.CountPages))
	}
	s.markMu.Lock()
	defer s.markMu.Unlock()
	for node, o := range s.outs.boxes {
		if o == nil {
			continue
		}
		f := o.Figures()
		p := snapshot.Pair{Node: node, Added: f.Added.Records(), Waiting: f.Waiting(), WaitingBytes: f.Bytes,
			Taken: s.taken[node].Load(), Holes: int64(s.resendRequests[node]), Abandoned: s.gone.gone[node],
			Dropped: f.Dropped.Records()}
		if publisher := s.outs.publishers[node]; publisher != nil {
			p.Published, p.Resends = publisher.Figures()
			p.Held = publisher.Held()
		}
		p.Quarantined = s.quarantined[node].Load()
		p.RefusedMarks, p.RefusedMessages = s.doubts.counts(node)
		if was := s.progress[node]; p.Waiting > 0 && !was.at.IsZero() {
			p.Stalled = sn.Time.Sub(was.at)
		}
		c.Pairs = append(c.Pairs, p)
	}
}

// noteProgressOf notes the nodes that have taken messages.
func (s *clusterStage) noteProgressOf(now time.Time) {
	s.markMu.Lock()
	defer s.markMu.Unlock()
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
func (s *clusterStage) status(pagesPerSecond float64) *cluster.Status {
	sn := s.look()
	st := &cluster.Status{Node: s.node, Time: sn.Time.UTC().Round(time.Second), Host: cut(s.opt.Identity.Host),
		Version: cut(s.opt.Identity.Version), Pages: sn.Count(state.CountPages), PagesPerSecond: pagesPerSecond,
		PagesLeft: sn.Cluster.PagesLeft, Idle: sn.Cluster.Idle, Waits: cut(sn.Waiting), Paused: sn.Paused,
		DiskUsed: sn.Disk.Used, DiskLimit: sn.Disk.Limit, Checkpoint: sn.Checkpoint.Number,
		Saved: sn.Saved.UTC().Round(time.Second), Connects: sn.Cluster.Connects, Abandoned: s.gone.nodes()}
	if config := s.configNow.Load(); config != nil {
		st.Config = config.Digest
	}
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

// publishStatus writes the status of the node at intervals.
func (s *clusterStage) publishStatus(ctx context.Context) error {
	last, at := s.Counter(state.CountPages), time.Now()
	for ctx.Err() == nil {
		now := time.Now()
		s.noteProgressOf(now)
		rate := 0.0
		if seconds := now.Sub(at).Seconds(); seconds > 0 {
			pages := s.Counter(state.CountPages)
			rate = float64(pages-last) / seconds
			last, at = pages, now
		}
		if err := s.putStatus(ctx, s.status(rate)); err != nil {
			s.opt.Observe.Log.Debug("writing the status waits", "error", err)
		}
		account.Sleep(ctx, cluster.StatusEvery)
	}
	return nil
}

func (s *clusterStage) putStatus(ctx context.Context, st *cluster.Status) error {
	data, err := st.Encode()
	if err == nil {
		_, err = s.opt.Cluster.Transport.Put(ctx, cluster.BucketCrawl, cluster.StatusKey(s.node), data)
	}
	return err
}

// logEnd writes that the node has ended.
func (s *clusterStage) publishEnd(ctx context.Context, why string) {
	if !s.on() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endStatusTimeout)
	defer cancel()
	st := s.status(0)
	st.Ended, st.Waits = why, ""
	if l := st.Leases; l != nil { // its leases are free
		l.Held, l.Wanted, l.Longest, l.Resting, l.Starting = 0, 0, 0, false, false
	}
	if err := s.putStatus(ctx, st); err != nil {
		s.opt.Observe.Log.Debug("the end of the node is not written", "error", err)
	}
}

// endStatusTimeout limits the attempt to write the last status.
const endStatusTimeout = 2 * time.Second

// watchStatus follows the statuses of all nodes.
func (s *clusterStage) watchStatus(ctx context.Context) error {
	for ctx.Err() == nil {
		w, err := s.opt.Cluster.Transport.Watch(ctx, cluster.BucketCrawl, cluster.StatusPattern)
		for err == nil {
			var v cluster.Value
			var ok bool
			if v, ok, err = w.Next(ctx); err != nil || !ok || v.Deleted {
				continue
			}
			st, bad := cluster.DecodeStatus(v.Key, v.Data, s.nodes)
			if bad != nil {
				s.opt.Observe.Log.Debug("a status is refused", "error", bad)
				continue
			}
			s.heard.statuses[st.Node].Store(st)
		}
		if w != nil {
			w.Close()
		}
		account.Sleep(ctx, transportRetry)
	}
	return nil
}

// ErrOneNode is returned by Control.Cluster for a crawl of one node.
var ErrOneNode = errors.New("crawl: this crawl has one node only")

// Cluster returns the number of this node, and the last status of each node; nil for a node that has not reported.
func (k *Control) Cluster() (node int, list []*cluster.Status, err error) {
	err = k.with(func(c *crawler) error {
		s := c.cluster
		if !s.on() {
			return ErrOneNode
		}
		node = s.node
		for i := range s.heard.statuses {
			list = append(list, s.heard.status(i))
		}
		return nil
	})
	return node, list, err
}
