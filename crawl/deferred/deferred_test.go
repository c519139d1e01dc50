package deferred_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/checkpoint"
	"drumbeat/crawl/deferred"
	"drumbeat/crawl/orders"
	"drumbeat/crawl/roomtest"
	"drumbeat/crawl/testworld"
	"drumbeat/crawl/walkers"
	"drumbeat/disk"
	"drumbeat/internal/revisit"
	"drumbeat/state"
	"drumbeat/weburl"
)

// room is the room with the world around it.
type room struct {
	*roomtest.World
	stage  *deferred.Stage
	orders *orders.Table
	quiet  bool
}

// open opens the room at the last checkpoint of w.
func open(w *roomtest.World, opt deferred.Options) *room {
	r := &room{World: w, orders: orders.New()}
	opt.Log, opt.Margin, opt.Links = w.Log, new(revisit.Margin), w.Links
	opt.Rules, opt.Sites = w.Rules, w.Sites
	r.stage = deferred.New(w.Run, w.Saved, opt, deferred.Needs{Orders: r.orders, Check: w, Output: w,
		Space: w.Space, Stock: w.Stock, Walk: walkers.New(w.Run, w.Saved, walkers.Options{}, w.Space)})
	r.stage.Wire(deferred.Others{Budgets: w, SendLinks: w.SendLinks, Quiet: func() bool { return r.quiet },
		OrderEnds: func(*account.Tx) {}})
	w.Open([]checkpoint.Copy{func() checkpoint.Copied {
		held, _ := r.stage.Freeze()
		save := func(m *state.Manifest, _ *disk.Tails) error { m.Held = held; return nil }
		return checkpoint.Copied{Save: save}
	}}, w.Calendar(state.NameDeferred, &r.stage.Deferred), w.Queue(state.NameHeld, &r.stage.Held))
	r.stage.OpenHeld(w.Saved.Manifest)
	return r
}

// deferURL defers a URL in RAM for a time.
func (r *room) deferURL(url string, wait time.Duration, why state.Reason) {
	r.T.Helper()
	rec := r.Enter(url, state.PlaceRAM)
	r.Do(func(tx *account.Tx) error {
		return r.stage.DeferURL(tx, rec, state.PlaceRAM, time.Now().Add(wait), why)
	})
}

// refuse refuses a URL in RAM.
func (r *room) refuse(rec *weburl.Record, why state.Reason) {
	r.T.Helper()
	r.Do(func(tx *account.Tx) error { return r.stage.Refuse(tx, rec, state.PlaceRAM, why) })
}

type places = map[state.Place]int64

// want compares the number of URLs in places.
func (r *room) want(when string, want places) {
	r.T.Helper()
	for place, n := range want {
		if got := r.Accounts.In(place); got != n {
			r.T.Errorf("%s: %d URLs %s, want %d", when, got, place, n)
		}
	}
}

// during runs the room's goroutines for a time.
func (r *room) during(d time.Duration) {
	r.T.Helper()
	r.While(func() { time.Sleep(d) }, r.stage.ReadDeferred, r.stage.ReadVisits, r.stage.ReleaseHeld)
}

// TestReturns: a deferred URL returns once, when it is due, and late by a quarter of its wait at most. One
// that waits only for its host returns earlier by a quarter at most. None returns while nothing may begin.
func TestReturns(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 1000), deferred.Options{})
		began := time.Now()
		waits := map[string]time.Duration{}
		for i, why := range []state.Reason{state.ReasonServerError, state.ReasonHostBacklog,
			state.ReasonEvicted, state.ReasonNetworkLease, state.ReasonTimeout} {
			for j := range 40 {
				url := fmt.Sprintf("http://h%d.test/%d", i, j)
				waits[url] = time.Duration(1+j*j) * 7 * time.Second
				r.deferURL(url, waits[url], why)
			}
		}
		r.quiet = true
		r.during(5 * time.Minute)
		r.want("quiet", places{state.PlaceDeferred: 200, state.PlaceRobotsCheck: 0})
		r.quiet = false
		r.during(5 * time.Hour)
		got := r.To(state.PlaceRobotsCheck)
		r.want("after all waits", places{state.PlaceDeferred: 0, state.PlaceRobotsCheck: 200})
		for _, m := range got {
			wait, took := waits[m.URL], m.At.Sub(began)
			least := wait
			if c := m.URL[len("http://h")]; c != '0' && c != '4' {
				least -= wait / 4
			}
			if late := max(wait, 5*time.Minute) + wait/4 + time.Second; took < least || took > late {
				t.Errorf("%s: returned after %v, deferred for %v", m.URL, took, wait)
			}
			delete(waits, m.URL)
		}
		if len(waits) > 0 || len(got) != 200 {
			t.Errorf("%d URLs returned; these did not: %v", len(got), waits)
		}
	})
}

// TestRoomInTheStock: URLs return only while the stock has room, and at once when room is made. The last
// sixteenth of the stock is theirs although BEAST has URLs.
func TestRoomInTheStock(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 16), deferred.Options{})
		for i := range 15 {
			r.Enter(fmt.Sprintf("http://full.test/%d", i), state.PlaceRAM)
		}
		r.Enter("http://next.test/", state.PlaceBeast)
		for i := range 3 {
			r.deferURL(fmt.Sprintf("http://a.test/%d", i), time.Second, state.ReasonServerError)
		}
		r.While(func() {
			time.Sleep(10 * time.Second)
			r.want("a full stock", places{state.PlaceRobotsCheck: 1, state.PlaceDeferred: 2})
			r.Enter("http://other.test/", state.PlaceFetched) // its pulse is the last for 100 ms
			time.Sleep(time.Millisecond)
			made := time.Now()
			r.Do(func(tx *account.Tx) error {
				tx.Move(r.Key("http://full.test/0"), state.PlaceRAM, state.PlaceFetched)
				return nil
			})
			r.stage.RoomMade()
			time.Sleep(time.Millisecond)
			if got := r.To(state.PlaceRobotsCheck); len(got) != 2 || !got[1].At.Equal(made) {
				t.Errorf("after room was made: %+v", got)
			}
		}, r.stage.ReadDeferred)
	})
}

// TestDeferredCut: a power cut brings URLs back to where the last checkpoint had them. Each is in one place
// then, and returns once.
func TestDeferredCut(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 1000), deferred.Options{})
		for i := range 100 {
			wait := time.Duration(i) * time.Minute
			r.deferURL(fmt.Sprintf("http://a.test/%d", i), wait, state.ReasonServerError)
		}
		r.during(30 * time.Minute)
		r.Save()
		saved := len(r.To(state.PlaceRobotsCheck))
		before := r.To(state.PlaceRobotsCheck)
		r.deferURL("http://lost.test/", time.Minute, state.ReasonServerError) // after the checkpoint
		r.during(30 * time.Minute)
		if n := len(r.To(state.PlaceRobotsCheck)); saved == 0 || n == saved {
			t.Fatalf("%d URLs returned before the checkpoint, %d before the cut", saved, n)
		}
		r = open(r.Cut(), deferred.Options{})
		n, _ := r.stage.Deferred.Len()
		r.want("after the cut", places{state.PlaceDeferred: n, state.PlaceRobotsCheck: int64(saved)})
		r.during(3 * time.Hour)
		times := map[string]int{}
		for _, m := range append(before, r.To(state.PlaceRobotsCheck)...) {
			times[m.URL]++
		}
		if n, _ := r.stage.Deferred.Len(); n != 0 || len(times) != 100 || times["http://lost.test/"] != 0 {
			t.Errorf("%d URLs are left, %d returned", n, len(times))
		}
		for url, n := range times {
			if n != 1 {
				t.Errorf("%s returned %d times", url, n)
			}
		}
	})
}

// TestRefuse: a refused URL ends with its reason, in the accounts and in the log. The http form follows a
// seed without scheme, unless robots.txt forbids it.
func TestRefuse(t *testing.T) {
	r := open(roomtest.New(t, 100), deferred.Options{})
	bare := func(url string) *weburl.Record {
		rec := r.Enter(url, state.PlaceRAM)
		rec.Flags = weburl.FlagSeed | weburl.FlagSeedFallback
		return rec
	}
	r.refuse(r.Enter("http://a.test/", state.PlaceRAM), state.ReasonDNS)
	r.refuse(bare("https://b.test/x"), state.ReasonConnect)
	r.refuse(bare("https://c.test/"), state.ReasonRobots)
	r.want("refused", places{state.PlaceRefused: 3, state.PlaceRAM: 0})
	r.refuse(bare("https://port.test:80/"), state.ReasonTLS)
	if got := r.Accounts.Copy().Refused; min(got[state.ReasonDNS], got[state.ReasonConnect],
		got[state.ReasonRobots]) != 1 {
		t.Errorf("refused: %v", got)
	}
	if want := []string{"http://b.test/x", "http://port.test/"}; !slices.Equal(r.Sent(), want) {
		t.Errorf("sent %q, want %q", r.Sent(), want)
	}
	if want := []string{"http://a.test/: " + state.ReasonDNS.String(), "https://b.test/x: " +
		state.ReasonConnect.String(), "seed https://c.test/: " + state.ReasonRobots.String(),
		"https://c.test/: " + state.ReasonRobots.String(),
		"https://port.test:80/: " + state.ReasonTLS.String()}; !slices.Equal(r.Lines(), want) {
		t.Errorf("lines %q, want %q", r.Lines(), want)
	}
}

// TestHeld: URLs that the network flags forbid are held, without a line in the crawl log. A run with the same
// flags leaves them; one with others returns each of them once, also over a cut, and none that it holds
// itself.
func TestHeld(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 20), deferred.Options{Flags: "1"})
		for i := range 40 {
			rec := r.Enter(fmt.Sprintf("http://a.test:8080/%d", i), state.PlaceRAM)
			r.refuse(rec, state.ReasonForbiddenPort)
		}
		r.want("held", places{state.PlaceHeld: 40, state.PlaceRefused: 0})
		if len(r.Lines()) != 0 || r.Accounts.Copy().Refused[state.ReasonForbiddenPort] != 40 {
			t.Errorf("lines %q", r.Lines())
		}
		r.Save()
		r = open(r.Cut(), deferred.Options{Flags: "1"})
		r.during(time.Hour)
		r.want("the same flags", places{state.PlaceHeld: 40})
		time.Sleep(time.Minute)
		r = open(r.Cut(), deferred.Options{Flags: "2"})
		if r.stage.HeldLeft() != 40 || r.Logged("network flags changed") != 1 {
			t.Errorf("%d URLs are to be tried again", r.stage.HeldLeft())
		}
		r.during(time.Minute) // the stock takes 20
		r.refuse(r.Enter("http://own.test:81/", state.PlaceRAM), state.ReasonForbiddenPort)
		r.want("a full stock", places{state.PlaceHeld: 21, state.PlaceRobotsCheck: 20})
		first := r.To(state.PlaceRobotsCheck)
		r.Save()
		r = open(r.Cut(), deferred.Options{Flags: "2"})
		// Those were fetched.
		r.Accounts.Do(func(a *state.Accounts) { a.Places[state.PlaceRobotsCheck] = weburl.Sum{} })
		r.during(time.Hour)
		r.want("after the cut", places{state.PlaceHeld: 1, state.PlaceRobotsCheck: 20})
		times := map[string]int{}
		for _, m := range append(first, r.To(state.PlaceRobotsCheck)...) {
			times[m.URL]++
		}
		if r.stage.HeldLeft() != 0 || len(times) != 40 || times["http://own.test:81/"] != 0 {
			t.Errorf("%d are left, %d of 40 URLs returned", r.stage.HeldLeft(), len(times))
		}
	})
}

// TestFlagsAfterClockWasAhead: new flags hold from their first run on, and after all verdicts so far. If the
// clock was a year ahead before, that time is not known: the verdicts of the former flags hold for their
// usual time, and those of the new ones are not of the future.
func TestFlagsAfterClockWasAhead(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		now := time.Now()
		for _, saved := range []time.Duration{-time.Hour, 0, 365 * day} { // time of the manifest, from now
			r := open(roomtest.New(t, 20), deferred.Options{Flags: "new"})
			m := &state.Manifest{Time: now.Add(saved).Unix(),
				Held: state.Held{Flags: "old", Since: now.Unix() - 9}}
			if r.stage.OpenHeld(&state.Manifest{Held: state.Held{Flags: "new"}}) || !r.stage.OpenHeld(m) {
				t.Errorf("%v: a change of flags", saved)
			}
			at := r.stage.VerdictTime(now)
			if at.Before(now) || at.Sub(now) > time.Second || saved == 0 && at.Equal(now) {
				t.Errorf("%v: a verdict of now has the time %v later", saved, at.Sub(now))
			}
			if r.stage.SinceFlags(now.Add(-time.Hour), now) || !r.stage.SinceFlags(at, now) {
				t.Errorf("%v: the time of the flags is wrong", saved)
			}
			// The same flags as in the last run, whose clock may have been ahead.
			r.stage.OpenHeld(&state.Manifest{Held: state.Held{Flags: "new", Since: now.Add(saved).Unix()}})
			if got := r.stage.VerdictTime(now).Sub(now); got != 0 {
				t.Errorf("%v: a verdict of now has the time %v later", saved, got)
			}
			if holds := r.stage.SinceFlags(now.Add(-time.Minute), now); holds != (saved != 0) {
				t.Errorf("%v: a verdict of a minute ago holds: %v", saved, holds)
			}
		}
	})
}

const day = 24 * time.Hour

// policy visits each page once a day.
func policy() *revisit.Policy {
	return &revisit.Policy{Kind: revisit.Uniform, Least: day, Longest: day, Default: day, Gone: 2}
}

// visits returns the results of a first visit that found a page, and of others that found none.
func visits(missing int) []byte {
	var h revisit.History
	p := policy()
	for i := range 1 + missing {
		p.Note(&h, &revisit.Outcome{At: time.Now(), Body: 1, Missing: i > 0})
	}
	p.Next(&h, 0)
	return h.Append(nil)
}

// visited ends the visit of a URL in RAM that found a page, or did not.
func (r *room) visited(url string, missing int) {
	r.T.Helper()
	rec := r.Enter(url, state.PlaceRAM)
	rec.Visits = visits(missing)
	r.Do(func(tx *account.Tx) error { return r.stage.EndVisit(tx, rec, state.PlaceRAM) })
}

// TestVisits: a page is visited again after its interval, late by at most a sixteenth. It ends without
// recrawl, after Policy.Gone visits that found nothing, or if its site is not to be visited again.
func TestVisits(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 100), deferred.Options{Recrawl: policy()})
		r.Use("[[site]]\nhost = 'never.test'\nrevisit = 'never'\n" +
			"[[site]]\nhost = 'rare.test'\nrevisit = '48h'")
		r.visited("http://a.test/", 0)
		r.visited("http://gone.test/", 2)
		r.visited("http://never.test/", 0)
		r.visited("http://rare.test/", 0) // deferred by the interval of before
		r.want("ended", places{state.PlaceFetched: 2, state.PlaceDeferred: 2})
		if n := r.Accounts.Counter(state.CountGone); n != 1 {
			t.Errorf("%d pages are gone", n)
		}
		began := time.Now()
		r.during(3 * day)
		got := r.To(state.PlaceStar)
		for i, want := range []struct {
			url   string
			after time.Duration
		}{{"http://a.test/", day}, {"http://rare.test/", 2 * day}} {
			if len(got) != 2 {
				t.Fatalf("visits: %+v", got)
			}
			took := got[i].At.Sub(began)
			if got[i].URL != want.url || took < want.after || took > want.after*17/16 {
				t.Errorf("%s is visited after %v, want %s after %v", got[i].URL, took, want.url, want.after)
			}
		}
		if policy, ok := r.stage.Revisits([]byte("http://rare.test/x")); !ok || policy.Least != 2*day {
			t.Errorf("the interval of a site: %v, %v", policy.Least, ok)
		}
	})
}

// TestVisitsWithoutRecrawl: a run without recrawl leaves pages that are due to a later run with it, also over
// a cut.
func TestVisitsWithoutRecrawl(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 100), deferred.Options{Recrawl: policy()})
		for i := range 20 {
			r.visited(fmt.Sprintf("http://a.test/%d", i), 0)
		}
		r.Save()
		time.Sleep(8 * day)
		r = open(r.Cut(), deferred.Options{})
		r.during(5 * day)
		r.Save()
		if a := r.Accounts.Copy(); a.Deferred[state.ReasonRevisit] != 20 || len(r.To(state.PlaceStar)) != 0 {
			t.Errorf("deferred: %v", a.Deferred)
		}
		r = open(r.Cut(), deferred.Options{Recrawl: policy()})
		r.during(2 * day)
		if n := len(r.To(state.PlaceStar)); n != 20 {
			t.Errorf("%d of 20 pages are visited by a run with recrawl", n)
		}
	})
}

// TestFailedVisit: a page that was visited before waits for its next visit after a failure that may pass. It
// is refused for good after any other.
func TestFailedVisit(t *testing.T) {
	r := open(roomtest.New(t, 100), deferred.Options{Recrawl: policy()})
	for i, why := range []state.Reason{state.ReasonTimeout, state.ReasonServerError, state.ReasonRobots,
		state.ReasonBlocked} {
		rec := r.Enter(fmt.Sprintf("http://a.test/%d", i), state.PlaceRAM)
		rec.Visits, rec.Attempts = visits(0), 3
		r.refuse(rec, why)
		if passes := i < 2; passes != (rec.Attempts == 0) {
			t.Errorf("%v: %d attempts are counted", why, rec.Attempts)
		}
	}
	r.refuse(r.Enter("http://new.test/", state.PlaceRAM), state.ReasonTimeout)
	a := r.Accounts.Copy()
	if a.Deferred[state.ReasonRevisit] != 2 || a.Places[state.PlaceRefused].N != 3 {
		t.Errorf("deferred %v, refused %v", a.Deferred, a.Refused)
	}
}

// TestOrders: an order that is fetched leaves, and the other record of its URL ends without a request,
// wherever it comes up. A refused order leaves and the other record waits on. A new URL takes over the record
// of its order.
func TestOrders(t *testing.T) {
	r := open(roomtest.New(t, 100), deferred.Options{})
	order := func(url string) *weburl.Record {
		if !r.orders.Begin(r.Key(url), 1) {
			t.Errorf("%s has an order", url)
		}
		r.Do(func(tx *account.Tx) error { tx.EnterOrder(r.Key(url), state.PlaceRAM); return nil })
		return &weburl.Record{URL: []byte(url)}
	}
	met := func(rec *weburl.Record) (ok bool) {
		r.Do(func(tx *account.Tx) (err error) {
			ok, err = r.stage.MetOrder(tx, rec, state.PlaceReady)
			return err
		})
		return ok
	}
	other := r.Enter("http://a.test/", state.PlaceReady)
	if met(other) {
		t.Error("a record without an order has met one")
	}
	fetched := order("http://a.test/")
	if met(other) {
		t.Error("a record ended before its order was fetched")
	}
	r.Do(func(tx *account.Tx) error { return r.stage.EndVisit(tx, fetched, state.PlaceRAM) })
	r.want("the order has left", places{state.PlaceRAM: 0, state.PlaceReady: 1})
	if !met(other) || met(other) {
		t.Error("the other record must end once")
	}
	r.want("the other record ended", places{state.PlaceReady: 0, state.PlaceFetched: 1})
	blocked := r.Enter("http://blocked.test/", state.PlaceRAM)
	order("http://blocked.test/")
	// Either record may be the first that is fetched.
	r.Do(func(tx *account.Tx) error { return r.stage.EndVisit(tx, blocked, state.PlaceRAM) })
	r.refuse(blocked, state.ReasonBlocked)
	r.want("what was fetched is not refused", places{state.PlaceRefused: 0, state.PlaceFetched: 2})
	waits := r.Enter("http://b.test/", state.PlaceReady)
	r.refuse(order("http://b.test/"), state.ReasonRobots)
	if met(waits) || r.Logged("an enqueued URL was refused") != 1 {
		t.Error("a refused order ended the other record")
	}
	r.want("the order was refused", places{state.PlaceReady: 1, state.PlaceRAM: 0, state.PlaceRefused: 0})
	order("http://new.test/")
	r.Do(func(tx *account.Tx) error {
		ok, err := r.stage.AdoptOrder(tx, &weburl.Record{URL: []byte("http://new.test/")})
		if !ok {
			t.Error("a new URL did not find its order")
		}
		return err
	})
	r.want("adopted", places{state.PlaceRAM: 1, state.PlaceStar: 0})
	if a := r.Accounts.Copy(); a.Unique.N != 4 || a.Orders.N != 0 {
		t.Errorf("%d unique URLs, %d orders; want 4, 0", a.Unique.N, a.Orders.N)
	}
}

// TestDeferredDamaged: an unreadable record stops the crawl with an error that says where it was.
func TestDeferredDamaged(t *testing.T) {
	r := open(roomtest.New(t, 100), deferred.Options{})
	if err := r.stage.Held.Append([]byte("no record")); err != nil {
		t.Fatal(err)
	}
	r.stage.OpenHeld(&state.Manifest{Held: state.Held{Flags: "other"}})
	ctx, cut := r.Begin(t.Context())
	defer cut()
	err := r.stage.ReleaseHeld(ctx)
	if !errors.Is(err, weburl.ErrRecord) || !errors.Is(context.Cause(ctx), context.Canceled) {
		t.Errorf("got %v; the crawl: %v", err, ctx.Err())
	}
}
