package polite_test

import (
	"container/heap"
	"net/netip"
	"testing"
	"time"

	"drumbeat/polite"
)

// gated returns the usual limits, with short host delays so that other limits decide.
func gated() polite.Options {
	return polite.Options{HostDelay: ms(2500), ServerDelay: time.Second, ServerDelayMin: time.Second, PLDDelay: ms(500),
		PLDDelayMin: ms(20), NetworkRate: 10, NetworkConnections: 20, MaxPerPLD: polite.Unlimited,
		MaxPerServer: polite.Unlimited}
}

// run grants all items until a time. Each request starts setup after its grant and ends after took(item).
// seen is called at each start.
func run(s *polite.Scheduler, from, until time.Time, setup time.Duration, took func(g *polite.Grant) time.Duration,
	seen func(g *polite.Grant, at time.Time)) {
	var next events
	for now := from; ; {
		g, wait := s.Next(now)
		if g != nil {
			heap.Push(&next, event{at: now.Add(setup), g: g})
			continue
		}
		if wait == polite.Forever && len(next) == 0 {
			return
		}
		at := now.Add(min(wait, time.Hour))
		if len(next) > 0 && next[0].at.Before(at) {
			at = next[0].at
		}
		if at.After(until) {
			return
		}
		now = at
		for len(next) > 0 && !next[0].at.After(now) {
			e := heap.Pop(&next).(event)
			if e.done {
				s.Done(now, e.g, polite.Result{})
				continue
			}
			s.Started(now, e.g)
			seen(e.g, now)
			heap.Push(&next, event{at: now.Add(took(e.g)), g: e.g, done: true})
		}
	}
}

func always(d time.Duration) func(*polite.Grant) time.Duration {
	return func(*polite.Grant) time.Duration { return d }
}

// TestPLDKeepsItsPace: a PLD of 500 hosts on 50 servers is visited as often as its delay allows, and each
// server's other host, of another PLD, as often as if it were alone, even if 400 of the 500 hosts are on a
// server in back-off.
func TestPLDKeepsItsPace(t *testing.T) {
	for _, resting := range []int{0, 400} {
		opt := gated()
		// A server is always free when the PLD is.
		opt.ServerDelay, opt.ServerDelayMin = ms(200), ms(200)
		s := polite.New(opt, t0)
		if resting > 0 {
			admit(t, s, t0, item(9999, 9999, v4(1<<16)))
			g, _ := s.Next(t0)
			s.Started(t0, g)
			s.Done(t0, g, polite.Result{ServerBackoff: time.Hour})
		}
		for i := range 500 {
			at := 256 * (i % 50)
			if i < resting {
				at = 1 << 16
			}
			for range 3 {
				admit(t, s, t0, item(i, 1, v4(at)))
			}
		}
		for i := range 50 {
			for range 20 {
				admit(t, s, t0, item(1000+i, 1000+i, v4(256*i)))
			}
		}
		n, others := 0, 0
		run(s, t0, t0.Add(60*time.Second), ms(100), always(ms(200)), func(g *polite.Grant, at time.Time) {
			if g.Item.PLD == 1 {
				n++
			} else {
				others++
			}
		})
		if want := 100; n < want*97/100 || n > want+1 {
			t.Errorf("%d hosts at a server that rests: %d requests in 60 s to a PLD, want %d: 500 ms apart and 100 "+
				"ms to connect", resting, n, want)
		}
		if others != 50*20 {
			t.Errorf("%d hosts at a server that rests: %d requests to others in 60 s, want all 1000", resting, others)
		}
	}
}

// TestPLDShare: a Scheduler that visits a quarter of a PLD's hosts keeps four times its delay; other PLDs keep theirs.
func TestPLDShare(t *testing.T) {
	opt := gated()
	opt.PLDShare = func(pld uint64) float64 {
		if pld == 1 {
			return 0.25
		}
		return 1
	}
	s := polite.New(opt, t0)
	for i := range 400 {
		admit(t, s, t0, item(i, 1+i%2, v4(256*i)))
	}
	visits := map[uint64]int{}
	run(s, t0, t0.Add(60*time.Second-1), 0, always(0), func(g *polite.Grant, _ time.Time) { visits[g.Item.PLD]++ })
	if visits[1] != 30 || visits[2] != 120 {
		t.Errorf("requests in 60 s by PLD: %v, want 30 and 120", visits)
	}
}

// TestNetworkRate: networks are /24 and /48. Servers of one network share its rate; others do not.
func TestNetworkRate(t *testing.T) {
	for _, c := range []struct {
		name string
		addr func(i int) netip.Addr
		want int // requests in ten seconds
	}{
		{"one /24", func(i int) netip.Addr { return v4(i) }, 100},
		{"two /24", func(i int) netip.Addr { return v4(i % 2 * 256 * 7).Next() }, 20},
		{"four /24", func(i int) netip.Addr { return v4(i%4*256 + i) }, 400},
		{"one /48", func(i int) netip.Addr { return six(0, i) }, 100},
		{"one /64", func(i int) netip.Addr { return netip.AddrFrom16([16]byte{0x20, 1, 15: byte(i)}) }, 10},
		{"a /48 each", func(i int) netip.Addr { return six(i, 0) }, 200 * 4},
	} {
		opt := gated()
		opt.PLDDelay = 0
		s := polite.New(opt, t0)
		for i := range 200 {
			for range 10 {
				admit(t, s, t0, item(i, i, c.addr(i)))
			}
		}
		n := 0
		run(s, t0, t0.Add(10*time.Second-1), 0, always(0), func(*polite.Grant, time.Time) { n++ })
		if n != c.want {
			t.Errorf("%s: %d requests in 10 s, want %d", c.name, n, c.want)
		}
	}
}

// six returns an address in the i-th /48 and its j-th /64.
func six(i, j int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, byte(i >> 8), byte(i), byte(j >> 8), byte(j), 15: 1})
}

// TestSlowServersOfANetwork: servers whose exchanges do not end leave connections of their network to
// others: one server half of them, two a third.
func TestSlowServersOfANetwork(t *testing.T) {
	for bad, most := range []int{0, 10, 13} {
		opt := gated()
		opt.PLDDelay, opt.NetworkRate = 0, 1000
		s := polite.New(opt, t0)
		for v := range bad {
			for i := range 100 {
				admit(t, s, t0, item(100*v+i, 100*v+i, v4(1+v)))
			}
		}
		for i := range 30 {
			admit(t, s, t0, item(1000+i, 1000+i, v4(200)))
		}
		stuck, good := 0, 0
		run(s, t0, t0.Add(30*time.Second), 0, func(g *polite.Grant) time.Duration {
			if g.Addr == v4(200) {
				return ms(100)
			}
			return 24 * time.Hour
		}, func(g *polite.Grant, _ time.Time) {
			if g.Addr == v4(200) {
				good++
			} else {
				stuck++
			}
		})
		if stuck > most+1 || stuck < most {
			t.Errorf("%d bad servers have %d connections, want about %d", bad, stuck, most)
		}
		if good != 30 {
			t.Errorf("with %d bad servers: %d of 30 requests to the good one in 30 s", bad, good)
		}
	}
}

// TestDropOpensTheGates: a dropped grant does not count at the PLD or the network.
func TestDropOpensTheGates(t *testing.T) {
	opt := gated()
	opt.NetworkRate, opt.NetworkConnections = 1, 1
	s := polite.New(opt, t0)
	for i := range 2 {
		admit(t, s, t0, item(i, 1, v4(i)))
	}
	g, _ := s.Next(t0)
	if h, _ := s.Next(t0); h != nil {
		t.Fatal("two grants at once for one PLD and network")
	}
	s.Drop(t0, g)
	if g, w := s.Next(t0); g == nil {
		t.Errorf("nothing for %v after a Drop, want the other host at once", w)
	}
}

// TestGateShares: a PLD or network has in RAM what can be sent to it in Options.Ahead. Other items are
// deferred, each to its own time, as far apart as requests. Robots items have a separate share.
func TestGateShares(t *testing.T) {
	for _, c := range []struct {
		name   string
		why    polite.Reason
		apart  time.Duration
		item   func(i int) *polite.Item
		change func(o *polite.Options)
	}{
		{"PLD", polite.PLDShare, ms(500), func(i int) *polite.Item { return item(i, 1, v4(256*i)) },
			func(o *polite.Options) { o.NetworkRate = 0 }},
		{"network", polite.NetworkShare, ms(100), func(i int) *polite.Item { return item(i, i, v4(i%200)) },
			func(o *polite.Options) { o.PLDDelay = 0 }},
	} {
		opt := gated()
		opt.MaxPerPLD, opt.MaxPerServer, opt.Ahead = 0, 0, time.Minute
		c.change(&opt)
		s := polite.New(opt, t0)
		admitted, want := 0, int(time.Minute/c.apart)
		due := t0
		for i := range 2000 {
			v := s.Admit(t0, c.item(i))
			switch {
			case v.Kind == polite.Admitted:
				admitted++
			case v.Kind != polite.Deferred || v.Why != c.why:
				t.Fatalf("%s: item %d: %+v, want deferred by %v", c.name, i, v, c.why)
			case v.Due.Sub(due) < c.apart:
				t.Fatalf("%s: item %d: due %v after the one before, want %v", c.name, i, v.Due.Sub(due), c.apart)
			default:
				due = v.Due
			}
		}
		if admitted != want {
			t.Errorf("%s: %d items in RAM, want %d: those of a minute", c.name, admitted, want)
		}
		it := c.item(3000)
		it.Robots = true
		if v := s.Admit(t0, it); v.Kind != polite.Admitted {
			t.Errorf("%s: a robots item is refused for pages: %+v", c.name, v)
		}
	}
}

// TestPLDTableBound: the table of PLDs is bounded. A visited PLD is kept for its delay, and others wait
// meanwhile.
func TestPLDTableBound(t *testing.T) {
	opt := gated()
	opt.HostDelay, opt.ServerDelay, opt.ServerDelayMin, opt.PLDDelay, opt.MaxHosts = 0, 0, 0, time.Minute, 10
	s := polite.New(opt, t0)
	for i := range 10 {
		admit(t, s, t0, item(i, i, v4(1)))
		done(t, s, t0.Add(time.Duration(i)*100*time.Millisecond), polite.Result{})
	}
	now := t0.Add(10 * time.Second)
	if v := s.Admit(now, item(10, 10, v4(1))); v.Kind != polite.Full {
		t.Fatalf("with 10 PLDs in their delay: %+v, want Full", v)
	}
	if p, _ := s.Gates(); p != 10 {
		t.Errorf("%d PLDs, want 10", p)
	}
	admit(t, s, t0.Add(62*time.Second), item(10, 10, v4(1)))
	s.Next(t0.Add(3 * time.Minute))
	if v := s.Admit(t0.Add(3*time.Minute), item(5, 5, v4(1))); v.Kind != polite.Admitted {
		t.Errorf("after the delay: %+v, want Admitted", v)
	}
}

// TestGateOptions: invalid options are rejected.
func TestGateOptions(t *testing.T) {
	for _, o := range []polite.Options{{PLDDelay: -1}, {PLDDelayMin: -1}, {NetworkRate: -1}, {NetworkRate: 1e-9},
		{NetworkRate: 1e9}, {NetworkConnections: -1}, {ResponseFactor: -1}} {
		if o.Validate() == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	if err := gated().Validate(); err != nil {
		t.Error(err)
	}
}
