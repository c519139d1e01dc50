package budget

import (
	"context"
	"errors"
	"fmt"

	"drumbeat/disk"
	"drumbeat/queue"
)

// naiveCrawl is a virtual crawl through the two queues of the paper's §VII.B: Q holds the URLs that are
// within budget, QF those that failed. When Q is empty, the crawl reads all of QF and splits it again. Both
// are queues on disk. A PLD's budget applies to one pass; new URLs may use what the split of QF left of it
// until the next pass.
type naiveCrawl struct {
	opt      *Beast
	web      *budgetWeb
	set      disk.Set
	meter    *disk.Meter
	tails    *disk.Meter
	q        *queue.Queue
	failed   *queue.Queue
	old      *queue.Queue // the old QF while a split reads it
	pass     int
	gen      uint64
	left     []uint32 // pages that each PLD has left in this pass
	now      moved
	in, out  tally
	rest     tally // records in the queues at the end
	links    linkCount
	spam     int64
	stages   []stage
	given    []uint32
	exceeded int64
	written  int64 // bytes at the last checkpoint
}

func openNaiveCrawl(o *Beast, set disk.Set, web *budgetWeb) (c *naiveCrawl, err error) {
	c = &naiveCrawl{opt: o, web: web, set: set, meter: disk.NewMeter(set.FS), tails: disk.NewMeter(set.FS),
		links: linkCount{perPage: o.UniquePerPage}, given: make([]uint32, len(web.budgets))}
	c.left = append(c.left, web.budgets...)
	if c.q, err = c.open("naive/q"); err != nil {
		return nil, err
	}
	if c.failed, err = c.open("naive/failed0"); err != nil {
		return nil, errors.Join(err, c.q.Close())
	}
	return c, nil
}

func (c *naiveCrawl) open(name string) (*queue.Queue, error) {
	return queue.Open(queue.Options{Set: disk.Set{FS: c.meter, Paths: c.set.Paths}, Name: name,
		BlockBytes: beastBlockBytes}, nil)
}

func (c *naiveCrawl) close() error {
	errs := []error{c.q.Close(), c.failed.Close()}
	if c.old != nil {
		errs = append(errs, c.old.Close())
	}
	return errors.Join(errs...)
}

// split puts a record into Q if its PLD has budget left, otherwise into QF.
func (c *naiveCrawl) split(rec []byte) error {
	if x := recordPLD(rec); c.left[x] > 0 {
		c.left[x]--
		c.now.queueRaw += int64(len(rec))
		return c.q.Append(rec)
	}
	c.now.failedRaw += int64(len(rec))
	return c.failed.Append(rec)
}

// run crawls to the end of the pass in which the number of URLs put in reaches urls.
func (c *naiveCrawl) run(ctx context.Context, urls int64, progress func(c *naiveCrawl)) error {
	var rec []byte
	for x, budget := range c.web.budgets {
		for range budget {
			rec = c.web.appendOf(rec[:0], uint32(x))
			c.in.add(rec)
			c.now.urls++
			if err := c.split(rec); err != nil {
				return err
			}
		}
	}
	for began := (moved{}); c.now.urls < urls; {
		progress(c)
		before := c.now.pages
		if err := c.empty(ctx); err != nil {
			return err
		}
		if c.now.pages == before {
			return errors.New("bench: beast: the naive crawl has no more URLs")
		}
		records, _ := c.failed.Len()
		n := c.meter.Counts()
		c.now.queueDisk, c.now.saved = n.ReadBytes+n.WrittenBytes, c.tails.Counts().WrittenBytes
		c.stages = append(c.stages,
			stage{moved: c.now.less(began), endPages: c.now.pages, endURLs: c.now.urls, queues: 1,
				failed: records, spam: c.spam})
		began, c.spam = c.now, 0
		if err := c.readFailed(ctx); err != nil {
			return err
		}
	}
	return c.finish(ctx)
}

// empty crawls every URL of Q.
func (c *naiveCrawl) empty(ctx context.Context) error {
	var buf [1024]byte
	clear(c.given)
	for {
		rec, ok, err := c.q.Peek()
		if err != nil || !ok {
			return err
		}
		c.out.add(rec)
		c.now.pages++
		c.now.queueRaw += int64(len(rec))
		x := recordPLD(rec)
		if c.given[x]++; c.given[x] > c.web.budgets[x] {
			c.exceeded++
		}
		if int(x) >= len(c.web.budgets)-c.web.spammers {
			c.spam++
		}
		c.q.Advance()
		for range c.links.next() {
			rec := c.web.append(buf[:0])
			c.in.add(rec)
			c.now.urls++
			if err := c.split(rec); err != nil {
				return err
			}
		}
		if err := c.step(ctx, c.now.pages); err != nil {
			return err
		}
	}
}

// readFailed begins a pass: it resets all budgets and splits QF.
func (c *naiveCrawl) readFailed(ctx context.Context) (err error) {
	copy(c.left, c.web.budgets)
	c.pass++
	c.old = c.failed
	if c.failed, err = c.open(fmt.Sprintf("naive/failed%d", c.pass)); err != nil {
		c.failed = c.old
		c.old = nil
		return err
	}
	for n := int64(1); ; n++ {
		rec, ok, err := c.old.Peek()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		c.now.failedRaw += int64(len(rec))
		if err := c.split(rec); err != nil {
			return err
		}
		c.old.Advance()
		if err := c.step(ctx, n); err != nil {
			return err
		}
	}
	old := c.old
	c.old = nil
	return old.Destroy()
}

// step checks after every 4096 records for cancellation and for space to free.
func (c *naiveCrawl) step(ctx context.Context, n int64) error {
	if n%4096 != 0 {
		return nil
	}
	if w := c.meter.Counts().WrittenBytes; w-c.written >= beastCommitBytes {
		c.written = w
		if _, err := c.checkpoint(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// checkpoint frees the space of records already read. It returns the states of Q and QF.
func (c *naiveCrawl) checkpoint() (states [2]*queue.State, err error) {
	c.gen++
	tails, err := disk.CreateTails(disk.Set{FS: c.tails, Paths: c.set.Paths}, c.gen)
	if err != nil {
		return states, err
	}
	queues := []*queue.Queue{c.q, c.failed}
	if c.old != nil {
		queues = append(queues, c.old)
	}
	var frozen []*queue.Frozen
	for _, q := range queues {
		frozen = append(frozen, q.Freeze())
	}
	var errs []error
	for i, f := range frozen {
		st, err := f.Save(tails)
		errs = append(errs, err)
		if i < len(states) {
			states[i] = st
		}
	}
	if err := errors.Join(append(errs, tails.Close())...); err != nil {
		return states, err
	}
	for _, f := range frozen {
		errs = append(errs, f.Commit())
	}
	errs = append(errs, disk.RemoveTails(c.set, func(g uint64) bool { return g == c.gen }))
	return states, errors.Join(errs...)
}

// finish counts the records left in the files.
func (c *naiveCrawl) finish(ctx context.Context) error {
	states, err := c.checkpoint()
	if err != nil {
		return err
	}
	for i, name := range []string{"naive/q", fmt.Sprintf("naive/failed%d", c.pass)} {
		_, err := queue.Scan(c.set, name, states[i], func(rec []byte) error {
			c.rest.add(rec)
			if c.rest.n%4096 == 0 {
				return ctx.Err()
			}
			return nil
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}
