package dispatch_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/dispatch"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/limits"
	"drumbeat/crawl/node"
	"drumbeat/crawl/options"
	"drumbeat/crawl/outage"
	"drumbeat/crawl/roomtest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/internal/health"
	"drumbeat/internal/pace"
	"drumbeat/polite"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// room is the room with the world around it. It stands for the gate, and for the stage that visits URLs.
type room struct {
	*roomtest.World
	d        *dispatch.Dispatcher
	heaps    *polite.Scheduler
	net      options.Network
	polite   options.Politeness
	resting  map[uint64]bool // hosts
	ended    map[string]bool // URLs whose verdict has ended
	first    map[uint64]bool // URLs that were enqueued
	limit    int64           // of pages
	disowned atomic.Bool
	visits   time.Duration // of a page
	most     atomic.Int64  // exchanges at once
	now      atomic.Int64
}

func (r *room) VerdictEnded(url []byte, _ *robots.Summary, _ time.Time) bool {
	return r.ended[string(url)]
}
func (r *room) Any() bool             { return len(r.first) > 0 }
func (r *room) Waits(key uint64) bool { return r.first[key] }
func (r *room) Idle() bool            { return true }
func (r *room) Ended(error)           { r.d.Ended() }

// orders has Moved of the orders, which the world has for URLs.
type orders struct{ *room }

func (orders) Moved(uint64, bool) {}

func (r *room) DeferInBackoff(tx *account.Tx, host uint64, rec *weburl.Record, from state.Place,
	_ *health.State) (bool, error) {
	if !r.resting[host] {
		return false, nil
	}
	return true, r.DeferURL(tx, rec, from, time.Now().Add(time.Hour), state.ReasonTooMany)
}

// Visit fetches a page.
func (r *room) Visit(ctx context.Context, g *polite.Grant) (landed bool, next *polite.Grant, err error) {
	n := r.now.Add(1)
	for most := r.most.Load(); n > most && !r.most.CompareAndSwap(most, n); most = r.most.Load() {
	}
	account.Sleep(ctx, r.visits)
	r.now.Add(-1)
	var rec weburl.Record
	if err := rec.Decode(g.Item.Rec); err != nil {
		return false, nil, err
	}
	r.d.Done(g, polite.Result{Elapsed: r.visits})
	return false, nil, r.Transact(func(tx *account.Tx) error {
		tx.Count(state.CountPages, 1)
		tx.Move(r.Key(string(rec.URL)), state.PlaceRAM, state.PlaceFetched)
		return nil
	})
}

// open opens the room at the last checkpoint of w. change may change its options and r.
func open(w *roomtest.World, change func(r *room, o *dispatch.Options)) *room {
	r := &room{World: w, visits: time.Second}
	r.resting, r.ended, r.first = map[uint64]bool{}, map[string]bool{}, map[uint64]bool{}
	r.net.Connections, r.net.RobotsInFlight = roomtest.Connections, 8
	o := dispatch.Options{Admission: &options.Admission{Scope: state.ScopePLD}, Network: &r.net,
		Plan: &w.Plan, Politeness: &r.polite, DefaultBudget: 10, Rules: w.Rules, Sites: w.Sites}
	if change != nil {
		change(r, &o)
	}
	o.MaxPages = r.limit
	l := limits.New(limits.Options{Network: &r.net, Changed: func() { r.d.Wake() }})
	r.d = dispatch.New(w.Run, w.Saved, o, dispatch.Needs{Check: gate{r}, Health: r,
		Fetcher: &fetcher.Fetcher{}, Leases: node.NewLeases(w.Run, node.LeaseOptions{}), Limits: l,
		Space: w.Space, Stock: w.Stock, Outages: outage.New(w.Run, w.Saved, outage.Options{Log: w.Log})})
	r.d.Wire(dispatch.Others{Visits: r, Deferrals: w, Orders: orders{r}, LackURLs: func() {},
		PageLimit: func() int64 { return r.limit }, Disowned: r.disowned.Load,
		PLDShare: func() func(uint64) float64 { return nil }})
	w.Open(nil, w.Queue(state.NameReady, &r.d.Ready))
	r.heaps = r.d.OpenHeaps(w.Saved.Manifest)
	w.Heaps = r.heaps
	r.d.Open()
	return r
}

// gate has CheckRobots of the world and VerdictEnded of the room.
type gate struct{ *room }

func (g gate) CheckRobots(tx *account.Tx, data []byte, rec *weburl.Record, from state.Place) error {
	return g.World.CheckRobots(tx, data, rec, from)
}

// record returns the record of a URL that passed RobotsCache, whose host has an address of its own by number.
func (r *room) record(url string, number int, in state.Place) *weburl.Record {
	r.T.Helper()
	f := robots.Fetched{Kind: robots.Answered, Status: 404, AddrExpires: time.Now().Add(time.Hour)}
	if number >= 0 {
		f.Addrs = []netip.Addr{netip.AddrFrom4([4]byte{10, byte(number >> 8), byte(number), 1})}
	}
	h := robots.Outcome(&robots.HostData{}, &f, "drumbeat", time.Now())
	sum := h.Summary()
	rec := r.Enter(url, in)
	rec.Extra = sum.Append(nil)
	return rec
}

// enqueue puts a URL into Q.
func (r *room) enqueue(url string, number int) {
	r.T.Helper()
	rec := r.record(url, number, state.PlaceReady)
	r.Do(func(tx *account.Tx) error { return r.d.Enqueue(tx, rec) })
}

// hosts puts a URL of each of n hosts into Q.
func (r *room) hosts(n int) {
	for i := range n {
		r.enqueue(fmt.Sprintf("http://h%d.test/", i), i)
	}
}

// during runs admission and fetching while f runs.
func (r *room) during(f func()) {
	r.T.Helper()
	r.While(f, r.d.ReadReady, r.d.Dispatch)
	r.d.NoMoreGrants()
	r.Fetchers.Wait()
}

// sleep returns a function that sleeps.
func sleep(d time.Duration) func() { return func() { time.Sleep(d) } }

// TestOneTransactionFromQ: a URL leaves Q once: to RAM, or, if it may not be fetched now, to where it waits
// or ends.
func TestOneTransactionFromQ(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 100), nil)
		r.Use("[[site]]\nhost = 'deep.test'\nmax-depth = 0")
		rec := r.record("http://deep.test/", 2, state.PlaceReady)
		rec.Depth = 3
		r.Do(func(tx *account.Tx) error { return r.d.Enqueue(tx, rec) })
		r.enqueue("http://good.test/", 1)
		r.enqueue("http://blocked.test/", -1)
		r.enqueue("http://old.test/", 3)
		r.enqueue("http://rests.test/", 4)
		r.ended["http://old.test/"], r.resting[r.Saved.HostKey([]byte("rests.test"))] = true, true
		r.While(sleep(time.Second), r.d.ReadReady)
		for url, want := range map[string]roomtest.Moved{
			"http://deep.test/":    {To: state.PlaceRefused, Why: state.ReasonDepth},
			"http://blocked.test/": {To: state.PlaceRefused, Why: state.ReasonBlocked},
			"http://old.test/":     {To: state.PlaceRobotsCheck},
			"http://rests.test/":   {To: state.PlaceDeferred, Why: state.ReasonTooMany},
		} {
			n := 0
			for _, m := range r.To(want.To) {
				if m.URL == url && m.Why == want.Why && m.From == state.PlaceReady {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%s went %d times to %v for %v", url, n, want.To, want.Why)
			}
		}
		a := r.Accounts.Copy().Places
		if n, _ := r.d.Ready.Len(); n != 0 || a[state.PlaceReady].N != 0 || a[state.PlaceRAM].N != 1 {
			t.Errorf("%d URLs in Q; accounts %v", n, a)
		}
	})
}

// TestReadyCut: after a power cut Q is that of the last checkpoint.
func TestReadyCut(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 100), nil)
		r.hosts(20)
		r.Save()
		r.during(sleep(time.Minute))
		if n := r.Accounts.In(state.PlaceFetched); n != 20 {
			t.Fatalf("%d URLs were fetched", n)
		}
		r = open(r.Cut(), nil)
		if n, _ := r.d.Ready.Len(); n != 20 || r.Accounts.In(state.PlaceReady) != 20 {
			t.Errorf("%d URLs in Q after the cut, %d in the accounts", n, r.Accounts.In(state.PlaceReady))
		}
		r.during(sleep(time.Minute))
		if n := r.Accounts.In(state.PlaceFetched); n != 20 {
			t.Errorf("%d URLs were fetched after the cut", n)
		}
	})
}

// TestFullRAM: URLs wait in Q while RAM is full. An enqueued one makes room of those that are due last, but
// not of others that were enqueued.
func TestFullRAM(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		const most = 2 * roomtest.Connections
		r := open(roomtest.New(t, 100), func(r *room, o *dispatch.Options) {
			r.Plan.PoliteItems = 1
			r.polite.HostDelay, r.polite.HostDelayMin = time.Minute, time.Minute
		})
		for i := range most + 10 {
			r.enqueue(fmt.Sprintf("http://h%d.test/%d", i/4, i), i/4)
		}
		r.While(sleep(time.Minute), r.d.ReadReady)
		ram, ready := r.Accounts.In(state.PlaceRAM), r.Accounts.In(state.PlaceReady)
		if n, _ := r.d.Ready.Len(); ram > most || ready < 10 || n != ready {
			t.Errorf("%d URLs in RAM, which has room for %d; %d in Q, %d in its files", ram, most, ready, n)
		}
		admit := func(i int) (taken bool) {
			rec := r.record(fmt.Sprintf("http://first%d.test/", i), 1000+i, state.PlaceRobotsCheck)
			r.first[r.Key(string(rec.URL))] = true
			r.Do(func(tx *account.Tx) (err error) {
				taken, err = r.d.AdmitFirst(tx, rec)
				return err
			})
			return taken
		}
		n := 0
		for n < 2*most && admit(n) {
			n++
		}
		evicted := r.To(state.PlaceDeferred)
		if ram := r.Accounts.In(state.PlaceRAM); n < most/2 || n > most || ram > most || len(evicted) < n/2 {
			t.Errorf("%d enqueued URLs came to RAM, %d others left it; it has %d", n, len(evicted), ram)
		}
		for _, m := range evicted {
			if r.first[r.Key(m.URL)] || m.Why != state.ReasonEvicted {
				t.Errorf("%s left RAM: %v", m.URL, m.Why)
			}
		}
	})
}

// TestLimitOfPages: exactly as many pages are fetched as the limit says, and no more exchanges are under way
// than pages are missing. A higher limit wakes dispatch.
func TestLimitOfPages(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		for _, limit := range []int64{1, 5, 37} {
			r := open(roomtest.New(t, 100), func(r *room, _ *dispatch.Options) { r.limit = limit })
			r.hosts(60)
			r.during(func() {
				time.Sleep(time.Minute)
				n, most := r.Accounts.Counter(state.CountPages), r.most.Load()
				if n != limit || most > min(limit, roomtest.Connections) {
					t.Errorf("limit %d: %d pages, %d at once", limit, n, most)
				}
				r.d.PagesLeft(func(left int64) {
					if left != 0 {
						t.Errorf("%d pages are left", left)
					}
					r.limit = limit + 3
				})
				r.d.Wake()
				time.Sleep(10 * time.Second)
			})
			if n := r.Accounts.Counter(state.CountPages); n != limit+3 || r.d.InFlight() != 0 {
				t.Errorf("limit %d: %d pages, %d in flight", limit+3, n, r.d.InFlight())
			}
		}
	})
}

// TestConnections: no more exchanges are under way than there are slots, or than the schedule allows now. The
// exchanges of one PLD take a quarter of them with scope all: its other URLs wait on disk, longer each time.
func TestConnections(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		schedule, err := pace.Parse("3", pace.Connections)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			change func(r *room, o *dispatch.Options)
			most   int64
		}{
			{func(*room, *dispatch.Options) {}, roomtest.Connections},
			{func(r *room, _ *dispatch.Options) { r.net.ConnectionSchedule = schedule }, 3},
		} {
			r := open(roomtest.New(t, 100), c.change)
			r.hosts(60)
			r.during(sleep(time.Hour))
			if n := r.Accounts.In(state.PlaceFetched); n != 60 || r.most.Load() != c.most {
				t.Errorf("%d pages, %d at once, want 60 and %d", n, r.most.Load(), c.most)
			}
		}
		r := open(roomtest.New(t, 100), func(r *room, o *dispatch.Options) {
			o.Admission.Scope, r.visits = state.ScopeAll, time.Minute
		})
		for i := range 10 {
			r.enqueue(fmt.Sprintf("http://h%d.one.test/", i), i)
		}
		var got []roomtest.Moved
		r.during(func() {
			time.Sleep(time.Hour)
			got = r.To(state.PlaceDeferred)
			most := r.most.Load()
			if most != roomtest.Connections/dispatch.PLDShare || len(got) != 10-int(most) {
				t.Errorf("%d exchanges of a PLD at once; deferred: %+v", most, got)
			}
			for i := range 3 { // of hosts whose URLs were deferred
				r.enqueue(fmt.Sprintf("http://h%d.one.test/again", 7+i), 7+i)
			}
			time.Sleep(time.Hour)
			if taken, _, _ := r.d.Slots(); taken != 1 || r.Accounts.In(state.PlaceFetched) != 7 {
				t.Errorf("%d pages of the PLD; %d slots are taken", r.Accounts.In(state.PlaceFetched), taken)
			}
		})
		for _, m := range got {
			if m.Why != state.ReasonPLDBusy || m.Due.Sub(m.At) < 5*time.Second {
				t.Errorf("%+v", m)
			}
		}
	})
}

// TestNoGrants: no exchange begins while the operator pauses the crawl, or while other nodes have abandoned
// this one; the URLs stay in RAM. Afterwards all are fetched.
func TestNoGrants(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 100), nil)
		r.hosts(5)
		r.Paused.Store(true)
		r.during(func() {
			time.Sleep(time.Hour)
			r.disowned.Store(true)
			r.Paused.Store(false)
			r.d.Wake()
			time.Sleep(time.Hour)
			if r.most.Load() != 0 || r.Accounts.In(state.PlaceRAM) != 5 {
				t.Errorf("%d exchanges, %d URLs in RAM", r.most.Load(), r.Accounts.In(state.PlaceRAM))
			}
			r.disowned.Store(false)
			r.d.Wake()
			time.Sleep(10 * time.Second)
			if n := r.Accounts.In(state.PlaceFetched); n != 5 {
				t.Errorf("%d pages were fetched afterwards", n)
			}
			if taken, all, waits := r.d.Slots(); taken != 1 || all != roomtest.Connections || !waits {
				t.Errorf("%d of %d slots are taken; one waits for a grant: %v", taken, all, waits)
			}
		})
	})
}

// TestDroppedGrant: a grant for which nothing was sent is no visit: the host's next one does not wait for its
// delay.
func TestDroppedGrant(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 100), func(r *room, _ *dispatch.Options) {
			r.polite.HostDelay, r.polite.HostDelayMin = time.Minute, time.Minute
		})
		r.enqueue("http://a.test/1", 1)
		r.enqueue("http://a.test/2", 1)
		r.While(sleep(time.Second), r.d.ReadReady)
		g, _ := r.heaps.Next(time.Now())
		if g == nil || !r.d.Take(t.Context()) {
			t.Fatal("no grant")
		}
		r.d.Drop(g)
		if next, wait := r.heaps.Next(time.Now()); next == nil {
			t.Errorf("the next grant waits for %v", wait)
		}
		if taken, _, _ := r.d.Slots(); taken != 0 {
			t.Errorf("%d slots are taken", taken)
		}
	})
}

// TestDelaysOutliveARestart: a long delay of a host holds after a restart, for what is left of it, also if
// the clock was set back meanwhile. Damaged delays are an error.
func TestDelaysOutliveARestart(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		for _, back := range []time.Duration{0, 365 * 24 * time.Hour} {
			w := roomtest.New(t, 100)
			host := w.Saved.HostKey([]byte("a.test"))
			r := open(w, nil)
			saved := time.Now().Add(back) // by a clock that was ahead
			d := polite.Delay{Host: host, Until: saved.Add(10 * time.Hour)}
			tails, err := disk.CreateTails(w.Saved.Set, 1)
			if err != nil {
				t.Fatal(err)
			}
			ref, err := tails.Write(0, d.Append(nil))
			if err == nil {
				err = tails.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := r.d.RestoreDelays(&state.Manifest{Time: saved.Unix(), Delays: ref}); err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			turn := r.heaps.Turn(now, host, w.Saved.PLDKey([]byte("a.test")), 0, nil)
			if left := turn.Wait; left < 9*time.Hour || left > 11*time.Hour {
				t.Errorf("clock set back by %v: the host waits for %v, want 10 hours", back, left)
			}
		}
	})
}
