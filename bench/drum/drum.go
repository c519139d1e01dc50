package drum

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drumbeat/bench/baselines"
	"drumbeat/bench/links"
	"drumbeat/bench/measure"
	"drumbeat/bench/result"
)

// Options holds the parameters of Measure: check+update of links by DRUM in several forms and by other
// methods. The fields are flags of command bench. A zero means the default.
type Options struct {
	Dirs    []string `name:"dir" placeholder:"DIR" required:""`
	Forms   []string `placeholder:"NAME" default:"plain,ours,cached"`
	Against []string `placeholder:"NAME" default:"none"`

	Links        int64         `type:"count" placeholder:"N"`
	Known        []int64       `type:"count" placeholder:"N"`
	UniqueShare  float64       `name:"unique" type:"fraction" placeholder:"SHARE" default:"1/9"`
	RAMBytes     int64         `name:"ram" type:"size" placeholder:"SIZE"`
	DiskBytes    int64         `name:"disk" type:"size" placeholder:"SIZE"`
	BufferBytes  int           `name:"buffer" type:"size" placeholder:"SIZE"`
	URLs         string        `name:"urls" placeholder:"FILE"`
	Seed         uint64        `type:"count" placeholder:"N" default:"1"`
	Repeats      int           `name:"repeat" type:"count" placeholder:"N" default:"1"`
	BaselineTime time.Duration `placeholder:"DURATION"`
	Workers      int           `type:"count" placeholder:"N" default:"0"`
	Adders       int           `type:"count" placeholder:"N" default:"0"`
	Theorem      bool
	Quick        bool

	// Methods are the names of all methods to measure; nil means those of Forms and Against.
	Methods []string `kong:"-"`
	// Command is the command line of a program that calls Child. If it is empty, everything runs in this
	// process.
	Command []string `kong:"-"`
}

// loadTimes bounds the time of a baseline to load the known keys, in units of BaselineTime.
const loadTimes = 5

// limitBytes returns the memory limit of a child, page cache included: R and a margin for the Go heap and
// the kernel's memory.
func limitBytes(ram int64) int64 { return ram + ram/4 + 64<<20 }

// methods returns the names of the forms and baselines, in order.
func (d *Options) methods() (names []string) {
	for _, name := range slices.Concat(d.Forms, d.Against) {
		switch name = strings.TrimSpace(name); name {
		case "none", "":
		case "all":
			for _, m := range baselines.Methods() {
				names = append(names, m.Name)
			}
		default:
			names = append(names, name)
		}
	}
	return names
}

// Complete fills in defaults and returns all faults, joined.
func (d *Options) Complete() error {
	if d.URLs == "" {
		measure.Default(&d.Links, measure.Quick[int64](d.Quick, 2e6, 1e8))
		measure.DefaultList(&d.Known, measure.Quick(d.Quick, []int64{1e6}, []int64{1e8}))
	}
	measure.DefaultList(&d.Known, []int64{0})
	measure.Default(&d.RAMBytes, measure.Quick[int64](d.Quick, 16<<20, 256<<20))
	measure.Default(&d.DiskBytes, measure.Quick[int64](d.Quick, 96e6, 8e9))
	measure.Default(&d.UniqueShare, 1.0/9)
	measure.Default(&d.Repeats, 1)
	measure.Default(&d.BaselineTime, measure.Quick(d.Quick, 2*time.Second, time.Minute))
	measure.DefaultList(&d.Methods, d.methods())
	need, faults := measure.Faults("drum")
	need(len(d.Methods) > 0 || d.Theorem, "no method to measure: set --forms or --against")
	need(len(d.Dirs) > 0, "--dir: want at least one directory")
	for _, m := range d.Methods {
		need(slices.Contains(d.names(), m), "--forms, --against: unknown method %s: want some of %s", m,
			strings.Join(d.names(), ", "))
	}
	need((d.Links > 0 || d.URLs != "" && d.Links == 0) && d.RAMBytes > 0 && d.DiskBytes > 0 && d.Repeats > 0 &&
		d.BaselineTime > 0 && d.Adders >= 0 && d.Workers >= 0, "--links, --ram, --disk, --repeat and "+
		"--baseline-time must be above 0, --workers and --adders not negative")
	need(d.RAMBytes >= baselines.MinRAMBytes, "--ram %s: want at least %s", result.BinaryBytes(int(d.RAMBytes)),
		result.BinaryBytes(baselines.MinRAMBytes))
	need(d.UniqueShare > 0 && d.UniqueShare < 1, "--unique %v: want more than 0 and less than 1", d.UniqueShare)
	for _, u := range d.Known {
		need(u >= 0 && u <= 1e11, "--known %d: want 0 to 1e11", u)
	}
	return faults()
}

// names returns the names of everything that can be measured.
func (d *Options) names() (names []string) {
	for _, f := range drumForms() {
		names = append(names, f.name)
	}
	for _, m := range baselines.Methods() {
		names = append(names, m.Name)
	}
	return names
}

// find finds a method that isn't a form of DRUM.
func find(name string) (baselines.Method, bool) {
	for _, m := range baselines.Methods() {
		if m.Name == name {
			return m, true
		}
	}
	return baselines.Method{}, false
}

// misses returns the share of the links that are not recent.
func (d *Options) misses() float64 { return max(0.33, d.UniqueShare) }

// drumBench is a running Measure.
type drumBench struct {
	Options
	scratch  *measure.Scratch
	dirs     []string // directories of this measurement only
	progress func(string)
}

// Measure runs each measurement in a process of its own if Command names one.
func (d Options) Measure(ctx context.Context, progress func(what string)) (_ *result.Report, err error) {
	if err := d.Complete(); err != nil {
		return nil, err
	}
	if d.URLs != "" { // the error of a child has no type
		if _, err := os.Stat(d.URLs); err != nil {
			return nil, fmt.Errorf("bench: drum: --urls: %w", err)
		}
	}
	b := &drumBench{Options: d, progress: progress}
	if err := b.open(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.scratch.Remove()) }()
	if d.Theorem {
		return b.theorem(ctx)
	}
	var set drumSet
	for _, u := range d.Known {
		for repeat := range d.Repeats {
			if err := b.measureAll(ctx, u, repeat, &set); err != nil {
				return nil, err
			}
		}
	}
	if d.URLs == "" {
		if err := b.verdicts(ctx, &set); err != nil {
			return nil, err
		}
	}
	return b.report(&set), nil
}

// drumSet holds all results.
type drumSet struct {
	runs []*Result
	// numbered are the runs with verdicts compared link by link.
	numbered []*Result
	skipped  []string
}

// measureAll measures all methods once with u known keys.
func (b *drumBench) measureAll(ctx context.Context, u int64, repeat int, set *drumSet) error {
	for _, m := range b.Methods {
		run, err := b.one(ctx, b.job(m, u),
			fmt.Sprintf("%s, %s known keys, %d of %d", m, result.Power(float64(u)), repeat+1, b.Repeats))
		if err != nil {
			return err
		}
		if run.Skipped != "" {
			set.skipped = append(set.skipped,
				fmt.Sprintf("%s with %s known keys was not measured: %s.", m, result.Power(float64(u)),
					run.Skipped))
			continue
		}
		set.runs = append(set.runs, run)
	}
	return nil
}

// verdictLinks and verdictKnown are the sizes at which verdicts are compared link by link, with verdictRAM
// as R: enough for several passes.
const (
	verdictLinks = 1_000_000
	verdictKnown = 300_000
	verdictRAM   = 8 << 20
	verdictDisk  = 20e6
)

// verdicts compares the verdicts of the methods with the truth, link by link: aux is the link's number.
func (b *drumBench) verdicts(ctx context.Context, set *drumSet) error {
	for _, m := range b.Methods {
		if m == formCached {
			continue // links that hit the cache have no number
		}
		job := b.job(m, verdictKnown)
		job.Links, job.RAMBytes, job.DiskBytes, job.CacheBytes, job.Numbered = verdictLinks, verdictRAM,
			verdictDisk, 1<<20, true
		run, err := b.one(ctx, job, m+", verdicts link by link")
		if err != nil {
			return err
		}
		if run.Skipped == "" {
			set.numbered = append(set.numbered, run)
		}
	}
	return nil
}

// job returns the measurement of a method with u known keys.
func (b *drumBench) job(method string, u int64) *drumJob {
	job := &drumJob{
		Method: method, Dirs: b.dirs, RAMBytes: b.RAMBytes, DiskBytes: b.DiskBytes, CacheBytes: b.RAMBytes / 8,
		BufferBytes: b.BufferBytes, Workers: b.Workers, Adders: b.Adders, URLs: b.URLs, Links: b.Links,
		Stream: links.Options{Seed: b.Seed, UniqueShare: b.UniqueShare, Known: u,
			Recent: (1 - b.misses()) / (1 - b.UniqueShare)},
	}
	if _, ok := find(method); ok {
		job.MaxTime, job.LoadTime = b.BaselineTime, loadTimes*b.BaselineTime
	}
	return job
}

// one runs a job, in a child process if Command is set, and empties the directories.
func (b *drumBench) one(ctx context.Context, job *drumJob, what string) (run *Result, err error) {
	progress := func(s string) { b.progress(what + ": " + s) }
	if len(b.Command) == 0 {
		run, err = runDrumJob(ctx, job, progress)
		if run != nil {
			run.Unlimited = "the methods run in the process of the benchmark"
		}
	} else {
		run, err = job.spawn(ctx, b.Command, limitBytes(job.RAMBytes), progress)
		if _, ok := find(job.Method); ok && errors.Is(err, measure.ErrMemory) {
			run, err = &Result{Method: job.Method, Known: job.Stream.Known, Skipped: err.Error()}, nil
		}
	}
	if err := errors.Join(err, b.empty()); err != nil {
		return nil, err
	}
	if run.Skipped != "" {
		progress(run.Skipped)
		return run, nil
	}
	progress(fmt.Sprintf("%.2f M links/s, %.1f B/link, %d passes", run.rate()/1e6, run.io(), run.Passes))
	return run, nil
}

// need returns an upper bound of the bytes on disk: waiting links, the cache twice with a margin, and the
// queue.
func (b *drumBench) need() int64 {
	most, links := slices.Max(b.Known), b.Links
	if b.Theorem {
		most, links = theoremMostKnown, theoremMostKnown
	}
	return b.DiskBytes + b.DiskBytes/4 + int64(24*(float64(most)+b.UniqueShare*float64(links))) + 2*queueBytes
}

// open creates unique directories.
func (b *drumBench) open() (err error) {
	if b.scratch, err = measure.NewScratch("drum", b.Dirs, b.need()); errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("lower --disk, --known or --links: %w", err)
	} else if err != nil {
		return err
	}
	return b.empty()
}

// empty removes the directories and creates them again.
func (b *drumBench) empty() error {
	set, err := b.scratch.Set()
	b.dirs = set.Paths
	return err
}
