package polite_test

import (
	"slices"
	"testing"
	"time"

	"drumbeat/polite"
)

// gaps returns the times between the grants of n further visits after one at the given time.
func gaps(t *testing.T, s *polite.Scheduler, at *time.Time, n int, r polite.Result) (list []time.Duration) {
	t.Helper()
	for range n {
		next := visit(t, s, at.Add(ms(10)), r)
		list = append(list, next.Sub(*at).Round(100*time.Millisecond))
		*at = next
	}
	return list
}

func wantGaps(t *testing.T, what string, got []time.Duration, want ...time.Duration) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: gaps of %v, want %v", what, got, want)
	}
}

// TestTerms: the terms of an item replace the delay of its host. Crawl-delay and back-off hold as a minimum,
// the Crawl-delay not for an owner.
func TestTerms(t *testing.T) {
	for _, test := range []struct {
		name       string
		terms      *polite.Terms
		crawlDelay time.Duration
		r          polite.Result
		want       time.Duration
	}{
		{"no terms", nil, 0, polite.Result{}, 40 * time.Second},
		{"shorter", &polite.Terms{HostDelay: 2 * time.Second, PLDDelay: -1}, 0, polite.Result{}, 2 * time.Second},
		{"longer", &polite.Terms{HostDelay: 90 * time.Second, PLDDelay: -1}, 0, polite.Result{}, 90 * time.Second},
		{"rate below the delay", &polite.Terms{HostDelay: -1, HostLeast: 50 * time.Second, PLDDelay: -1}, 0,
			polite.Result{}, 50 * time.Second},
		{"rate above it", &polite.Terms{HostDelay: -1, HostLeast: time.Second, PLDDelay: -1}, 0, polite.Result{},
			40 * time.Second},
		{"Crawl-delay", &polite.Terms{HostDelay: 2 * time.Second, PLDDelay: -1}, 20 * time.Second, polite.Result{},
			20 * time.Second},
		{"back-off", &polite.Terms{HostDelay: 2 * time.Second, PLDDelay: -1}, 0,
			polite.Result{Backoff: time.Minute}, time.Minute},
		{"owner, Crawl-delay", &polite.Terms{HostDelay: 2 * time.Second, PLDDelay: -1, Own: true}, 20 * time.Second,
			polite.Result{}, 2 * time.Second},
		{"owner, back-off", &polite.Terms{HostDelay: 2 * time.Second, PLDDelay: -1, Own: true}, 20 * time.Second,
			polite.Result{Backoff: time.Minute}, time.Minute},
		{"PLD", &polite.Terms{HostDelay: 2 * time.Second, PLDDelay: 15 * time.Second}, 0, polite.Result{},
			15 * time.Second},
	} {
		opt := paper()
		opt.UseTerms = true
		s := polite.New(opt, t0)
		for range 5 {
			it := item(1, 1, v4(1))
			it.Terms, it.CrawlDelay = test.terms, test.crawlDelay
			admit(t, s, t0, it)
		}
		at := visit(t, s, t0, test.r)
		wantGaps(t, test.name, gaps(t, s, &at, 3, test.r), test.want, test.want, test.want)
	}
}

// TestTermsOfPLD: the PLD's delay holds over its hosts.
func TestTermsOfPLD(t *testing.T) {
	opt := paper()
	opt.UseTerms = true
	s := polite.New(opt, t0)
	for host := range 4 {
		it := item(1+host, 7, v4(1+host))
		it.Terms = &polite.Terms{HostDelay: -1, PLDDelay: 5 * time.Second}
		admit(t, s, t0, it)
	}
	at := visit(t, s, t0, polite.Result{})
	wantGaps(t, "four hosts", gaps(t, s, &at, 3, polite.Result{}), 5*time.Second, 5*time.Second, 5*time.Second)
}

// TestSetTerms: new terms bind items in RAM at once, longer and shorter ones, and no longer after their end. The
// Crawl-delay and a back-off stay.
func TestSetTerms(t *testing.T) {
	s := polite.New(paper(), t0)
	for range 20 {
		admit(t, s, t0, item(1, 1, v4(1)))
	}
	set := func(at time.Time, terms *polite.Terms) {
		s.SetTerms(at, map[uint64]*polite.Terms{1: terms, 99: terms}, map[uint64]*polite.Terms{1: terms, 99: terms})
	}
	delay := func(d time.Duration) *polite.Terms { return &polite.Terms{HostDelay: d, PLDDelay: -1} }
	at := visit(t, s, t0, polite.Result{})
	set(at.Add(time.Second), delay(100*time.Second))
	wantGaps(t, "longer", gaps(t, s, &at, 1, polite.Result{}), 100*time.Second)
	set(at.Add(time.Second), delay(3*time.Second))
	wantGaps(t, "shorter", gaps(t, s, &at, 2, polite.Result{}), 3*time.Second, 3*time.Second)
	gaps(t, s, &at, 1, polite.Result{Backoff: time.Minute})
	set(at.Add(time.Second), delay(2*time.Second))
	wantGaps(t, "in back-off", gaps(t, s, &at, 1, polite.Result{CrawlDelay: 20 * time.Second}), time.Minute)
	set(at.Add(time.Second), delay(time.Second))
	wantGaps(t, "with a Crawl-delay", gaps(t, s, &at, 1, polite.Result{}), 20*time.Second)
	set(at.Add(time.Second), &polite.Terms{HostDelay: time.Second, PLDDelay: -1, Own: true})
	wantGaps(t, "own", gaps(t, s, &at, 1, polite.Result{}), time.Second)
	set(at.Add(100*time.Millisecond), nil)
	wantGaps(t, "no terms", gaps(t, s, &at, 2, polite.Result{}), 40*time.Second, 40*time.Second)
	s.SetHostDelay(1, 25*time.Second)
	set(at.Add(time.Second), delay(3*time.Second))
	wantGaps(t, "with SetHostDelay", gaps(t, s, &at, 2, polite.Result{}), 25*time.Second, 25*time.Second)
}

// connections returns a scheduler without delays of servers, and terms and items of an operator's host with n
// connections.
func connections(n int) (s *polite.Scheduler, its func(connection int) *polite.Item) {
	opt := paper()
	opt.ServerDelay, opt.PLDDelay = time.Millisecond, 0
	own := &polite.Terms{HostDelay: time.Second, PLDDelay: 0, Own: true, Connections: n}
	return polite.New(opt, t0), func(connection int) *polite.Item {
		it := item(1, 1, v4(1))
		it.Connection, it.Terms = uint8(connection), own
		return it
	}
}

// grant returns a grant at a time, or fails.
func grant(t *testing.T, s *polite.Scheduler, at time.Time) *polite.Grant {
	t.Helper()
	g, wait := s.Next(at)
	if g == nil {
		t.Fatalf("no grant at %v, but %v later", at.Sub(t0), wait)
	}
	s.Started(at, g)
	return g
}

// TestConnectionsOfLater: a back-off must hold for a connection whose first item comes later, and for all
// connections after a restart.
func TestConnectionsOfLater(t *testing.T) {
	s, its := connections(4)
	admit(t, s, t0, its(0))
	s.Done(t0, grant(t, s, t0), polite.Result{Backoff: time.Hour})
	admit(t, s, t0.Add(ms(100)), its(2))
	if g, _ := s.Next(t0.Add(59 * time.Minute)); g != nil {
		t.Error("a connection whose item came during the back-off is visited in it")
	}
	again, _ := connections(4)
	again.Restore(t0, s.Delays(t0))
	for connection := range 4 {
		admit(t, again, t0, its(connection))
		admit(t, again, t0, its(connection))
	}
	at := t0.Add(2 * time.Hour)
	again.Done(at, grant(t, again, at), polite.Result{Backoff: time.Hour})
	if g, _ := again.Next(at.Add(59 * time.Minute)); g != nil {
		t.Errorf("after a restart, connection %d is visited during a back-off", g.Item.Connection)
	}
}

// TestEvictHostOfConnections: the pages of all connections leave RAM.
func TestEvictHostOfConnections(t *testing.T) {
	s, its := connections(4)
	for i := range 8 {
		admit(t, s, t0, its(i%4))
	}
	s.Done(t0, grant(t, s, t0), polite.Result{Backoff: time.Hour})
	if out := s.EvictHost(t0.Add(ms(10)), its(0).Host, time.Minute); len(out) != 7 {
		t.Errorf("%d pages left RAM, want 7", len(out))
	}
}

// TestNewTerms: new terms must not end a back-off, even one shorter than the old delay, and hold for a host whose items
// come only after SetTerms.
func TestNewTerms(t *testing.T) {
	opt := paper()
	opt.ServerDelay, opt.PLDDelay = time.Millisecond, 0
	long, short := &polite.Terms{HostDelay: time.Minute, PLDDelay: -1},
		&polite.Terms{HostDelay: time.Second, PLDDelay: -1}
	of := func(terms *polite.Terms) *polite.Item {
		it := item(1, 1, v4(1))
		it.Terms = terms
		return it
	}
	s := polite.New(opt, t0)
	admit(t, s, t0, of(long))
	admit(t, s, t0, of(long))
	s.Done(t0, grant(t, s, t0), polite.Result{Backoff: 50 * time.Second})
	s.SetTerms(t0.Add(ms(10)), map[uint64]*polite.Terms{of(nil).Host: short}, nil)
	if g, _ := s.Next(t0.Add(49 * time.Second)); g != nil {
		t.Error("a visit during a back-off of 50 s")
	}
	s = polite.New(opt, t0)
	admit(t, s, t0, of(short))
	s.Done(t0, grant(t, s, t0), polite.Result{})
	admit(t, s, t0.Add(ms(300)), of(long))
	if g, _ := s.Next(t0.Add(59 * time.Second)); g != nil {
		t.Error("a visit before the new delay has passed")
	}
	s.Done(t0.Add(time.Minute), grant(t, s, t0.Add(time.Minute)), polite.Result{})
}

// TestConnectionsBackOff: a back-off after one connection's request must hold for all connections, also for
// one that is in flight.
func TestConnectionsBackOff(t *testing.T) {
	s := polite.New(paper(), t0)
	own := &polite.Terms{HostDelay: time.Second, PLDDelay: -1, Own: true, Connections: 3}
	for i := range 30 {
		it := item(1, 1, v4(1))
		it.Connection, it.Terms = uint8(i%3), own
		admit(t, s, t0, it)
	}
	var grants []*polite.Grant
	at := t0
	for range 2 { // the third connection waits for the server
		g, wait := s.Next(at)
		for g == nil && wait != polite.Forever {
			at = at.Add(wait)
			g, wait = s.Next(at)
		}
		if g == nil {
			t.Fatal("no second connection")
		}
		s.Started(at, g)
		grants = append(grants, g)
	}
	s.Done(at, grants[0], polite.Result{Backoff: time.Hour})
	s.Done(at.Add(ms(10)), grants[1], polite.Result{})
	if got := visit(t, s, at.Add(ms(20)), polite.Result{}).Sub(at); got < time.Hour {
		t.Errorf("another connection is visited %v after a back-off of 1h began", got)
	}
}

// TestConnections: connections of a host have a connection and a delay each; SetHostDelay and SetTerms
// concern them all, and the server's delay holds for them together.
func TestConnections(t *testing.T) {
	opt := paper()
	s := polite.New(opt, t0)
	own := &polite.Terms{HostDelay: 10 * time.Second, PLDDelay: -1, Own: true, Connections: 3}
	for i := range 30 {
		it := item(1, 1, v4(1))
		it.Connection, it.Terms = uint8(i%3), own
		admit(t, s, t0, it)
	}
	var grants []*polite.Grant
	at := t0
	for range 3 {
		g, wait := s.Next(at)
		for g == nil && wait != polite.Forever {
			at = at.Add(wait)
			g, wait = s.Next(at)
		}
		if g == nil {
			t.Fatalf("only %d connections are granted at once", len(grants))
		}
		s.Started(at, g)
		grants = append(grants, g)
	}
	if got := at.Sub(t0); got != 2*time.Second {
		t.Errorf("three connections started within %v, want the server's delay between them", got)
	}
	if g, _ := s.Next(at.Add(time.Hour)); g != nil {
		t.Errorf("a fourth connection, of connection %d", g.Item.Connection)
	}
	for _, g := range grants {
		s.Done(at, g, polite.Result{})
	}
	at = visit(t, s, at.Add(ms(10)), polite.Result{})
	wantGaps(t, "three connections", gaps(t, s, &at, 3, polite.Result{}), time.Second, time.Second, 8*time.Second)
	s.SetHostDelay(1, 100*time.Second)
	next := visit(t, s, at.Add(ms(10)), polite.Result{})
	if got := next.Sub(at); got < 290*time.Second {
		t.Errorf("after SetHostDelay a gap of %v", got)
	}
	s.SetHostDelay(1, -1)
	s.SetTerms(next.Add(ms(20)), map[uint64]*polite.Terms{1: {HostDelay: time.Hour, PLDDelay: -1}}, nil)
	if got := visit(t, s, next.Add(ms(30)), polite.Result{}).Sub(next); got < 53*time.Minute {
		t.Errorf("after SetTerms a gap of %v", got)
	}
}
