package gate

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/crawl/options"
	"drumbeat/drum"
	"drumbeat/fetch"
	"drumbeat/internal/health"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// TestRobotsCacheCountsAlone: the health of a host in RobotsCache must follow from update tuples only,
// equal the health in RAM, and not change with a new robots.txt or address.
func TestRobotsCacheCountsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newGate(options.Health{HostFailures: 10, HostRests: 5, HostRefusals: 10})
		k, table := q.check, &q.health.table
		rec := weburl.Record{URL: []byte("http://a.test/x")}
		coded := rec.Append(nil)
		refusal := health.Event{Kind: health.Refusal, Status: 403, Place: health.RootPlace}
		var value []byte
		apply := func(it drum.Item) uint64 {
			k.roundNow.Store(time.Now().Unix())
			run := []drum.Item{it}
			next, action := k.applyRobots(1, value, value != nil, run, new(drum.Arena), nil)
			if action == drum.Set {
				value = next
			}
			return run[0].Result
		}
		outcome := func(kind byte, f robots.Fetched) {
			f.Addrs, f.AddrExpires = []netip.Addr{netip.MustParseAddr("127.0.0.1")}, time.Now().Add(1000*time.Hour)
			h := robots.Outcome(&robots.HostData{}, &f, q.opt.Agent, time.Now())
			apply(drum.Item{Op: drum.Update, Value: robots.AppendUpdate(nil, kind, time.Now(), &h)})
		}
		outcome(robots.UpdateOutcome, robots.Fetched{Status: 404})
		for range 10 {
			got := verdict(apply(drum.Item{Op: drum.Check, Value: coded})).decision()
			if got != robots.Allow && got != robots.Request { // a stale robots.txt is requested again
				t.Fatalf("during the run of refusals: %v", got)
			}
			apply(drum.Item{Op: drum.Update,
				Value: refusal.Append(robots.AppendUpdateHead(nil, robots.UpdateEvent, time.Now()))})
			table.Note(q.opt.Policy, 1, nil, refusal, time.Now())
			outcome(robots.UpdateOutcome, robots.Fetched{Status: 404})
			outcome(robots.UpdateOutcome, robots.Fetched{Status: 503})
			outcome(robots.UpdateAddrs, robots.Fetched{})
			time.Sleep(time.Minute)
		}
		var h robots.HostData
		if err := h.Decode(value); err != nil || h.Health != table.Get(1, nil, time.Now()) {
			t.Errorf("%v: on disk %v, in RAM %v", err, h.Health, table.Get(1, nil, time.Now()))
		}
		got := apply(drum.Item{Op: drum.Check, Value: coded})
		if v := verdict(got); v.decision() != robots.Backoff || v.reason() != state.ReasonNotWelcome ||
			!v.until().Equal(h.Health.Until) {
			t.Errorf("result %#x, want a back-off until %v", got, h.Health.Until)
		}
	})
}

// BenchmarkHealthyHost measures the cost of a page of a healthy host, beside thousands of unhealthy ones.
func BenchmarkHealthyHost(b *testing.B) {
	p := health.Defaults()
	var table health.Table
	for key := range uint64(10_000) {
		table.Note(&p, key, nil, health.Event{Kind: health.TooFast}, time.Unix(1_800_000_000, 0))
	}
	rec := weburl.Record{URL: []byte("http://a.test/x")}
	resp := &fetch.Response{Status: 200, Body: make([]byte, 10_000)}
	var well health.State
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		table.Get(1<<40+i, &well, time.Now()) // admission
		table.Get(1<<40+i, nil, time.Now())   // grant
		table.Note(&p, 1<<40+i, &well, EventOf(&rec, resp), time.Time{})
	}
}
