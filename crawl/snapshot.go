package crawl

import (
	"context"
	"fmt"
	"time"

	"drumbeat/crawl/operate"
	"drumbeat/crawl/space"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// These types describe a running crawl (package snapshot).
type (
	Snapshot        = snapshot.Snapshot
	CheckpointStats = snapshot.CheckpointStats
	SeenCheck       = snapshot.SeenCheck
	Slots           = snapshot.Slots
	SlotUse         = snapshot.SlotUse
)

// SlotUses returns all uses of connection slots in their order.
func SlotUses() []SlotUse { return snapshot.SlotUses() }

// PlaceNames lists the places in the order of the crawler.
func PlaceNames() []string { return state.PlaceNames[:] }

func (c *crawler) snapshot() *Snapshot {
	a := c.Accounts.Copy()
	now := time.Now()
	s := &Snapshot{Time: now, Elapsed: now.Sub(c.Began()), Active: time.Duration(c.ActiveMillis()) * time.Millisecond,
		Unique: a.Unique.N, Refused: map[string]int64{}, Deferred: map[string]int64{}, Failed: map[string]int64{},
		Counters: a.Counters, Status: a.Status, Codes: a.Codes, Peak: a.Peak, RobotsInFlight: c.requests.UnderWay()}
	if c.FirstBegan() > 0 {
		s.Began = time.Unix(c.FirstBegan(), 0)
	}
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
		if a.Failed[i] != 0 {
			s.Failed[state.Reason(i).String()] = a.Failed[i]
		}
	}
	s.InFlight = int(c.fetcher.UnderWay())
	s.RobotsQueued = c.requests.Queued()
	s.UniqueShare = a.UniqueShare()
	c.sketches.show(s)
	c.budgets.show(s)
	io := c.Meter.Counts()
	s.DiskRead, s.DiskWritten = io.ReadBytes, io.WrittenBytes
	c.checkpointer.Show(s)
	c.seen.show(s)
	s.Limits, s.Connections = c.limits.Text(now), c.limits.Allowed(now)
	s.Waiting = c.waitsFor(&a, s)
	s.Slots = c.slotMeter.SoFar()
	s.Paused, s.Outage = c.space.Pausing() != "", c.outages.Slowed()
	s.AsksForBrotli = c.codings.Wide()
	for i := range s.Times {
		c.Times[i].Read(&s.Times[i])
	}
	c.deferrals.show(s)
	c.extraction.Show(s)
	c.uploads.Show(s)
	c.node.Show(s)
	c.leases.Show(s)
	if c.traps != nil {
		s.TrapHosts = c.traps.Traps()
	}
	hosts, _ := c.polite.Tables()
	s.HostsInRAM = int64(hosts)
	if g := c.polite.Gaps(); g.Host != polite.Forever {
		s.LeastHostGap = g.Host
	}
	if g := c.polite.Gaps(); g.Server != polite.Forever {
		s.LeastServerGap = g.Server
	}
	adapted := c.polite.Adapted()
	s.DelaySteps, s.DelayResets, s.AdaptedHosts = adapted.Steps, adapted.Resets, int64(adapted.Hosts)
	c.gauges.show(c, s)
	c.history.Show(s)
	return s
}

// waitsFor returns what keeps connections idle.
func (c *crawler) waitsFor(a *state.Accounts, s *Snapshot) string {
	if c.paused.Load() {
		return space.PausedByOperator
	}
	if why := c.space.Why(); why != "" {
		return "disk space: " + why
	}
	if why := c.outages.Text(); why != "" {
		return why
	}
	if why := c.leases.Why(); why != "" {
		return why
	}
	if c.node.Disowned() {
		return "another node, which has abandoned this one (--give-up-node)"
	}
	if c.node.PagesWait() {
		return "pages of other nodes (--max-pages)"
	}
	if why := c.limits.HeldBy(s.Time); why != "" && c.slotMeter.SomethingDue(s.Time) {
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
	case !c.seeds.Read():
		return "seeds"
	case c.node.Rejoining() > 0:
		return "the other nodes, which may have more work"
	}
	return "new links"
}

// politenessText names the delay for which most hosts wait.
func (c *crawler) politenessText(now time.Time) string {
	b, of, all := c.polite.Binding(now)
	if all == 0 {
		return "politeness"
	}
	if of == all {
		return "politeness: " + operate.DelayText(b)
	}
	return fmt.Sprintf("politeness: %s (%d %% of the hosts)", operate.DelayText(b), 100*of/all)
}

// progress passes a snapshot to Options.Observe.Snapshot every SnapshotEvery.
func (c *crawler) progress(ctx context.Context) error {
	if !c.observed() {
		return nil
	}
	t := time.NewTicker(c.opt.Observe.SnapshotEvery)
	defer t.Stop()
	last := c.snapshot()
	var peaks peakMeter
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
			s.ResponsesPerSecond = rate(state.CountResponses)
			s.FailuresPerSecond = float64(s.Failures()-last.Failures()) / dt
		}
		s.SlotsNow = s.Slots.Sub(last.Slots)
		peaks.note(s)
		c.Accounts.RaisePeak(s.Peak)
		c.lastSnapshot.Store(s)
		if c.opt.Observe.Snapshot != nil {
			c.opt.Observe.Snapshot(s)
		}
		last = s
	}
}
