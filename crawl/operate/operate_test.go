package operate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/checkpoint"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/limits"
	"drumbeat/crawl/operate"
	"drumbeat/crawl/options"
	"drumbeat/crawl/orders"
	"drumbeat/crawl/roomtest"
	"drumbeat/crawl/testworld"
	"drumbeat/internal/health"
	"drumbeat/internal/scope"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/state/changes"
)

// room is the room with the world around it. It stands for the gate and for what reloads rules.
type room struct {
	*roomtest.World
	o       *operate.Operator
	orders  *orders.Table
	paused  bool
	drains  bool
	quiet   bool
	fed     atomic.Int64 // lines of seeds
	did     []string     // what was put in force, in its order
	late    account.LateLog
	net     options.Network
	limits  *limits.Limits
	badRule error
	cluster []byte // its secret
	asked   int    // orders to erase pages so far
}

func (r *room) PassWait() time.Duration { return 0 }
func (r *room) CheckFiles() error       { return r.badRule }

func (r *room) CheckBlocked([]scope.Source) error { return r.badRule }

func (r *room) Reload(context.Context, *account.LateLog) (cut, swept int, _ error) {
	r.did = append(r.did, "rules "+fmt.Sprint(len(r.o.Blocked())))
	return 0, 0, nil
}

func (r *room) ReloadFiles(context.Context, *account.LateLog) (inforce.Reloaded, error) {
	r.did = append(r.did, "files")
	return inforce.Reloaded{}, nil
}

// open opens the room at the last checkpoint of w.
func open(w *roomtest.World) *room { return openIn(w, nil) }

// openIn is open for a node of a cluster with a secret.
func openIn(w *roomtest.World, cluster []byte) *room {
	w.T.Helper()
	r := &room{World: w, orders: orders.New(), cluster: cluster}
	r.net.Connections = roomtest.Connections
	r.limits = limits.New(limits.Options{Network: &r.net, Control: true, Changed: func() {}})
	r.limits.Open()
	w.Heaps = polite.New(polite.Options{HostDelay: time.Second, HostDelayMin: time.Second}, time.Now())
	r.o = operate.New(w.Run, w.Saved, operate.Options{Log: w.Log, Links: w.Links, Sites: w.Sites,
		MaxOrders: orders.Max, Cluster: r.cluster})
	note := func(what string) func() { return func() { r.did = append(r.did, what) } }
	works := func(what string) func() error { return func() error { note(what)(); return nil } }
	r.o.Wire(operate.Others{Heaps: func() *polite.Scheduler { return w.Heaps }, Check: r, Limits: r.limits,
		StateOf:    func(uint64, time.Time) health.State { return health.State{} },
		Checkpoint: func(*account.LateLog) error { w.Save(); return nil }, Made: func(*changes.Change) {},
		Reloader: r, Space: w.Space, SendLinks: w.SendLinks,
		SendOrder: func(*state.Order) (bool, error) { return false, nil },
		Feed: func(_ context.Context, lines []string) (bool, error) {
			r.fed.Add(int64(len(lines)))
			return true, nil
		},
		Budgets: operate.Budgets{CheckFunction: func(f *changes.Function) error {
			if f != nil && f.Name == "bad" {
				return errors.New("no such function")
			}
			return nil
		}, CheckPriority: func(*changes.Priority) error { return errors.New("one lane") },
			NewFunction: works("function"), NewPriority: works("priority"), Replace: note("replace"),
			Placed: func() int64 { return 7 }},
		Orders: operate.Orders{Room: r.orders.Room, Begin: r.orders.Begin, Ahead: r.orders.Ahead},
		Pause:  func(on bool) { r.paused = on }, Drain: func(on bool) { r.drains = on },
		Drains: func() bool { return r.drains }, Quiet: func() bool { return r.quiet }, Stop: note("stop"),
		MayErase: func() error { return nil }, Rest: note("rest"), Ordered: note("ordered")})
	if err := r.o.OpenJournal(w.Saved.Manifest); err != nil {
		w.T.Fatal(err)
	}
	w.Open([]checkpoint.Copy{r.o.Freeze}, w.Queue(state.NameOrdered, &r.o.Ordered))
	if err := r.o.Restore(w.Saved.Manifest); err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { _ = r.o.Close() })
	return r
}

// again opens the room after a power cut.
func (r *room) again() *room {
	r.T.Helper()
	_ = r.o.Close()
	return openIn(r.Cut(), r.cluster)
}

// make makes a change that must be accepted.
func (r *room) make(c changes.Change) {
	r.T.Helper()
	c.Who = "test"
	if _, err := r.o.Make(r.T.Context(), c, &r.late); err != nil {
		r.T.Errorf("%s: %v", c.Op, err)
	}
}

// delay returns the delay of a host.
func (r *room) delay(host string) time.Duration {
	h := []byte(host)
	return r.Heaps.Turn(time.Now(), r.Saved.HostKey(h), r.Saved.PLDKey(h), 0, nil).Step
}

// TestChangesSurviveACut: a change that Make has returned is in force, also after a power cut without a
// checkpoint: pause, drain, limits, delays, budgets, blocks. Its log lines wait for the caller.
func TestChangesSurviveACut(t *testing.T) {
	r := open(roomtest.New(t, 100))
	r.make(changes.Change{Op: changes.OpPause})
	r.make(changes.Change{Op: changes.OpDrain})
	r.make(changes.Change{Op: changes.OpLimits, Rate: "2", Connections: "3"})
	r.make(changes.Change{Op: changes.OpHostDelay, Host: "A.TEST", Delay: 20})
	r.make(changes.Change{Op: changes.OpBudget, PLD: "b.test", Budget: 77})
	r.make(changes.Change{Op: changes.OpBlock, Rule: "host c.test"})
	function := &changes.Function{Name: "equal", Default: 5, Max: 9}
	r.make(changes.Change{Op: changes.OpFunction, Function: function})
	if n := r.Logged("change by the operator"); n != 0 {
		t.Errorf("%d lines were written while locks were held", n)
	}
	r.late.Tell()
	if n, did := r.Logged("change by the operator"), strings.Join(r.did, ", "); n != 7 ||
		did != "rules 1, function" {
		t.Errorf("%d lines; done: %s", n, did)
	}
	check := func(when string) {
		t.Helper()
		rate, _, connections := r.limits.InForce()
		pinned := r.o.Pinned(r.Saved.PLDKey([]byte("b.test")))
		if !r.paused || !r.drains || rate != "2" || connections != "3" || pinned != 77 || !r.o.Pins() ||
			r.delay("a.test") != 20*time.Second || len(r.o.Blocked()) != 1 || r.o.Function() == nil ||
			r.o.Epoch() == 0 {
			t.Errorf("%s: paused %v, drains %v, rate %s, connections %s, delay %v, %+v", when, r.paused,
				r.drains, rate, connections, r.delay("a.test"), r.o.Settings())
		}
	}
	check("made")
	epoch := r.o.Epoch()
	r = r.again()
	if check("after a cut"); r.o.Epoch() != epoch || r.Logged("are in force") != 1 {
		t.Errorf("epoch %d, was %d; the start must tell what is in force", r.o.Epoch(), epoch)
	}
	for _, c := range []changes.Change{{Op: changes.OpResume}, {Op: changes.OpFill}, {Op: changes.OpLimits},
		{Op: changes.OpHostNormal, Host: "a.test"}, {Op: changes.OpBudgetFree, PLD: "b.test"},
		{Op: changes.OpUnblock, Rule: "- host c.test"}, {Op: changes.OpFunction}} {
		r.make(c)
	}
	r = r.again()
	if rate, _, _ := r.limits.InForce(); r.paused || r.drains || rate != "none" ||
		r.delay("a.test") > time.Second || r.o.Pins() || len(r.o.Blocked()) != 0 || r.o.Function() != nil ||
		r.Logged("are in force") != 0 {
		t.Errorf("undone: %+v", r.o.Settings())
	}
	if list := r.o.Last(3); len(list) != 3 || list[0].Op != changes.OpFunction || list[0].Who != "test" {
		t.Errorf("the last changes: %+v", list)
	}
}

// TestRefusedChanges: a change that cannot be made is refused with the reason, and leaves nothing in the
// journal.
func TestRefusedChanges(t *testing.T) {
	r := open(roomtest.New(t, 100))
	for _, c := range []changes.Change{{Op: changes.OpLimits, Rate: "fast"},
		{Op: changes.OpLimits, Bandwidth: "1Mbit"}, {Op: changes.OpHostDelay, Host: "a b", Delay: 1},
		{Op: changes.OpHostDelay, Host: "a.test", Delay: -1},
		{Op: changes.OpHostDelay, Host: "a.test:81", Delay: 1},
		{Op: changes.OpBudget, PLD: "www.b.test", Budget: 7},
		{Op: changes.OpFunction, Function: &changes.Function{Name: "bad", Default: 1, Max: 1}},
		{Op: changes.OpPriority, Priority: &changes.Priority{Name: "depth"}},
		{Op: changes.OpSeeds, Seeds: []string{"ftp://a.test/"}},
		{Op: changes.OpEnqueue, Seeds: []string{"ftp://a.test/", "mailto:x"}}} {
		if made, err := r.o.Make(t.Context(), c, &r.late); !changes.IsRefused(err) || made.Seq != 0 {
			t.Errorf("%+v: %+v, %v", c, made, err)
		}
	}
	r.badRule = errors.New("line 1")
	if _, err := r.o.Make(t.Context(), changes.Change{Op: changes.OpBlock, Rule: "host x.test"},
		&r.late); !changes.IsRefused(err) {
		t.Errorf("a bad rule: %v", err)
	}
	if _, _, err := r.o.Reload(t.Context(), "test", true, &r.late); !changes.IsRefused(err) {
		t.Errorf("files with a fault: %v", err)
	}
	if len(r.o.Last(9)) != 0 || len(r.did) != 0 || len(r.late) != 0 {
		t.Errorf("the journal has %v; done: %q", r.o.Last(9), r.did)
	}
	r.badRule = nil
	answer, made, err := r.o.Reload(t.Context(), "test", true, &r.late)
	if err != nil || made.Seq == 0 || answer.Replaced != 7 || strings.Join(r.did, " ") != "files replace" {
		t.Errorf("reload: %+v, %+v, %v; done: %q", answer, made, err, r.did)
	}
}

// TestSeedsAreFed: seeds of changes are fed while nothing pauses, at least once, also after a cut; they leave
// the journal after the checkpoint that covers them, and not before.
func TestSeedsAreFed(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 100))
		lines := slices.Repeat([]string{"http://a.test/" + strings.Repeat("a", 900)}, 1000)
		size := func() int64 {
			n, err := r.FS.Size("d/" + state.ChangesName)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		r.Paused.Store(true)
		for range 2 {
			seeds := append([]string{"# none", "no url at all"}, lines...)
			r.make(changes.Change{Op: changes.OpSeeds, Seeds: seeds})
		}
		r.While(func() {
			time.Sleep(time.Minute)
			if r.fed.Load() != 0 || r.o.Fed() {
				t.Errorf("%d lines were fed during a pause", r.fed.Load())
			}
			r.Paused.Store(false)
			r.o.GoOn()
			time.Sleep(time.Minute)
			if r.fed.Load() != 2000 || !r.o.Fed() || size() < 1_800_000 {
				t.Errorf("%d lines were fed; the journal has %d bytes", r.fed.Load(), size())
			}
		}, r.o.Run)
		r = r.again()
		r.While(func() {
			time.Sleep(time.Minute)
			if r.fed.Load() != 2000 {
				t.Errorf("%d lines were fed after a cut without a checkpoint", r.fed.Load())
			}
			r.make(changes.Change{Op: changes.OpCheckpoint})
			time.Sleep(time.Minute)
			if size() > 10_000 {
				t.Errorf("the journal has %d bytes after the checkpoint", size())
			}
		}, r.o.Run)
		r = r.again()
		r.While(func() { time.Sleep(time.Minute) }, r.o.Run)
		if r.fed.Load() != 0 || !r.o.Fed() {
			t.Errorf("%d lines were fed again", r.fed.Load())
		}
		r.make(changes.Change{Op: changes.OpSeeds, Seeds: lines[:1]}) // stays in the journal, as it is short
		r.While(func() { time.Sleep(time.Minute) }, r.o.Run)
		r.Save()
		r = r.again()
		r.While(func() { time.Sleep(time.Minute) }, r.o.Run)
		if r.fed.Load() != 0 {
			t.Error("a line was fed again after a checkpoint")
		}
	})
}

// TestEnqueued: each line has an answer, in their order. The URLs that the crawl takes go to RobotsCache as
// orders, and to URLseen as well, also during a pause of the operator; no more wait than the limit says.
func TestEnqueued(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 100))
		r.Links.Sites = admit.NewSites(state.ScopeAll, r.Saved.HostKey, nil)
		r.Paused.Store(true)
		lines := []string{"http://a.test/1", "ftp://a.test/", "", "http://a.test/2", "no url at all"}
		answers, made, err := r.o.Enqueue(t.Context(), "test", lines, &r.late)
		if err != nil || len(answers) != 5 || made.Count != 2 {
			t.Fatalf("%+v, %+v, %v", answers, made, err)
		}
		for i, a := range answers {
			taken := i == 0 || i == 3
			if (a.Refused == "") != taken || a.Line != lines[i] || (a.URL != "") != taken {
				t.Errorf("%+v", a)
			}
		}
		if a, b := answers[0], answers[3]; b.Wait <= a.Wait || !strings.Contains(a.Because, "paused") {
			t.Errorf("estimates: %+v, %+v", a, b)
		}
		r.While(func() { time.Sleep(time.Minute) }, r.o.Run)
		got := r.To(state.PlaceRobotsCheck)
		want := []string{"http://a.test/1", "http://a.test/2"}
		if len(got) != 2 || got[0].URL != want[0] || got[1].URL != want[1] || !slices.Equal(r.Sent(), want) {
			t.Errorf("to RobotsCache %+v, to URLseen %q", got, r.Sent())
		}
		if a := r.Accounts.Copy(); a.Orders.N != 2 || a.Counters[state.CountEnqueued] != 2 {
			t.Errorf("%d orders", a.Orders.N)
		}
		refused := func(when string, lines ...string) {
			t.Helper()
			_, _, err := r.o.Enqueue(t.Context(), "test", lines, &r.late)
			if !changes.IsRefused(err) {
				t.Errorf("%s: %v", when, err)
			}
		}
		r.drains = true
		refused("while the crawl drains", "http://a.test/3")
		r.drains = false
		refused("too many at once", make([]string, changes.MaxEnqueued+1)...)
		for i := range orders.Max - 2 {
			r.orders.Begin(uint64(i)+1, 9)
		}
		refused("beyond the limit", "http://a.test/3")
	})
}

// TestControl: a handle reads and changes nothing while no crawl runs, and remembers how it ended.
func TestControl(t *testing.T) {
	k := new(operate.Control)
	select {
	case <-k.Started():
		t.Error("the crawl has started")
	default:
	}
	if _, err := k.Snapshot(); !errors.Is(err, operate.ErrNotRunning) {
		t.Errorf("a snapshot: %v", err)
	}
	pause := changes.Change{Op: changes.OpPause}
	if _, err := k.Make(t.Context(), pause); !errors.Is(err, operate.ErrNotRunning) {
		t.Errorf("a change: %v", err)
	}
	r := open(roomtest.New(t, 100))
	k.Attach(&operate.Running{Run: r.Run, Operator: r.o})
	<-k.Started()
	if _, err := k.Make(t.Context(), pause); err != nil || !r.paused ||
		r.Logged("change by the operator") != 1 {
		t.Errorf("a change of the running crawl: %v", err)
	}
	if s, err := k.Settings(); err != nil || !s.Paused || k.Ended() != nil {
		t.Errorf("settings %+v, %v; ended %+v", s, err, k.Ended())
	}
	k.Attach(nil)
	k.End(&operate.Ending{Why: "done"})
	if _, err := k.Settings(); !errors.Is(err, operate.ErrNotRunning) || k.Ended().Why != "done" ||
		k.Stopping() {
		t.Errorf("after the end: %v, %+v", err, k.Ended())
	}
}
