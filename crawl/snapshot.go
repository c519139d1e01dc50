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
	Later    map[string]int64 // by reason
	Counters [state.NumCounters]int64
	Status   [6]int64

	PagesPerSecond float64 // since the last snapshot of progress
	BitsPerSecond  float64
	LinksPerSecond float64
	UniqueShare    float64 // p: unique URLs per link, since the start of the crawl
	InFlight       int     // exchanges under way
	Connections    int
	RobotsInFlight int
	RobotsQueued   int64
	PLDs           int64
	Hosts, Servers int64 // distinct, estimated
	Queue, Horizon int64 // BEAST's s and h
	DiskRead       int64 // bytes since the start of this run
	DiskWritten    int64
	Checkpoint     CheckpointStats
	URLSeenKeys    int64
	URLSeenPasses  int64
	Seen           SeenCheck // URLseen, measured and predicted
	// URLSeenFullPasses are those that were triggered by size.
	URLSeenFullPasses int64
	Scans             int64  // of QF
	Limits            string // the limits of speed that hold now; "" without any
	Waiting           string // what fetching waits for; "" when all connections are busy
	Slots             Slots  // what connections were used for, or waited for, since the start of this run
	SlotsNow          Slots  // the same since the last snapshot of progress
}

// Count returns one of the running totals.
func (s *Snapshot) Count(c state.Counter) int64 { return s.Counters[c] }

// Place returns the number of URLs in a place.
func (s *Snapshot) Place(p state.Place) int64 { return s.Places[p] }

// PlaceNames lists the places in the order of the ring.
func PlaceNames() []string { return state.PlaceNames[:] }

func (r *ring) snapshot() *Snapshot {
	a := r.acct.copy()
	now := time.Now()
	s := &Snapshot{Time: now, Elapsed: now.Sub(r.began), Active: time.Duration(r.activeMillis()) * time.Millisecond,
		Unique: a.Unique.N, Refused: map[string]int64{}, Later: map[string]int64{}, Counters: a.Counters, Status: a.Status,
		RobotsInFlight: r.robotsJobs.len()}
	for p := range state.NumPlaces {
		s.Places[p] = a.Places[p].N
	}
	for i := range a.Refused {
		if a.Refused[i] != 0 {
			s.Refused[state.Reason(i).String()] = a.Refused[i]
		}
		if a.Later[i] != 0 {
			s.Later[state.Reason(i).String()] = a.Later[i]
		}
	}
	s.InFlight = int(r.workers.exchanges.load())
	s.RobotsQueued, _ = r.robotsFetch.Len()
	if n := a.Counters[state.CountLinks]; n > 0 {
		s.UniqueShare = float64(a.Unique.N) / float64(n)
	}
	s.Hosts, s.Servers = r.sketches.estimates()
	s.PLDs = r.star.NumPLDs()
	s.Queue, s.Horizon = int64(r.beast.Current()), int64(r.beast.Horizon())
	io := r.Meter.Counts()
	s.DiskRead, s.DiskWritten = io.ReadBytes, io.WrittenBytes
	if c := r.lastCheckpoint.Load(); c != nil {
		s.Checkpoint = *c
	}
	st := r.urlSeen.Stats()
	s.URLSeenKeys, s.URLSeenPasses, s.URLSeenFullPasses = st.Keys, st.Passes, r.fullPasses.Load()
	s.Scans = r.beast.Stats().Scans
	s.Seen = r.seenMeter.check(r, s)
	s.Limits, s.Connections = r.limits.text(now), r.limits.connections(now)
	s.Waiting = r.waitsFor(&a, s)
	s.Slots = r.slotsSoFar()
	return s
}

// waitsFor names what keeps connections idle.
func (r *ring) waitsFor(a *state.Accounts, s *Snapshot) string {
	if why := r.space.why(); why != "" {
		return "disk space: " + why
	}
	if why := r.outageText(); why != "" {
		return why
	}
	if why := r.limits.heldBy(s.Time); why != "" && r.somethingDue(s.Time) {
		return why
	}
	switch {
	case s.InFlight >= s.Connections*9/10:
		return ""
	case a.Places[state.PlaceRAM].N > 0:
		return r.politenessText(s.Time)
	case a.Places[state.PlaceReady].N > 0:
		return "room in RAM"
	case s.RobotsInFlight > 0 || a.Places[state.PlaceAwaitRobots].N > 0:
		return "robots.txt and DNS"
	case a.Places[state.PlaceRobotsCheck].N > 0, a.Places[state.PlaceStar].N > 0:
		return "disk merges"
	case a.Places[state.PlaceBeast].N > 0:
		return "BEAST"
	case a.Places[state.PlaceLater].N > 0:
		return "URLs due later"
	case !r.seedsDone.Load():
		return "seeds"
	}
	return "new links"
}

// bindingTexts name the delay that binds and the flag that sets it.
var bindingTexts = map[polite.Binding]string{
	polite.BindsHost: "--host-delay", polite.BindsCrawlDelay: "Crawl-delay of robots.txt (--max-crawl-delay)",
	polite.BindsAnswer: "slow answers (--host-delay-factor)", polite.BindsBackoff: "back-off after failures (--backoff)",
	polite.BindsServer: "--server-delay", polite.BindsPLD: "--pld-delay",
	polite.BindsNetwork: "--network-rate, --network-connections",
}

// politenessText says which delay keeps most hosts waiting.
func (r *ring) politenessText(now time.Time) string {
	b, of, all := r.polite.Binding(now)
	if all == 0 {
		return "politeness"
	}
	if of == all {
		return "politeness: " + bindingTexts[b]
	}
	return fmt.Sprintf("politeness: %s (%d %% of the hosts)", bindingTexts[b], 100*of/all)
}

// progress hands a snapshot to Options.Snapshot at intervals.
func (r *ring) progress(ctx context.Context) error {
	if r.opt.Snapshot == nil {
		return nil
	}
	t := time.NewTicker(r.opt.SnapshotEvery)
	defer t.Stop()
	last := r.snapshot()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		s := r.snapshot()
		if dt := s.Time.Sub(last.Time).Seconds(); dt > 0 {
			rate := func(c state.Counter) float64 { return float64(s.Counters[c]-last.Counters[c]) / dt }
			s.PagesPerSecond = rate(state.CountPages)
			s.BitsPerSecond = 8 * (rate(state.CountBytesWire) + rate(state.CountRobotsBytes))
			s.LinksPerSecond = rate(state.CountLinks)
		}
		s.SlotsNow = s.Slots.Sub(last.Slots)
		r.opt.Snapshot(s)
		last = s
	}
}
