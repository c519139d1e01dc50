package cache

import (
	"context"
	"fmt"

	"drumbeat/disk"
	"drumbeat/internal/linktrace"
)

// traceSource reads a trace as a stream of keys.
type traceSource struct{ r *linktrace.Reader }

func (t traceSource) read(keys []uint64) (int, error) { return t.r.Read(keys) }

// traceSizes checks the trace before any measurement. The sizes are all powers of 2 for which ten times as
// many links are left, Table IV's among them.
func (res *cacheResult) traceSizes(c *Options) ([]cacheSize, error) {
	r, err := linktrace.Open(disk.OS(), c.Trace)
	if err != nil {
		return nil, fmt.Errorf("bench: cache: %w", err)
	}
	sum := r.Summary()
	if err := r.Close(); err != nil {
		return nil, fmt.Errorf("bench: cache: %w", err)
	}
	res.links, res.generations, res.from = sum.Links, sum.Generations, c.From
	left := sum.Links - c.From
	if left < 10*leastEntries {
		return nil, fmt.Errorf("bench: cache: %s has %d links, %d of them after the first %d: want %d at least, ten times the smallest cache",
			c.Trace, sum.Links, max(0, left), c.From, 10*leastEntries)
	}
	var sizes []cacheSize
	add := func(n int64, printed int) {
		if 10*n <= left {
			sizes = append(sizes, cacheSize{entries: int(n) &^ 127, printed: printed})
		}
	}
	for _, n := range c.Sizes {
		if add(n, -1); 10*n > left {
			return nil, fmt.Errorf("bench: cache: %d entries: the %d links that are left of the trace are fewer than ten times as many", n, left)
		}
	}
	if len(c.Sizes) == 0 {
		printed := map[int64]int{}
		for i, p := range paperIV {
			printed[int64(p.entries)] = i
		}
		for n := int64(leastEntries); 10*n <= left; n *= 2 {
			row, ok := printed[n]
			if !ok {
				row = -1
			}
			add(n, row)
		}
	}
	return sizes, nil
}

// traceRates measures with the links of a recorded crawl, by the method of Table IV.
func (res *cacheResult) traceRates(ctx context.Context, c *Options, sizes []cacheSize) error {
	var tasks []rateTask
	for _, s := range sorted(sizes) {
		for _, p := range policies() {
			tasks = append(tasks, rateTask{size: s, skip: c.From, warm: 5 * int64(s.entries), measure: 5 * int64(s.entries), policy: p})
		}
	}
	open := func() (keySource, func() error, error) {
		r, err := linktrace.Open(disk.OS(), c.Trace)
		if err != nil {
			return nil, nil, err
		}
		return traceSource{r}, r.Close, nil
	}
	var err error
	res.rates, err = runRates(ctx, tasks, open, c.progress)
	return err
}
