package state

import (
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/bug"
)

// Progress is the progress of reading a crawl's files.
type Progress struct {
	Done, Total int64 // bytes; Total is the size of the files at the start
	Elapsed     time.Duration
	What        string // structure being read
}

// ProgressMeter reports Progress by the bytes read.
type ProgressMeter struct {
	saved  *Saved
	tell   func(Progress)
	total  int64
	began  time.Time
	what   atomic.Pointer[string]
	counts atomic.Bool // Progress.Done is counted instead of the bytes read
	count  atomic.Int64
	ended  chan struct{}
	ticker sync.WaitGroup
}

// StartProgress calls tell, unless it is nil, every interval (0 means 1 s) from another goroutine until
// End, which calls it once more. parts are the subdirectories of the crawl's directories whose sizes Total
// adds up.
func (s *Saved) StartProgress(tell func(Progress), every time.Duration, parts ...string) *ProgressMeter {
	p := &ProgressMeter{saved: s, tell: tell, began: time.Now(), ended: make(chan struct{})}
	p.Set("")
	if tell == nil {
		return p
	}
	for _, set := range []disk.Set{s.Set, s.Out} {
		for i := range set.Paths {
			for _, part := range parts {
				p.total += treeBytes(set.FS, set.Path(i, part))
			}
		}
		if !s.SeparateOut {
			break
		}
	}
	if every == 0 {
		every = time.Second
	}
	p.ticker.Add(1)
	go func() {
		defer p.ticker.Done()
		defer bug.Fatal()
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-p.ended:
				return
			case <-t.C:
				tell(p.now())
			}
		}
	}()
	return p
}

// Set sets Progress.What. It is safe for concurrent use.
func (p *ProgressMeter) Set(what string) { p.what.Store(&what) }

// Add adds n to Progress.Done, which from its first call on is the sum of these numbers. Readers call it that
// read some bytes of the files several times, or not at all. It is safe for concurrent use, and with a nil p.
func (p *ProgressMeter) Add(n int64) {
	if p != nil {
		p.counts.Store(true)
		p.count.Add(n)
	}
}

// Complete makes Progress.Done the total, if Add was called: all has been read that was to be read.
func (p *ProgressMeter) Complete() { p.count.Store(p.total) }

func (p *ProgressMeter) now() Progress {
	done := p.saved.Meter.Counts().ReadBytes
	if p.counts.Load() {
		done = min(p.count.Load(), p.total)
	}
	return Progress{Done: done, Total: p.total, Elapsed: time.Since(p.began), What: *p.what.Load()}
}

// End stops the goroutine and calls tell a last time.
func (p *ProgressMeter) End() {
	close(p.ended)
	p.ticker.Wait()
	if p.tell != nil {
		p.tell(p.now())
	}
}

// treeBytes returns the size of the files below a directory. It skips unreadable ones.
func treeBytes(fsys disk.FS, dir string) int64 {
	names, err := fsys.List(dir)
	if err != nil {
		return 0
	}
	var sum int64
	for _, name := range names {
		path := dir + "/" + name
		if _, err := fsys.List(path); err == nil {
			sum += treeBytes(fsys, path)
		} else if size, err := fsys.Size(path); err == nil {
			sum += size
		}
	}
	return sum
}
