package limits_test

import (
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/limits"
	"drumbeat/crawl/options"
	"drumbeat/crawl/testworld"
	"drumbeat/internal/pace"
	"drumbeat/state/changes"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// schedule parses a schedule, in UTC as the clock of a bubble.
func schedule(t *testing.T, text string, unit pace.Unit) pace.Schedule {
	t.Helper()
	s, err := pace.Parse(text, unit)
	must(t, err)
	return s.In(time.UTC)
}

// open returns limits of 10 connections in force, after change.
func open(t *testing.T, change func(o *limits.Options)) (l *limits.Limits, changed *int) {
	changed = new(int)
	o := limits.Options{Network: &options.Network{Connections: 10}, TimeZone: time.UTC, Control: true,
		Changed: func() { *changed++ }}
	change(&o)
	l = limits.New(o)
	l.Open()
	return l, changed
}

// sent sends as many requests as the limits allow within d, each while one connection is taken.
func sent(l *limits.Limits, d time.Duration) (n int) {
	for end := time.Now().Add(d); n < 100_000; {
		now := time.Now()
		if !now.Before(end) {
			break
		}
		if wait := l.Wait(now, 1); wait > 0 {
			time.Sleep(min(wait, end.Sub(now)))
			continue
		}
		l.Take(now, pace.Page)
		n++
	}
	return n
}

// TestRate: requests come at the rate in force: that of the schedule, from the minute on in which it changes,
// and that of the operator, who gives it back by "". One that was not sent counts for nothing.
func TestRate(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) { // begins at midnight
		l, changed := open(t, func(o *limits.Options) {
			o.Network.Rate = schedule(t, "00:00-00:01 20; else 5", pace.Pages)
		})
		near := func(what string, n, want int) {
			t.Helper()
			if n < want*95/100 || n > want+2 {
				t.Errorf("%s: %d requests, want %d", what, n, want)
			}
		}
		near("the first minute", sent(l, time.Minute), 1200)
		near("the second minute", sent(l, time.Minute), 300)
		if l.HeldBy(time.Now()) != "rate limit" || !strings.Contains(l.Text(time.Now()), "until 00:00") {
			t.Errorf("held by %q; %s", l.HeldBy(time.Now()), l.Text(time.Now()))
		}
		must(t, l.Use(&changes.Settings{Rate: "2"}))
		near("of the operator", sent(l, time.Minute), 120)
		for range 100 { // a slow network sends none of them
			now := time.Now()
			l.Take(now, pace.Page)
			l.Give(now, pace.Page)
		}
		near("after requests that were not sent", sent(l, time.Minute), 120)
		must(t, l.Use(&changes.Settings{}))
		near("the flag's again", sent(l, time.Minute), 300)
		if *changed != 2 {
			t.Errorf("the dispatcher was told %d times", *changed)
		}
		time.Sleep(2 * time.Second)
		if why := l.HeldBy(time.Now()); why != "" {
			t.Errorf("nothing waits, but %q holds requests back", why)
		}
	})
}

// TestConnections: one more request than the schedule allows waits, also one of a higher limit than there are
// slots.
func TestConnections(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		l, _ := open(t, func(o *limits.Options) {
			const text = "00:00-00:01 3; 00:01-00:02 40; else 5"
			o.Network.ConnectionSchedule = schedule(t, text, pace.Connections)
		})
		for minute, want := range []int{3, 10, 5} {
			now := time.Now()
			if n := l.Allowed(now); n != want || l.Wait(now, want) != 0 {
				t.Errorf("minute %d: %d connections are allowed, want %d", minute, n, want)
			}
			wait := l.Wait(now, want+1)
			if wait <= 0 || wait > time.Second || l.HeldBy(now) != "connection limit" {
				t.Errorf("minute %d: one more waits for %v, by %q", minute, wait, l.HeldBy(now))
			}
			time.Sleep(time.Minute)
		}
	})
}

// TestBandwidth: no request begins while those before it have taken the bandwidth. Without a limiter the
// operator cannot set one.
func TestBandwidth(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		b := pace.NewBandwidth(schedule(t, "80kbit", pace.Bits), time.Now())
		l, _ := open(t, func(o *limits.Options) { o.Network.Bandwidth = b })
		if n := sent(l, time.Minute); n == 0 || n > 60 || l.HeldBy(time.Now()) != "bandwidth limit" {
			t.Errorf("%d requests for pages of unknown size at 10 kB/s, by %q", n, l.HeldBy(time.Now()))
		}
		must(t, l.Use(&changes.Settings{Bandwidth: "8Mbit"}))
		if _, now, _ := l.InForce(); !strings.Contains(now, "8") || l.FlagBandwidth().String() == now {
			t.Errorf("in force: %s; of the options: %s", now, l.FlagBandwidth())
		}
		l, _ = open(t, func(*limits.Options) {})
		if s := (&changes.Settings{Bandwidth: "1Mbit"}); l.Check(s) == nil || l.Use(s) == nil {
			t.Error("a limit of bandwidth without a limiter")
		}
	})
}

// TestShares: a node of a cluster keeps to its share of all rates, also of those that the operator sets, and
// gives the limiter of the bandwidth back as it was.
func TestShares(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		b := pace.NewBandwidth(schedule(t, "800Mbit", pace.Bits), time.Now())
		before := b.Schedule().String()
		l, _ := open(t, func(o *limits.Options) {
			o.Network.Rate, o.Network.Bandwidth = schedule(t, "20", pace.Pages), b
			o.Share = func(all pace.Schedule) pace.Schedule { return all.Times(0.25) }
		})
		if n := sent(l, time.Minute); n < 280 || n > 302 || b.Schedule().String() == before {
			t.Errorf("%d requests, want 300; bandwidth %s", n, b.Schedule())
		}
		must(t, l.Use(&changes.Settings{Rate: "4"}))
		if n := sent(l, time.Minute); n < 55 || n > 62 {
			t.Errorf("%d requests of the operator's rate, want 60", n)
		}
		l.Close()
		if got := b.Schedule().String(); got != before {
			t.Errorf("the limiter has %s, had %s", got, before)
		}
	})
}

// TestBadLimits: settings with a fault are refused, and change nothing.
func TestBadLimits(t *testing.T) {
	l, changed := open(t, func(*limits.Options) {})
	for _, s := range []changes.Settings{{Rate: "fast"}, {Bandwidth: "1"}, {Connections: "-1"},
		{Rate: "2", Connections: "many"}} {
		if l.Check(&s) == nil || l.Use(&s) == nil {
			t.Errorf("%+v was accepted", s)
		}
	}
	if rate, _, connections := l.InForce(); rate != "none" || connections != "none" || *changed != 0 {
		t.Errorf("in force: rate %s, connections %s; %d changes", rate, connections, *changed)
	}
}
