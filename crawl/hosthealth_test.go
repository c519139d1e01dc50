package crawl

import (
	"net/netip"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/fetch"
	"drumbeat/health"
	"drumbeat/robots"
	"drumbeat/weburl"
)

// TestRobotsCacheCountsAlone: what RobotsCache knows of a host's health comes from update tuples alone, is the same as in RAM, and a
// new robots.txt or address changes nothing of it.
func TestRobotsCacheCountsAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{serve: pagesOnly}
		opt := w.options(t, disk.NewMem(*seedFlag), urls("a", 1, 1)...)
		withHealth(&opt)
		r := openRing(t, opt)
		defer func() {
			if err := r.close(); err != nil {
				t.Error(err)
			}
		}()
		rec := weburl.Record{URL: []byte("http://a.test/x")}
		coded := rec.Append(nil)
		refusal := health.Event{Kind: health.Refusal, Status: 403, Place: health.RootPlace}
		var value []byte
		apply := func(it drum.Item) uint64 {
			r.roundNow.Store(time.Now().Unix())
			run := []drum.Item{it}
			next, action := r.applyRobots(1, value, value != nil, run, new(drum.Arena), nil)
			if action == drum.Set {
				value = next
			}
			return run[0].Result
		}
		outcome := func(kind byte, f robots.Fetched) {
			f.Addrs, f.AddrExpires = []netip.Addr{netip.MustParseAddr("127.0.0.1")}, time.Now().Add(1000*time.Hour)
			h := robots.Outcome(&robots.HostData{}, &f, opt.Agent, time.Now())
			apply(drum.Item{Op: drum.Update, Value: appendUpdate(nil, kind, time.Now(), &h)})
		}
		outcome(updateOutcome, robots.Fetched{Status: 404})
		for range 10 {
			got := robots.Decision(apply(drum.Item{Op: drum.Check, Value: coded}) & (1<<decisionBits - 1))
			if got != robots.Allow && got != robots.Request { // a stale robots.txt is asked for again
				t.Fatalf("before the run's end: %v", got)
			}
			apply(drum.Item{Op: drum.Update, Value: refusal.Append(appendHead(nil, updateEvent, time.Now()))})
			r.hosts.note(&r.policy, 1, nil, refusal, time.Now())
			outcome(updateOutcome, robots.Fetched{Status: 404})
			outcome(updateOutcome, robots.Fetched{Status: 503})
			outcome(updateAddrs, robots.Fetched{})
			time.Sleep(time.Minute)
		}
		var h robots.HostData
		if err := h.Decode(value); err != nil || h.Health != r.hosts.get(1, nil) {
			t.Errorf("%v: on disk %v, in RAM %v", err, h.Health, r.hosts.get(1, nil))
		}
		got := apply(drum.Item{Op: drum.Check, Value: coded})
		if robots.Decision(got&0xff) != robots.Rest || Reason(got>>decisionBits&0xff) != ReasonNotWelcome ||
			int64(got>>(decisionBits+reasonBits)) != h.Health.Until.Unix() {
			t.Errorf("result %#x, want a rest until %v", got, h.Health.Until)
		}
	})
}

// TestHostTableIsBounded: the host whose last event is oldest gives way, and what RobotsCache knows is taken up again.
func TestHostTableIsBounded(t *testing.T) {
	p := health.Defaults()
	now := time.Unix(1_800_000_000, 0).UTC()
	var table hostTable
	failure := health.Event{Kind: health.TooFast, Status: 503}
	for key := range uint64(maxTroubled + 100) {
		table.note(&p, key, nil, failure, now)
		table.note(&p, 0, nil, failure, now) // 0 stays the newest
	}
	if n := len(table.hosts); n != maxTroubled {
		t.Errorf("%d hosts, want %d", n, maxTroubled)
	}
	if s := table.get(0, nil); s.Failures == 0 {
		t.Error("the newest host was forgotten")
	}
	if s := table.get(1, nil); !s.Clean() {
		t.Errorf("the oldest host is known: %v", s)
	}
	onDisk := health.State{Failures: 9, Last: health.TooFast, At: now}
	if table.note(&p, 1, &onDisk, failure, now.Add(time.Minute)); table.get(1, nil).Failures != 10 {
		t.Errorf("%v, want 10 failures", table.get(1, nil))
	}
	if _, tell := table.note(&p, 5_000_000, nil, health.Event{Kind: health.Page}, now); tell || len(table.hosts) != maxTroubled {
		t.Error("a page of a host that is well was noted")
	}
	// A success of a host that isn't well is told; it stays in the table as one that is well, with what was later than disk.
	ill := health.State{Failures: 1, Level: 1, Last: health.TooFast, At: now}
	if _, tell := table.note(&p, 6_000_000, &ill, health.Event{Kind: health.Page}, now.Add(time.Second)); !tell {
		t.Error("a success of a host that isn't well was not noted")
	}
	if s := table.get(6_000_000, &ill); !s.Clean() {
		t.Errorf("an older state from disk counts: %v", s)
	}
}

// BenchmarkHealthyHost: what a page of a host that is well costs, beside thousands that aren't.
func BenchmarkHealthyHost(b *testing.B) {
	p := health.Defaults()
	var table hostTable
	for key := range uint64(10_000) {
		table.note(&p, key, nil, health.Event{Kind: health.TooFast}, time.Unix(1_800_000_000, 0))
	}
	rec := weburl.Record{URL: []byte("http://a.test/x")}
	resp := &fetch.Response{Status: 200, Body: make([]byte, 10_000)}
	var well health.State
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		table.get(1<<40+i, &well) // admission
		table.get(1<<40+i, nil)   // grant
		table.note(&p, 1<<40+i, &well, eventOf(&rec, resp), time.Time{})
	}
}
