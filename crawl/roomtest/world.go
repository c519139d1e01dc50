package roomtest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/checkpoint"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/options"
	"drumbeat/crawl/pass"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/space"
	"drumbeat/crawl/stock"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/internal/sites"
	"drumbeat/polite"
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Connections is the number of connections of a World's crawl.
const Connections = 16

// World is the crawl around a room.
type World struct {
	*account.Run
	Beyond
	T      testing.TB
	FS     *memfs.FS
	Saved  *state.Saved
	Plan   plan.Plan
	Space  *space.Keeper
	Stock  *stock.Keeper
	Passes *pass.Runner
	Heaps  *polite.Scheduler // of the stock
	Rules  *inforce.Rules
	Sites  *inforce.Sites
	Links  *admit.Policy // of all URLs
	Log    *slog.Logger
	Target int64       // of the stock; a new one holds after the next cut
	Paused atomic.Bool // by the operator

	maker  *checkpoint.Maker
	logged logged
}

// New returns a World of a new crawl. target is the target of the stock.
func New(t testing.TB, target int64) *World {
	fs := memfs.New(1)
	if err := errors.Join(fs.MkdirAll("d/state"), fs.SyncFS("d")); err != nil {
		t.Fatal(err)
	}
	return resume(t, fs, target)
}

// resume returns a World at the manifest of fs, if there is one.
func resume(t testing.TB, fs *memfs.FS, target int64) *World {
	w := &World{T: t, FS: fs, Saved: state.NewSaved(fs, []string{"d"}, []string{"d"}),
		Rules: &inforce.Rules{}, Target: target}
	w.Log = slog.New(slog.NewTextHandler(&w.logged, nil))
	w.Run = account.New(w.Log, nil, nil)
	s := w.Saved
	s.CrawlID, s.Hasher, s.Suffixes = "test", weburl.NewHasher(weburl.Secret{1}), weburl.NewSuffixes(false)
	w.Beyond.saved = s
	m, _, err := state.ReadManifest(s.Set)
	w.must(err)
	if s.Manifest = m; m != nil {
		w.Accounts.Do(func(a *state.Accounts) { *a = m.Accounts })
	}
	w.Plan, err = plan.Make(plan.Options{RAMBytes: 128 << 20, DiskBytes: 10 << 30,
		LeastDisk: space.LeastDisk(1), Dirs: s.Set.Paths, AllDirs: 1, Connections: Connections, Lanes: 1,
		QueuesMax: 16, QueueBlockBytes: 4 << 10, LeastStock: target, CheckpointEvery: time.Minute,
		DrumBufferBytes: 4 << 10, DrumBucketBytes: 64 << 10, DrumBuckets: 4, Nodes: 1})
	w.must(err)
	w.Sites = inforce.NewSites(s, inforce.SiteOptions{Politeness: &options.Politeness{}})
	w.Links = &admit.Policy{Hasher: s.Hasher, Suffixes: s.Suffixes, Lists: &w.Rules.Lists, MaxDepth: -1,
		MaxRedirects: 20, Sites: admit.NewSites(state.ScopeAll, s.HostKey, nil), Settings: &w.Sites.Pointer}
	w.Space = space.New(w.Run, s, space.Options{Log: w.Log, Dirs: s.Set.Paths, Outs: 1, DiskBytes: 10 << 30,
		Plan: &w.Plan, Limit: space.NewLimit(fs, s.Set.Paths, 10<<30)})
	w.Space.Wire(space.Others{Exchanges: idle{}.Exchanges, Drain: func(bool) {}, Paused: w.Paused.Load})
	w.Stock = stock.New(w.Run, stock.Options{Connections: Connections, Target: target})
	w.Heaps = polite.New(polite.Options{}, time.Now())
	w.Stock.Wire(stock.Others{Heaps: func() stock.Heaps { return w.Heaps }, Fetchers: idle{},
		Evicted: func(tx *account.Tx, items []*polite.Item) error {
			return w.Evicted(tx, items, state.ReasonEvicted)
		}})
	w.Passes = pass.New(w.Run, pass.Options{Log: w.Log, Connections: Connections}, w.Space)
	w.Passes.Wire(pass.Others{Fetchers: idle{}, Budgets: idle{}, Requests: func() int { return 0 },
		StockLow: w.Stock.Low, Filled: func() int64 { return 0 }})
	w.maker = checkpoint.New(w.Run, s, checkpoint.Options{Log: w.Log, Every: time.Minute}, w.Space)
	return w
}

// idle stands for fetchers and budgets that do nothing.
type idle struct{}

func (idle) Exchanges() int64                      { return 0 }
func (idle) Slots() (taken, all int64, waits bool) { return 0, Connections, false }
func (idle) Hungry() bool                          { return false }
func (idle) Starved() bool                         { return false }
func (idle) PassEnded()                            {}
func (idle) RunsLow() bool                         { return true }
func (idle) BestDry() bool                         { return false }
func (idle) Raise()                                {}

func (w *World) must(errs ...error) {
	w.T.Helper()
	if err := errors.Join(errs...); err != nil {
		w.T.Fatal(err)
	}
}

// Open opens structures at the last checkpoint. ram copies what the room holds in RAM.
func (w *World) Open(ram []checkpoint.Copy, rows ...*checkpoint.Structure) {
	w.T.Helper()
	w.maker.Wire(checkpoint.Others{RAM: ram, Flush: func() error { return nil }})
	w.must(w.maker.Resume(w.Saved.Manifest, state.Frozen{}, nil), w.maker.OpenAll(rows, w.Saved.Manifest))
	w.T.Cleanup(func() { _ = w.maker.CloseAll() })
}

// Queue is the row of a queue, which Open stores at at.
func (w *World) Queue(name string, at **queue.Queue) *checkpoint.Structure {
	return checkpoint.Row(name, at, func(st *queue.State) (*queue.Queue, error) {
		return queue.Open(w.options(name), st)
	})
}

// Calendar is the row of a calendar.
func (w *World) Calendar(name string, at **queue.Calendar) *checkpoint.Structure {
	return checkpoint.Row(name, at, func(st *queue.CalendarState) (*queue.Calendar, error) {
		return queue.OpenCalendar(w.options(name), st)
	})
}

func (w *World) options(name string) queue.Options {
	return queue.Options{Set: w.Saved.Set, Name: name, BlockBytes: w.Plan.QueueBlockBytes}
}

// Drum is the row of a drum.
func (w *World) Drum(at **drum.Drum, opt drum.Options) *checkpoint.Structure {
	return checkpoint.Row(opt.Name, at, func(st *drum.State) (*drum.Drum, error) {
		return drum.Open(opt, st)
	})
}

// Save makes a checkpoint.
func (w *World) Save() { w.T.Helper(); w.must(w.maker.Save()) }

// Cut cuts the power. The World that it returns is at the last checkpoint, and has no structures yet.
func (w *World) Cut() *World {
	w.T.Helper()
	fs := w.FS.Crash()
	_ = w.maker.CloseAll()
	return resume(w.T, fs, w.Target)
}

// While runs stages and the pulse during f, and waits for their end. An error of a stage fails the test.
func (w *World) While(f func(), stages ...func(ctx context.Context) error) {
	w.T.Helper()
	ctx, cut := w.Begin(w.T.Context())
	for _, s := range append(stages, w.Pulse) {
		w.Start(ctx, "test", s)
	}
	f()
	w.Cancel()
	w.WaitStages()
	cut()
	w.must(w.Failure())
}

// Do runs f in a transaction.
func (w *World) Do(f func(tx *account.Tx) error) { w.T.Helper(); w.must(w.Transact(f)) }

// Enter puts a new URL into a place in the accounts, and returns its record.
func (w *World) Enter(url string, in state.Place) *weburl.Record {
	w.T.Helper()
	rec := &weburl.Record{URL: []byte(url), Found: time.Now().Unix()}
	w.Do(func(tx *account.Tx) error { tx.Enter(w.Key(url), in); return nil })
	return rec
}

// Key returns the key of a URL.
func (w *World) Key(url string) uint64 { return w.Saved.Hasher.URLKey([]byte(url)) }

// Use puts settings of sites in force, given as text.
func (w *World) Use(text string) {
	w.T.Helper()
	set, err := sites.Parse("sites", []byte(text), sites.Options{Suffixes: w.Saved.Suffixes})
	w.must(err)
	w.Sites.Use(set)
}

// Logged returns how many log lines contain text.
func (w *World) Logged(text string) (n int) {
	w.logged.mu.Lock()
	defer w.logged.mu.Unlock()
	for line := range strings.Lines(w.logged.text.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// logged keeps the lines of the log.
type logged struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}
