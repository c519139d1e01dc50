package crawl

import (
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/bug"
)

// progressMeter tells Progress how far an audit is, by the bytes that were read.
type progressMeter struct {
	r      *ring
	opt    *AuditOptions
	total  int64
	began  time.Time
	what   atomic.Pointer[string]
	ended  chan struct{}
	ticker sync.WaitGroup
}

// startProgress begins; end ends it. what of the crawl's files are read, by their names' first element under a directory.
func (r *ring) startProgress(opt *AuditOptions, parts ...string) *progressMeter {
	p := &progressMeter{r: r, opt: opt, began: time.Now(), ended: make(chan struct{})}
	p.set("")
	if opt.Progress == nil {
		return p
	}
	for _, set := range []disk.Set{r.set, r.out} {
		for i := range set.Paths {
			for _, part := range parts {
				p.total += treeBytes(set.FS, set.Path(i, part))
			}
		}
		if !r.separateOut {
			break
		}
	}
	every := opt.ProgressEvery
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
				opt.Progress(p.now())
			}
		}
	}()
	return p
}

func (p *progressMeter) set(what string) { p.what.Store(&what) }

func (p *progressMeter) now() AuditProgress {
	return AuditProgress{Done: p.r.meter.Counts().ReadBytes, Total: p.total, Elapsed: time.Since(p.began), What: *p.what.Load()}
}

// end stops the ticks; the last one tells the whole.
func (p *progressMeter) end() {
	close(p.ended)
	p.ticker.Wait()
	if p.opt.Progress != nil {
		p.opt.Progress(p.now())
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
