package cache

import (
	"context"
	"fmt"
	"math"
	"strings"

	"drumbeat/disk"
	"drumbeat/internal/human"
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
	res.links, res.generations, res.from, res.delay = sum.Links, sum.Generations, c.From, sum.HostDelay
	res.pagesPerSecond, res.linksPerPage = sum.Rates()
	left := sum.Links - c.From
	if left < 10*leastEntries {
		return nil, fmt.Errorf("bench: cache: --trace %s has %s, %d of them after --from %d: want at least "+
			"%d, ten times the smallest "+
			"cache", c.Trace, human.Counted(sum.Links, "link", "links"), max(0, left), c.From,
			10*leastEntries)
	}
	var sizes []cacheSize
	add := func(n int64, printed int) {
		if 10*n <= left {
			size := cacheSize{entries: int(n) &^ 127, printed: printed}
			if s := res.span(); s > 0 {
				size.span = float64(size.entries) / s
			}
			sizes = append(sizes, size)
		}
	}
	for _, n := range c.Sizes {
		if add(n, -1); 10*n > left {
			return nil, fmt.Errorf("bench: cache: --size %d: the trace has %d links after --from; want at "+
				"least ten times the size", n, left)
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

// span returns tau_h l S of the trace; 0 if it does not tell.
func (res *cacheResult) span() float64 {
	return res.delay.Seconds() * res.linksPerPage * res.pagesPerSecond
}

// modelCommand returns the command that solves equation 24 with the misses of our cache, or "" if the trace does not
// tell the crawl's rate. The miss curve is a step function that only falls, and ends above 0.
func (res *cacheResult) modelCommand() string {
	if res.span() <= 0 {
		return ""
	}
	var steps []string
	least := 2.0
	for _, s := range res.sizes() {
		misses := 1 - res.rate(nameOurs, s.entries).share()
		if misses = math.Round(misses*1e4) / 1e4; misses <= 0 || misses >= least {
			continue
		}
		least = misses
		factor := s.span
		if len(steps) == 0 {
			factor = 0 // the smallest measured cache stands for all that are smaller
		}
		steps = append(steps, fmt.Sprintf("%.4g:%.4g", factor, misses))
	}
	if len(steps) == 0 {
		return ""
	}
	return fmt.Sprintf("drumbeat bench model --miss-curve '%s' --links-per-page %.4g --host-delay %v --entry-bytes "+
		"%.3gB --cache-speed %.3g",
		strings.Join(steps, ";"), res.linksPerPage, res.delay, max(keyBytes, res.speed.bytes), res.speed.crawl.Median())
}

// keyBytes is the least that an entry takes; a small cache may be measured as less.
const keyBytes = 8.0

// traceRates measures with the links of a recorded crawl, by the method of Table IV.
func (res *cacheResult) traceRates(ctx context.Context, c *Options, sizes []cacheSize) error {
	var tasks []rateTask
	for _, s := range sorted(sizes) {
		for _, p := range policies() {
			tasks = append(tasks,
				rateTask{size: s, skip: c.From, warm: 5 * int64(s.entries), measure: 5 * int64(s.entries), policy: p})
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
