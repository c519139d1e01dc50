package observe

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// Drums and queues give each directory an equal share of their bytes. So a pass takes as long as the slowest
// disk needs for its share, and a disk ten times slower than the others makes all of them ten times slower.
// slowDirs finds such a disk and names it. It compares what the crawl itself sees (disk.Use): bytes by time
// in which a read, write or sync was under way. The statistics of the device would miss what the kernel or a
// hypervisor throttles before it reaches the device, and would count what other programs do.

// These are the constants of the comparison.
const (
	paceEvery  = 10 * time.Second // take a sample
	PaceWindow = 5 * time.Minute  // compare the work of this time
	paceLeast  = 1 << 20          // bytes in a window that tell something about a speed
	slowBusy   = 0.5              // share of the window in which a slow device is in use
	slowTimes  = 4                // how many times slower than the median of the others it is
	slowOver   = 2                // times slower, or longer in use, than the median: up to that it is fine
	// slowKept is how long a device stays named although no window says anything about it: the next pass may
	// be an hour away.
	slowKept = time.Hour
)

// diskPace is the speed of a device and the median of the others (the lower one of two), in bytes per second of
// use.
type diskPace struct{ rate, others float64 }

// paceVerdict is what a window tells about a device.
type paceVerdict uint8

const (
	paceUnknown paceVerdict = iota // nothing: too little work, or between the thresholds
	paceFine
	paceSlow
)

// rateOf returns the bytes per second of use.
func rateOf(u disk.Use) float64 { return float64(u.Bytes()) / max(u.Busy, time.Microsecond).Seconds() }

// judge compares the use of device i in a window with that of the others. Beside its speed it looks at how
// long it was in use: WARC files go to one directory after another, and large writes are faster than small
// ones, so a directory without them has a lower speed but holds nothing up.
func judge(window time.Duration, uses []disk.Use, i int) (diskPace, paceVerdict) {
	var rates []float64
	var times []time.Duration
	for j, u := range uses {
		if j != i && u.Bytes() >= paceLeast {
			rates, times = append(rates, rateOf(u)), append(times, u.Busy)
		}
	}
	own := uses[i]
	p := diskPace{rate: rateOf(own)}
	if len(rates) == 0 || window <= 0 {
		return p, paceUnknown
	}
	slices.Sort(rates)
	slices.Sort(times)
	p.others = rates[(len(rates)-1)/2]
	held := own.Busy > slowOver*times[len(times)/2] // longer in use than the others
	switch {
	case held && p.rate*slowTimes < p.others && own.Busy.Seconds() > slowBusy*window.Seconds():
		return p, paceSlow
	case (!held || p.rate*slowOver >= p.others) && own.Bytes() >= paceLeast:
		return p, paceFine
	}
	return p, paceUnknown
}

// paceDevice is a device and the directories on it.
type paceDevice struct {
	dirs   []string
	number string // such as 8:48; "" if it is not known

	slow bool
	seen time.Time // the end of the last window that found it slow
}

func (d *paceDevice) String() string {
	kind := "directory "
	if len(d.dirs) > 1 {
		kind = "directories "
	}
	text := kind + strings.Join(d.dirs, ", ")
	if d.number != "" {
		text += " (device " + d.number + ")"
	}
	return text
}

// note applies the verdict of a window that ended at now, and reports whether slow has changed.
func (d *paceDevice) note(v paceVerdict, now time.Time) (changed bool) {
	was := d.slow
	switch {
	case v == paceSlow:
		d.slow, d.seen = true, now
	case v == paceFine, now.Sub(d.seen) > slowKept:
		d.slow = false
	}
	return d.slow != was
}

// paceGroup is a set of devices whose directories get equal shares.
type paceGroup struct {
	of      string // what the slowest of them sets the pace of
	devices []*paceDevice
	samples []paceSample // oldest first
}

type paceSample struct {
	at   time.Time
	uses []disk.Use // by device
}

// newPaceGroup puts the directories on one device together: the first of them waits for what was written to
// all.
func newPaceGroup(fsys disk.FS, of string, dirs []string) *paceGroup {
	g := &paceGroup{of: of}
	for _, dir := range dirs {
		number := disk.Device(fsys, dir)
		i := slices.IndexFunc(g.devices, func(d *paceDevice) bool { return number != "" && d.number == number })
		if i < 0 {
			i = len(g.devices)
			g.devices = append(g.devices, &paceDevice{number: number})
		}
		g.devices[i].dirs = append(g.devices[i].dirs, dir)
	}
	return g
}

// add takes a sample and returns the work since the oldest one of the window. window is 0 until the samples
// span all of it.
func (g *paceGroup) add(s paceSample) (window time.Duration, uses []disk.Use) {
	g.samples = append(g.samples, s)
	for len(g.samples) > 2 && s.at.Sub(g.samples[1].at) >= PaceWindow {
		g.samples = g.samples[1:]
	}
	first := &g.samples[0]
	if window = s.at.Sub(first.at); window < PaceWindow {
		return 0, nil
	}
	for i, u := range s.uses {
		uses = append(uses, u.Sub(first.uses[i]))
	}
	return window, uses
}

// SlowDirs names disks that are much slower than their neighbours. Its goroutine is "slowdirs".
type SlowDirs struct {
	saved   *state.Saved
	log     *slog.Logger
	history *History

	mu    sync.Mutex        // guards texts
	texts map[string]string // by directory: why it is slow
}

// NewSlowDirs returns SlowDirs, which tells log and the history.
func NewSlowDirs(saved *state.Saved, log *slog.Logger, h *History) *SlowDirs {
	return &SlowDirs{saved: saved, log: log, history: h}
}

// Run compares the devices, if there are several.
func (s *SlowDirs) Run(ctx context.Context) error {
	groups := []*paceGroup{newPaceGroup(s.saved.Set.FS, "all passes", s.saved.Set.Paths)}
	if s.saved.SeparateOut {
		groups = append(groups, newPaceGroup(s.saved.Out.FS, "the output", s.saved.Out.Paths))
	}
	groups = slices.DeleteFunc(groups, func(g *paceGroup) bool { return len(g.devices) < 2 })
	if len(groups) == 0 {
		return nil
	}
	t := time.NewTicker(paceEvery)
	defer t.Stop()
	for {
		for _, g := range groups {
			s.compare(g, time.Now())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// compare takes a sample of a group and judges its devices.
func (s *SlowDirs) compare(g *paceGroup, now time.Time) {
	sample := paceSample{at: now}
	for _, d := range g.devices {
		var sum disk.Use
		for _, dir := range d.dirs {
			sum = sum.Add(s.saved.Meter.Use(dir))
		}
		sample.uses = append(sample.uses, sum)
	}
	window, uses := g.add(sample)
	if window == 0 {
		return
	}
	for i, d := range g.devices {
		p, v := judge(window, uses, i)
		changed := d.note(v, now)
		if v == paceSlow {
			s.set(d, slowText(g, d, p))
		}
		if !changed {
			continue
		}
		if d.slow {
			text := slowText(g, d, p)
			s.log.Warn(text)
			s.history.event("slow-disk", "%s", text)
			continue
		}
		s.set(d, "")
		text := fmt.Sprintf("%s no longer sets the pace of %s", d, g.of)
		s.log.Warn(text)
		s.history.event("slow-disk", "%s", text)
	}
}

// slowText says which device is slow, and how slow.
func slowText(g *paceGroup, d *paceDevice, p diskPace) string {
	others := "the others"
	if len(g.devices) == 2 {
		others = "the other"
	}
	verb := "transfers"
	if len(d.dirs) > 1 {
		verb = "transfer"
	}
	return fmt.Sprintf("%s %s %s/s, %s %s/s: the slowest disk sets the pace of %s", d, verb,
		human.Bytes(p.rate), others, human.Bytes(p.others), g.of)
}

// set notes why the directories of a device are slow, "" if they are not.
func (s *SlowDirs) set(d *paceDevice, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.texts == nil {
		s.texts = map[string]string{}
	}
	for _, dir := range d.dirs {
		s.texts[dir] = text
	}
}

// Show adds the use of a directory to its figures.
func (s *SlowDirs) Show(d *snapshot.Dir) {
	u := s.saved.Meter.Use(d.Path)
	d.ReadBytes, d.WrittenBytes, d.Reading, d.Writing, d.Busy = u.ReadBytes, u.WrittenBytes, u.Reading,
		u.Writing, u.Busy
	d.Device = disk.Device(s.saved.Set.FS, d.Path)
	s.mu.Lock()
	defer s.mu.Unlock()
	d.Slow = s.texts[d.Path]
}
