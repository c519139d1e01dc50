package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime/debug"
	"syscall"
	"time"

	"drumbeat/bench/limit"
	"drumbeat/bench/links"
)

// drumJob is one measurement of check+update: a method, a stream and what it may take. It goes to a child process as
// JSON.
type drumJob struct {
	Method string // name of a form or of a rival
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
}

// DrumRun is what one measurement found.
type DrumRun struct {
	Method string
	// Skipped says why nothing was measured: loading took too long, or the memory limit was too tight for a rival.
	Skipped string
	// Links were checked and updated, Fresh of them to URLs that weren't known; Found of them were said to be new. Right
	// is true if the new ones were the fresh ones: one by one where links are numbered, else by a hash of their texts.
	Links, Fresh, Found int64
	Right, TruthKnown   bool
	// Misses were not in the RAM cache in front; Links where there is none.
	Misses int64
	// TextBytes is the length of all URLs, MissBytes that of those that missed the cache.
	TextBytes, MissBytes int64
	// FreshBytes is the length of the texts of those found new.
	FreshBytes int64

	// Adding, Passing and Syncing are the time that the method took, Total with the generator's, without Load's. CPU is
	// user and system time of what is measured.
	Adding, Passing, Syncing, Total, Load, CPU time.Duration
	// ReadBytes and WrittenBytes are all I/O during the measurement, the queue's included, QueueBytes of them.
	ReadBytes, WrittenBytes, QueueBytes int64
	// TextWritten is what was written for text while links waited, KeysWritten for keys.
	TextWritten, KeysWritten int64
	// FileRead and FileWritten are the I/O of the file of known keys, DRUM's cache.
	FileRead, FileWritten int64
	Allocs                int64

	// Known is U, the keys known before; Keys after, in CacheBytes on disk.
	Known, Keys, CacheBytes int64
	// Buckets, RoundBytes and BufferBytes are k, r in RAM and M; Batch is the links between merges, by Theorem 1 or 2.
	// Passes have been made, Merged links in them.
	Buckets                 int
	RoundBytes, BufferBytes int64
	Batch                   float64
	Passes, Merged          int64
	// Model is what drum.Options.Cost says of the store as it is, with the queue, in bytes for each link.
	Model float64
	// KeyBytes of a known URL in the file that is merged: H, or bq for Polybot.
	KeyBytes float64

	// PlannedRAM is what the method says that it takes at most, PeakRSS what the kernel saw; LimitBytes and PeakBytes are
	// the memory cgroup's, with the page cache; 0 without.
	PlannedRAM, PeakRSS, LimitBytes, PeakBytes int64
	// PeakFiles is the most files that were open at a time, PeakDisk the most bytes on disk as seen between passes.
	PeakFiles, PeakDisk int64
	// Unlimited says why there was no cgroup.
	Unlimited string
}

// measured is the time that counts.
func (r *DrumRun) measured() time.Duration { return r.Adding + r.Passing + r.Syncing }

// rate is links per second of what is measured.
func (r *DrumRun) rate() float64 { return float64(r.Links) / r.measured().Seconds() }

// io is the bytes read and written for each link.
func (r *DrumRun) io() float64 { return float64(r.ReadBytes+r.WrittenBytes) / float64(r.Links) }

// childLine is a line that a child writes: progress, or the result.
type childLine struct {
	Progress string   `json:",omitempty"`
	Error    string   `json:",omitempty"`
	Run      *DrumRun `json:",omitempty"`
}

// DrumChild is the other end of a measurement in a process of its own: it reads a job from in and writes progress and
// outcome to out, and sets the garbage collector's limits for the process. The error is for the exit code alone and has been written.
func DrumChild(ctx context.Context, in io.Reader, out io.Writer) error {
	var job drumJob
	write := func(l childLine) {
		b, err := json.Marshal(l)
		if err == nil {
			_, _ = out.Write(append(b, '\n')) // a parent that is gone needs nothing
		}
	}
	err := json.NewDecoder(in).Decode(&job)
	var run *DrumRun
	if err == nil {
		// DRUM's tuples aren't on the Go heap. What methods have there may not grow into the limit.
		debug.SetGCPercent(50)
		debug.SetMemoryLimit(job.RAMBytes + 32<<20)
		run, err = runDrumJob(ctx, &job, func(what string) { write(childLine{Progress: what}) })
	}
	if err != nil {
		write(childLine{Error: err.Error()})
		return err
	}
	write(childLine{Run: run})
	return nil
}

// childGrace is how long a child may take to remove its files after a signal.
const childGrace = 20 * time.Second

// spawn runs a job in a child process with a limit on its memory, page cache included; where that can't be had the run
// says so.
func (job *drumJob) spawn(ctx context.Context, command []string, limitBytes int64, progress func(string)) (*DrumRun, error) {
	unlimited := ""
	if limitBytes > 0 {
		run, usage, err := job.spawnOnce(ctx, command, limitBytes, progress)
		var no *limit.UnavailableError
		if !errors.As(err, &no) {
			if run != nil {
				run.LimitBytes, run.PeakBytes = usage.LimitBytes, usage.PeakBytes
			}
			return run, err
		}
		unlimited = no.Error()
	} else {
		unlimited = "no limit was asked for"
	}
	run, _, err := job.spawnOnce(ctx, command, 0, progress)
	if run != nil {
		run.Unlimited = unlimited
	}
	return run, err
}

// spawnOnce runs a child, with a limit if that isn't 0.
func (job *drumJob) spawnOnce(
	ctx context.Context, command []string, limitBytes int64, progress func(string),
) (run *DrumRun, usage limit.Usage, err error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = childGrace
	in, out := io.Pipe()
	defer in.Close()
	cmd.Stdout = out
	var complaint tail
	cmd.Stderr = &complaint
	jobIn, err := json.Marshal(job)
	if err != nil {
		return nil, usage, fmt.Errorf("bench: drum: job: %w", err)
	}
	cmd.Stdin = &oneRead{b: jobIn}
	ended := make(chan struct{})
	var said string
	go func() { // ends with the pipe, which is closed below
		defer close(ended)
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var l childLine
			if json.Unmarshal(lines.Bytes(), &l) != nil {
				continue // what a crash prints goes to stderr
			}
			if l.Progress != "" {
				progress(l.Progress)
			}
			if l.Error != "" {
				said = l.Error
			}
			if l.Run != nil {
				run = l.Run
			}
		}
		_, _ = io.Copy(io.Discard, in) // a line that was too long
	}()
	if limitBytes > 0 {
		usage, err = limit.Run(cmd, limitBytes)
	} else {
		err = cmd.Run()
	}
	out.Close()
	<-ended
	switch {
	case ctx.Err() != nil:
		return nil, usage, ctx.Err()
	case err != nil && said != "":
		err = errors.New(said)
	case err != nil && complaint.len() > 0:
		err = fmt.Errorf("%w: %s", err, complaint.String())
	case err == nil && run == nil:
		err = errors.New("the child process ended without a result")
	}
	if err != nil {
		return nil, usage, fmt.Errorf("bench: drum: %s: %w", job.Method, err)
	}
	return run, usage, nil
}

// oneRead is a reader of some bytes that os/exec doesn't wait for.
type oneRead struct{ b []byte }

func (r *oneRead) Read(p []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.b)
	r.b = r.b[n:]
	return n, nil
}

// tail keeps the last bytes that were written to it.
type tail struct{ b []byte }

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if len(t.b) > tailBytes {
		t.b = append(t.b[:0], t.b[len(t.b)-tailBytes:]...)
	}
	return len(p), nil
}

func (t *tail) len() int       { return len(t.b) }
func (t *tail) String() string { return string(t.b) }
