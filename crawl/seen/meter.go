package seen

import (
	"sync/atomic"
	"time"

	"drumbeat/crawl/plan"
	"drumbeat/drum"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// seenMeter collects the measurements for SeenCheck.
type seenMeter struct {
	added, text atomic.Int64 // links and their bytes in this run
	pages       int64        // fetched before this run

	// Only URLseen's goroutine uses the fields below.
	start     drum.Stats
	predicted float64 // bytes
	moved     int64
	took      time.Duration

	last atomic.Pointer[snapshot.SeenCheck]
}

// leastTimed is the number of bytes that a pass must move for its speed to count.
const leastTimed = 1 << 20

// measured runs a pass and updates SeenCheck.
func (s *Stage) measured(pass func() (int, error)) (int, error) {
	m := &s.meter
	before, began := s.URLSeen.Stats(), time.Now()
	n, err := pass()
	after, took := s.URLSeen.Stats(), time.Since(began)
	merged := after.Merged - before.Merged
	if merged == 0 {
		return n, err
	}
	check := snapshot.SeenCheck{Links: after.Merged, Passes: after.Passes}
	if added := m.added.Load(); added > 0 {
		check.URLBytes = float64(m.text.Load()) / float64(added)
	}
	check.TextRatio = plan.TextRatio
	buffered := int64(s.saved.Set.Len()*s.opt.Plan.URLSeen.BufferBytes) / 2
	if whole := float64(m.text.Load() - buffered); after.AuxWritten > 0 && whole > 0 {
		check.TextRatio = max(1, whole/float64(after.AuxWritten))
	}
	check.Unique = float64(after.Keys-m.start.Keys) / float64(after.Merged)
	in := drum.CostInput{Known: float64(before.Keys), Tuples: float64(merged), PassTuples: float64(merged),
		UniqueFraction: float64(max(0, after.Keys-before.Keys)) / float64(merged),
		AuxBytes:       check.URLBytes, AuxRatio: check.TextRatio}
	opt := s.opt.Plan.SeenOptions(s.opt.Dirs)
	m.predicted += opt.Cost(in).Bytes() * float64(merged)
	if d := after.IOBytes() - before.IOBytes(); d >= leastTimed {
		m.moved, m.took = m.moved+d, m.took+took
	}
	if m.took > 0 {
		check.DiskBandwidth = float64(m.moved) / m.took.Seconds()
	}
	links := float64(after.Merged)
	check.Bytes = float64(after.IOBytes()-after.IntakeBytes-after.SealedBytes) / links
	check.Predicted = m.predicted / links
	in.Known, in.Tuples, in.PassTuples, in.UniqueFraction = float64(m.start.Keys), links, 0, max(0, check.Unique)
	check.Full = opt.Cost(in).Bytes()
	if check.URLBytes > 0 {
		check.Alpha, check.PredictedAlpha = check.Bytes/check.URLBytes, check.Predicted/check.URLBytes
	}
	m.last.Store(&check)
	return n, err
}

// StartMeter records the state of URLseen at the start of the run.
func (s *Stage) StartMeter() {
	s.meter.start, s.meter.pages = s.URLSeen.Stats(), s.run.Accounts.Copy().Counters[state.CountPages]
}

// Measured returns the latest measurements of passes; nil before the first.
func (s *Stage) Measured() *snapshot.SeenCheck { return s.meter.last.Load() }

// Show adds the numbers of URLseen to a snapshot.
func (s *Stage) Show(snap *snapshot.Snapshot) {
	st := s.URLSeen.Stats()
	snap.URLSeenKeys, snap.URLSeenPasses, snap.URLSeenFullPasses = st.Keys, st.Passes, s.fullPasses.Load()
	snap.Seen = s.meter.check(s.opt.Plan, snap)
}

// check completes the latest SeenCheck for a snapshot.
func (m *seenMeter) check(p *plan.Plan, s *snapshot.Snapshot) snapshot.SeenCheck {
	last := m.last.Load()
	if last == nil {
		return snapshot.SeenCheck{}
	}
	check := *last
	pages := float64(s.Count(state.CountPages) - m.pages)
	links := s.Count(state.CountLinksCached) + s.Count(state.CountLinksChecked)
	if pages <= 0 || links == 0 || check.URLBytes == 0 {
		return check
	}
	check.PageBytes = float64(s.DiskRead+s.DiskWritten) / pages
	f, err := p.Forecast(plan.Load{
		Pages: pages, LinksPerPage: float64(links) / float64(s.Count(state.CountPages)),
		UniqueFraction: min(1, s.UniqueShare), URLBytes: check.URLBytes, TextRatio: check.TextRatio,
		Misses:    float64(s.Count(state.CountLinksChecked)) / float64(links),
		PageBytes: float64(s.Count(state.CountBytesWire)) / float64(s.Count(state.CountPages)),
	})
	if err != nil {
		return check // for example a share above 1 right after the start
	}
	// Replace the forecast for URLseen by the prediction for its actual passes.
	check.PredictedPageBytes = f.PageIOBytes + (check.Predicted-f.Cost.Bytes())*f.Load.Misses*f.Load.LinksPerPage
	if check.DiskBandwidth > 0 {
		check.DiskRate = check.DiskBandwidth / check.PageBytes
		check.PredictedDiskRate = check.DiskBandwidth / check.PredictedPageBytes
	}
	return check
}
