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
	virtualCrawl
	meter  *disk.Meter
	q      *queue.Queue
	failed *queue.Queue
	old    *queue.Queue // the old QF while a split reads it
	pass   int
	budget []uint32 // pages that each PLD has left in this pass
}

func openNaiveCrawl(o *Beast, set disk.Set, web *budgetWeb) (c *naiveCrawl, err error) {
	c = &naiveCrawl{virtualCrawl: newVirtualCrawl(o, set, web), meter: disk.NewMeter(set.FS)}
	c.budget = append(c.budget, web.budgets...)
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
	if x := recordPLD(rec); c.budget[x] > 0 {
		c.budget[x]--
		c.now.queueRaw += int64(len(rec))
		return c.q.Append(rec)
	}
	c.now.failedRaw += int64(len(rec))
	return c.failed.Append(rec)
}

// run crawls to the end of the pass in which the number of URLs put in reaches urls.
func (c *naiveCrawl) run(ctx context.Context, urls int64, progress func(c *naiveCrawl)) error {
	if err := c.seed(c.split); err != nil {
		return err
	}
	for c.now.urls < urls {
		progress(c)
		before := c.now.pages
		if err := c.empty(ctx); err != nil {
			return err
		}
		if c.now.pages == before {
			return errors.New("bench: beast: the naive crawl has no URLs left")
		}
		records, _ := c.failed.Len()
		n := c.meter.Counts()
		c.now.queueDisk = n.ReadBytes + n.WrittenBytes
		c.endStage(1, records)
		if err := c.readFailed(ctx); err != nil {
			return err
		}
	}
	for _, q := range []*queue.Queue{c.q, c.failed} { // what is left
		if err := each(ctx, q, func(rec []byte) error { c.left.add(rec); return nil }, nil); err != nil {
			return err
		}
	}
	return nil
}

// each reads the records of a queue. It calls then, if set, after each record.
func each(ctx context.Context, q *queue.Queue, fn func(rec []byte) error, then func() error) error {
	for n := 1; ; n++ {
		rec, ok, err := q.Peek()
		if err == nil && ok {
			err = fn(rec)
		}
		if err != nil || !ok {
			return err
		}
		q.Advance()
		if then != nil {
			err = then()
		}
		if n%4096 == 0 {
			err = errors.Join(err, ctx.Err())
		}
		if err != nil {
			return err
		}
	}
}

// empty crawls every URL of Q, also those that it puts in.
func (c *naiveCrawl) empty(ctx context.Context) error {
	clear(c.given)
	return each(ctx, c.q, func(rec []byte) error { c.fetched(rec); return nil },
		func() error { return c.follow(c.split) })
}

// readFailed begins a pass: it resets all budgets and splits QF.
func (c *naiveCrawl) readFailed(ctx context.Context) (err error) {
	copy(c.budget, c.web.budgets)
	c.pass++
	c.old = c.failed
	if c.failed, err = c.open(fmt.Sprintf("naive/failed%d", c.pass)); err != nil {
		c.failed = c.old
		c.old = nil
		return err
	}
	if err := each(ctx, c.old, func(rec []byte) error {
		c.now.failedRaw += int64(len(rec))
		return c.split(rec)
	}, nil); err != nil {
		return err
	}
	old := c.old
	c.old = nil
	return old.Destroy()
}
