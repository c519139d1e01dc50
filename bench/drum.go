package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"drumbeat/bench/limit"
	"drumbeat/bench/links"
	"drumbeat/bench/report"
	"drumbeat/bench/rivals"
	"drumbeat/disk"
)

// Drum is what RunDrum measures: check+update of links by DRUM in several forms, and by other methods. A Drum is a value.
type Drum struct {
	// Dirs are existing directories, one per disk as a rule. Rivals use the first.
	Dirs []string
	// Methods are names of forms and of rivals, Points the sizes at which each is measured: U, the known keys. Default:
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
	// RivalTime is the measured time after which a rival ends, with fewer links; default 60 s. One that can't load the
	// known keys in five times that isn't measured.
	RivalTime time.Duration
	// Adders and Workers are goroutines that add and that merge; 0: as many as processors.
	Adders, Workers int
	// Theorem measures DRUM's plain form, Mercator-B and Polybot at small sizes where the quadratic term of Theorems 1 and
	// 2 is small, equal to the others, and dominant; nothing else.
	Theorem bool
	// NoLimit leaves out the memory cgroup of 1.25 R + 64 MiB.
	NoLimit bool
	// Command is the program, with arguments, that calls DrumChild. None: everything runs in this process.
	Command []string
}

// loadTimes is how many times RivalTime a rival may take to load what is known.
const loadTimes = 5

// limitBytes is what a child may take, page cache included: R, and something for the Go heap and what the kernel keeps.
func limitBytes(ram int64) int64 { return ram + ram/4 + 64<<20 }

// Validate returns all faults, joined.
func (d Drum) Validate() error { return d.complete() }

func (d *Drum) complete() error {
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
	if d.RivalTime == 0 {
		d.RivalTime = time.Minute
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

func (d *Drum) faults() error {
	var faults []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("bench: drum: "+format, args...))
		}
	}
	need(len(d.Dirs) > 0, "no directory")
	for _, m := range d.Methods {
		need(slices.Contains(drumMethods(), m), "no method %q: want some of %q", m, drumMethods())
	}
	need(d.Links > 0 && d.RAMBytes > 0 && d.DiskBytes > 0 && d.Repeats > 0 && d.RivalTime > 0 && d.Adders >= 0 && d.Workers >= 0,
		"negative sizes")
	need(d.RAMBytes >= rivals.MinRAMBytes, "RAM of %d bytes: want %d at least", d.RAMBytes, rivals.MinRAMBytes)
	need(d.CacheBytes >= 0 && d.CacheBytes < d.RAMBytes, "a RAM cache of %d bytes in %d", d.CacheBytes, d.RAMBytes)
	need(d.UniqueShare > 0 && d.UniqueShare < 1, "share %v of new URLs: want between 0 and 1", d.UniqueShare)
	need(d.Misses >= d.UniqueShare && d.Misses <= 1, "share %v of misses: want at least that of new URLs, at most 1", d.Misses)
	for _, u := range d.Known {
		need(u >= 0 && u <= 1e11, "%d known keys: want 0 to 1e11", u)
	}
	return errors.Join(faults...)
}

// stream is the stream of links with u known URLs.
func (d *Drum) stream(u int64) links.Options {
	o := links.Options{Seed: d.Seed, UniqueShare: d.UniqueShare, Known: u, Recent: (1 - d.Misses) / (1 - d.UniqueShare)}
	if o.Recent == 0 {
		o.Recent = links.NoRecent
	}
	return o
}

// drumBench is a RunDrum under way.
type drumBench struct {
	Drum
	dirs     []string // of this run alone
	progress func(string)
}

// RunDrum measures and returns the report.
func RunDrum(ctx context.Context, d Drum, progress func(string)) (_ *report.Report, err error) {
	if err := d.complete(); err != nil {
		return nil, err
	}
	b := &drumBench{Drum: d, progress: progress}
	if err := b.room(); err != nil {
		return nil, err
	}
	if err := b.makeDirs(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.removeDirs()) }()
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
	runs []*DrumRun
	// skewed and even are the pairs of the skewed case.
	even, skewed []*DrumRun
	// numbered are the runs whose verdicts were compared link by link.
	numbered []*DrumRun
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
		if m == formCached || m == rivals.Bloom || m == rivals.MercatorA {
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
	}
	if b.URLs != "" {
		job.Links = 0
	}
	if slices.Contains(rivals.Names(), method) {
		job.MaxTime, job.LoadTime = b.RivalTime, loadTimes*b.RivalTime
	}
	return job
}

// one runs a job, in a child process if there is a program for that, and empties the directories.
func (b *drumBench) one(ctx context.Context, job *drumJob, what string) (run *DrumRun, err error) {
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
		if errors.Is(err, limit.ErrMemory) && slices.Contains(rivals.Names(), job.Method) {
			run, err = &DrumRun{Method: job.Method, Known: job.Stream.Known, Skipped: err.Error()}, nil
		}
	}
	err = errors.Join(err, b.removeDirs())
	if err == nil {
		err = b.makeDirs()
	}
	if err != nil {
		return nil, err
	}
	if run.Skipped != "" {
		progress(run.Skipped)
		return run, nil
	}
	progress(fmt.Sprintf("%.2f M links/s, %.1f B/link, %d passes", run.rate()/1e6, run.io(), run.Passes))
	return run, nil
}

// room refuses to begin where a disk would become full: what waits, the cache twice and somewhat, the queue.
func (b *drumBench) room() error {
	var most int64
	for _, u := range b.Known {
		most = max(most, u)
	}
	links := b.Links
	if b.Theorem {
		most, links = theoremMostKnown, theoremMostKnown
	}
	need := b.DiskBytes + b.DiskBytes/4 + int64(24*(float64(most)+b.UniqueShare*float64(links))) + 2*queueBytes
	var free int64
	seen := map[uint64]bool{}
	for _, dir := range b.Dirs {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			return fmt.Errorf("bench: drum: directory %s: %w", dir, err)
		}
		if seen[st.Dev] {
			continue
		}
		seen[st.Dev] = true
		n, _, err := disk.OS().Space(dir)
		if err != nil {
			return fmt.Errorf("bench: drum: free space of %s: %w", dir, err)
		}
		free += n
	}
	if free < need {
		return fmt.Errorf("bench: drum: %s free, this may take %s: lower --disk, --known or --links: %w",
			report.DecimalBytes(float64(free)), report.DecimalBytes(float64(need)), unix.ENOSPC)
	}
	return nil
}

// makeDirs makes a directory that nobody else has in each of Dirs.
func (b *drumBench) makeDirs() error {
	if b.dirs == nil {
		var id [6]byte
		_, _ = rand.Read(id[:]) // never fails
		for _, dir := range b.Dirs {
			abs, err := filepath.Abs(dir)
			if err != nil {
				return fmt.Errorf("bench: drum: %w", err)
			}
			b.dirs = append(b.dirs, filepath.Join(abs, "drumbeat-bench-"+hex.EncodeToString(id[:])))
		}
	}
	for _, dir := range b.dirs {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("bench: drum: %w", err)
		}
	}
	return nil
}

func (b *drumBench) removeDirs() error {
	var errs []error
	for _, dir := range b.dirs {
		if err := os.RemoveAll(dir); err != nil {
			errs = append(errs, fmt.Errorf("bench: drum: %w", err))
		}
	}
	return errors.Join(errs...)
}
