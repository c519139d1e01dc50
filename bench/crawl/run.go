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
	"time"

	"drumbeat/bench/measure"
	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/internal/cputime"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// Result is one measurement of bench crawl.
type Result struct {
	Form string // crawl, or bare

	// In the measured time:
	windowCounts
	Wall, CPU, ServerCPU time.Duration
	ServerPages          int64
	Wires                wireCounts
	Stages               stageTimes

	// In the whole crawl:
	Stop                             string // why it ended
	AllPages, AllUnique, PeakRSS     int64
	PLDs, Hosts, Scans, Passes, Keys int64
	Tenths                           []crawlTenth
	Sizes                            diskSizes // at the end
	PeakDisk                         int64     // most bytes of files
	Seen                             seenSums
	Parts                            []crawlPart // with --resume
	Over                             bool        // the crawl reached its number of pages or URLs, or its end
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

// windowCounts are counters at the beginning or end of the measured time, or their differences.
type windowCounts struct {
	Pages, Robots, Links, BytesBody, DiskRead, DiskWritten int64
	Slots                                                  snapshot.Slots
}

func countsOf(s *crawl.Snapshot) windowCounts {
	return windowCounts{s.Count(state.CountPages), s.Count(state.CountRobotsAttempts), s.Count(state.CountLinks),
		s.Count(state.CountBytesBody), s.DiskRead, s.DiskWritten, s.Slots}
}

func (c windowCounts) sub(d windowCounts) windowCounts {
	return windowCounts{c.Pages - d.Pages, c.Robots - d.Robots, c.Links - d.Links, c.BytesBody - d.BytesBody,
		c.DiskRead - d.DiskRead, c.DiskWritten - d.DiskWritten, c.Slots.Sub(d.Slots)}
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
	first, last    windowCounts
	wires          wireCounts // counts at open; after shut, the difference
	profile        bytes.Buffer
	profiling, end bool
}

func (w *window) serverState() (s crawlServerState, err error) {
	if w.server == nil {
		return s, nil
	}
	return w.server.state()
}

// open begins the measured time.
func (w *window) open(s windowCounts) (err error) {
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
func (w *window) shut(s windowCounts) (err error) {
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
		return nil,
			errors.New("bench: crawl: the crawl ended before the measured time began: increase --pages, " +
				"--urls or --duration")
	}
	r := &Result{Form: form, windowCounts: w.last.sub(w.first), Wall: w.ended.Sub(w.began), CPU: w.cpuEnd - w.cpu,
		ServerCPU: w.servEnd.CPU - w.serv.CPU, ServerPages: w.servEnd.Pages - w.serv.Pages, Wires: w.wires}
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
	w := b.watcher(n, t, server, cancel)
	opt.Observe.Control, opt.Observe.Snapshot, opt.Observe.SnapshotEvery = w.control, w.look, w.every
	defer w.drop()
	res, err := crawl.Run(ctx, *opt)
	if errors.Is(err, state.ErrFinished) { // a kill came between its end and that of the bench
		err = nil
	}
	if err = errors.Join(err, w.fault); err != nil {
		return nil, errors.Join(err, w.ended("failed: "+err.Error()))
	}
	w.finish(&res.Snapshot, res.Stop) // the crawl may have ended by itself
	if err := errors.Join(w.fault, w.shut(countsOf(&res.Snapshot))); err != nil {
		return nil, err
	}
	if err := told.Err(); err != nil {
		return nil, errors.Join(err, w.ended("signal"))
	}
	if run, err = w.result("crawl"); err != nil {
		return nil, fmt.Errorf("%w (it ended: %s, %s)", err, res.Stop,
			human.Counted(res.Snapshot.Count(state.CountPages), "page", "pages"))
	}
	s := &res.Snapshot
	run.Stop, run.PLDs, run.Hosts, run.Scans, run.Passes = res.Stop, s.PLDs, s.Hosts, s.Scans, s.URLSeenPasses
	run.Keys = s.URLSeenKeys
	run.AllPages, run.AllUnique, run.PeakRSS = s.Count(state.CountPages), s.Unique, measure.PeakRSS()
	why := res.Stop
	if ctx.Err() == context.DeadlineExceeded {
		why = "--duration"
	}
	return run, w.complete(run, why)
}

// options returns the crawl's options. It creates the directories, which remove removes unless the crawl can be
// resumed.
func (b *crawlBench) options(t transport) (opt *crawl.Options, remove func() error, err error) {
	var dirs []string
	remove = func() error {
		var errs []error
		for _, dir := range dirs {
			errs = append(errs, os.RemoveAll(dir))
		}
		return errors.Join(errs...)
	}
	if b.saved != nil {
		dirs, remove = b.saved.states(), func() error { return nil }
	} else {
		for _, dir := range b.Dirs {
			made, err := os.MkdirTemp(dir, "drumbeat-bench-crawl-")
			if err != nil {
				return nil, nil, errors.Join(fmt.Errorf("bench: crawl: %w", err), remove())
			}
			dirs = append(dirs, made)
		}
	}
	opt = &crawl.Options{
		Disk:      crawl.DiskOptions{FS: disk.OS(), Dirs: dirs, CheckpointEvery: b.tests.checkpoint},
		Admission: crawl.AdmissionOptions{SeedLines: b.flat.Seeds()},
		Identity:  crawl.IdentityOptions{Agent: b.Agent, Contact: "bench@example.org", UserAgent: b.UserAgent},
		Network:   crawl.NetworkOptions{Resolver: t, Fetcher: t, Connections: b.Connections, KeepAlive: b.KeepAlive},
		Limits:    crawl.LimitsOptions{RAMBytes: b.RAMBytes, DiskBytes: b.DiskBytes, MaxDepth: crawl.Unlimited},
		Drum:      crawl.DrumOptions{DiskBytes: b.drumDisk()}, Health: crawl.HealthOptions{Retries: 3},
		Output: crawl.OutputOptions{Store: b.store}, Budgets: crawl.BudgetsOptions{Parts: b.budgetParts()},
	}
	opt.Network.AllowedAddr, opt.Network.Ports = t.AllowedAddr, t.Ports()
	return opt, remove, nil
}

func (b *crawlBench) budgetParts() state.BudgetParts {
	if b.BudgetParts == nil {
		return state.ByPLDs
	}
	return state.BudgetParts(*b.BudgetParts)
}
