package polite_test

import (
	"bytes"
	"encoding/hex"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"drumbeat/polite"
)

// restart returns a scheduler after an unclean stop at now, with the stored delays of the old one.
func restart(t *testing.T, s *polite.Scheduler, now time.Time, opt polite.Options) *polite.Scheduler {
	t.Helper()
	var ds []polite.Delay
	for _, d := range s.Delays(now) {
		var e polite.Delay
		if err := e.Decode(d.Append(nil)); err != nil {
			t.Fatal(err)
		}
		ds = append(ds, e)
	}
	opt.Visited = now
	s = polite.New(opt, now)
	s.Restore(now, ds)
	return s
}

// done fetches the next item at now.
func done(t *testing.T, s *polite.Scheduler, now time.Time, r polite.Result) {
	t.Helper()
	g, w := s.Next(now)
	if g == nil {
		t.Fatalf("Next: got nothing for %v, want a grant", w)
	}
	s.Started(now, g)
	s.Done(now, g, r)
}

func TestDelaysRestored(t *testing.T) {
	slow := item(3, 3, v4(3))
	slow.CrawlDelay = 100 * time.Second
	for _, c := range []struct {
		name   string
		item   *polite.Item
		result polite.Result
		n      int           // delays
		want   time.Duration // wait of the host's next item after a restart 50 s later
	}{
		{"plain", item(1, 1, v4(1)), polite.Result{}, 0, 40 * time.Second},
		{"back-off", item(2, 2, v4(2)), polite.Result{Backoff: time.Hour}, 1, time.Hour - 50*time.Second},
		{"back-off that is over sooner", item(2, 2, v4(2)), polite.Result{Backoff: time.Minute}, 1, 40 * time.Second},
		{"crawl delay", slow, polite.Result{}, 1, 50 * time.Second},
		{"server", item(4, 4, v4(4)), polite.Result{ServerBackoff: time.Hour}, 1, time.Hour - 50*time.Second},
		{"IPv6", item(5, 5, netip.MustParseAddr("2001:db8::5")), polite.Result{ServerBackoff: time.Hour}, 1,
			time.Hour - 50*time.Second},
		{"both", item(6, 6, v4(6)), polite.Result{Backoff: 2 * time.Hour, ServerBackoff: time.Hour}, 2,
			2*time.Hour - 50*time.Second},
		{"beyond MaxDefer", item(7, 7, v4(7)), polite.Result{Backoff: 1e4 * time.Hour}, 1, 59 * 24 * time.Hour},
	} {
		s := polite.New(paper(), t0)
		admit(t, s, t0, c.item)
		done(t, s, t0, c.result)
		now := t0.Add(50 * time.Second)
		if got := s.Delays(now); len(got) != c.n {
			t.Errorf("%s: got delays %v, want %d", c.name, got, c.n)
		}
		s = restart(t, s, now, paper())
		again := *c.item
		again.CrawlDelay = 0
		admit(t, s, now, &again)
		if got := visit(t, s, now, polite.Result{}).Sub(now); got != c.want {
			t.Errorf("%s: granted after %v, want %v", c.name, got, c.want)
		}
	}
}

// TestRecent: a Scheduler that knows what is in its delay keeps these delays, plain ones, too, and visits others at
// once, except those that it is told to count as visited.
func TestRecent(t *testing.T) {
	s := polite.New(paper(), t0)
	for k := range 3 {
		admit(t, s, t0, item(k+1, k+1, v4(k+1)))
	}
	done(t, s, t0, polite.Result{})
	done(t, s, t0, polite.Result{Backoff: time.Hour})
	g, _ := s.Next(t0) // its exchange is still in progress
	s.Started(t0, g)
	now := t0.Add(10 * time.Second)
	opt := paper()
	opt.Visited, opt.Recent = now, s.InDelay(now)
	opt.Others, opt.OthersAt = func(pld uint64) bool { return pld == 5 }, now.Add(-3*time.Second)
	for _, known := range []bool{true, false} {
		if !known {
			opt.MaxHosts = 2
		}
		s := polite.New(opt, now)
		waits := map[time.Duration]int{}
		for k := range 5 {
			one := polite.New(opt, now)
			admit(t, one, now, item(k+1, k+1, v4(k+1)))
			waits[visit(t, one, now, polite.Result{}).Sub(now)]++
			if turn := s.Turn(now, uint64(k+1), uint64(k+1), 0, nil); k == 3 && (turn.Wait == 0) != known {
				t.Errorf("the turn of a host that was not visited: %+v", turn)
			}
		}
		want := map[time.Duration]int{30 * time.Second: 1, time.Hour - 10*time.Second: 1, 40 * time.Second: 1,
			37 * time.Second: 1,
			0:                1}
		if !known {
			want = map[time.Duration]int{40 * time.Second: 5}
		}
		if !maps.Equal(waits, want) {
			t.Errorf("waits %v, want %v", waits, want)
		}
	}
}

// TestRecentPlaces: servers, networks and PLDs in their delay are known, too: a Scheduler waits for the rest of it.
func TestRecentPlaces(t *testing.T) {
	opt := polite.Options{ServerDelay: 4 * time.Second, ServerDelayMin: 4 * time.Second, PLDDelay: 7 * time.Second,
		PLDDelayMin: 7 * time.Second, NetworkRate: 2, Leased: true}
	s := polite.New(opt, t0)
	s.Hold(t0, v4(1), polite.Holding{})
	now := t0.Add(time.Hour)
	admit(t, s, now, item(1, 1, v4(1)))
	visit(t, s, now, polite.Result{})
	again := opt
	again.Visited, again.Recent = now.Add(time.Second), s.InDelay(now.Add(time.Second))
	for name, test := range map[string]struct {
		it   *polite.Item
		own  bool
		want time.Duration
	}{
		"its server":             {item(2, 2, v4(1)), true, 3 * time.Second},
		"its PLD":                {item(2, 1, v4(2)), true, 6 * time.Second},
		"another server and PLD": {item(2, 2, v4(2)), true, 0},
		"another holder":         {item(2, 2, v4(2)), false, 4 * time.Second},
	} {
		now := again.Visited
		s := polite.New(again, now)
		s.Hold(now, v4(1), polite.Holding{Own: test.own})
		admit(t, s, now, test.it)
		if wait := visit(t, s, now, polite.Result{}).Sub(now); wait != test.want {
			t.Errorf("%s: visited after %v, want %v", name, wait, test.want)
		}
	}
}

// TestRecentUnknown: a Scheduler that follows one which had just begun, and knew nothing of the one before, waits for
// servers as that one would have.
func TestRecentUnknown(t *testing.T) {
	opt := polite.Options{ServerDelay: 4 * time.Second, ServerDelayMin: 4 * time.Second, NetworkRate: 2}
	for range 3 { // the first knows nothing of visits before t0
		opt.Visited = t0
		if opt.Recent != nil {
			opt.Visited = t0.Add(time.Second)
		}
		s, now := polite.New(opt, opt.Visited), t0.Add(time.Second)
		opt.Recent = s.InDelay(now)
		admit(t, s, now, item(1, 1, v4(1)))
		if wait := visit(t, s, now, polite.Result{}).Sub(now); wait != 3*time.Second {
			t.Errorf("visited after %v", wait)
		}
	}
}

// TestRestoredTwice: delays survive two restarts, even of hosts and servers without items, and are dropped
// when over.
func TestRestoredTwice(t *testing.T) {
	s := polite.New(paper(), t0)
	admit(t, s, t0, item(1, 1, v4(1)))
	done(t, s, t0, polite.Result{Backoff: time.Hour, ServerBackoff: time.Hour})
	s = restart(t, s, t0, paper())
	s = restart(t, s, t0.Add(10*time.Minute), paper())
	now := t0.Add(20 * time.Minute)
	if ds := s.Delays(now); len(ds) != 2 || !ds[0].Until.Equal(t0.Add(time.Hour)) || !ds[1].Until.Equal(ds[0].Until) {
		t.Fatalf("Delays: got %v, want a host and a server until %v", ds, t0.Add(time.Hour))
	}
	if _, w := s.Next(now); w != 40*time.Minute {
		t.Errorf("wait: got %v, want 40m, the time to forget them", w)
	}
	now = t0.Add(time.Hour)
	s.Next(now)
	if h, v := s.Tables(); h+v+len(s.Delays(now)) != 0 {
		t.Errorf("Tables: got %d hosts, %d servers, want none", h, v)
	}
}

// TestRestoreOfQueued: a restored delay also applies to hosts and servers that already have items, busy or
// in line.
func TestRestoreOfQueued(t *testing.T) {
	s := polite.New(paper(), t0)
	for i := range 3 {
		admit(t, s, t0, item(1+i, 1, v4(1)))
		admit(t, s, t0, item(1+i, 1, v4(1)))
	}
	g, _ := s.Next(t0) // host 1; the others are in line
	s.Started(t0, g)
	s.Restore(t0, []polite.Delay{{Host: 1, Until: t0.Add(time.Hour)}, {Host: 2, Until: t0.Add(time.Minute)},
		{Server: v4(1), Until: t0.Add(10 * time.Second)}})
	if n := len(s.Delays(t0)); n != 3 {
		t.Errorf("Delays: got %d, want 3", n)
	}
	s.Done(t0, g, polite.Result{})
	var got []time.Duration
	for now := t0; len(got) < 5; {
		g, w := s.Next(now)
		if g == nil {
			now = now.Add(w)
			continue
		}
		got = append(got, now.Sub(t0).Round(time.Second))
		s.Started(now, g)
		s.Done(now, g, polite.Result{})
	}
	want := []time.Duration{10 * time.Second, 50 * time.Second, time.Minute, 100 * time.Second, time.Hour}
	if !slices.Equal(got, want) {
		t.Errorf("grants: got %v, want %v", got, want)
	}
}

func TestRestoreBound(t *testing.T) {
	opt := paper()
	opt.MaxHosts = 10
	s := polite.New(opt, t0)
	var ds []polite.Delay
	for i := range 100 {
		until := t0.Add(time.Duration(1+i*37%100) * time.Minute)
		ds = append(ds, polite.Delay{Host: uint64(i), Until: until}, polite.Delay{Server: v4(i), Until: until})
	}
	s.Restore(t0, append(ds, polite.Delay{Host: 1000, Until: t0.Add(-time.Hour)}))
	if h, v := s.Tables(); h != 10 || v != 13 {
		t.Errorf("Tables: got %d, %d, want 10, 13", h, v)
	}
	for _, d := range s.Delays(t0) {
		if d.Until.Before(t0.Add(88 * time.Minute)) {
			t.Errorf("kept one until %v, want the latest", d.Until)
		}
	}
}

// TestDelaysByWallClock: Until is a wall-clock time, because the monotonic reading means nothing to the next
// run.
func TestDelaysByWallClock(t *testing.T) {
	start := time.Now()
	s := polite.New(paper(), start)
	admit(t, s, start, item(1, 1, v4(1)))
	g, _ := s.Next(start)
	s.Done(start, g, polite.Result{Backoff: time.Hour})
	ds := s.Delays(start.Add(10 * time.Minute))
	if len(ds) != 1 || !ds[0].Until.Equal(start.Round(0).Add(time.Hour)) {
		t.Fatalf("Delays: got %v, want one until %v", ds, start.Add(time.Hour))
	}
	if got := ds[0].Until; got != got.Round(0) {
		t.Errorf("Until: got %v, want no monotonic reading", got)
	}
}

func TestDelayCoding(t *testing.T) {
	until := time.Unix(1_700_000_000, 123_000_001) // 1,700,000,000,124 ms rounded up
	for _, c := range []struct {
		delay polite.Delay
		want  string
	}{
		{polite.Delay{Host: 0x0102030405060708, Until: until}, "0100" + "7c68e5cf8b010000" + "0807060504030201"},
		{polite.Delay{Server: netip.MustParseAddr("192.0.2.1"), Until: until},
			"0101" + "7c68e5cf8b010000" + "c000020100000000"},
		{polite.Delay{Server: netip.MustParseAddr("::ffff:192.0.2.1"), Until: until},
			"0101" + "7c68e5cf8b010000" + "c000020100000000"},
		{polite.Delay{Server: netip.MustParseAddr("2001:db8:1:2::3"), Until: until},
			"0102" + "7c68e5cf8b010000" + "20010db800010002"},
	} {
		got := c.delay.Append([]byte("x"))[1:]
		if hex.EncodeToString(got) != c.want {
			t.Errorf("%v: got %x, want %s", c.delay, got, c.want)
		}
		var d polite.Delay
		if err := d.Decode(got); err != nil || !bytes.Equal(d.Append(nil), got) {
			t.Errorf("%v: decoded %v, %v", c.delay, d, err)
		}
	}
}

func FuzzDelayDecode(f *testing.F) {
	for kind := range byte(4) {
		f.Add(append([]byte{1, kind}, make([]byte, 16)...))
	}
	f.Add(append([]byte{2, 0}, make([]byte, 16)...))
	f.Add(append([]byte{1, 1}, bytes.Repeat([]byte{255}, 16)...))
	f.Add(append([]byte{1, 2}, bytes.Repeat([]byte{255}, 16)...))
	f.Add([]byte(nil))
	f.Add(make([]byte, 19))
	f.Fuzz(func(t *testing.T, b []byte) {
		var d polite.Delay
		err := d.Decode(b)
		if err != nil {
			if d != (polite.Delay{}) {
				t.Errorf("changed to %v by a coding with error %v", d, err)
			}
			return
		}
		if got := d.Append(nil); !bytes.Equal(got, b) {
			t.Errorf("coded again: got %x, want %x", got, b)
		}
	})
}
