package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"
	gosync "sync"
	"time"

	"drumbeat/bench/measure"
	"drumbeat/bench/report"
	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/internal/cputime"
	"drumbeat/state"
)

// Result is one measurement of bench crawl.
type Result struct {
	Form string // crawl, or bare

	// In the measured time:
	Pages, Responses, Robots, Lookups, Links, LinksChecked, Unique int64
	BytesWire, BytesBody, DiskRead, DiskWritten                    int64
	Wall, CPU, ServerCPU                                           time.Duration
	ServerPages                                                    int64
	Wires                                                          wireCounts
	Stages                                                         stageTimes
	Slots                                                          crawl.Slots

	// In the whole crawl:
	Stop                             string // why it ended
	AllPages, AllUnique, PeakRSS     int64
	PLDs, Hosts, Scans, Passes, Keys int64
	Tenths                           []crawlTenth
}

// perPage returns a duration per page, in µs.
func (r *Result) perPage(d time.Duration) float64 {
	return float64(d.Nanoseconds()) / 1e3 / float64(max(1, r.Pages))
}

// rate returns pages per second of wall time.
func (r *Result) rate() float64 { return float64(r.Pages) / max(1e-9, r.Wall.Seconds()) }

// serverPerPage returns the server's CPU per page sent, in µs.
func (r *Result) serverPerPage() float64 {
	return float64(r.ServerCPU.Nanoseconds()) / 1e3 / float64(max(1, r.ServerPages))
}

// windowSample is the state at the beginning or end of the measured time.
type windowSample struct {
	pages, responses, robots, lookups, links, checked, unique, bytesWire, bytesBody, diskRead, diskWritten int64
	slots                                                                                                  crawl.Slots
}

func sampleOf(s *crawl.Snapshot) windowSample {
	return windowSample{
		pages: s.Count(state.CountPages), responses: s.Count(state.CountResponses), robots: s.Count(state.CountRobotsAttempts),
		lookups: s.Count(state.CountLookups), links: s.Count(state.CountLinks), checked: s.Count(state.CountLinksChecked),
		unique: s.Unique, bytesWire: s.Count(state.CountBytesWire), bytesBody: s.Count(state.CountBytesBody),
		diskRead: s.DiskRead, diskWritten: s.DiskWritten, slots: s.Slots,
	}
}

// window measures the time between open and shut: CPU of this process and of the server, and a CPU profile.
type window struct {
	b      *crawlBench
	server *crawlServer // nil without sockets
	client *sockets     // nil without sockets
	name   string       // name of the profile

	began, ended   time.Time
	cpu, cpuEnd    time.Duration
	serv, servEnd  crawlServerState
	first, last    windowSample
	wires          wireCounts // counts at open; after shut, the difference
	profile        bytes.Buffer
	profiling, end bool
}

// wait sleeps for d or until ctx ends.
func (w *window) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *window) serverState() (s crawlServerState, err error) {
	if w.server == nil {
		return s, nil
	}
	return w.server.state()
}

// open begins the measured time.
func (w *window) open(s windowSample) (err error) {
	if w.serv, err = w.serverState(); err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(&w.profile); err != nil {
		return fmt.Errorf("bench: crawl: %w", err)
	}
	w.profiling = true
	w.wires = w.client.wires()
	w.first, w.began, w.cpu = s, time.Now(), cputime.Process()
	return nil
}

// shut ends the measured time; later calls do nothing.
func (w *window) shut(s windowSample) (err error) {
	if w.end || !w.profiling {
		return nil
	}
	w.end = true
	w.last, w.ended, w.cpuEnd = s, time.Now(), cputime.Process()
	w.wires = w.client.wires().sub(w.wires)
	pprof.StopCPUProfile()
	w.servEnd, err = w.serverState()
	return err
}

// drop discards the profile after an error.
func (w *window) drop() {
	if w.profiling && !w.end {
		pprof.StopCPUProfile()
	}
}

// result returns the measurements.
func (w *window) result(form string) (*Result, error) {
	if !w.end {
		return nil, errors.New("bench: crawl: it ended before the measured time had begun: ask for more pages or more time")
	}
	f, l := &w.first, &w.last
	r := &Result{
		Form: form, Pages: l.pages - f.pages, Responses: l.responses - f.responses, Robots: l.robots - f.robots,
		Lookups: l.lookups - f.lookups, Links: l.links - f.links, LinksChecked: l.checked - f.checked, Unique: l.unique - f.unique,
		BytesWire: l.bytesWire - f.bytesWire, BytesBody: l.bytesBody - f.bytesBody, DiskRead: l.diskRead - f.diskRead,
		DiskWritten: l.diskWritten - f.diskWritten, Wall: w.ended.Sub(w.began), CPU: w.cpuEnd - w.cpu,
		ServerCPU: w.servEnd.CPU - w.serv.CPU, ServerPages: w.servEnd.Pages - w.serv.Pages, Wires: w.wires, Slots: l.slots.Sub(f.slots),
	}
	if dir := w.b.Profiles; dir != "" {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, fmt.Errorf("bench: crawl: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, w.name+".pprof"), w.profile.Bytes(), 0o666); err != nil {
			return nil, fmt.Errorf("bench: crawl: %w", err)
		}
	}
	var err error
	r.Stages, err = stagesOf(w.profile.Bytes())
	return r, err
}

// crawlWarm is the divisor of the pages, and of the time, for the part before the measured time: the first
// robots.txt and lookups of hosts, growing heaps, the first merges.
const crawlWarm = 10

// crawlWatch is the interval of samples: one takes 0.4 ms, for the estimates of hosts and servers.
const crawlWatch = 100 * time.Millisecond

// crawl runs the whole crawler.
func (b *crawlBench) crawl(ctx context.Context, n int, t transport, server *crawlServer) (run *Result, err error) {
	b.progress("crawl")
	opt, remove, err := b.options(t)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	o := *opt // MakePlan fills in defaults
	plan, err := crawl.MakePlan(&o)
	if err != nil {
		return nil, err
	}
	limit, percent := debug.SetMemoryLimit(plan.HeapBytes), debug.SetGCPercent(b.GCPercent)
	defer func() { debug.SetMemoryLimit(limit); debug.SetGCPercent(percent) }()
	debug.FreeOSMemory()
	measure.ResetPeakRSS()

	told := ctx // cancelled by a signal: then there is no result
	ctx, cancel := context.WithTimeout(ctx, b.Duration)
	defer cancel()
	client, _ := t.(*sockets)
	w := &crawlWatcher{window: window{b: b, server: server, client: client, name: fmt.Sprintf("crawl-%d", n)}, cancel: cancel}
	opt.Snapshot, opt.SnapshotEvery = w.look, crawlWatch
	defer w.drop()
	res, err := crawl.Run(ctx, *opt)
	if err = errors.Join(err, w.fault, told.Err()); err != nil {
		return nil, err
	}
	w.look(&res.Snapshot) // the crawl may have ended by itself
	if err := w.shut(sampleOf(&res.Snapshot)); err != nil {
		return nil, err
	}
	if run, err = w.result("crawl"); err != nil {
		return nil, fmt.Errorf("%w (the crawl stopped: %s, %d pages)", err, res.Stop, res.Snapshot.Count(state.CountPages))
	}
	s := &res.Snapshot
	run.Stop, run.Tenths, run.PLDs, run.Hosts, run.Scans, run.Passes = res.Stop, w.course.tenths(), s.PLDs, s.Hosts, s.Scans, s.URLSeenPasses
	run.Keys = s.URLSeenKeys
	run.AllPages, run.AllUnique, run.PeakRSS = s.Count(state.CountPages), s.Unique, measure.PeakRSS()
	return run, nil
}

// options returns the crawl's options; remove removes its directories.
func (b *crawlBench) options(t transport) (opt *crawl.Options, remove func() error, err error) {
	var dirs []string
	remove = func() error {
		var errs []error
		for _, dir := range dirs {
			errs = append(errs, os.RemoveAll(dir))
		}
		return errors.Join(errs...)
	}
	for _, dir := range b.Dirs {
		made, err := os.MkdirTemp(dir, "drumbeat-bench-crawl-")
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("bench: crawl: %w", err), remove())
		}
		dirs = append(dirs, made)
	}
	opt = &crawl.Options{
		FS: disk.OS(), Dirs: dirs, SeedLines: b.flat.Seeds(), Agent: b.Agent, Contact: "bench@example.org",
		UserAgent: b.UserAgent, Resolver: t, Fetcher: t, RAMBytes: b.RAMBytes, DiskBytes: b.DiskBytes, DrumDiskBytes: b.drumDisk(), Connections: b.Connections,
		Retries:  3,
		MaxDepth: crawl.Unlimited, Store: b.store, KeepAlive: b.KeepAlive,
	}
	opt.AllowedAddr, opt.Ports = t.AllowedAddr, t.Ports()
	return opt, remove, nil
}

// crawlTenth holds the measurements of one tenth of a run.
type crawlTenth struct {
	Pages, Unique, DiskBytes, RSS int64
	Wall, CPU                     time.Duration
}

// crawlPoints bounds the number of points kept of a run's course; at the bound every second point is
// dropped.
const crawlPoints = 4096

// crawlCourse is the course of a run: sums since its start. RSS is the maximum since the previous point.
type crawlCourse struct {
	points []crawlTenth
	every  int // samples per point
	looks  int
	rss    int64
}

func (c *crawlCourse) add(p crawlTenth) {
	c.rss = max(c.rss, p.RSS)
	if c.looks++; c.looks < c.every {
		return
	}
	p.RSS = c.rss
	c.looks, c.rss = 0, 0
	c.points = append(c.points, p)
	if len(c.points) < crawlPoints {
		return
	}
	half := c.points[:0]
	for i := 0; i < len(c.points); i += 2 {
		q := c.points[i+1]
		q.RSS = max(q.RSS, c.points[i].RSS)
		half = append(half, q)
	}
	c.points, c.every = half, 2*max(1, c.every)
}

// tenths splits the run into ten parts with equal numbers of pages.
func (c *crawlCourse) tenths() (list []crawlTenth) {
	if len(c.points) < 20 {
		return nil
	}
	end := c.points[len(c.points)-1]
	var at crawlTenth
	rss := int64(0)
	for i, p := range c.points {
		rss = max(rss, p.RSS)
		if p.Pages*10 < end.Pages*int64(len(list)+1) && i < len(c.points)-1 {
			continue
		}
		list = append(list, crawlTenth{Pages: p.Pages - at.Pages, Unique: p.Unique - at.Unique, DiskBytes: p.DiskBytes - at.DiskBytes,
			RSS: rss, Wall: p.Wall - at.Wall, CPU: p.CPU - at.CPU})
		at, rss = p, 0
	}
	return list
}

// crawlWatcher samples a running crawl: it opens and shuts the window, and records the course.
type crawlWatcher struct {
	window
	cancel func()
	mu     gosync.Mutex // the crawl calls look, and so does the end of the run
	fault  error
	over   bool
	course crawlCourse
	start  time.Time
	cpu0   time.Duration
	said   time.Time
	slots  crawl.Slots // slots at the time said
}

// look processes the newest snapshot.
func (w *crawlWatcher) look(s *crawl.Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	if w.start.IsZero() {
		w.start, w.cpu0, w.said = time.Now(), cputime.Process(), time.Now()
	}
	share := w.share(s)
	rss := measure.RSS()
	w.course.add(crawlTenth{Pages: s.Count(state.CountPages), Unique: s.Unique, DiskBytes: s.DiskRead + s.DiskWritten, RSS: rss,
		Wall: time.Since(w.start), CPU: cputime.Process() - w.cpu0})
	if !w.profiling && max(share, float64(time.Since(w.start))/float64(w.b.Duration)) >= 1./crawlWarm {
		if err := w.open(sampleOf(s)); err != nil {
			w.stop(err)
			return
		}
	}
	if share >= 1 {
		w.stop(w.shut(sampleOf(s)))
		return
	}
	if now := time.Now(); now.Sub(w.said) >= 2*time.Second {
		w.said = now
		pages := s.Count(state.CountPages)
		w.b.progress(fmt.Sprintf("%d pages, %.2f M URLs seen, %.0f pages/s, RSS %s; slots: %s", pages, float64(s.Unique)/1e6,
			float64(pages)/max(1e-9, now.Sub(w.start).Seconds()), report.DecimalBytes(float64(rss)), s.Slots.Sub(w.slots)))
		w.slots = s.Slots
	}
}

func (w *crawlWatcher) stop(err error) {
	w.fault, w.over = err, true
	w.cancel()
}

// share returns the completed share of the run.
func (w *crawlWatcher) share(s *crawl.Snapshot) (share float64) {
	if w.b.Pages > 0 {
		share = float64(s.Count(state.CountPages)) / float64(w.b.Pages)
	}
	if w.b.URLs > 0 {
		share = max(share, float64(s.Unique)/float64(w.b.URLs))
	}
	return share
}
