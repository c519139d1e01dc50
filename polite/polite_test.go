package polite_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"drumbeat/polite"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 = from the clock")

// modelRounds is the number of random settings that TestModel tries.
func modelRounds() int {
	if testing.Short() {
		return 20
	}
	return 60
}

func seed(t testing.TB) uint64 {
	s := *seedFlag
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", s)
	return s
}

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func v4(n int) netip.Addr { return netip.AddrFrom4([4]byte{192, byte(n >> 16), byte(n >> 8), byte(n)}) }

func item(host, pld int, addrs ...netip.Addr) *polite.Item {
	return &polite.Item{Host: uint64(host), PLD: uint64(pld), Addrs: addrs}
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func paper() polite.Options {
	return polite.Options{HostDelay: 40 * time.Second, HostDelayMin: time.Second, ServerDelay: time.Second,
		ServerDelayMin: ms(200)}
}

func admit(t *testing.T, s *polite.Scheduler, now time.Time, it *polite.Item) {
	t.Helper()
	if v := s.Admit(now, it); v.Kind != polite.Admitted {
		t.Fatalf("Admit: got %+v, want Admitted", v)
	}
}

func TestHostDelay(t *testing.T) {
	opt := paper()
	opt.DefaultBudget, opt.MaxCrawlDelay, opt.ResponseFactor = 10, time.Minute, 5
	for _, c := range []struct {
		budget      uint32
		crawl       time.Duration
		res         polite.Result
		want        time.Duration
		explanation string
	}{
		{0, 0, polite.Result{}, 40 * time.Second, "no budget"},
		{5, 0, polite.Result{}, 40 * time.Second, "below B0"},
		{10, 0, polite.Result{}, 40 * time.Second, "B0"},
		{20, 0, polite.Result{}, 20 * time.Second, "2 B0"},
		{10000, 0, polite.Result{}, time.Second, "minimum"},
		{10000, 7 * time.Second, polite.Result{}, 7 * time.Second, "crawl delay"},
		{10000, time.Hour, polite.Result{}, time.Minute, "crawl delay capped"},
		{10000, 0, polite.Result{Elapsed: 2 * time.Second}, 10 * time.Second, "response time"},
		{10000, 0, polite.Result{Elapsed: time.Hour}, time.Minute, "response time capped"},
		{0, 0, polite.Result{Backoff: time.Hour}, time.Hour, "back-off"},
		{10000, time.Second, polite.Result{CrawlDelay: 9 * time.Second}, 9 * time.Second, "learned crawl delay"},
		{10000, 0, polite.Result{CrawlDelay: time.Hour}, time.Minute, "learned crawl delay capped"},
	} {
		if got := opt.DelayAfter(c.budget, c.crawl, c.res); got != c.want {
			t.Errorf("%s: got %v, want %v", c.explanation, got, c.want)
		}
	}
}

func TestOneHost(t *testing.T) {
	s := polite.New(paper(), t0)
	a, b, r := item(1, 1, v4(1)), item(1, 1, v4(1)), item(1, 1, v4(1))
	r.Robots = true
	admit(t, s, t0, a)
	admit(t, s, t0, b)
	admit(t, s, t0, r)
	g, _ := s.Next(t0)
	if g == nil || g.Item != r {
		t.Fatalf("Next: got %+v, want the robots item", g)
	}
	if g.Addr != v4(1) {
		t.Errorf("Addr: got %v, want %v", g.Addr, v4(1))
	}
	if g2, w := s.Next(t0.Add(time.Hour)); g2 != nil || w != polite.Forever {
		t.Fatalf("Next while busy: got %v, %v, want nil, Forever", g2, w)
	}
	end := t0.Add(time.Hour)
	s.Done(end, g, polite.Result{})
	if g2, w := s.Next(end); g2 != nil || w != 40*time.Second {
		t.Fatalf("Next after Done: got %v, %v, want nil, 40s", g2, w)
	}
	if g2, w := s.Next(end.Add(40*time.Second - 1)); g2 != nil || w != 1 {
		t.Fatalf("Next just before: got %v, %v, want nil, 1ns", g2, w)
	}
	if g, _ = s.Next(end.Add(40 * time.Second)); g == nil || g.Item != a {
		t.Fatalf("Next: got %+v, want the first page", g)
	}
	if n := len(s.Snapshot()); n != 2 {
		t.Errorf("Snapshot: got %d items, want 2 (one in flight)", n)
	}
}

// TestServerHeld: a server gets no grant until the request has started, nor for τs after that; other servers
// are free.
func TestServerHeld(t *testing.T) {
	s := polite.New(paper(), t0)
	admit(t, s, t0, item(1, 1, v4(1)))
	admit(t, s, t0, item(2, 1, v4(1)))
	admit(t, s, t0, item(3, 1, v4(2)))
	g1, _ := s.Next(t0)
	g3, _ := s.Next(t0)
	if g1.Item.Host != 1 || g3.Item.Host != 3 {
		t.Fatalf("hosts: got %d, %d, want 1, 3", g1.Item.Host, g3.Item.Host)
	}
	if g, _ := s.Next(t0.Add(time.Minute)); g != nil {
		t.Fatal("granted while the connection was being set up")
	}
	at := t0.Add(time.Minute)
	s.Started(at, g1)
	if _, w := s.Next(at); w != time.Second {
		t.Fatalf("wait: got %v, want 1s", w)
	}
	if g, _ := s.Next(at.Add(time.Second)); g == nil || g.Item.Host != 2 {
		t.Fatalf("got %+v, want host 2 beside host 1", g)
	}
}

func TestServerIsIPv6Prefix(t *testing.T) {
	s := polite.New(paper(), t0)
	admit(t, s, t0, item(1, 1, netip.MustParseAddr("2001:db8::1")))
	admit(t, s, t0, item(2, 1, netip.MustParseAddr("2001:db8::2:0:0:1")))
	admit(t, s, t0, item(3, 1, netip.MustParseAddr("2001:db8:0:1::1")))
	admit(t, s, t0, item(4, 1, netip.MustParseAddr("::ffff:192.0.2.1")))
	admit(t, s, t0, item(5, 1, netip.MustParseAddr("192.0.2.1")))
	var got []uint64
	for {
		g, _ := s.Next(t0)
		if g == nil {
			break
		}
		got = append(got, g.Item.Host)
	}
	if fmt.Sprint(got) != "[1 3 4]" {
		t.Errorf("granted hosts: got %v, want [1 3 4]", got)
	}
}

// TestServersShareLoad: a host with several addresses is fetched from a free one, and the delay of each
// holds.
func TestServersShareLoad(t *testing.T) {
	s := polite.New(polite.Options{ServerDelay: time.Second, ServerDelayMin: time.Second}, t0)
	for range 10 {
		admit(t, s, t0, item(1, 1, v4(1), v4(2)))
	}
	used := map[netip.Addr]int{}
	now := t0
	for range 10 {
		g, w := s.Next(now)
		for ; g == nil; g, w = s.Next(now) {
			now = now.Add(w)
		}
		used[g.Addr]++
		s.Started(now, g)
		s.Done(now, g, polite.Result{})
	}
	if used[v4(1)] != 5 || now.Sub(t0) != 4*time.Second {
		t.Errorf("got %v after %v, want 5 each after 4s", used, now.Sub(t0))
	}
}

func TestServerDelayScales(t *testing.T) {
	opt := polite.Options{ServerDelay: time.Second, ServerDelayMin: ms(200), DefaultBudget: 10}
	for _, c := range []struct {
		budgets []uint32
		want    time.Duration
	}{{[]uint32{10, 10, 10}, time.Second}, {[]uint32{20, 20, 20}, ms(500)}, {[]uint32{10, 30, 20}, ms(500)},
		{[]uint32{9999, 9999, 1}, ms(200)}, {[]uint32{1, 1, 1}, time.Second}} {
		s := polite.New(opt, t0)
		for i, b := range c.budgets {
			it := item(i, i, v4(1))
			it.Budget = b
			admit(t, s, t0, it)
		}
		g, _ := s.Next(t0)
		s.Started(t0, g)
		if _, w := s.Next(t0); w != c.want {
			t.Errorf("budgets %v: got delay %v, want %v", c.budgets, w, c.want)
		}
	}
}

func TestVisited(t *testing.T) {
	opt := paper()
	opt.Visited = t0.Add(-10 * time.Second)
	s := polite.New(opt, t0)
	admit(t, s, t0, item(1, 1, v4(1)))
	if g, w := s.Next(t0); g != nil || w != 30*time.Second {
		t.Fatalf("got %v, %v, want nothing for 30s", g, w)
	}
	if g, _ := s.Next(t0.Add(30 * time.Second)); g == nil {
		t.Fatal("got nothing, want a grant")
	}
}

// TestCrawlDelayHoldsForRobotsRequests: the first page waits for its Crawl-delay after robots.txt. A robots request
// redirected from another host keeps that Crawl-delay, known only to pages, from those before and after it.
func TestCrawlDelayHoldsForRobotsRequests(t *testing.T) {
	s := polite.New(polite.Options{HostDelay: time.Second, HostDelayMin: time.Second}, t0)
	at := t0
	for i, robots := range []bool{true, false, true, false, true, true} {
		it := item(1, 1, v4(1))
		if it.Robots = robots; !robots {
			it.CrawlDelay = 10 * time.Second
		}
		admit(t, s, at, it)
		got := visit(t, s, at, polite.Result{})
		if want := at.Add(10 * time.Second); i > 0 && !got.Equal(want) {
			t.Errorf("request %d was granted %v after the last, want 10s", i, got.Sub(at))
		}
		at = got.Add(ms(10))
	}
}

// TestCrawlDelayLearned: a Crawl-delay read from robots.txt holds without pages and for pages that do not
// know it.
func TestCrawlDelayLearned(t *testing.T) {
	s := polite.New(paper(), t0)
	r := item(1, 1, v4(1))
	r.Robots = true
	admit(t, s, t0, r)
	done(t, s, t0, polite.Result{CrawlDelay: time.Minute})
	now := t0.Add(50 * time.Second)
	s.Next(now) // the plain delay has passed, but the host must not be forgotten
	for range 3 {
		admit(t, s, now, item(1, 1, v4(1)))
	}
	for i := range 3 {
		due := t0.Add(time.Duration(i+1) * time.Minute)
		if g, w := s.Next(now); g != nil || !now.Add(w).Equal(due) {
			t.Fatalf("page %d: got %v after %v, want nothing until %v", i, g, w, due.Sub(now))
		}
		now = due
		done(t, s, now, polite.Result{})
	}
}

func TestServerBackoff(t *testing.T) {
	s := polite.New(polite.Options{}, t0)
	admit(t, s, t0, item(1, 1, v4(1)))
	admit(t, s, t0, item(2, 1, v4(1)))
	g, _ := s.Next(t0)
	s.Done(t0, g, polite.Result{ServerBackoff: time.Minute})
	if _, w := s.Next(t0); w != time.Minute {
		t.Errorf("wait: got %v, want 1m", w)
	}
}

func TestBounds(t *testing.T) {
	opt := paper()
	opt.MaxItems, opt.MaxHosts = 3, 4
	s := polite.New(opt, t0)
	for i := range 3 {
		admit(t, s, t0, item(i, i, v4(i)))
	}
	if v := s.Admit(t0, item(9, 9, v4(9))); v.Kind != polite.Full {
		t.Fatalf("fourth item: got %+v, want Full", v)
	}
	now := t0
	for range 3 {
		g, _ := s.Next(now)
		s.Done(now, g, polite.Result{})
	}
	<-s.Room()
	admit(t, s, now, item(9, 9, v4(9))) // the fourth host
	if v := s.Admit(now, item(10, 10, v4(10))); v.Kind != polite.Full {
		t.Fatalf("fifth host: got %+v, want Full while four are remembered", v)
	}
	now = now.Add(40 * time.Second)
	admit(t, s, now, item(10, 10, v4(10)))
	if h, v := s.Tables(); h > 2 || v > 2 {
		t.Errorf("tables: got %d hosts and %d servers, want the two that have items", h, v)
	}

	opt = paper()
	opt.MaxBytes = 2*polite.ItemOverhead + 100
	s = polite.New(opt, t0)
	big := item(1, 1, v4(1))
	big.Rec = make([]byte, 5000)
	admit(t, s, t0, big) // larger than RAM, but alone
	if v := s.Admit(t0, item(2, 2, v4(2))); v.Kind != polite.Full {
		t.Errorf("bytes: got %+v, want Full", v)
	}
	g, _ := s.Next(t0)
	s.Done(t0, g, polite.Result{})
	if s.Bytes() != 0 {
		t.Errorf("Bytes: got %d, want 0", s.Bytes())
	}
}

// TestDeferral: deferred items of one host get times of their own, one delay apart, even if they return as a
// batch.
func TestDeferral(t *testing.T) {
	opt := paper()
	opt.MaxPerHost = 2
	s := polite.New(opt, t0)
	admit(t, s, t0, item(1, 1, v4(1)))
	admit(t, s, t0, item(1, 1, v4(1)))
	for i := range 5 {
		it := item(1, 1, v4(1))
		v := s.Admit(t0, it)
		want := t0.Add(time.Duration(3+i) * 40 * time.Second)
		if v.Kind != polite.Deferred || v.Why != polite.HostShare || !v.Due.Equal(want) || !it.Due.Equal(want) {
			t.Errorf("item %d: got %+v, want deferred to %v", i, v, want)
		}
	}
	it := item(1, 1, v4(1))
	it.Waits = 1
	if v := s.Admit(t0, it); !v.Due.Equal(t0.Add(120 * time.Second)) {
		t.Errorf("returned item: got %v, want %v", v.Due, t0.Add(120*time.Second))
	}
	opt.MaxPerHost, opt.MaxPerPLD, opt.MaxPerServer, opt.Ahead = 64, 3, 2, 1
	s = polite.New(opt, t0)
	admit(t, s, t0, item(1, 1, v4(1)))
	admit(t, s, t0, item(2, 1, v4(1)))
	if v := s.Admit(t0, item(3, 1, v4(1))); v.Why != polite.ServerShare || !v.Due.Equal(t0.Add(3*time.Second)) {
		t.Errorf("server: got %+v, want deferred for 3s", v)
	}
	admit(t, s, t0, item(3, 1, v4(1), v4(2)))
	if v := s.Admit(t0, item(4, 1, v4(4))); v.Why != polite.PLDShare {
		t.Errorf("PLD: got %+v, want deferred", v)
	}
}

// TestGlutted: a host has a glut while its items in RAM and those that it was deferred for need longer than
// the time asked for, and none without a full share in RAM.
func TestGlutted(t *testing.T) {
	opt := paper()
	opt.MaxPerHost = 2
	s := polite.New(opt, t0)
	for i := range 2 {
		if s.Glutted(t0, 1, 0) {
			t.Errorf("a glut with %d of 2 items", i)
		}
		admit(t, s, t0, item(1, 1, v4(1)))
	}
	for range 5 {
		s.Admit(t0, item(1, 1, v4(1)))
	}
	wait := 7 * 40 * time.Second
	for _, test := range []struct {
		after, ahead time.Duration
		want         bool
	}{{0, wait - time.Second, true}, {0, wait, false}, {80 * time.Second, wait - 81*time.Second, true},
		// What has been deferred is due; RAM has two.
		{80 * time.Second, wait - 80*time.Second, false}, {time.Hour, 81 * time.Second, false},
		{time.Hour, 79 * time.Second, true}} {
		if got := s.Glutted(t0.Add(test.after), 1, test.ahead); got != test.want {
			t.Errorf("after %v, a glut for %v: %v, want %v", test.after, test.ahead, got, test.want)
		}
	}
	if s.Glutted(t0, 2, 0) {
		t.Error("a host without items has a glut")
	}
	if g, _ := s.Next(t0); g == nil || s.Glutted(t0, 1, 0) {
		t.Error("a glut with one of 2 items")
	}
}

// TestRobotsShare: thousands of hosts on one server get a few robots items at a time. Pages and other
// servers do not count.
func TestRobotsShare(t *testing.T) {
	opt := paper()
	opt.MaxPerServer = 1
	s := polite.New(opt, t0)
	admit(t, s, t0, item(1000, 1000, v4(1)))
	robots := func(host int, addrs ...netip.Addr) *polite.Item {
		it := item(host, host, addrs...)
		it.Robots = true
		return it
	}
	for i := range 16 {
		admit(t, s, t0, robots(i, v4(1)))
	}
	for i := range 5 {
		it := robots(100+i, v4(1))
		v := s.Admit(t0, it)
		want := t0.Add(time.Duration(17+i) * time.Second)
		if v.Kind != polite.Deferred || v.Why != polite.RobotsShare || !v.Due.Equal(want) || !it.Due.Equal(want) {
			t.Errorf("item %d: got %+v, want deferred to %v", i, v, want)
		}
	}
	admit(t, s, t0, robots(200, v4(1), v4(2)))
	g, _ := s.Next(t0) // the page
	s.Started(t0, g)
	if v := s.Admit(t0, robots(201, v4(1))); v.Kind != polite.Deferred {
		t.Errorf("after a page: got %+v, want deferred", v)
	}
	g, _ = s.Next(t0.Add(time.Second)) // host 200 through the other server
	h, _ := s.Next(t0.Add(time.Second))
	if !g.Item.Robots || !h.Item.Robots {
		t.Fatalf("granted %+v and %+v, want robots items", g.Item, h.Item)
	}
	admit(t, s, t0.Add(time.Second), robots(201, v4(1))) // one in flight does not count

	opt.ServerDelay, opt.ServerDelayMin, opt.MaxItems = ms(10), ms(10), 1000
	s = polite.New(opt, t0)
	for i := range 400 { // what can be sent in 4 s
		admit(t, s, t0, robots(i, v4(1)))
	}
	if v := s.Admit(t0, robots(400, v4(1))); v.Kind != polite.Deferred {
		t.Errorf("item 401: got %+v, want deferred", v)
	}
}

func TestEvict(t *testing.T) {
	s := polite.New(paper(), t0)
	for i := range 10 {
		admit(t, s, t0, item(1, 1, v4(1)))
		it := item(10+i, 2, v4(10+i))
		admit(t, s, t0, it)
	}
	out := s.EvictLater(t0, time.Second, 4)
	if len(out) != 4 {
		t.Fatalf("Evict: got %d items, want 4", len(out))
	}
	for i, it := range out {
		if want := t0.Add(time.Duration(9-i) * 40 * time.Second); it.Host != 1 || !it.Due.Equal(want) {
			t.Errorf("item %d: got host %d due %v, want host 1 due %v", i, it.Host, it.Due, want)
		}
	}
	if q, _ := s.Len(); q != 16 {
		t.Errorf("Len: got %d, want 16", q)
	}
	if out = s.EvictLater(t0, time.Second, 100); len(out) != 5 {
		t.Errorf("second Evict: got %d items, want the 5 that are not due", len(out))
	}
}

func TestNoDelay(t *testing.T) {
	s := polite.New(polite.Options{}, t0)
	for range 1000 {
		admit(t, s, t0, item(1, 1, v4(1)))
	}
	for i := range 1000 {
		g, w := s.Next(t0)
		if g == nil {
			t.Fatalf("item %d: wait %v, want no delay", i, w)
		}
		s.Done(t0, g, polite.Result{})
	}
}

func TestValidate(t *testing.T) {
	if err := (polite.Options{HostDelay: -1, MaxItems: -1}).Validate(); err == nil {
		t.Error("got nil, want two faults")
	}
	if err := paper().Validate(); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// TestSlowHostWithoutDelay: response times under load do not send the URLs of a host without delay to disk.
func TestSlowHostWithoutDelay(t *testing.T) {
	s := polite.New(polite.Options{MaxPerHost: 4, Ahead: time.Minute}, t0)
	now := t0
	for range 50 {
		admit(t, s, now, item(1, 1, v4(1)))
		g, _ := s.Next(now)
		now = now.Add(time.Second)
		s.Done(now, g, polite.Result{Elapsed: time.Second})
	}
	for range 20_000 {
		admit(t, s, now, item(1, 1, v4(1)))
	}
}
