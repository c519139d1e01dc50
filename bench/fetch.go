package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"drumbeat/bench/report"
)

// Fetch is what RunFetch measures: the exchanges of package fetch beside those of other clients, against a server in another
// process. Zero fields mean the default. A Fetch is a value.
type Fetch struct {
	// Command runs FetchServer in a process of its own.
	Command []string
	// Clients are the names of those to measure, of FetchClients. None: all.
	Clients []string
	// Forms are what is measured. None: FetchForms.
	Forms []FetchForm
	// PageBytes is the size of the page, before gzip. 0: 25,000, the page of IRLbot's crawl.
	PageBytes int
	// Each client is measured for Time in a form, Repeats times. 0: 1 s, 5.
	Time    time.Duration
	Repeats int
	// Connections, unless 0, has so many slow exchanges of our client opened at once in place of all else;
	// AllConnections: 16,000, or what the limit of descriptors allows.
	Connections int
	// GCPercent is the garbage collector's setting while anything is measured, as command crawl has it. 0: as it is.
	GCPercent int
	// Progress is told what goes on. May be nil.
	Progress func(what string)
}

// AllConnections stands for as many connections as the issue asks for and the descriptors allow.
const AllConnections = -1

// FetchForm is one way to fetch a page over and over.
type FetchForm struct {
	// Scheme is "http", "https" (a chain of two certificates with keys on P-256), or "https-rsa" (RSA-2048).
	Scheme string
	// Resume lets handshakes of new connections resume sessions; else each is a full one.
	Resume bool
	// Keep fetches over connections that stay open; else each exchange has a connection of its own.
	Keep bool
	// Coding is "identity" or "gzip".
	Coding string
	// Goroutines fetch at once.
	Goroutines int
}

// FetchForms are the forms measured by default: HTTP over new connections and kept ones, alone and many at once, and a page in
// gzip; HTTPS with full handshakes, resumed ones and none.
func FetchForms() (forms []FetchForm) {
	add := func(f FetchForm) { forms = append(forms, f) }
	for _, keep := range []bool{false, true} {
		for _, goroutines := range []int{1, 64} {
			add(FetchForm{Scheme: schemeHTTP, Keep: keep, Coding: codingIdentity, Goroutines: goroutines})
		}
	}
	add(FetchForm{Scheme: schemeHTTP, Coding: codingGzip, Goroutines: 64})
	for _, f := range []FetchForm{
		{Scheme: schemeHTTPS, Goroutines: 1}, {Scheme: schemeHTTPS, Goroutines: 64}, {Scheme: schemeHTTPS, Goroutines: 64, Resume: true},
		{Scheme: schemeHTTPS, Goroutines: 64, Keep: true}, {Scheme: schemeHTTPSRSA, Goroutines: 64},
	} {
		f.Coding = codingIdentity
		add(f)
	}
	return forms
}

// String is the form as a benchmark's name has it.
func (f FetchForm) String() string {
	conn := "new"
	switch {
	case f.Keep:
		conn = "kept"
	case f.Resume:
		conn = "resumed"
	}
	return fmt.Sprintf("scheme=%s/conn=%s/coding=%s/goroutines=%d", f.Scheme, conn, f.Coding, f.Goroutines)
}

const (
	codingIdentity = "identity"
	codingGzip     = "gzip"
	// maxFetchGoroutines and maxFetchPage keep the benchmark within a small machine.
	maxFetchGoroutines = 4096
	maxFetchPage       = 16 << 20
	// spareFiles are descriptors beside those of connections: listeners, pipes, the runtime's.
	spareFiles = 200
	// fetchWarm is the part of Time for which a client runs before it is measured: pools and sessions fill.
	fetchWarm = 0.1
	// fetchWarmTLS is the least with TLS: each address has been fetched from by then, so that chains are known, as most are in a
	// crawl of many pages a host.
	fetchWarmTLS = 80 * time.Millisecond
	// checkedRatio is part 3 of what must hold: CPU of a fetch with a new connection beside the bare loop's.
	checkedRatio = 1.25
	// checkedHandshake is part 4: CPU in µs that TLS with a full handshake adds to a fetch over a new connection.
	checkedHandshake = 450
)

// Validate returns all faults, joined.
func (o Fetch) Validate() error { return o.complete() }

func (o *Fetch) complete() error {
	if o.PageBytes == 0 {
		o.PageBytes = 25_000
	}
	if o.Time == 0 {
		o.Time = time.Second
	}
	if o.Repeats == 0 {
		o.Repeats = 5
	}
	if o.Clients == nil {
		o.Clients = FetchClients()
	}
	if o.Forms == nil {
		o.Forms = FetchForms()
	}
	if o.Connections == AllConnections {
		o.Connections = min(16_000, fileLimit()*8/10)
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	var faults []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("bench: fetch: "+format, args...))
		}
	}
	need(len(o.Command) > 0, "no command for the server")
	need(o.PageBytes >= 100 && o.PageBytes <= maxFetchPage, "page of %d bytes: want 100 to %d", o.PageBytes, maxFetchPage)
	need(o.Time >= time.Millisecond && o.Time <= time.Hour, "%v a measurement: want 1ms to 1h", o.Time)
	need(o.Repeats >= 1 && o.Repeats <= 100, "%d repeats: want 1 to 100", o.Repeats)
	most := fileLimit() - spareFiles
	need(o.Connections >= 0 && o.Connections <= most, "%d connections: want 1 to %d, which the limit of descriptors allows (ulimit -n)",
		o.Connections, most)
	for _, c := range o.Clients {
		need(slices.Contains(FetchClients(), c), "no client %q: want one of %v", c, FetchClients())
	}
	for _, f := range o.Forms {
		need(slices.Contains(fetchSchemes, f.Scheme), "scheme %q: want one of %v", f.Scheme, fetchSchemes)
		need(!f.Resume || f.Scheme != schemeHTTP && !f.Keep, "%s: only new connections of https have sessions to resume", f)
		need(f.Coding == codingIdentity || f.Coding == codingGzip, "coding %q: want identity or gzip", f.Coding)
		need(f.Goroutines >= 1 && f.Goroutines <= min(maxFetchGoroutines, most), "%d goroutines: want 1 to %d", f.Goroutines,
			min(maxFetchGoroutines, most))
	}
	return errors.Join(faults...)
}

// fileLimit is how many descriptors this process may have.
func fileLimit() int {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 1024
	}
	return int(min(l.Cur, 1<<20))
}

// RunFetch measures. Forms come one after the other; in each the clients take turns, Repeats times, so that what else the
// machine does meets all of them.
func RunFetch(ctx context.Context, o Fetch) (*report.Report, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s, err := startFetchServer(ctx, o.Command, fetchServerJob{PageBytes: o.PageBytes, Schemes: o.schemes(), Hold: o.Connections})
	if err != nil {
		return nil, err
	}
	if o.GCPercent > 0 {
		defer debug.SetGCPercent(debug.SetGCPercent(o.GCPercent))
	}
	r := &fetchResults{o: &o, server: s, began: time.Now()}
	if o.Connections > 0 {
		err = r.many(ctx)
	} else {
		err = r.all(ctx)
	}
	stopped := s.stop()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := errors.Join(err, stopped); err != nil {
		return nil, err
	}
	return r.report()
}

// schemes are those of the forms, http in any case.
func (o *Fetch) schemes() []string {
	list := []string{schemeHTTP}
	for _, f := range o.Forms {
		if !slices.Contains(list, f.Scheme) {
			list = append(list, f.Scheme)
		}
	}
	return list
}

// fetchRun is one client measured once in one form.
type fetchRun struct {
	form      FetchForm
	client    string
	n         int64
	wall, cpu time.Duration
	allocs    uint64
	bytes     uint64 // allocated
}

// cost is the CPU of a request, µs.
func (r *fetchRun) cost() float64 { return float64(r.cpu.Nanoseconds()) / 1000 / float64(max(r.n, 1)) }

func (r *fetchRun) rate() float64 { return float64(r.n) / r.wall.Seconds() }

// fetchResults is what has been measured.
type fetchResults struct {
	o      *Fetch
	server *fetchServer
	began  time.Time
	runs   []fetchRun
	crowd  *fetchCrowd
}

func (r *fetchResults) all(ctx context.Context) error {
	for _, form := range r.o.Forms {
		for repeat := range r.o.Repeats {
			for i := range r.o.Clients {
				name := r.o.Clients[(i+repeat)%len(r.o.Clients)]
				run, err := r.one(ctx, form, name)
				if err != nil {
					return fmt.Errorf("bench: fetch: %s by %s: %w", form, name, err)
				}
				r.runs = append(r.runs, run)
				if repeat == r.o.Repeats-1 {
					costs, _ := r.samples(form, name)
					r.o.Progress(fmt.Sprintf("%s: %s %.1f µs", form, name, costs.Median()))
				}
			}
		}
	}
	return nil
}

// one measures a client once: all its goroutines fetch until the time is over.
func (r *fetchResults) one(ctx context.Context, form FetchForm, name string) (run fetchRun, err error) {
	c, err := newFetchClient(name, form, r.server)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	warm := time.Duration(float64(r.o.Time) * fetchWarm)
	if form.Scheme != schemeHTTP {
		warm = max(warm, fetchWarmTLS)
	}
	if _, err := crew(ctx, form.Goroutines, warm, c); err != nil {
		return run, err
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, cpu := time.Now(), cpuTime()
	n, err := crew(ctx, form.Goroutines, r.o.Time, c)
	run = fetchRun{form: form, client: name, n: n, wall: time.Since(began), cpu: cpuTime() - cpu}
	runtime.ReadMemStats(&after)
	run.allocs, run.bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	return run, err
}
