package crawl

import (
	"context"
	"fmt"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/polite"
)

// Snapshot is the state of a crawl at one instant, for progress lines and summaries.
type Snapshot struct {
	Time    time.Time
	Elapsed time.Duration // of this run
	Active  time.Duration // of all runs

	Places   [state.NumPlaces]int64 // URLs by place; see Place
	Unique   int64
	Refused  map[string]int64 // by reason
	Deferred map[string]int64 // by reason
	Counters [state.NumCounters]int64
	Status   [6]int64

	PagesPerSecond float64 // since the last snapshot of progress
	BitsPerSecond  float64
	LinksPerSecond float64
	UniqueShare    float64 // p: unique URLs per link, over the whole crawl
	InFlight       int     // exchanges under way
	Connections    int
	RobotsInFlight int
	RobotsQueued   int64
	PLDs           int64
	Hosts, Servers int64 // distinct, estimated
	Queue, Horizon int64 // BEAST's s and h
	DiskRead       int64 // bytes since the start of this run
	DiskWritten    int64
	DiskUsed       int64 // bytes of the crawl's files when last added up; 0 before that
	DiskLimit      int64 // --disk
	RAMLimit       int64 // --ram
	Checkpoint     CheckpointStats
	URLSeenKeys    int64
	URLSeenPasses  int64
	Seen           SeenCheck // URLseen, measured and predicted
	// URLSeenFullPasses is the number of passes over full buckets.
	URLSeenFullPasses int64
	Scans             int64  // of QF
	Limits            string // speed limits in force; "" for none
	Waiting           string // what fetching waits for; "" when nearly all connections are busy
	Slots             Slots  // use of connection slots since the start of this run
	SlotsNow          Slots  // use of connection slots since the last snapshot of progress
}

// Count returns the value of a counter.
func (s *Snapshot) Count(c state.Counter) int64 { return s.Counters[c] }

// Place returns the number of URLs in a place.
func (s *Snapshot) Place(p state.Place) int64 { return s.Places[p] }

// PlaceNames lists the places in the order of the crawler.
func PlaceNames() []string { return state.PlaceNames[:] }

func (c *crawler) snapshot() *Snapshot {
	a := c.acct.copy()
	now := time.Now()
	s := &Snapshot{Time: now, Elapsed: now.Sub(c.began), Active: time.Duration(c.activeMillis()) * time.Millisecond,
		Unique: a.Unique.N, Refused: map[string]int64{}, Deferred: map[string]int64{},
		Counters: a.Counters, Status: a.Status,
		RobotsInFlight: c.requests.underWay()}
	for p := range state.NumPlaces {
		s.Places[p] = a.Places[p].N
	}
	for i := range a.Refused {
		if a.Refused[i] != 0 {
			s.Refused[state.Reason(i).String()] = a.Refused[i]
		}
		if a.Deferred[i] != 0 {
			s.Deferred[state.Reason(i).String()] = a.Deferred[i]
		}
	}
	s.InFlight = int(c.workers.exchanges.load())
	s.RobotsQueued = c.requests.queued()
	if n := a.Counters[state.CountLinks]; n > 0 {
		s.UniqueShare = float64(a.Unique.N) / float64(n)
	}
	s.Hosts, s.Servers = c.sketches.estimates()
	c.budgets.show(s)
	io := c.Meter.Counts()
	s.DiskRead, s.DiskWritten = io.ReadBytes, io.WrittenBytes
	if saved := c.checkpointer.latest(); saved != nil {
		s.Checkpoint = *saved
	}
	c.seen.show(s)
	c.space.show(s)
	s.Limits, s.Connections = c.dispatcher.limitsText(now), c.dispatcher.allowed(now)
	s.Waiting = c.waitsFor(&a, s)
	s.Slots = c.slotMeter.slotsSoFar()
	return s
}

// waitsFor returns what keeps connections idle.
func (c *crawler) waitsFor(a *state.Accounts, s *Snapshot) string {
	if c.paused.Load() {
		return pausedByOperator
	}
	if why := c.space.why(); why != "" {
		return "disk space: " + why
	}
	if why := c.outages.outageText(); why != "" {
		return why
	}
	if why := c.dispatcher.heldBy(s.Time); why != "" && c.slotMeter.somethingDue(s.Time) {
		return why
	}
	switch {
	case s.InFlight >= s.Connections*9/10:
		return ""
	case a.Places[state.PlaceRAM].N > 0:
		return c.politenessText(s.Time)
	case a.Places[state.PlaceReady].N > 0:
		return "room in RAM"
	case s.RobotsInFlight > 0 || a.Places[state.PlaceAwaitRobots].N > 0:
		return "robots.txt and DNS"
	case a.Places[state.PlaceRobotsCheck].N > 0, a.Places[state.PlaceStar].N > 0:
		return "disk merges"
	case a.Places[state.PlaceBeast].N > 0:
		return "BEAST"
	case a.Places[state.PlaceDeferred].N > 0:
		return "URLs due later"
	case !c.seedsDone.Load():
		return "seeds"
	}
	return "new links"
}

// bindingTexts name each kind of delay and the flag that sets it.
var bindingTexts = map[polite.Binding]string{
	polite.BindsHost: "--host-delay", polite.BindsCrawlDelay: "Crawl-delay of robots.txt (--max-crawl-delay)",
	polite.BindsAnswer:  "slow answers (--host-delay-factor)",
	polite.BindsBackoff: "back-off after failures (--backoff)",
	polite.BindsServer:  "--server-delay", polite.BindsPLD: "--pld-delay",
	polite.BindsNetwork: "--network-rate, --network-connections",
}

// politenessText names the delay for which most hosts wait.
func (c *crawler) politenessText(now time.Time) string {
	b, of, all := c.polite.Binding(now)
	if all == 0 {
		return "politeness"
	}
	if of == all {
		return "politeness: " + bindingTexts[b]
	}
	return fmt.Sprintf("politeness: %s (%d %% of the hosts)", bindingTexts[b], 100*of/all)
}

// progress passes a snapshot to Options.Snapshot every SnapshotEvery.
func (c *crawler) progress(ctx context.Context) error {
	if c.opt.Snapshot == nil && c.opt.Control == nil {
		return nil
	}
	t := time.NewTicker(c.opt.SnapshotEvery)
	defer t.Stop()
	last := c.snapshot()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		s := c.snapshot()
		if dt := s.Time.Sub(last.Time).Seconds(); dt > 0 {
			rate := func(n state.Counter) float64 { return float64(s.Counters[n]-last.Counters[n]) / dt }
			s.PagesPerSecond = rate(state.CountPages)
			s.BitsPerSecond = 8 * (rate(state.CountBytesWire) + rate(state.CountRobotsBytes))
			s.LinksPerSecond = rate(state.CountLinks)
		}
		s.SlotsNow = s.Slots.Sub(last.Slots)
		c.lastSnapshot.Store(s)
		if c.opt.Snapshot != nil {
			c.opt.Snapshot(s)
		}
		last = s
	}
}
