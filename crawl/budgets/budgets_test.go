package budgets_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/beast"
	"drumbeat/crawl/account"
	"drumbeat/crawl/budgets"
	"drumbeat/crawl/checkpoint"
	"drumbeat/crawl/observe"
	"drumbeat/crawl/options"
	"drumbeat/crawl/roomtest"
	"drumbeat/crawl/strategy"
	"drumbeat/crawl/testworld"
	"drumbeat/internal/trapscore"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/state/snapshot"
	"drumbeat/weburl"
)

// room is the room with the world around it. It stands for the operator, the heaps and URLseen.
type room struct {
	*roomtest.World
	stage     *budgets.Stage
	admission options.Admission
	parts     state.BudgetParts
	strategy  atomic.Pointer[strategy.Strategy]

	epoch    uint32
	function *changes.Function
	pinned   map[uint64]uint32
	glutted  map[uint64]bool
	pending  atomic.Int64 // links in URLseen
	passes   atomic.Int64 // of URLseen
	woken    atomic.Int64
	cost     time.Duration
	leaving  *leaving // nil: no slots leave
}

func (r *room) Epoch() uint32                   { return r.epoch }
func (r *room) Function() *changes.Function     { return r.function }
func (r *room) Pins() bool                      { return len(r.pinned) > 0 }
func (r *room) Pinned(pld uint64) uint32        { return r.pinned[pld] }
func (r *room) RoomMade()                       {}
func (r *room) Pending() int64                  { return r.pending.Load() }
func (r *room) PassesEnded() int64              { return r.passes.Load() }
func (r *room) PassCost() time.Duration         { return r.cost }
func (r *room) WakeNow()                        { r.woken.Add(1) }
func (r *room) underWay() int                   { return 0 }
func (r *room) hungry() bool                    { return false }
func (r *room) pldKey(name string) uint64       { return r.Saved.PLDKey([]byte(name)) }
func (r *room) last() *snapshot.CheckpointStats { return nil }

func (r *room) Glutted(_ time.Time, host uint64, _ time.Duration) bool { return r.glutted[host] }

// open opens the room at the last checkpoint of w, with equal budgets. old is the room before a cut, or nil.
func open(w *roomtest.World, budget uint32, old *room) *room {
	r := &room{World: w, pinned: map[uint64]uint32{}, glutted: map[uint64]bool{}}
	if old != nil {
		r.admission, r.parts, r.epoch, r.function, r.pinned = old.admission, old.parts, old.epoch, old.function,
			old.pinned
		r.leaving = old.leaving
	}
	r.admission.Scope = state.ScopeAll
	s, err := strategy.New("none", 1, nil)
	if err != nil {
		w.T.Fatal(err)
	}
	r.strategy.Store(&s)
	o := &options.Budgets{Policy: "equal", Default: budget, Max: 100, QueuePages: -1, Parts: r.parts}
	o.Defaults()
	r.stage = budgets.New(w.Run, w.Saved, budgets.Options{Log: w.Log, FS: w.FS, Budgets: o,
		Admission: &r.admission, Network: &options.Network{Connections: roomtest.Connections},
		Lanes: func() int { return 1 }, Share: func() float64 { return 0 }, Plan: &w.Plan, Rules: w.Rules,
		SiftLot: 2, Sites: w.Sites, Sketches: observe.NewSketches(), Strategy: &r.strategy,
		Traps: func() *trapscore.Table { return nil }},
		budgets.Needs{Check: w, Passes: w.Passes, Seen: r, Space: w.Space, Stock: w.Stock})
	r.stage.Wire(budgets.Others{Heaps: func() budgets.Heaps { return r }, Operator: r, Leaving: r.leaving,
		Deferrals: deferrals{r}, Hungry: r.hungry, UnderWay: r.underWay, Checkpointed: r.last})
	r.stage.OpenCache()
	w.T.Cleanup(r.stage.Close)
	opt, err := r.stage.StarOptions()
	if err != nil {
		w.T.Fatal(err)
	}
	openStar := func(st *star.State) (*star.Star, error) { return star.Open(opt, st) }
	openBeast := func(st *beast.State) (*beast.Lanes, error) {
		if st != nil && r.leaving.begins() {
			st.Sift()
		}
		return beast.OpenLanes(beast.Options{Set: w.Saved.Set, QueuesMax: 4, BlockBytes: 4 << 10},
			budgets.TurnsOf(&s), st)
	}
	rows := []*checkpoint.Structure{checkpoint.Row(state.NameStar, &r.stage.Star, openStar),
		checkpoint.Row(state.NameBeast, &r.stage.Beast, openBeast)}
	if r.parts != state.ByPLDs {
		w.Plan.HostLinks, w.Plan.HostLevelBytes = w.Plan.Edges, 1<<10
		rows = append(rows, checkpoint.Row(state.NameHostLinks, &r.stage.HostLinks, r.stage.OpenHostLinks))
	}
	w.Open(nil, rows...)
	r.stage.OpenMerger()
	return r
}

// deferrals are those of the world, and the room's RoomMade.
type deferrals struct{ *room }

func (d deferrals) Refuse(tx *account.Tx, rec *weburl.Record, from state.Place, why state.Reason) error {
	return d.World.Refuse(tx, rec, from, why)
}

// add sends n URLs of a host to STAR.
func (r *room) add(host string, n int) {
	r.T.Helper()
	for i := range n {
		rec := r.Enter(fmt.Sprintf("http://%s/%d", host, i), state.PlaceStar)
		r.Do(func(tx *account.Tx) error {
			return r.stage.CheckAll(tx, []star.CheckTuple{r.stage.CheckOf(rec, rec.Append(nil))})
		})
	}
}

// pass runs a pass of STAR.
func (r *room) pass() {
	r.T.Helper()
	if _, err := r.stage.Star.PassAll(r.T.Context()); err != nil {
		r.T.Fatal(err)
	}
}

// during runs the room's goroutines for a time.
func (r *room) during(d time.Duration) {
	r.T.Helper()
	r.While(func() { time.Sleep(d) }, r.stage.ReadBeast, r.stage.ScanOverBudget, r.stage.MergeStar)
}

// queues returns the number of URLs in each queue.
func (r *room) queues() (n []int64) {
	for _, q := range r.stage.Beast.Queues() {
		n = append(n, q.Records)
	}
	return n
}

// released returns the URLs that RobotsCache got, and fails if it got one twice.
func released(t *testing.T, rooms ...[]roomtest.Moved) (urls []string) {
	t.Helper()
	for _, list := range rooms {
		for _, m := range list {
			if slices.Contains(urls, m.URL) {
				t.Errorf("%s was released twice", m.URL)
			}
			urls = append(urls, m.URL)
		}
	}
	return urls
}

// want compares the accounts of STAR, BEAST and QF with the files, and all with numbers.
func (r *room) want(when string, inStar, inBeast, over int64) {
	r.T.Helper()
	s := r.stage.Beast.Stats()
	for _, c := range []struct {
		place       state.Place
		files, want int64
	}{{state.PlaceStar, r.stage.Star.PendingChecks(), inStar},
		{state.PlaceBeast, s.CurrentRecords + s.SpreadRecords + s.MovedRecords, inBeast},
		{state.PlaceOverBudget, s.OverBudgetRecords, over}} {
		if n := r.Accounts.In(c.place); n != c.want || c.files != c.want {
			r.T.Errorf("%s: %d URLs in %v, %d in its files, want %d", when, n, c.place, c.files, c.want)
		}
	}
}

// TestQueues: a queue of BEAST gets at most the budget of a PLD, whatever its hosts, and QF the rest. All are
// released in the end, in the order of the queues, each once.
func TestQueues(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 1000), 10, nil)
		r.add("www.spam.test", 30)
		r.add("x.spam.test", 30)
		r.add("b.test", 3)
		r.want("before the pass", 63, 0, 0)
		r.pass()
		if got := r.queues(); slices.Max(got) > 13 {
			t.Errorf("the queues have %v URLs, with a budget of 10 and two PLDs", got)
		}
		over := r.Accounts.In(state.PlaceOverBudget)
		r.want("after the pass", 0, 63-over, over)
		r.during(time.Hour)
		r.want("in the end", 0, 0, 0)
		urls := released(t, r.To(state.PlaceRobotsCheck))
		if last := slices.Index(urls, "http://b.test/2"); len(urls) != 63 || last > 13 || over == 0 {
			t.Errorf("%d URLs were released, the last of b.test as number %d; %d were over budget", len(urls),
				last, over)
		}
	})
}

// TestStockHoldsBeast: BEAST releases URLs while the stock is below its target, and leaves a sixteenth of it
// to others.
func TestStockHoldsBeast(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 32), 100, nil)
		r.add("a.test", 90)
		r.pass()
		r.While(func() {
			time.Sleep(time.Hour)
			if n := r.Accounts.Stock(); n != 30 {
				t.Errorf("%d URLs left BEAST, want 30", n)
			}
			r.Do(func(tx *account.Tx) error {
				first := r.Key(r.To(state.PlaceRobotsCheck)[0].URL)
				tx.Move(first, state.PlaceRobotsCheck, state.PlaceFetched)
				r.stage.Wake(tx)
				return nil
			})
			time.Sleep(time.Millisecond)
			if n := len(r.To(state.PlaceRobotsCheck)); n != 31 {
				t.Errorf("%d URLs left BEAST after one has ended, want 31", n)
			}
		}, r.stage.ReadBeast)
	})
}

// TestBudgetsCut: after a power cut each URL is where the last checkpoint had it, in STAR, in BEAST or in QF,
// and is released once.
func TestBudgetsCut(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 10), 10, nil)
		r.add("a.test", 60)
		r.Save()
		r.pass()
		r = open(r.Cut(), 10, r)
		r.want("a pass that was cut", 60, 0, 0)
		r.pass()
		r.While(func() { time.Sleep(time.Minute) }, r.stage.ReadBeast)
		before := r.To(state.PlaceRobotsCheck)
		r.Save()
		r.Accounts.Do(func(a *state.Accounts) { a.Places[state.PlaceRobotsCheck] = weburl.Sum{} })
		r.While(func() { time.Sleep(time.Minute) }, r.stage.ReadBeast)
		if n := len(r.To(state.PlaceRobotsCheck)); len(before) == 0 || n == len(before) {
			t.Fatalf("%d URLs were released before the checkpoint, %d before the cut", len(before), n)
		}
		r.Target = 1000
		r = open(r.Cut(), 10, r)
		over := r.Accounts.In(state.PlaceOverBudget)
		r.want("after the cut", 0, 60-int64(len(before))-over, over)
		r.during(time.Hour)
		if n := len(released(t, before, r.To(state.PlaceRobotsCheck))); n != 60 {
			t.Errorf("%d of 60 URLs were released", n)
		}
	})
}

// TestPagesOfPLD: URLs beyond the limit of a PLD are refused, once each, and those of others are not, also
// after a cut.
func TestPagesOfPLD(t *testing.T) {
	w := roomtest.New(t, 100)
	r := open(w, 100, &room{admission: options.Admission{MaxPagesPerPLD: 25}})
	r.add("www.a.test", 20)
	r.pass()
	r.Save()
	r = open(r.Cut(), 100, r)
	r.add("x.a.test", 20)
	r.add("b.test", 20)
	r.pass()
	got := r.To(state.PlaceRefused)
	if a := r.Accounts.Copy(); len(got) != 15 || a.Refused[state.ReasonPLDPages] != 15 {
		t.Errorf("%d URLs were refused, %v; want 15", len(got), a.Refused)
	}
	for _, m := range got {
		if !strings.HasPrefix(m.URL, "http://x.a.test/") || m.Why != state.ReasonPLDPages {
			t.Errorf("%s was refused: %v", m.URL, m.Why)
		}
	}
}

// TestPlacedAgain: after a change of the budget function the URLs of all queues are placed again, by the new
// function, also if a cut interrupts that. None is lost and none is in two places.
func TestPlacedAgain(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 100), 8, nil)
		r.add("a.test", 10)
		r.pass()
		r.want("placed", 0, 8, 2)
		for _, bad := range []changes.Function{{Name: "none"}, {Name: "equal", Default: 9, Max: 3}} {
			if r.stage.CheckFunction(&bad) == nil {
				t.Errorf("%+v was accepted", bad)
			}
		}
		r.function, r.epoch = &changes.Function{Name: "equal", Default: 3, Max: 3}, 7
		if err := r.stage.CheckFunction(r.function); err != nil {
			t.Error(err)
		}
		if n := r.stage.Placed(); n != 8 {
			t.Errorf("placing again would move %d URLs, want 8", n)
		}
		r.Save()
		if err := r.stage.NewFunction(); err != nil {
			t.Fatal(err)
		}
		again := func(r *room) {
			r.While(func() { time.Sleep(time.Minute) }, r.stage.ScanOverBudget)
			r.want("to be placed again", 8, 0, 2)
		}
		again(r)
		if r.Logged("placing queued URLs again") != 1 {
			t.Error("the log has no count of the URLs")
		}
		r.pass()
		r.want("placed again", 0, 3, 7)
		r = open(r.Cut(), 8, r) // the change itself is durable, in the journal
		r.want("after the cut", 0, 8, 2)
		again(r)
		r.pass()
		r.want("placed again after the cut", 0, 3, 7)
		r.admission.Scope = state.ScopePLD
		if r.stage.CheckFunction(r.function) == nil {
			t.Error("a function was accepted although budgets are off")
		}
	})
}

// TestSmallerBudget: a URL that waits in BEAST with a larger budget than its PLD has now goes back to STAR,
// once.
func TestSmallerBudget(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 100), 50, nil)
		r.add("a.test", 20)
		r.add("b.test", 20)
		r.pass()
		r.pinned[r.pldKey("a.test")] = 4
		r.While(func() { time.Sleep(time.Hour) }, r.stage.ReadBeast)
		r.want("the smaller budget", 20, 0, 0)
		r.pass()
		if got := r.queues(); slices.Max(got) > 4 {
			t.Errorf("the queues have %v URLs, with a budget of 4", got)
		}
		r.during(time.Hour)
		if n := len(released(t, r.To(state.PlaceRobotsCheck))); n != 40 ||
			r.Accounts.Counter(state.CountURLsReplaced) != 20 {
			t.Errorf("%d URLs were released, %d placed again", n, r.Accounts.Counter(state.CountURLsReplaced))
		}
	})
}

// TestScans: a scan of QF leaves the URLs of a host that has a glut, also over a cut. URLs that no queue
// takes are not read again until something has changed.
func TestScans(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 1000), 2, nil)
		r.add("glut.test", 40)
		r.add("b.test", 40)
		r.pass()
		r.glutted[r.Saved.HostKey([]byte("glut.test"))] = true
		r.during(3 * time.Hour)
		left := r.Accounts.In(state.PlaceOverBudget)
		if left < 20 || left > 40 || r.stage.Beast.Stats().Scans == 0 {
			t.Errorf("%d URLs are left in QF after %d scans", left, r.stage.Beast.Stats().Scans)
		}
		for _, m := range r.To(state.PlaceRobotsCheck)[20:] {
			if strings.Contains(m.URL, "glut") {
				t.Errorf("%s was released although its host has a glut", m.URL)
			}
		}
		scans := r.stage.Beast.Stats().Scans
		r.Accounts.Do(func(a *state.Accounts) { a.Places[state.PlaceRobotsCheck] = weburl.Sum{} })
		r.during(24 * time.Hour)
		if n := r.stage.Beast.Stats().Scans - scans; n > 1 {
			t.Errorf("%d scans of URLs that stay, in a day in which nothing changed", n)
		}
		a := r.Accounts.Copy()
		if !r.stage.RescanUseless(&a) {
			t.Error("another scan must be useless")
		}
		a.Counters[state.CountResponses]++
		if r.stage.RescanUseless(&a) {
			t.Error("after a response another scan may be useful")
		}
		before := r.To(state.PlaceRobotsCheck)
		r.Save()
		r = open(r.Cut(), 2, r)
		r.want("after a cut", 0, 0, left)
		r.Do(func(tx *account.Tx) error { tx.Count(state.CountResponses, 100); return nil })
		r.during(3 * time.Hour)
		r.want("without a glut", 0, 0, 0)
		if n := len(released(t, before, r.To(state.PlaceRobotsCheck))); n != 80 {
			t.Errorf("%d of 80 URLs were released", n)
		}
	})
}

// TestEndOfQueue: at the end of a queue BEAST waits for links that URLseen may find to be new, if its pass is
// cheap, and for no expensive one.
func TestEndOfQueue(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		for _, cost := range []time.Duration{time.Millisecond, 2 * time.Second} {
			r := open(roomtest.New(t, 1000), 5, nil)
			r.cost = cost
			r.add("a.test", 5)
			r.pass()
			r.pending.Store(1000)
			r.While(func() {
				time.Sleep(time.Second / 2)
				waits := cost == time.Millisecond
				if n := len(r.To(state.PlaceRobotsCheck)); waits && n != 0 || !waits && n != 5 {
					t.Errorf("a pass of %v: %d URLs were released", cost, n)
				}
				if waits && r.woken.Load() == 0 {
					t.Error("URLseen was not told to look for a pass")
				}
				r.passes.Add(1)
				r.stage.PassEnded()
				time.Sleep(time.Millisecond)
				if n := len(r.To(state.PlaceRobotsCheck)); n != 5 {
					t.Errorf("a pass of %v has ended: %d URLs were released", cost, n)
				}
			}, r.stage.ReadBeast)
		}
	})
}
