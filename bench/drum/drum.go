package drum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"drumbeat/bench/baselines"
	"drumbeat/bench/links"
	"drumbeat/bench/measure"
	"drumbeat/bench/report"
)

// Options are what Run measures: check+update of links by DRUM in several forms, and by other methods. Options are a value.
type Options struct {
	// Dirs are existing directories, one per disk as a rule. Baselines use the first.
	Dirs []string
	// Methods are names of forms and of baselines, Points the sizes at which each is measured: U, the known keys. Default:
	// all forms, 1e8 keys.
	Methods []string
	Known   []int64
	// Links is n; default 1e8. UniqueShare is p, default 1/9; Misses is pi, the share of links that a RAM cache in front
	// misses, default 0.33: what the stream repeats is chosen so.
	Links               int64
	UniqueShare, Misses float64
	// RAMBytes is R, default 256 MiB; DiskBytes is D, what may wait on disk, default 8 GB. CacheBytes of R are the RAM
	// cache's in the form that has one, default R/8.
	RAMBytes, DiskBytes, CacheBytes int64
	// BufferBytes is M; 0: 256 KiB, or less if R is small.
	BufferBytes int
	// URLs, if set, is a file of URLs, one a line, in place of the generated stream; then there are no known keys.
	URLs string
	Seed uint64
	// Repeats is how often everything is measured; default 1.
	Repeats int
	// BaselineTime is the measured time after which a baseline ends, with fewer links; default 60 s. One that can't load the
	// known keys in five times that isn't measured.
	BaselineTime time.Duration
	// Adders and Workers are goroutines that add and that merge; 0: as many as processors.
	Adders, Workers int
	// Theorem measures DRUM's plain form, Mercator-B and Polybot at small sizes where the quadratic term of Theorems 1 and
	// 2 is small, equal to the others, and dominant; nothing else.
	Theorem bool
	// NoLimit leaves out the memory cgroup of 1.25 R + 64 MiB.
	NoLimit bool
	// Others are methods besides the forms and baselines.Methods.
	Others []baselines.Method
	// Command is the program, with arguments, that calls Child with the same others. None: everything runs in this process.
	Command []string
}

// loadTimes is how many times BaselineTime a baseline may take to load what is known.
const loadTimes = 5

// limitBytes is what a child may take, page cache included: R, and something for the Go heap and what the kernel keeps.
func limitBytes(ram int64) int64 { return ram + ram/4 + 64<<20 }

// Validate returns all faults, joined.
func (d Options) Validate() error { return d.complete() }

func (d *Options) complete() error {
	for _, f := range []struct {
		at  *int64
		def int64
	}{{&d.Links, 100_000_000}, {&d.RAMBytes, 256 << 20}, {&d.DiskBytes, 8e9}} {
		if *f.at == 0 {
			*f.at = f.def
		}
	}
	if d.CacheBytes == 0 {
		d.CacheBytes = d.RAMBytes / 8
	}
	if d.UniqueShare == 0 {
		d.UniqueShare = 1.0 / 9
	}
	if d.Misses == 0 {
		d.Misses = max(0.33, d.UniqueShare)
	}
	if d.Repeats == 0 {
		d.Repeats = 1
	}
	if d.BaselineTime == 0 {
		d.BaselineTime = time.Minute
	}
	if len(d.Known) == 0 {
		d.Known = []int64{100_000_000}
	}
	if d.URLs != "" {
		d.Known = []int64{0}
	}
	if len(d.Methods) == 0 {
		for _, f := range drumForms() {
			d.Methods = append(d.Methods, f.name)
		}
	}
	return d.faults()
}

func (d *Options) faults() error {
	var faults []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("bench: drum: "+format, args...))
		}
	}
	need(len(d.Dirs) > 0, "no directory")
	for _, m := range d.Methods {
		need(slices.Contains(d.names(), m), "no method %q: want some of %q", m, d.names())
	}
	need(d.Links > 0 && d.RAMBytes > 0 && d.DiskBytes > 0 && d.Repeats > 0 && d.BaselineTime > 0 && d.Adders >= 0 && d.Workers >= 0,
		"negative sizes")
	need(d.RAMBytes >= baselines.MinRAMBytes, "RAM of %d bytes: want %d at least", d.RAMBytes, baselines.MinRAMBytes)
	need(d.CacheBytes >= 0 && d.CacheBytes < d.RAMBytes, "a RAM cache of %d bytes in %d", d.CacheBytes, d.RAMBytes)
	need(d.UniqueShare > 0 && d.UniqueShare < 1, "share %v of new URLs: want between 0 and 1", d.UniqueShare)
	need(d.Misses >= d.UniqueShare && d.Misses <= 1, "share %v of misses: want at least that of new URLs, at most 1", d.Misses)
	for _, u := range d.Known {
		need(u >= 0 && u <= 1e11, "%d known keys: want 0 to 1e11", u)
	}
	return errors.Join(faults...)
}

// names are those of all that can be measured.
func (d *Options) names() (names []string) {
	for _, f := range drumForms() {
		names = append(names, f.name)
	}
	for _, m := range append(baselines.Methods(), d.Others...) {
		names = append(names, m.Name)
	}
	return names
}

// find finds a method that isn't a form of DRUM.
func find(name string, others []baselines.Method) (baselines.Method, bool) {
	for _, m := range append(baselines.Methods(), others...) {
		if m.Name == name {
			return m, true
		}
	}
	return baselines.Method{}, false
}

// stream is the stream of links with u known URLs.
func (d *Options) stream(u int64) links.Options {
	o := links.Options{Seed: d.Seed, UniqueShare: d.UniqueShare, Known: u, Recent: (1 - d.Misses) / (1 - d.UniqueShare)}
	if o.Recent == 0 {
		o.Recent = links.NoRecent
	}
	return o
}

// drumBench is a Run under way.
type drumBench struct {
	Options
	scratch  *measure.Scratch
	dirs     []string // of this measurement alone
	progress func(string)
}

// Run measures and returns the report.
func Run(ctx context.Context, d Options, progress func(string)) (_ *report.Report, err error) {
	if err := d.complete(); err != nil {
		return nil, err
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

// drumSet is all that was measured.
type drumSet struct {
	runs []*Result
	// skewed and even are the pairs of the skewed case.
	even, skewed []*Result
	// numbered are the runs whose verdicts were compared link by link.
	numbered []*Result
	skipped  []string
}

// measureAll measures all methods once with u known keys.
func (b *drumBench) measureAll(ctx context.Context, u int64, repeat int, set *drumSet) error {
	for _, m := range b.Methods {
		run, err := b.one(ctx, b.job(m, u), fmt.Sprintf("%s, %s keys, %d/%d", m, report.Power(float64(u)), repeat+1, b.Repeats))
		if err != nil {
			return err
		}
		if run.Skipped != "" {
			set.skipped = append(set.skipped, fmt.Sprintf("%s with %s keys was not measured: %s", m, report.Power(float64(u)), run.Skipped))
			continue
		}
		set.runs = append(set.runs, run)
		if m != formEach || b.URLs != "" {
			continue
		}
		for _, skew := range []float64{0, skewShare} {
			job := b.job(m, u)
			job.Stream.UniqueShare, job.Skew = 1-skewShare, skew
			run, err := b.one(ctx, job, fmt.Sprintf("%s, one key with %.0f %% of all tuples", m, 100*skew))
			if err != nil {
				return err
			}
			if skew == 0 {
				set.even = append(set.even, run)
			} else {
				set.skewed = append(set.skewed, run)
			}
		}
	}
	return nil
}

// skewShare is the share of tuples of one key in the skewed case.
const skewShare = 0.9

// verdictLinks and verdictKnown are the size at which verdicts are compared link by link, verdictRAM its R: several passes.
const (
	verdictLinks = 1_000_000
	verdictKnown = 300_000
	verdictRAM   = 8 << 20
	verdictDisk  = 20e6
)

// verdicts compares the verdicts of all exact methods link by link with the truth: aux is the link's number.
func (b *drumBench) verdicts(ctx context.Context, set *drumSet) error {
	for _, m := range b.Methods {
		if m == formCached || m == baselines.Bloom || m == baselines.MercatorA {
			continue // a link that hits the cache, and Mercator-A's in another order, have no number
		}
		job := b.job(m, verdictKnown)
		job.Links, job.RAMBytes, job.DiskBytes, job.CacheBytes, job.Numbered = verdictLinks, verdictRAM, verdictDisk, 1<<20, true
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

// job is the measurement of a method with u known keys.
func (b *drumBench) job(method string, u int64) *drumJob {
	job := &drumJob{
		Method: method, Dirs: b.dirs, RAMBytes: b.RAMBytes, DiskBytes: b.DiskBytes, CacheBytes: b.CacheBytes,
		BufferBytes: b.BufferBytes, Workers: b.Workers, Adders: b.Adders, Stream: b.stream(u), URLs: b.URLs, Links: b.Links,
		others: b.Others,
	}
	if b.URLs != "" {
		job.Links = 0
	}
	if _, ok := find(method, b.Others); ok {
		job.MaxTime, job.LoadTime = b.BaselineTime, loadTimes*b.BaselineTime
	}
	return job
}

// one runs a job, in a child process if there is a program for that, and empties the directories.
func (b *drumBench) one(ctx context.Context, job *drumJob, what string) (run *Result, err error) {
	progress := func(s string) { b.progress(what + ": " + s) }
	if len(b.Command) == 0 {
		run, err = runDrumJob(ctx, job, progress)
		if run != nil {
			run.Unlimited = "it ran in the process of the benchmark"
		}
	} else {
		most := limitBytes(job.RAMBytes)
		if b.NoLimit {
			most = 0
		}
		run, err = job.spawn(ctx, b.Command, most, progress)
		if _, ok := find(job.Method, b.Others); ok && errors.Is(err, measure.ErrMemory) {
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

// need is what may lie on disk: what waits, the cache twice and somewhat, the queue.
func (b *drumBench) need() int64 {
	most, links := slices.Max(b.Known), b.Links
	if b.Theorem {
		most, links = theoremMostKnown, theoremMostKnown
	}
	return b.DiskBytes + b.DiskBytes/4 + int64(24*(float64(most)+b.UniqueShare*float64(links))) + 2*queueBytes
}

// open makes directories that nobody else has.
func (b *drumBench) open() (err error) {
	if b.scratch, err = measure.NewScratch("drum", b.Dirs, b.need()); errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("lower --disk, --known or --links: %w", err)
	} else if err != nil {
		return err
	}
	return b.empty()
}

// empty makes the directories anew.
func (b *drumBench) empty() error {
	set, err := b.scratch.Set()
	b.dirs = set.Paths
	return err
}
