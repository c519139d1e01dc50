package drum

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"drumbeat/bench/baselines"
	"drumbeat/bench/links"
	"drumbeat/bench/measure"
)

// drumJob is one measurement of check+update: a method, a stream and what it may take. It goes to a child
// process as JSON.
type drumJob struct {
	Method string // name of a form or of a baseline
	Dirs   []string
	// RAMBytes is R, DiskBytes D; CacheBytes of R are for the RAM cache of a form that has one.
	RAMBytes, DiskBytes, CacheBytes int64
	BufferBytes                     int // M; 0: by R
	Workers                         int // of a pass; 0: as many as processors
	Adders                          int // goroutines that add

	Stream links.Options
	URLs   string // a file in place of the stream
	// The run ends after Links links, or Passes passes if that is set, or when MaxTime has been measured.
	Links   int64
	Passes  int64
	MaxTime time.Duration
	// LoadTime is how long it may take to load the known keys; 0: as long as it takes.
	LoadTime time.Duration
	// Skew is the share of links that are to one URL.
	Skew float64
	// Numbered makes the aux of each link its number in the stream, for comparing verdicts link by link.
	Numbered bool

	others []baselines.Method // besides those that bench knows; the process that opens one has them
}

// Result is what one measurement found.
type Result struct {
	Method string
	// Skipped says why nothing was measured: loading took too long, or the memory limit was too tight for a
	// baseline.
	Skipped string
	// Links were checked and updated, Fresh of them to URLs that weren't known; Found of them were said to
	// be new. Right is true if the new ones were the fresh ones: one by one where links are numbered, else
	// by a hash of their texts.
	Links, Fresh, Found int64
	Right, TruthKnown   bool
	// Misses were not in the RAM cache in front; Links where there is none.
	Misses int64
	// TextBytes is the length of all URLs, MissBytes that of those that missed the cache.
	TextBytes, MissBytes int64
	// FreshBytes is the length of the texts of those found new.
	FreshBytes int64

	// Adding, Passing and Syncing are the time that the method took, Total with the generator's, without
	// Load's. CPU is user and system time of what is measured.
	Adding, Passing, Syncing, Total, Load, CPU time.Duration
	// ReadBytes and WrittenBytes are all I/O during the measurement, the queue's included, QueueBytes of
	// them.
	ReadBytes, WrittenBytes, QueueBytes int64
	// TextWritten is what was written for text while links waited, KeysWritten for keys.
	TextWritten, KeysWritten int64
	// FileRead and FileWritten are the I/O of the file of known keys, DRUM's cache.
	FileRead, FileWritten int64
	Allocs                int64

	// Known is U, the keys known before; Keys after, in CacheBytes on disk.
	Known, Keys, CacheBytes int64
	// Buckets, RoundBytes and BufferBytes are k, r in RAM and M; Batch is the links between merges, by
	// Theorem 1 or 2. Passes have been made, Merged links in them.
	Buckets                 int
	RoundBytes, BufferBytes int64
	Batch                   float64
	Passes, Merged          int64
	// Model is what drum.Options.Cost says of the store as it is, with the queue, in bytes for each link.
	Model float64
	// KeyBytes of a known URL in the file that is merged: H, or bq for Polybot.
	KeyBytes float64

	// PlannedRAM is what the method says that it takes at most, PeakRSS what the kernel saw; LimitBytes and
	// PeakBytes are the memory cgroup's, with the page cache; 0 without.
	PlannedRAM, PeakRSS, LimitBytes, PeakBytes int64
	// PeakFiles is the most files that were open at a time, PeakDisk the most bytes on disk as seen between
	// passes.
	PeakFiles, PeakDisk int64
	// Unlimited says why there was no cgroup.
	Unlimited string
}

// measured is the time that counts.
func (r *Result) measured() time.Duration { return r.Adding + r.Passing + r.Syncing }

// rate is links per second of what is measured.
func (r *Result) rate() float64 { return float64(r.Links) / r.measured().Seconds() }

// io is the bytes read and written for each link.
func (r *Result) io() float64 { return float64(r.ReadBytes+r.WrittenBytes) / float64(r.Links) }

// Child is the other end of a measurement in a process of its own; others are the methods besides those
// that bench knows. It sets the garbage collector's limits for the process.
func Child(ctx context.Context, in io.Reader, out io.Writer, others ...baselines.Method) error {
	return measure.Child(in, out, func(job *drumJob, progress func(string)) (*Result, error) {
		// DRUM's tuples aren't on the Go heap. What methods have there may not grow into the limit.
		debug.SetGCPercent(50)
		debug.SetMemoryLimit(job.RAMBytes + 32<<20)
		job.others = others
		return runDrumJob(ctx, job, progress)
	})
}

// spawn runs a job in a child process with a limit on its memory, page cache included. Where the system has
// no such limit, the run says so.
func (job *drumJob) spawn(ctx context.Context, command []string, limitBytes int64, progress func(string)) (run *Result, err error) {
	run, usage, err := measure.Run[*Result](ctx, command, job, limitBytes, progress)
	unlimited := ""
	if no, ok := errors.AsType[*measure.UnavailableError](err); ok {
		unlimited = no.Error()
		run, _, err = measure.Run[*Result](ctx, command, job, 0, progress)
	} else if limitBytes == 0 {
		unlimited = "no limit was asked for"
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
