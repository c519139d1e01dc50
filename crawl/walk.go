package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
	"drumbeat/crawl/strategy"
	"drumbeat/disk"
	"drumbeat/internal/walk"
	"drumbeat/weburl"
)

// walkStage leads the walkers of the strategy random-walk (package walk).
//
// The links of a page go to the walk, in the transaction that ends the page, and not to URLseen. Its goroutine, "walk",
// takes the steps. When a walker comes to a URL that was not visited, the URL goes to URLseen in the transaction of the
// step, and from there the way of all URLs; the walker waits until it is fetched or refused. So each URL is unique and in
// one place as in any crawl, and a checkpoint has the walk and the URLs of the same moment.
type walkStage struct {
	*engine
	mu    sync.Mutex // guards walk; a leaf
	walk  *walk.Walk // nil with other strategies; the pointer does not change while stages run
	wake  signal
	batch *admit.Batch // of the goroutine
	told  bool         // that the walk has ended

	seen  *seenStage
	space *space
}

// Bounds of a transaction of the walk, and the part of its share of RAM that it may fill: a checkpoint copies the rest.
const (
	stepsAtOnce  = 256
	walkFill     = 2
	shareWalk    = 25 // percent, taken from URLseen, which sees few links then
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
	opt := s.opt.walkOptions(s.plan.WalkBytes / walkFill)
	opt.Seed = [2]uint64{s.Hasher.HostKey([]byte("random walk")), s.Hasher.PLDKey([]byte("random walk"))}
	s.batch = admit.NewBatch(s.links)
	if m == nil {
		s.walk = walk.New(opt)
		return nil
	}
	if m.Walk.Len == 0 {
		return errors.New("crawl: the random walk is lost (drumbeat repair could not save it): begin a new crawl")
	}
	data, err := disk.ReadTail(s.Set, m.Walk)
	if err == nil {
		s.walk, err = walk.Load(opt, data)
	}
	if err != nil {
		return fmt.Errorf("crawl: %w", err)
	}
	return nil
}

// freeze copies the walk.
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
func (s *walkStage) fetched(tx *transaction, url []byte, status int, page bool, b *admit.Batch) {
	countLinks(b, tx)
	tx.count(state.CountLinksWalk, int64(len(b.Keys))+b.Again)
	v := walk.Visit{Link: s.linkTo(url), Status: status, Page: page,
		Origin: walk.Origin{Depth: b.Rec.Depth, Redirects: b.Rec.Redirects, Flags: b.Rec.Flags}}
	for link := range b.URLs {
		v.Links = append(v.Links, s.linkTo(link))
	}
	s.know(tx, &v)
}

// refused tells the walk of a URL without a response. It is part of a transaction.
func (s *walkStage) refused(tx *transaction, url []byte) {
	if s.on() {
		s.know(tx, &walk.Visit{Link: s.linkTo(url)})
	}
}

// deferred lets the walkers that wait for a URL go on when it is deferred because its server or name is in trouble: they
// would all end up at such URLs.
func (s *walkStage) deferred(tx *transaction, url []byte, due time.Time, why state.Reason) {
	if !s.on() || time.Until(due) < walkPatience {
		return
	}
	switch why {
	case state.ReasonHostBacklog, state.ReasonEvicted, state.ReasonRevisit:
		return
	}
	s.mu.Lock()
	s.walk.GiveUp(s.Hasher.URLKey(url))
	s.mu.Unlock()
	tx.wake(s.wake)
}

func (s *walkStage) linkTo(url []byte) walk.Link {
	return walk.Link{Key: s.Hasher.URLKey(url), Host: s.HostKey(weburl.Split(url).Host), URL: url}
}

func (s *walkStage) know(tx *transaction, v *walk.Visit) {
	s.mu.Lock()
	s.walk.Know(v)
	s.mu.Unlock()
	tx.wake(s.wake)
}

// run takes steps while walkers can. A crawl that drains takes none: the URLs would be dropped.
func (s *walkStage) run(ctx context.Context) error {
	for s.on() && ctx.Err() == nil {
		switch {
		case s.space.pausing() != "" || s.drains():
			sleep(ctx, spaceEvery)
		case s.idle():
			s.tellEnd()
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
	s.mu.Lock()
	wishes := s.walk.Step(stepsAtOnce)
	s.mu.Unlock()
	for i := range wishes {
		w, b := &wishes[i], s.batch
		b.Start([]byte(w.Via), nil, w.Origin.Depth, w.Origin.Flags, time.Now())
		b.Rec.Redirects = w.Origin.Redirects
		b.Add([]byte(w.URL))
		b.Counts = [state.NumCounters]int64{} // the page's transaction has counted the link
		if len(b.Keys) != 1 || uint64(b.Keys[0]) != w.Key {
			s.refused(tx, []byte(w.URL)) // the rules have changed meanwhile
			continue
		}
		if err := s.seen.sendLinks(b, tx); err != nil {
			return err
		}
	}
	return nil
}

// tellEnd logs once that the walk has ended, and why.
func (s *walkStage) tellEnd() {
	s.mu.Lock()
	why, f := s.walk.Ended(), s.walk.Figures()
	s.mu.Unlock()
	if why != "" && !s.told {
		s.told = true
		s.opt.Log.Info("the random walk ends: "+why, "visited", f.Visited, "seen", f.Seen, "steps", f.Steps)
	}
}
