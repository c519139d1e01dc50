// Package walkers is a room of the running crawl: it leads the walkers of the strategy random-walk (package
// internal/walk).
//
// # Contract
//
// Fetched and Refused tell the walk what became of a URL, in the transaction that ends the URL; Deferred lets
// walkers give up a URL that is late. A URL where a walker stops is sent to URLseen in the transaction of the
// step, so each URL is unique and in one place as in any crawl, and a checkpoint (Freeze) has the walk and
// the URLs of the same moment.
//
// In a crawl of several nodes, a walker whose next URL or jump is another node's goes into the outbox for that node in
// the transaction of its step, and Come takes walkers in the transaction of their message. So each walker is in one
// place.
//
// # Concurrency
//
// A Leader is safe for concurrent use after Open. One goroutine, in Run, takes the steps; Come belongs to another
// one.
//
// # Memory and disk
//
// The plan bounds the walk (plan.Plan.WalkBytes). The log on disk grows with each page and step.
package walkers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"drumbeat/admit"
	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/space"
	"drumbeat/internal/walk"
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Leader leads the walkers of the strategy random-walk (package walk).
//
// The links of a page go to the walk, in the transaction that ends the page, and not to URLseen. Its
// goroutine, "walk", takes the steps. When a walker comes to a URL that was not visited, the URL goes to
// URLseen in the transaction of the step, and from there the way of all URLs; the walker waits until it is
// fetched or refused. So each URL is unique and in one place as in any crawl, and a checkpoint has the walk
// and the URLs of the same moment. What the walk sees and does goes to its log in the same transaction, so a
// checkpoint copies and writes the walkers only.
type Leader struct {
	run    *account.Run
	saved  *state.Saved
	opt    Options
	others Others
	space  *space.Keeper
	mu     sync.Mutex   // guards walk, and the order of Log; above the locks of queues only
	walk   *walk.Walk   // nil with other strategies; the pointer does not change while stages run
	Log    *queue.Queue // what the walk saw and did; the owner opens it, and nobody reads it while stages run
	wake   account.Signal
	batch  *admit.Batch // of the goroutine
	coming *admit.Batch // of Come
	logged bool         // that the walk has ended
}

// Options are the options of a Leader.
type Options struct {
	Log   *slog.Logger
	Walks bool         // the crawl is a random walk; otherwise a Leader does nothing
	Walk  walk.Options // without Bytes and Seed; Part is the part of this node
	Plan  *plan.Plan
	Links *admit.Policy
}

// Others are the stages that a Leader calls.
type Others struct {
	// SendLinks sends links to URLseen. It is part of a transaction.
	SendLinks func(b *admit.Batch, tx *account.Tx) error
	Drains    func() bool // new links are not queued
	Node      Node
}

// Node exchanges walkers with the other nodes of the crawl, if it has any.
type Node interface {
	// Send sends what the batch of a page has for other nodes. It is part of a transaction.
	Send(b *admit.Batch, tx *account.Tx) error
	// SendWalker sends a walker to a node. It is part of a transaction.
	SendWalker(to int, w *cluster.Walker, tx *account.Tx) error
	WalkHosts() []int64 // by node: hosts to which walkers may jump; nil in a crawl of one node
	Gone(node int) bool // a node takes part no more
	Quiet() bool        // no step may be taken now
	TellHosts()         // walkers may jump to hosts of this node from now on
}

// New returns a Leader. Wire must give it the other stages before a run.
func New(run *account.Run, saved *state.Saved, opt Options, k *space.Keeper) *Leader {
	return &Leader{run: run, saved: saved, opt: opt, space: k, wake: run.PulsedSignal()}
}

// Wire gives the Leader the stages that it calls.
func (s *Leader) Wire(others Others) { s.others = others }

// Bounds of a transaction of the walk. It may fill walkFill percent of its share of RAM; the rest is for tables
// that grow.
const (
	stepsAtOnce  = 256
	walkFill     = 60
	walkPatience = 20 * time.Second
)

// On reports whether the crawl is a random walk.
func (s *Leader) On() bool { return s.walk != nil }

// Open begins the walk of a new crawl, or continues that of a checkpoint.
func (s *Leader) Open(m *state.Manifest) error {
	if !s.opt.Walks {
		return nil
	}
	opt := s.opt.Walk
	opt.Bytes = s.opt.Plan.WalkBytes / 100 * walkFill
	opt.Seed = [2]uint64{s.saved.Hasher.HostKey([]byte("random walk")), s.saved.Hasher.PLDKey([]byte("random walk"))}
	s.batch, s.coming = admit.NewBatch(s.opt.Links), admit.NewBatch(s.opt.Links)
	if m == nil {
		s.walk = walk.New(opt)
		return nil
	}
	var err error
	s.walk, err = state.LoadWalk(s.saved.Set, m, opt)
	switch {
	case errors.Is(err, state.ErrNoWalk):
		return errors.New("crawl: drumbeat repair could not save the random walk: start a new crawl")
	case err != nil:
		return fmt.Errorf("crawl: %w", err)
	}
	return nil
}

// Freeze copies the walkers; nil without a walk. The log has the rest.
func (s *Leader) Freeze() *walk.Frozen {
	if !s.On() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.walk.Freeze()
}

// Idle reports whether no walker can step: all wait for URLs, or the walk has ended.
func (s *Leader) Idle() bool {
	if !s.On() {
		return true
	}
	hosts := s.others.Node.WalkHosts()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meet(hosts)
	return s.walk.Idle()
}

// meet tells the walk of the hosts of the other nodes. The caller holds mu.
func (s *Leader) meet(hosts []int64) {
	if hosts != nil {
		s.walk.SetOthers(walk.Others{Elsewhere: s.opt.Links.ElsewhereKey, Hosts: hosts})
	}
}

// Hosts returns the number of hosts of this node to which walkers may jump.
func (s *Leader) Hosts() int {
	if !s.On() {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.walk.Hosts()
}

// Fetched gives the walk the links of a response. It is part of the transaction that ends the response.
func (s *Leader) Fetched(tx *account.Tx, url []byte, status int, page bool, b *admit.Batch) error {
	tx.Count(state.CountLinksWalk, int64(len(b.Keys))+b.Again)
	v := walk.Visit{Link: s.linkTo(url), Status: status, Page: page,
		Origin: walk.Origin{Depth: b.Rec.Depth, Redirects: b.Rec.Redirects, Flags: b.Rec.Flags}}
	for link := range b.URLs {
		v.Links = append(v.Links, s.linkTo(link))
	}
	if len(b.Extended) > 0 {
		b.Away = b.Away[:0] // a walk keeps no edges
		if err := s.others.Node.Send(b, tx); err != nil {
			return err
		}
	}
	return s.know(tx, &v)
}

// Refused tells the walk of a URL without a response. It is part of a transaction.
func (s *Leader) Refused(tx *account.Tx, url []byte) error {
	if !s.On() {
		return nil
	}
	return s.know(tx, &walk.Visit{Link: s.linkTo(url)})
}

// Deferred lets the walkers that wait for a URL continue when it is deferred because its server or name is in
// trouble: they would all end up at such URLs.
func (s *Leader) Deferred(tx *account.Tx, url []byte, due time.Time, why state.Reason) error {
	if !s.On() || time.Until(due) < walkPatience {
		return nil
	}
	switch why {
	case state.ReasonHostBacklog, state.ReasonEvicted, state.ReasonRevisit, state.ReasonNetworkLease:
		return nil
	}
	return s.change(tx, func(w *walk.Walk) { w.GiveUp(s.saved.Hasher.URLKey(url)) })
}

func (s *Leader) linkTo(url []byte) walk.Link {
	return walk.Link{Key: s.saved.Hasher.URLKey(url), Host: s.saved.HostKey(weburl.Split(url).Host), URL: url}
}

func (s *Leader) know(tx *account.Tx, v *walk.Visit) error {
	return s.change(tx, func(w *walk.Walk) {
		first := w.Hosts() == 0
		if w.Know(v); first && w.Hosts() > 0 {
			s.others.Node.TellHosts()
		}
	})
}

// change changes the walk and its log. It is part of a transaction.
func (s *Leader) change(tx *account.Tx, f func(*walk.Walk)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.walk)
	tx.Wake(s.wake)
	return s.walk.TakeLog(s.Log.Append)
}

// Run takes steps while walkers can. A crawl that drains takes none: the URLs would be dropped.
func (s *Leader) Run(ctx context.Context) error {
	for s.On() && ctx.Err() == nil {
		switch {
		case s.space.Pausing() != "" || s.others.Drains() || s.others.Node.Quiet():
			account.Sleep(ctx, space.Every)
		case s.Idle():
			s.logEnd()
			s.run.Await(ctx, s.wake, account.WakeAfter)
		default:
			if err := s.run.Transact(s.step); err != nil {
				return err
			}
		}
	}
	return nil
}

// step takes some steps, and sends the URLs for which walkers wait then to URLseen, and walkers to other nodes.
func (s *Leader) step(tx *account.Tx) error {
	s.run.Hook("walk")
	hosts := s.others.Node.WalkHosts()
	var wishes []walk.Wish
	var away []walk.Departure
	if err := s.change(tx, func(w *walk.Walk) {
		s.meet(hosts)
		wishes, away = w.Step(stepsAtOnce)
		away = slices.DeleteFunc(away, func(d walk.Departure) bool {
			gone := s.others.Node.Gone(d.Node)
			if gone {
				w.Back(&d)
			}
			return gone
		})
	}); err != nil {
		return err
	}
	for i := range wishes {
		if err := s.wish(tx, &wishes[i], s.batch); err != nil {
			return err
		}
	}
	for i := range away {
		d := &away[i]
		if err := s.others.Node.SendWalker(d.Node, &cluster.Walker{URLs: d.Purse.URLs, Steps: d.Purse.Steps,
			URL: []byte(d.URL), Via: []byte(d.Via), Depth: d.Origin.Depth, Redirects: d.Origin.Redirects,
			Flags: d.Origin.Flags}, tx); err != nil {
			return err
		}
	}
	return nil
}

// wish sends a URL for which a walker waits to URLseen.
func (s *Leader) wish(tx *account.Tx, w *walk.Wish, b *admit.Batch) error {
	b.Start([]byte(w.Via), nil, w.Origin.Depth, w.Origin.Flags, time.Now())
	b.Rec.Redirects = w.Origin.Redirects
	b.Add([]byte(w.URL))
	b.Counts = [state.NumCounters]int64{} // the page's transaction has counted the link
	if len(b.Keys) != 1 || uint64(b.Keys[0]) != w.Key {
		return s.Refused(tx, []byte(w.URL)) // the rules have changed meanwhile
	}
	return s.others.SendLinks(b, tx)
}

// Come takes walkers from another node. It is part of the transaction that takes their message, and belongs to one
// goroutine. In a crawl that drains they stay where they are.
func (s *Leader) Come(walkers []cluster.Walker, tx *account.Tx) error {
	tx.Count(state.CountLinksTaken, int64(len(walkers)))
	for i := range walkers {
		c := &walkers[i]
		wanted, purse := false, walk.Purse{URLs: c.URLs, Steps: c.Steps}
		var link walk.Link
		if len(c.URL) > 0 {
			link = s.linkTo(c.URL)
		}
		if err := s.change(tx, func(w *walk.Walk) {
			switch {
			case s.others.Drains():
				w.Back(&walk.Departure{Purse: purse})
			case len(c.URL) == 0:
				w.Come(purse, nil)
			default:
				wanted = w.Come(purse, &link)
			}
		}); err != nil {
			return err
		}
		if !wanted {
			continue
		}
		if err := s.wish(tx, &walk.Wish{URL: string(c.URL), Via: string(c.Via), Key: link.Key,
			Origin: walk.Origin{Depth: c.Depth, Redirects: c.Redirects, Flags: c.Flags}}, s.coming); err != nil {
			return err
		}
	}
	return nil
}

// logEnd logs once that the walk has ended, and why.
func (s *Leader) logEnd() {
	s.mu.Lock()
	why, f := s.walk.Ended(), s.walk.Figures()
	s.mu.Unlock()
	if why != "" && !s.logged {
		s.logged = true
		s.opt.Log.Info("the random walk ends: "+why, "visited", f.Visited, "seen", f.Seen, "steps", f.Steps)
	}
}
