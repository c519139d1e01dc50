package state

import (
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/bug"
)

// Progress is how far an audit is.
type Progress struct {
	Done, Total int64 // bytes; Total is that of the files at the start
	Elapsed     time.Duration
	What        string // what is being read
}

// ProgressMeter tells Progress how far an audit is, by the bytes that were read.
type ProgressMeter struct {
	saved  *Saved
	tell   func(Progress)
	total  int64
	began  time.Time
	what   atomic.Pointer[string]
	ended  chan struct{}
	ticker sync.WaitGroup
}

// StartProgress begins to call tell, if it isn't nil, every so often (0: each second) and at the end; end ends it. parts of the
// crawl's files are read, by their names' first element under a directory.
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

// Set names what is being read. Any goroutine may call it.
func (p *ProgressMeter) Set(what string) { p.what.Store(&what) }

func (p *ProgressMeter) now() Progress {
	return Progress{Done: p.saved.Meter.Counts().ReadBytes, Total: p.total, Elapsed: time.Since(p.began), What: *p.what.Load()}
}

// End stops the ticks; the last one tells the whole.
func (p *ProgressMeter) End() {
	close(p.ended)
	p.ticker.Wait()
	if p.tell != nil {
		p.tell(p.now())
	}
}

// treeBytes adds up the files below a directory; what can't be looked at counts nothing.
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
