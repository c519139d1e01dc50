package fetch

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	gosync "sync"
	"time"

	"drumbeat/bench/measure"
	"drumbeat/bench/report"
	"drumbeat/fetch"
)

// crowdRSS is part 3 of what must hold: the RAM of the process with all connections open.
const (
	crowdRSS = 1 << 30
	// crowdHeap is the limit that the garbage collector is told, as a crawl tells it one below --ram.
	crowdHeap = crowdRSS * 3 / 4
)

// fetchCrowd is what many slow exchanges at once took.
type fetchCrowd struct {
	connections, whole int
	// rss is the most RAM of the process, resting what it had before; after, when all was over and the garbage collected.
	rss, resting, after int64
	// goroutines and files beyond those that there were before, when the exchanges had ended, and what was idle then.
	goroutines, files, idle int
	wall, cpu               time.Duration
}

// many opens all connections, whose replies the server holds until it has them all.
func (r *fetchResults) many(ctx context.Context) error {
	n := r.o.crowd
	form := Form{Scheme: r.o.forms[0].Scheme, Coding: codingIdentity, Goroutines: n}
	roots, err := r.server.rootsOf(form.Scheme)
	if err != nil {
		return err
	}
	c, err := newOursClient(fetchBase{form: form, s: r.server, path: pathSlow, roots: roots})
	if err != nil {
		return err
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(crowdHeap))
	w := &fetchCrowd{connections: n, resting: measure.RestingRSS()}
	goroutines, files := runtime.NumGoroutine(), openFiles()
	began, cpu := time.Now(), measure.CPUTime()
	errs := make([]error, n)
	var all gosync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0)) // of those that begin: a backlog holds 4,096 at most
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			var once gosync.Once
			begun := func() { once.Do(func() { <-slots }) }
			errs[i] = c.slow(ctx, i, begun)
			begun()
		})
		if i%4000 == 3999 {
			r.progress(fmt.Sprintf("%d connections open, %.0f MiB", i+1, float64(measure.PeakRSS())/(1<<20)))
		}
	}
	all.Wait()
	w.rss, w.wall, w.cpu = measure.PeakRSS(), time.Since(began), measure.CPUTime()-cpu
	var first error
	for _, err := range errs {
		if err == nil {
			w.whole++
		} else if first == nil {
			first = err
		}
	}
	w.goroutines, w.files = left(goroutines, files)
	w.idle = c.c.Idle()
	if err := c.close(); err != nil {
		return err
	}
	debug.FreeOSMemory()
	measure.ResetPeakRSS()
	w.after = measure.PeakRSS()
	r.crowd = w
	if w.whole < n {
		return fmt.Errorf("bench: fetch: %d of %d slow exchanges failed, as: %w", n-w.whole, n, first)
	}
	return nil
}

// slow does one exchange whose reply takes its time, and calls begun when its connection stands.
func (c *oursClient) slow(ctx context.Context, i int, begun func()) error {
	addr := c.s.address(c.form.Scheme, i)
	req := fetch.Request{
		Scheme: urlScheme(c.form.Scheme), Host: fetchHost(i), Port: addr.Port(), Addr: addr, PathQuery: pathSlow,
		BeforeWrite: begun, Limits: &fetch.Limits{MinRate: fetch.Unlimited},
	}
	var resp fetch.Response
	if err := c.c.Do(ctx, &req, &resp); err != nil {
		return err
	}
	defer resp.Reset()
	if len(resp.Body) != c.s.page {
		return errFetched
	}
	return nil
}

// settleTime is how long goroutines that have nothing left to do get to end: they leave the Wait that saw them off before
// the runtime has taken them off its count, and on a busy machine that may take a while.
const settleTime = 5 * time.Second

// left returns what there is of goroutines and files beyond what there was before, as soon as that is nothing.
func left(goroutines, files int) (g, f int) {
	for end := time.Now().Add(settleTime); ; time.Sleep(time.Millisecond) {
		g, f = runtime.NumGoroutine()-goroutines, openFiles()-files
		if g <= 0 && f <= 0 || time.Now().After(end) {
			return g, f
		}
	}
}

// openFiles counts the descriptors of this process.
func openFiles() int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(names)
}

// reportCrowd adds what was found to the report.
func (w *fetchCrowd) report(rep *report.Report) {
	mib := func(n int64) float64 { return float64(n) / (1 << 20) }
	rep.Set("memory limit", "%.0f MiB for the garbage collector", mib(crowdHeap))
	rep.Add(fmt.Sprintf("BenchmarkFetchMany/connections=%d", w.connections), int64(w.connections),
		report.Metric{Value: float64(w.cpu.Nanoseconds()) / float64(w.connections), Unit: "cpu-ns/op"},
		report.Metric{Value: mib(w.rss), Unit: "peak-MiB"},
		report.Metric{Value: float64(w.rss-w.resting) / float64(w.connections), Unit: "B/connection"})
	t := report.Table{Title: "Slow exchanges at once: none ended before all had begun", Head: []string{"what", "value"}}
	add := func(what, format string, args ...any) { t.Add(what, fmt.Sprintf(format, args...)) }
	add("connections", "%d", w.connections)
	add("pages got whole", "%d", w.whole)
	add("peak RAM, MiB", "%.0f", mib(w.rss))
	add("of it before, MiB", "%.0f", mib(w.resting))
	add("a connection, KiB", "%.1f", float64(w.rss-w.resting)/1024/float64(w.connections))
	add("RAM after, MiB", "%.0f", mib(w.after))
	add("CPU a fetch, µs", "%.1f", float64(w.cpu.Microseconds())/float64(w.connections))
	add("time, s", "%.1f", w.wall.Seconds())
	rep.Tables = append(rep.Tables, t)
	rep.Checks = append(rep.Checks,
		report.AtLeast("slow exchanges that got their page", float64(w.whole), float64(w.connections), ""),
		report.AtMost("peak RAM with all connections open", mib(w.rss), mib(crowdRSS), "MiB"),
		report.AtMost("goroutines left when the exchanges had ended", float64(w.goroutines), 0, ""),
		report.AtMost("descriptors left when the exchanges had ended", float64(w.files), 0, ""),
		report.AtMost("idle connections kept by the client", float64(w.idle), 0, ""))
}
