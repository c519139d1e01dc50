package extract

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"drumbeat/internal/bug"
	"drumbeat/warc"
)

// LiveOptions are the options of a Live.
type LiveOptions struct {
	// Options are those of Run, without Dirs, Out, Stream, RAMBytes, Begin and Progress.
	Options
	Files        warc.Options // where the WARC files of the crawl are
	Crawl, Agent string       // id of the crawl, and the token of its robots.txt rules
	Workers      int          // each takes up to WorkerBytes
	// Room, if set, returns why there is no room for some bytes of parts, nil if there is.
	Room func(need int64) error
	// Failed, if set, is told why a WARC file has no part, or what is damaged in it. Several goroutines call it.
	Failed func(file string, err error)
}

// WorkerBytes is the most RAM of a worker.
const WorkerBytes = workerBytes

// maxAttempts is how often a Live tries to make a part.
const maxAttempts = 3

// Live makes parts while the crawl runs: of the WARC files that have their final names, which never change.
// The parts are those that Run would make, in the same directory, so either continues after the other.
type Live struct {
	job
	opt  LiveOptions
	free func()

	mu       sync.Mutex
	ended    map[string]int // WARC files with a part, as maxAttempts, and the failed attempts of others
	progress LiveProgress
}

// LiveProgress says what a Live has done.
type LiveProgress struct {
	Parts, Pages int64 // that it made
	Waiting      int64 // final WARC files that have no part yet, as of the last Pass
	Faults       int64 // WARC files without a part after an attempt, damaged records, and Passes that ended early
}

// OpenLive opens and locks the directory of the parts. Its error wraps ErrOther or tabular.ErrNotEmpty if the directory
// has something else.
func OpenLive(opt LiveOptions) (*Live, error) {
	if err := opt.complete(); err != nil {
		return nil, err
	}
	l := &Live{opt: opt, ended: map[string]int{}}
	l.job = job{opt: &l.opt.Options, files: opt.Files, agent: opt.Agent, report: &Report{Crawl: opt.Crawl}}
	var err error
	l.free, err = l.openTarget()
	return l, err
}

// Close unlocks the directory.
func (l *Live) Close() { l.free() }

// Progress may be called at any time.
func (l *Live) Progress() LiveProgress {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.progress
}

// Fault counts a fault that is not of one WARC file.
func (l *Live) Fault() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.progress.Faults++
}

// Pass makes the parts that are missing. A WARC file of which no part can be made is told to Failed, and
// tried again in the next two Passes. Pass ends early if ctx ends or Options.Room returns an error. One Pass
// at a time.
func (l *Live) Pass(ctx context.Context) error {
	if err := l.countWaiting(); err != nil {
		return err
	}
	slots := make(chan struct{}, max(1, l.opt.Workers)) // a worker also reads the index of its file
	var workers sync.WaitGroup
	err := warc.WalkFinal(l.files, l.Ended, func(x *warc.Index) error {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		v, err := l.volume(x)
		if err == nil && v != nil && l.opt.Room != nil {
			if err := l.opt.Room(v.data.Size() * int64(cap(slots))); err != nil {
				return errors.Join(err, v.data.Close())
			}
		}
		if err != nil || v == nil {
			<-slots
			l.end(x.Name, err)
			return nil
		}
		workers.Add(1)
		go func() {
			defer workers.Done()
			defer bug.Fatal()
			err := l.part(ctx, v)
			if err = errors.Join(err, v.data.Close()); ctx.Err() == nil {
				l.end(v.name, err)
			}
			<-slots
		}()
		return nil
	})
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Ended tells whether a WARC file has its part, or has failed too often. name is without suffix.
func (l *Live) Ended(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended[name] >= maxAttempts
}

// countWaiting counts the WARC files without a part.
func (l *Live) countWaiting() error {
	files, err := warc.Files(l.files.Set)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.progress.Waiting = 0
	for _, file := range files {
		if l.ended[warc.NameOf(file)] < maxAttempts {
			l.progress.Waiting++
		}
	}
	return nil
}

// end notes that a WARC file has its part, or why not.
func (l *Live) end(name string, err error) {
	l.job.mu.Lock()
	damage := l.report.Damage
	made := LiveProgress{Parts: int64(l.report.Parts - l.report.KeptParts), Pages: l.report.New}
	l.report.Damage, l.report.Notes = nil, nil
	l.job.mu.Unlock()
	l.mu.Lock()
	l.progress.Parts, l.progress.Pages = made.Parts, made.Pages
	l.progress.Faults += int64(len(damage))
	if err == nil {
		l.ended[name] = maxAttempts
		l.progress.Waiting--
	} else {
		l.ended[name]++
		l.progress.Faults++
	}
	l.mu.Unlock()
	if l.opt.Failed == nil {
		return
	}
	for _, d := range damage {
		l.opt.Failed(name, d)
	}
	if err != nil {
		l.opt.Failed(name, err)
	}
}
