package figures

import (
	"sync"
	"time"

	"drumbeat/internal/cputime"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// gauges are the figures of a snapshot that ask the file systems or lock every bucket of a drum. They are
// measured at most every gaugesEvery.
type gauges struct {
	mu        sync.Mutex // guards the fields below
	at        time.Time
	ram, disk snapshot.Space
	dirs      []snapshot.Dir
}

const gaugesEvery = 5 * time.Second

// show adds the gauges to a snapshot.
func (g *gauges) show(f *Figures, s *snapshot.Snapshot) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if since := s.Time.Sub(g.at); since >= gaugesEvery || since < 0 {
		g.at = s.Time
		g.measure(f)
	}
	s.RAM, s.Disk, s.Dirs = g.ram, g.disk, g.dirs
}

// measure replaces the gauges. A file system that does not tell its space is left out.
func (g *gauges) measure(f *Figures) {
	p := f.opt.Plan
	rss, _ := cputime.RSS(0)
	g.ram = snapshot.Space{Limit: p.RAMBytes, Used: rss, Parts: []snapshot.Part{
		{Name: state.NameURLSeen, Bytes: p.URLSeen.RAMBytes}, {Name: PartEdges, Bytes: p.Edges.RAMBytes},
		{Name: PartIndegree, Bytes: p.Indegree.RAMBytes}, {Name: state.NameRobotsCache, Bytes: p.RobotsCache.RAMBytes},
		{Name: state.NameRobotsRequested, Bytes: p.RobotsRequested.RAMBytes},
		{Name: state.NameNames, Bytes: p.Names.RAMBytes}, {Name: state.NameContent, Bytes: p.Content.RAMBytes},
		{Name: "content-filter", Bytes: p.ContentFilterBytes}, {Name: "url-cache", Bytes: p.CacheBytes},
		{Name: "edge-cache", Bytes: p.EdgeCacheBytes}, {Name: "name-cache", Bytes: p.NameCacheBytes},
		{Name: "polite", Bytes: p.PoliteBytes}, {Name: "queues", Bytes: p.QueueBytes},
		{Name: "bodies", Bytes: p.BodyBytes}, {Name: "trap-scores", Bytes: p.TrapBytes},
		{Name: state.NameHostLinks, Bytes: p.HostLinks.RAMBytes}, {Name: "host-levels", Bytes: p.HostLevelBytes},
		{Name: "walk", Bytes: p.WalkBytes}, {Name: "supporters", Bytes: p.SupportersBytes},
		{Name: "heap", Bytes: p.HeapBytes - p.PoliteBytes - p.QueueBytes - p.BodyBytes - p.TrapBytes - p.WalkBytes -
			p.SupportersBytes - p.HostLevelBytes},
	}}
	g.disk = snapshot.Space{Limit: f.opt.DiskBytes, Used: f.others.Space.Used()}
	rest := g.disk.Used
	add := func(name string, n int64) {
		g.disk.Parts = append(g.disk.Parts, snapshot.Part{Name: name, Bytes: n})
		rest -= n
	}
	is := f.others.Structures()
	for i := range is.Drums {
		d := &is.Drums[i].Stats
		add(is.Drums[i].Name, d.IntakeBytes+d.SealedBytes+d.LiveBytes+d.DeadBytes+d.DoomedBytes)
	}
	add(state.NameBeast, is.Beast.DiskBytes)
	for _, q := range is.Queues {
		add(q.Name, q.DiskBytes)
	}
	if g.disk.Used > 0 {
		add("output", max(0, rest))
	}
	g.dirs = nil
	for _, dir := range f.opt.Dirs {
		free, total, err := f.opt.FS.Space(dir)
		if err != nil {
			continue
		}
		files, err := f.opt.FS.FreeFiles(dir)
		if err != nil {
			continue
		}
		d := snapshot.Dir{Path: dir, Free: free, Total: total, FreeFiles: files, KeepFree: p.KeepFreeBytes}
		f.others.SlowDirs.Show(&d)
		g.dirs = append(g.dirs, d)
	}
}

// PartEdges and PartIndegree are the names of STAR's drums in figures.
const (
	PartEdges    = "pldindegree-edges"
	PartIndegree = "pldindegree"
)

// peakMeter measures the highest means over ten minutes of a run.
type peakMeter struct {
	ring [peakSamples]peakSample
	n    int // samples taken
}

type peakSample struct {
	active       time.Duration
	pages, bytes int64
}

// A window has peakSamples-1 intervals of peakEvery: the ten minutes of the paper's section VIII.
const (
	peakEvery   = 10 * time.Second
	peakSamples = 61
)

// note takes a sample when one is due and raises the peak of s.
func (m *peakMeter) note(s *snapshot.Snapshot) {
	now := peakSample{s.Active, s.Count(state.CountPages),
		s.Count(state.CountBytesWire) + s.Count(state.CountRobotsBytes)}
	if m.n > 0 && now.active-m.ring[(m.n-1)%peakSamples].active < peakEvery {
		return
	}
	m.ring[m.n%peakSamples] = now
	m.n++
	if m.n < peakSamples {
		return
	}
	first := &m.ring[m.n%peakSamples]
	took := (now.active - first.active).Seconds()
	s.Peak.Pages = max(s.Peak.Pages, float64(now.pages-first.pages)/took)
	s.Peak.Bits = max(s.Peak.Bits, 8*float64(now.bytes-first.bytes)/took)
}
