package drum

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"drumbeat/bench/links"
	"drumbeat/bench/measure"
	"drumbeat/disk"
)

// drumJob is one measurement of check+update: a method, a stream and limits. It goes to a child process as
// JSON.
type drumJob struct {
	Method string // name of a form or of a baseline
	Dirs   []string
	// RAMBytes is R, DiskBytes is D. CacheBytes is the part of R for the RAM cache of a form that has one.
	RAMBytes, DiskBytes, CacheBytes int64
	BufferBytes                     int // M; 0: chosen by R
	Workers                         int // merge workers; 0: the number of processors
	Adders                          int // goroutines that add

	Stream links.Options
	URLs   string // a file instead of the stream
	// The run ends after Links links, after Passes passes if not 0, or after MaxTime of measured time.
	Links   int64
	Passes  int64
	MaxTime time.Duration
	// LoadTime bounds the time to load the known keys; 0 means no limit.
	LoadTime time.Duration
	// Numbered makes the aux of each link its number in the stream, to compare verdicts link by link.
	Numbered bool

	fs disk.FS // nil: the operating system's, past the page cache where a method gains from that
}

// Result is the result of one measurement.
type Result struct {
	Method string
	// Skipped is the reason why nothing was measured: loading took too long, or the memory limit was too
	// tight for a baseline.
	Skipped string
	// Links is the number of links checked, Fresh the number to unknown URLs, and Found the number reported
	// as new. Right is true if the reported links were the fresh ones: one by one if links are numbered,
	// otherwise by a hash of their texts.
	Links, Fresh, Found int64
	Right, TruthKnown   bool
	// Misses is the number of links not in the RAM cache in front, or Links without a cache.
	Misses int64
	// TextBytes is the length of all URLs, MissBytes that of the cache misses.
	TextBytes, MissBytes int64

	// Adding, Passing and Syncing are the times of the method. Total includes the generator but not Load.
	// CPU is the user and system time of the measured work.
	Adding, Passing, Syncing, Total, Load, CPU time.Duration
	// ReadBytes and WrittenBytes are all I/O of the measurement; QueueBytes is the queue's part.
	ReadBytes, WrittenBytes, QueueBytes int64
	// TextWritten is the number of bytes written for waiting text.
	TextWritten int64
	Allocs      int64

	// Known is U, the keys known before. Keys is the number after, stored in CacheBytes on disk.
	Known, Keys, CacheBytes int64
	// Buckets, RoundBytes and BufferBytes are k, r in RAM and M. Batch is the number of links between
	// merges, by Theorem 1 or 2. Merged links took part in Passes passes.
	Buckets                 int
	RoundBytes, BufferBytes int64
	Batch                   float64
	Passes, Merged          int64
	// Model is the I/O in bytes per link that drum.Options.Cost predicts for this store with the queue.
	Model float64
	// KeyBytes is the bytes per known URL in the merged file: H, or bq for Polybot.
	KeyBytes float64

	// PlannedRAM is the method's own bound, PeakRSS the kernel's figure. LimitBytes and PeakBytes are those
	// of the memory cgroup, with the page cache; 0 without a cgroup.
	PlannedRAM, PeakRSS, LimitBytes, PeakBytes int64
	// PeakFiles is the largest number of open files, PeakDisk the largest number of bytes on disk between
	// passes.
	PeakFiles, PeakDisk int64
	// Unlimited is the reason why there was no cgroup.
	Unlimited string
}

// measured returns the time that counts.
func (r *Result) measured() time.Duration { return r.Adding + r.Passing + r.Syncing }

// rate returns links per second of measured time.
func (r *Result) rate() float64 { return float64(r.Links) / r.measured().Seconds() }

// io returns the bytes read and written per link.
func (r *Result) io() float64 { return float64(r.ReadBytes+r.WrittenBytes) / float64(r.Links) }

// Child is the counterpart of a measurement in a process of its own. It sets the garbage collector's limits
// for the process.
func Child(ctx context.Context, in io.Reader, out io.Writer) error {
	return measure.Child(in, out, func(job *drumJob, progress func(string)) (*Result, error) {
		// DRUM's tuples are outside the Go heap. A method's Go heap must not grow up to the limit.
		debug.SetGCPercent(50)
		debug.SetMemoryLimit(job.RAMBytes + 32<<20)
		return runDrumJob(ctx, job, progress)
	})
}

// spawn runs a job in a child process with a memory limit, page cache included. If the system has no such
// limit, the result says so.
func (job *drumJob) spawn(ctx context.Context, command []string, limitBytes int64,
	progress func(string)) (run *Result, err error) {
	run, usage, err := measure.Run[*Result](ctx, command, job, limitBytes, progress)
	unlimited := ""
	if no, ok := errors.AsType[*measure.UnavailableError](err); ok {
		unlimited = no.Error()
		run, _, err = measure.Run[*Result](ctx, command, job, 0, progress)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("bench: drum: %s: %w", job.Method, err)
	}
	run.Unlimited, run.LimitBytes, run.PeakBytes = unlimited, usage.LimitBytes, usage.PeakBytes
	return run, nil
}
