package drum

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// mergeWorkers are the workers of one Pass. Each takes the next bucket when it has finished one. So while
// one reads or writes, the others sort and merge. Neighbouring buckets are in different directories and
// keep several disks busy.
type mergeWorkers struct {
	d       *Drum
	workers []*pass
	rounds  atomic.Int64
}

// workerTuples is the number of pending tuples that justifies the memory and files of another worker. One
// worker handles passes over a few pages, of which a small crawl has many.
const workerTuples = 32 << 10

func newMergeWorkers(d *Drum) *mergeWorkers {
	n := min(d.opt.Workers, len(d.buckets), 1+int(d.tuples.Load()/d.opt.workerTuples))
	c := &mergeWorkers{d: d}
	if d.kept != nil {
		c.workers, d.kept = append(c.workers, d.kept), nil
	}
	for len(c.workers) < n {
		c.workers = append(c.workers, newPass(d))
	}
	return c
}

// keptBytes is the memory for tuples up to which a worker outlives its Pass. A small crawl makes passes over
// a few pages all the time, and mapping memory takes longer than such a pass.
const keptBytes = 1 << 20

// close closes the workers' files. It frees their memory, except that of a worker that handled few tuples.
func (c *mergeWorkers) close() error {
	var errs []error
	peak := int64(0)
	for _, p := range c.workers {
		peak += p.round.peak
		errs = append(errs, p.close())
		if c.d.kept == nil && p.round.touchedBytes() <= keptBytes {
			c.d.kept = p
		} else {
			p.free()
		}
	}
	c.d.counts.roundPeak.Store(max(c.d.counts.roundPeak.Load(), peak))
	return errors.Join(errs...)
}

// each calls do for every bucket, in order of their numbers as far as several workers allow. After an error
// it starts no further bucket.
func (c *mergeWorkers) each(ctx context.Context, do func(ctx context.Context, p *pass, b *bucket, i int) error) error {
	var next atomic.Int64
	var failed atomic.Bool
	work := func(p *pass) error {
		for !failed.Load() {
			i := int(next.Add(1)) - 1
			if i >= len(c.d.buckets) {
				break
			}
			if err := do(ctx, p, &c.d.buckets[i], i); err != nil {
				failed.Store(true)
				return err
			}
		}
		return nil
	}
	errs := make([]error, len(c.workers))
	var wg sync.WaitGroup
	var panicked atomic.Value
	for n, p := range c.workers[1:] {
		wg.Go(func() {
			defer func() {
				// Panic in the caller's goroutine instead, where it can be handled.
				if v := recover(); v != nil {
					failed.Store(true)
					panicked.CompareAndSwap(nil, fmt.Sprintf("%v\n%s", v, debug.Stack()))
				}
			}()
			errs[n+1] = work(p)
		})
	}
	errs[0] = work(c.workers[0])
	wg.Wait()
	if v := panicked.Load(); v != nil {
		panic(v)
	}
	var cancelled error // returned once, and only if nothing else failed
	for n, err := range errs {
		if err != nil && err == ctx.Err() {
			cancelled, errs[n] = err, nil
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return cancelled
}

// drain finishes the merge of a bucket's sealed input.
func (c *mergeWorkers) drain(ctx context.Context, p *pass, b *bucket, i int) error {
	n, err := p.drain(ctx, b, i)
	c.rounds.Add(int64(n))
	return err
}

func (c *mergeWorkers) run(ctx context.Context, all bool) error {
	if c.d.opt.logged() {
		return c.runLogged(ctx, all && c.d.tuples.Load() > 0)
	}
	err := c.each(ctx, func(ctx context.Context, p *pass, b *bucket, i int) error {
		if err := c.drain(ctx, p, b, i); err != nil {
			return err
		}
		b.mu.Lock()
		due := b.full || all && b.open.tuples > 0
		b.mu.Unlock()
		if !due {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		c.d.seal(b, i)
		return c.drain(ctx, p, b, i)
	})
	if err != nil {
		return err
	}
	return c.compact(ctx)
}

// runLogged is run for a store with logs. It finishes an interrupted pass, then runs one if due.
func (c *mergeWorkers) runLogged(ctx context.Context, due bool) error {
	t := &c.d.texts
	for t.sealed != nil || due {
		if t.sealed == nil {
			if err := ctx.Err(); err != nil {
				return err
			}
			c.d.sealAll()
			due = false
		}
		if err := c.each(ctx, c.drain); err != nil {
			return err
		}
		for _, p := range c.workers[1:] {
			p.round.free() // make room for the bitmap
		}
		if err := c.stream(ctx); err != nil {
			return err
		}
		if err := c.endLogged(); err != nil {
			c.d.fail(err)
			return err
		}
	}
	return c.compact(ctx)
}

// endLogged closes the files of lists, then drops logs and lists.
func (c *mergeWorkers) endLogged() error {
	for _, p := range c.workers {
		if err := p.closeFiles(p.lists, false); err != nil {
			return err
		}
	}
	return c.d.endLogged()
}

// compact copies the parts out of sparse files.
func (c *mergeWorkers) compact(ctx context.Context) error {
	gens := c.d.files.sparse()
	if len(gens) == 0 {
		return nil
	}
	return c.each(ctx, func(ctx context.Context, p *pass, b *bucket, i int) error {
		if !gens[b.part.gen] {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		release, err := c.d.reserve(b.part.size + pageBytes)
		if err != nil {
			return fmt.Errorf("reserve space to copy bucket %d: %w", i, err)
		}
		err = p.copyPart(b, i)
		release()
		if err != nil {
			err = fmt.Errorf("drum: copy part %d of %s: %w", i, c.d.opt.Name, err)
			c.d.fail(err)
			return err
		}
		return nil
	})
}
