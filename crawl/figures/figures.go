package figures

import (
	"context"
	"sync/atomic"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/gate"
	"drumbeat/crawl/limits"
	"drumbeat/crawl/node"
	"drumbeat/crawl/observe"
	"drumbeat/crawl/outage"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/seeds"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/internal/trapscore"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// Options are the options of Figures.
type Options struct {
	FS        disk.FS
	Dirs      []string   // all directories, each once
	DiskBytes int64      // the limit of all files
	Plan      *plan.Plan // made before the crawl is open
	On        bool       // snapshots are made while the crawl runs
	Every     time.Duration
	Tell      func(*snapshot.Snapshot) // gets them; nil: nobody
}

// Others are the stages that Figures shows.
type Others struct {
	Heaps    func() *polite.Scheduler // it and Traps exist once the crawl is open
	Traps    func() *trapscore.Table  // nil without trap scores
	Fetcher  *fetcher.Fetcher
	Requests *gate.Requests
	Limits   *limits.Limits
	Slots    *observe.SlotMeter
	SlowDirs *observe.SlowDirs
	Codings  *observe.Codings
	Space    *space.Keeper
	Outages  *outage.Watch
	Node     *node.Node
	Leases   *node.Leases
	Seeds    *seeds.Feeder
	Paused   func() bool // by the operator
	Drains   func() bool // the crawl ends without the rest, or only the operator lets it
	Stopping func() bool // the crawl was told to end
	// Structures returns the state of the structures on disk. Shows add figures to a snapshot.
	Structures func() *Structures
	Shows      []func(*snapshot.Snapshot)
}

// Figures makes snapshots. Its goroutine is "progress".
type Figures struct {
	run    *account.Run
	saved  *state.Saved
	opt    Options
	others Others
	last   atomic.Pointer[snapshot.Snapshot] // the last of Run
	gauges gauges
	recent recent
}

// New returns Figures. Wire must give it the other stages before a snapshot.
func New(run *account.Run, saved *state.Saved, opt Options) *Figures {
	return &Figures{run: run, saved: saved, opt: opt}
}

// Wire gives Figures the stages that it asks.
func (f *Figures) Wire(others Others) { f.others = others }

// Last returns the last snapshot of Run, with rates, or one of now if there is none.
func (f *Figures) Last() *snapshot.Snapshot {
	if s := f.last.Load(); s != nil {
		return s
	}
	return f.Snapshot()
}

// Structures returns the state of the structures on disk. It locks each for microseconds.
func (f *Figures) Structures() *Structures { return f.others.Structures() }

// Snapshot returns the figures of the crawl now, without rates.
func (f *Figures) Snapshot() *snapshot.Snapshot {
	a := f.run.Accounts.Copy()
	now := time.Now()
	s := &snapshot.Snapshot{Time: now, Elapsed: now.Sub(f.run.Began()),
		Active: time.Duration(f.run.ActiveMillis()) * time.Millisecond,
		Unique: a.Unique.N, Refused: map[string]int64{}, Deferred: map[string]int64{}, Failed: map[string]int64{},
		Counters: a.Counters, Status: a.Status, Codes: a.Codes, Peak: a.Peak,
		RobotsInFlight: f.others.Requests.UnderWay()}
	if f.run.FirstBegan() > 0 {
		s.Began = time.Unix(f.run.FirstBegan(), 0)
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
	s.InFlight = int(f.others.Fetcher.UnderWay())
	s.RobotsQueued = f.others.Requests.Queued()
	s.UniqueShare = a.UniqueShare()
	io := f.saved.Meter.Counts()
	s.DiskRead, s.DiskWritten = io.ReadBytes, io.WrittenBytes
	s.Limits, s.Connections = f.others.Limits.Text(now), f.others.Limits.Allowed(now)
	s.Wait.Kind, s.Wait.Text = f.waitsFor(&a, s)
	s.Slots = f.others.Slots.SoFar()
	s.Paused, s.Outage = f.others.Space.Pausing() != "", f.others.Outages.Slowed()
	s.AsksForBrotli = f.others.Codings.Wide()
	for i := range s.Times {
		f.run.Times[i].Read(&s.Times[i])
	}
	if traps := f.others.Traps(); traps != nil {
		s.TrapHosts = traps.Traps()
	}
	hosts, _ := f.others.Heaps().Tables()
	s.HostsInRAM = int64(hosts)
	if g := f.others.Heaps().Gaps(); g.Host != polite.Forever {
		s.LeastHostGap = g.Host
	}
	if g := f.others.Heaps().Gaps(); g.Server != polite.Forever {
		s.LeastServerGap = g.Server
	}
	adapted := f.others.Heaps().Adapted()
	s.DelaySteps, s.DelayResets, s.AdaptedHosts = adapted.Steps, adapted.Resets, int64(adapted.Hosts)
	f.gauges.show(f, s)
	for _, show := range f.others.Shows {
		show(s)
	}
	if who := s.Cluster.Missing(); who != "" && s.Wait.Kind >= snapshot.WaitNodes {
		s.Wait.Kind, s.Wait.Text = snapshot.WaitNodes, who+" to start, since links for this node may come from there"
	}
	if s.Wait.Kind == snapshot.WaitDue && s.NextDue.After(now) {
		s.Wait.Until = s.NextDue
	}
	s.Draining, s.Stopping = f.others.Drains(), f.others.Stopping()
	f.recent.show(s)
	return s
}

// Run passes a snapshot to Options.Tell every Options.Every, with the rates since the one before.
func (f *Figures) Run(ctx context.Context) error {
	if !f.opt.On {
		return nil
	}
	t := time.NewTicker(f.opt.Every)
	defer t.Stop()
	last := f.Snapshot()
	var peaks peakMeter
	f.recent.note(last)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		s := f.Snapshot()
		if dt := s.Time.Sub(last.Time).Seconds(); dt > 0 {
			rate := func(n state.Counter) float64 { return float64(s.Counters[n]-last.Counters[n]) / dt }
			s.PagesPerSecond = rate(state.CountPages)
			s.BitsPerSecond = 8 * (rate(state.CountBytesWire) + rate(state.CountRobotsBytes))
			s.LinksPerSecond = rate(state.CountLinks)
			s.ResponsesPerSecond = rate(state.CountResponses)
			s.FailuresPerSecond = float64(s.Failures()-last.Failures()) / dt
		}
		s.SlotsNow = s.Slots.Sub(last.Slots)
		f.recent.note(s)
		peaks.note(s)
		f.run.Accounts.RaisePeak(s.Peak)
		f.last.Store(s)
		if f.opt.Tell != nil {
			f.opt.Tell(s)
		}
		last = s
	}
}
