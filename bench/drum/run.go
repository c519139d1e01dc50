package drum

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"runtime/debug"
	gosync "sync"
	"time"

	"drumbeat/bench/links"
	"drumbeat/bench/measure"
	"drumbeat/disk"
	"drumbeat/internal/cputime"
	"drumbeat/internal/human"
)

// drumRun is a running measurement, in the process that does it.
type drumRun struct {
	job   *drumJob
	meter *disk.Meter
	src   *drumSource
	queue *drumQueue
	c     checker
	run   Result

	round    [][]links.Batch // by adder
	perBatch int
	progress func(string)
	said     time.Time
	// The clocks at the start of the current measurement.
	began    time.Time
	beganCPU time.Duration
}

// runDrumJob runs a job in this process. The job's directories must exist; the caller removes them.
func runDrumJob(ctx context.Context, job *drumJob, progress func(string)) (_ *Result, err error) {
	job.Adders = job.adders()
	if job.Workers == 0 {
		job.Workers = runtime.GOMAXPROCS(0)
	}
	form, _ := findForm(job.Method)
	open := &openFS{FS: job.fs}
	if open.FS == nil {
		open.FS = disk.OS()
		if method, _ := find(job.Method); form.ours || method.PastCache {
			open.FS = disk.Direct()
		}
	}
	r := &drumRun{job: job, meter: disk.NewMeter(open), progress: progress}
	r.run.Method = job.Method
	if r.src, err = newDrumSource(job); err != nil {
		return nil, err
	}
	defer r.src.close()
	if r.queue, err = newDrumQueue(r.meter, path.Join(job.Dirs[0], "queue"), form.ours, job.Numbered); err != nil {
		return nil, err
	}
	defer r.queue.close()
	if r.c, err = openChecker(job, r.meter, r.queue); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.c.close()) }()
	if err := r.load(ctx); errors.Is(err, errLoadTime) {
		r.run.Known, r.run.Skipped = job.Stream.Known, err.Error()
		return &r.run, nil
	} else if err != nil {
		return nil, fmt.Errorf("bench: drum: %s: load known URLs: %w", job.Method, err)
	}
	r.makeRound()
	if err := r.measure(ctx); err != nil {
		return nil, fmt.Errorf("bench: drum: %s: %w", job.Method, err)
	}
	r.run.PeakFiles = open.peak.Load()
	return &r.run, nil
}

// errLoadTime ends the loading of known keys.
var errLoadTime = errors.New("loading the known keys exceeded the time limit")

// load adds the known keys; its time doesn't count.
func (r *drumRun) load(ctx context.Context) error {
	began := time.Now()
	if r.job.Stream.Known > 0 {
		r.progress("load the known URLs")
	}
	loading := ctx
	if t := r.job.LoadTime; t > 0 {
		var cancel context.CancelFunc
		loading, cancel = context.WithTimeoutCause(ctx, t, errLoadTime)
		defer cancel()
	}
	if err := r.c.load(loading, r.src); err != nil {
		if ctx.Err() == nil && context.Cause(loading) == errLoadTime {
			return fmt.Errorf("%w of %s", errLoadTime, human.Duration(r.job.LoadTime))
		}
		return err
	}
	for _, dir := range r.job.Dirs {
		if err := r.meter.SyncFS(dir); err != nil {
			return err
		}
	}
	r.run.Load, r.run.Known = time.Since(began), r.job.Stream.Known
	debug.FreeOSMemory() // free the chunks of keys
	measure.ResetPeakRSS()
	return nil
}

// makeRound allocates the links of one round, which are made first and then added. A round is small enough
// for merges to start within a percent of their due time.
func (r *drumRun) makeRound() {
	var now Result
	r.c.report(&now)
	n := linkBatch * maxBatches
	if now.Batch > 0 {
		n = min(n, max(32, int(now.Batch)/200/r.job.Adders))
	}
	if r.job.Passes > 0 {
		n = 1 // an overfull bucket takes a second round of merging for its part of the cache
	}
	r.perBatch = min(n, linkBatch)
	r.round = make([][]links.Batch, r.job.Adders)
	for i := range r.round {
		r.round[i] = make([]links.Batch, max(1, n/r.perBatch))
	}
}

// start and stop enclose the measured work; stop adds the time to a sum and reports whether time is left.
func (r *drumRun) start() { r.beganCPU, r.began = cputime.Process(), time.Now() }

func (r *drumRun) stop(sum *time.Duration) {
	*sum += time.Since(r.began)
	r.run.CPU += cputime.Process() - r.beganCPU
}

func (r *drumRun) measure(ctx context.Context) error {
	before, began := r.meter.Counts(), time.Now()
	heap := measure.Heap()
	for !r.enough() {
		if err := ctx.Err(); err != nil {
			return err
		}
		got, err := r.makeLinks()
		if err != nil {
			return err
		}
		if !got {
			break
		}
		if err := r.addLinks(); err != nil {
			return err
		}
		if err := r.passIfDue(ctx); err != nil {
			return err
		}
		r.tell()
	}
	if err := r.end(ctx); err != nil {
		return err
	}
	run := &r.run
	allocs, _ := heap()
	run.Allocs = int64(allocs)
	after := r.meter.Counts()
	run.ReadBytes, run.WrittenBytes = after.ReadBytes-before.ReadBytes, after.WrittenBytes-before.WrittenBytes
	run.Total = time.Since(began)
	run.Links, run.Fresh, run.TextBytes = r.src.links, r.src.fresh, r.src.textBytes
	run.Found, run.QueueBytes = int64(r.queue.found.count), r.queue.written
	run.TruthKnown = r.src.file == nil
	run.Right = run.TruthKnown && r.queue.found == r.src.verdict
	r.c.report(run)
	run.PeakRSS = measure.PeakRSS()
	return nil
}

// enough reports whether the run is complete.
func (r *drumRun) enough() bool {
	run := &r.run
	if r.job.MaxTime > 0 && run.measured() >= r.job.MaxTime {
		return true
	}
	if r.job.Passes > 0 {
		return run.Passes >= r.job.Passes
	}
	return r.job.Links > 0 && r.src.links >= r.job.Links
}

// makeLinks fills a round; it returns false if there are no more links. The last batches may be empty.
func (r *drumRun) makeLinks() (got bool, err error) {
	for i := range r.round {
		for j := range r.round[i] {
			n := r.perBatch
			if r.job.Passes == 0 && r.job.Links > 0 {
				n = int(min(int64(n), r.job.Links-r.src.links))
			}
			b := &r.round[i][j]
			if n == 0 {
				b.Keys, b.Texts, b.Fresh = b.Keys[:0], b.Texts[:0], b.Fresh[:0]
				continue
			}
			if err := r.src.next(b, n); err != nil {
				return false, err
			}
			got = got || len(b.Keys) > 0
		}
	}
	return got, nil
}

// addLinks adds a round. All goroutines begin at once; the time runs until the last has ended.
func (r *drumRun) addLinks() error {
	errs := make([]error, len(r.round))
	add := func(i int) {
		for j := range r.round[i] {
			if b := &r.round[i][j]; len(b.Keys) > 0 && errs[i] == nil {
				errs[i] = r.c.add(i, b)
			}
		}
	}
	r.start()
	defer r.stop(&r.run.Adding)
	var wg gosync.WaitGroup
	for i := range r.round[1:] {
		wg.Go(func() { add(i + 1) })
	}
	add(0)
	wg.Wait()
	return errors.Join(errs...)
}

func (r *drumRun) passIfDue(ctx context.Context) error {
	if !r.c.due() {
		if r.job.Passes > 0 {
			r.c.report(&r.run)
		}
		return nil
	}
	r.c.report(&r.run) // updates PeakDisk
	r.start()
	err := r.c.pass(ctx)
	r.stop(&r.run.Passing)
	r.c.report(&r.run)
	return err
}

// end answers all waiting links and syncs all files; both count as work.
func (r *drumRun) end(ctx context.Context) error {
	if r.job.Passes == 0 || r.run.Passes == 0 {
		r.c.report(&r.run) // updates PeakDisk
		r.start()
		err := r.c.flush(ctx)
		r.stop(&r.run.Passing)
		if err != nil {
			return err
		}
	}
	r.start()
	defer r.stop(&r.run.Syncing)
	if err := r.queue.flush(); err != nil {
		return err
	}
	for _, dir := range r.job.Dirs {
		if err := r.meter.SyncFS(dir); err != nil {
			return err
		}
	}
	return nil
}

// progressEvery is the interval of progress messages.
const progressEvery = 2 * time.Second

func (r *drumRun) tell() {
	if now := time.Now(); now.Sub(r.said) >= progressEvery {
		r.said = now
		r.progress(fmt.Sprintf("%.1f M links, %.2f M links/s, %d passes", float64(r.src.links)/1e6,
			float64(r.src.links)/1e6/max(1e-9, r.run.measured().Seconds()), r.run.Passes))
	}
}
