package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/strategy"
	"drumbeat/internal/walk"
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/weburl"
)

// walkStage leads the walkers of the strategy random-walk (package walk).
//
// The links of a page go to the walk, in the transaction that ends the page, and not to URLseen. Its goroutine, "walk",
// takes the steps. When a walker comes to a URL that was not visited, the URL goes to URLseen in the transaction of the
// step, and from there the way of all URLs; the walker waits until it is fetched or refused. So each URL is unique and in
// one place as in any crawl, and a checkpoint has the walk and the URLs of the same moment. What the walk sees and does goes
// to its log in the same transaction, so a checkpoint copies and writes the walkers only.
type walkStage struct {
	*engine
	mu     sync.Mutex   // guards walk, and the order of log; above the locks of queues only
	walk   *walk.Walk   // nil with other strategies; the pointer does not change while stages run
	log    *queue.Queue // what the walk saw and did, from its begin on; nobody reads it while stages run
	wake   signal
	batch  *admit.Batch // of the goroutine
	logged bool         // that the walk has ended

	seen  *seenStage
	space *space
}

// Bounds of a transaction of the walk, and its share of RAM. It may fill walkFill percent of that; the rest is for tables
// that grow.
const (
	stepsAtOnce  = 256
	shareWalk    = 25 // percent, taken from URLseen, which sees few links then
	walkFill     = 60
	walkPatience = 20 * time.Second
)

// walks reports whether the crawl is a random walk.
func (o *Options) walks() bool { return o.Strategy == strategy.RandomWalk }

// walkOptions returns the options of the walk, for bytes of memory.
func (o *Options) walkOptions(bytes int64) walk.Options {
	return walk.Options{Walkers: cmp.Or(o.Walk.Walkers, walk.DefaultWalkers), URLs: cmp.Or(o.Walk.URLs, walk.DefaultURLs),
		Jump: cmp.Or(o.Walk.Jump, walk.DefaultJump), Bytes: bytes}
}

func newWalkStage(e *engine) *walkStage { return &walkStage{engine: e, wake: e.pulsedSignal()} }

// on reports whether the crawl is a random walk.
func (s *walkStage) on() bool { return s.walk != nil }

// open begins the walk of a new crawl, or continues that of a checkpoint.
func (s *walkStage) open(m *state.Manifest) error {
	if !s.opt.walks() {
		return nil
	}
	opt := s.opt.walkOptions(s.plan.WalkBytes / 100 * walkFill)
	opt.Seed = [2]uint64{s.Hasher.HostKey([]byte("random walk")), s.Hasher.PLDKey([]byte("random walk"))}
	s.batch = admit.NewBatch(s.links)
	if m == nil {
		s.walk = walk.New(opt)
		return nil
	}
	var err error
	s.walk, err = state.LoadWalk(s.Set, m, opt)
	switch {
	case errors.Is(err, state.ErrNoWalk):
		return errors.New("crawl: the random walk is lost (drumbeat repair could not save it): begin a new crawl")
	case err != nil:
		return fmt.Errorf("crawl: %w", err)
	}
	return nil
}

// freeze copies the walkers. The log has the rest.
func (s *walkStage) freeze(m *moment) {
	if s.on() {
		s.mu.Lock()
		defer s.mu.Unlock()
		m.walk = s.walk.Freeze()
	}
}

// idle reports whether no walker can step: all wait for URLs, or the walk has ended.
func (s *walkStage) idle() bool {
	if !s.on() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.walk.Idle()
}

// fetched gives the walk the links of a response. It is part of the transaction that ends the response.
func (s *walkStage) fetched(tx *transaction, url []byte, status int, page bool, b *admit.Batch) error {
	countLinks(b, tx)
	tx.count(state.CountLinksWalk, int64(len(b.Keys))+b.Again)
	v := walk.Visit{Link: s.linkTo(url), Status: status, Page: page,
		Origin: walk.Origin{Depth: b.Rec.Depth, Redirects: b.Rec.Redirects, Flags: b.Rec.Flags}}
	for link := range b.URLs {
		v.Links = append(v.Links, s.linkTo(link))
	}
	return s.know(tx, &v)
}

// refused tells the walk of a URL without a response. It is part of a transaction.
func (s *walkStage) refused(tx *transaction, url []byte) error {
	if !s.on() {
		return nil
	}
	return s.know(tx, &walk.Visit{Link: s.linkTo(url)})
}

// deferred lets the walkers that wait for a URL continue when it is deferred because its server or name is in
// trouble: they would all end up at such URLs.
func (s *walkStage) deferred(tx *transaction, url []byte, due time.Time, why state.Reason) error {
	if !s.on() || time.Until(due) < walkPatience {
		return nil
	}
	switch why {
	case state.ReasonHostBacklog, state.ReasonEvicted, state.ReasonRevisit, state.ReasonNetworkLease:
		return nil
	}
	return s.change(tx, func(w *walk.Walk) { w.GiveUp(s.Hasher.URLKey(url)) })
}

func (s *walkStage) linkTo(url []byte) walk.Link {
	return walk.Link{Key: s.Hasher.URLKey(url), Host: s.HostKey(weburl.Split(url).Host), URL: url}
}

func (s *walkStage) know(tx *transaction, v *walk.Visit) error {
	return s.change(tx, func(w *walk.Walk) { w.Know(v) })
}

// change changes the walk and its log. It is part of a transaction.
func (s *walkStage) change(tx *transaction, f func(*walk.Walk)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.walk)
	tx.wake(s.wake)
	return s.walk.TakeLog(s.log.Append)
}

// run takes steps while walkers can. A crawl that drains takes none: the URLs would be dropped.
func (s *walkStage) run(ctx context.Context) error {
	for s.on() && ctx.Err() == nil {
		switch {
		case s.space.pausing() != "" || s.drains():
			sleep(ctx, spaceEvery)
		case s.idle():
			s.logEnd()
			s.await(ctx, s.wake, wakeAfter)
		default:
			if err := s.transact(s.step); err != nil {
				return err
			}
		}
	}
	return nil
}

// step takes some steps, and sends the URLs for which walkers wait then to URLseen.
func (s *walkStage) step(tx *transaction) error {
	s.testHook("walk")
	var wishes []walk.Wish
	if err := s.change(tx, func(w *walk.Walk) { wishes = w.Step(stepsAtOnce) }); err != nil {
		return err
	}
	for i := range wishes {
		w, b := &wishes[i], s.batch
		b.Start([]byte(w.Via), nil, w.Origin.Depth, w.Origin.Flags, time.Now())
		b.Rec.Redirects = w.Origin.Redirects
		b.Add([]byte(w.URL))
		b.Counts = [state.NumCounters]int64{} // the page's transaction has counted the link
		if len(b.Keys) != 1 || uint64(b.Keys[0]) != w.Key {
			if err := s.refused(tx, []byte(w.URL)); err != nil { // the rules have changed meanwhile
				return err
			}
			continue
		}
		if err := s.seen.sendLinks(b, tx); err != nil {
			return err
		}
	}
	return nil
}

// logEnd logs once that the walk has ended, and why.
func (s *walkStage) logEnd() {
	s.mu.Lock()
	why, f := s.walk.Ended(), s.walk.Figures()
	s.mu.Unlock()
	if why != "" && !s.logged {
		s.logged = true
		s.opt.Log.Info("the random walk ends: "+why, "visited", f.Visited, "seen", f.Seen, "steps", f.Steps)
	}
}
