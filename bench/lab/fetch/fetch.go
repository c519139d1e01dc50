// Package fetch measures package fetch beside net/http, fasthttp's client and a bare loop on connections.
//
//	go run ./bench/lab fetch
//
// The server lies in a process of its own (Serve), so that getrusage counts the client alone; it writes precomputed bytes and closes
// first. Clients take turns in each form: scheme, new, resumed or kept connections, coding, goroutines. The bare loop knows how many
// bytes come and looks at none of them: it has no timers, contexts, limits, and no head.
//
// --connections measures instead thousands of slow exchanges of our client at once, what they take and what they leave behind.
//
// # Checks
//
// CPU of a fetch over a new connection beside the bare loop's, what a handshake adds, RAM of many exchanges, nothing left of them.
//
// # Concurrency
//
// As many goroutines as a form says; in the server's process one for each listener and connection. Measure waits for all but that
// server, which ends with its input.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"drumbeat/bench/measure"
	"drumbeat/bench/report"
)

// Options are what is measured, and flags of command lab.
type Options struct {
	Clients     []string      `placeholder:"NAME" help:"Clients to measure: ours, nethttp, fasthttp, bare (a loop that only dials, writes and reads as many bytes as must come). Default: all."`
	Schemes     []string      `placeholder:"NAME" default:"http,https,https-rsa" help:"Schemes: http, https (keys on P-256, a leaf and an intermediate), https-rsa (RSA-2048). Where there are several, those with TLS are measured in fewer forms."`
	Conns       []string      `placeholder:"NAME" default:"new,resumed,kept" enum:"new,resumed,kept" help:"new: each fetch has a connection of its own, with a full handshake. resumed: the same, but with TLS sessions. kept: connections stay open."`
	Codings     []string      `placeholder:"NAME" default:"identity,gzip" enum:"identity,gzip" help:"Content codings of the page. A page in gzip is fetched with new connections and the most goroutines only."`
	Goroutines  []int         `placeholder:"N" default:"1,64" help:"Goroutines that fetch at once. Repeatable."`
	Page        measure.Size  `placeholder:"SIZE" default:"25kB" help:"Size of the page, before gzip: that of IRLbot's crawl."`
	Time        time.Duration `placeholder:"DURATION" help:"How long a client is measured in a form at a time. Default: 1s, or 70ms with --quick."`
	Repeat      int           `placeholder:"N" help:"How often each is measured, in turns. Default: 5, or 3 with --quick."`
	Connections string        `placeholder:"N" help:"Measure instead so many slow exchanges at once, and what they leave behind; max: 16,000, or 0.8 of the limit of descriptors if that is less."`
	Quick       bool          `help:"End within 30 s: less time."`

	forms []Form
	crowd int // of --connections
}

// ServerCommand is the command of this program that calls Serve.
const ServerCommand = "fetch-server"

// gcPercent is the garbage collector's setting, as command crawl has it.
const gcPercent = 300

// Form is one way to fetch a page over and over.
type Form struct {
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

// String is the form as a benchmark's name has it.
func (f Form) String() string {
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

// Validate fills in defaults and returns all faults, joined.
func (o *Options) Validate() error {
	measure.Default(&o.Time, measure.Quick(o.Quick, 70*time.Millisecond, time.Second))
	measure.Default(&o.Repeat, measure.Quick(o.Quick, 3, 5))
	if o.Clients == nil {
		o.Clients = Clients()
	}
	o.forms = o.combine()
	switch o.Connections {
	case "":
	case "max":
		o.crowd = min(16_000, fileLimit()*8/10)
	default:
		var n measure.Count
		if err := n.UnmarshalText([]byte(o.Connections)); err != nil || n < 1 || n > 1e6 {
			return errors.New("--connections: want a number from 1 to 1e6, or max")
		}
		o.crowd = int(n)
	}
	var faults []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("bench: fetch: "+format, args...))
		}
	}
	need(len(o.forms) > 0, "no form: give --schemes, --conns, --codings and --goroutines that go together")
	need(o.Page >= 100 && o.Page <= maxFetchPage, "page of %d bytes: want 100 to %d", o.Page, maxFetchPage)
	need(o.Time >= time.Millisecond && o.Time <= time.Hour, "%v a measurement: want 1ms to 1h", o.Time)
	need(o.Repeat >= 1 && o.Repeat <= 100, "%d repeats: want 1 to 100", o.Repeat)
	most := fileLimit() - spareFiles
	need(o.crowd <= most, "%d connections: want 1 to %d, which the limit of descriptors allows (ulimit -n)",
		o.crowd, most)
	for _, c := range o.Clients {
		need(slices.Contains(Clients(), c), "no client %q: want one of %v", c, Clients())
	}
	for _, f := range o.forms {
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

// combine returns the combinations that the flags name.
func (o *Options) combine() (forms []Form) {
	most := 0
	for _, n := range o.Goroutines {
		most = max(most, n)
	}
	for _, scheme := range o.Schemes {
		for _, coding := range o.Codings {
			for _, conn := range o.Conns {
				for _, n := range o.Goroutines {
					form := Form{Scheme: scheme, Keep: conn == "kept", Resume: conn == "resumed", Coding: coding, Goroutines: n}
					special := form.Keep || form.Resume
					few := len(o.Schemes) > 1 && scheme != "http"
					if coding == "gzip" && (special || few || form.Goroutines < most) || form.Resume && scheme == "http" ||
						few && form.Goroutines < most && (special || scheme != "https") || few && special && scheme != "https" {
						continue
					}
					forms = append(forms, form)
				}
			}
		}
	}
	return forms
}

// Measure measures. Forms come one after the other; in each the clients take turns, Repeat times, so that what else the
// machine does meets all of them.
func (o *Options) Measure(ctx context.Context, progress func(string)) (*report.Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	command, err := measure.Self(ServerCommand)
	if err != nil {
		return nil, err
	}
	s, err := startFetchServer(ctx, command, fetchServerJob{PageBytes: int(o.Page), Schemes: o.schemes(), Hold: o.crowd})
	if err != nil {
		return nil, err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	r := &fetchResults{o: o, progress: progress, server: s, began: time.Now()}
	if o.crowd > 0 {
		err = r.many(ctx)
	} else {
		err = r.all(ctx)
	}
	stopped := s.Close()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := errors.Join(err, stopped); err != nil {
		return nil, err
	}
	return r.report()
}

// schemes are those of the forms, http in any case.
func (o *Options) schemes() []string {
	list := []string{schemeHTTP}
	for _, f := range o.forms {
		if !slices.Contains(list, f.Scheme) {
			list = append(list, f.Scheme)
		}
	}
	return list
}

// fetchRun is one client measured once in one form.
type fetchRun struct {
	form      Form
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
	o        *Options
	progress func(string)
	server   *fetchServer
	began    time.Time
	runs     []fetchRun
	crowd    *fetchCrowd
}

func (r *fetchResults) all(ctx context.Context) error {
	for _, form := range r.o.forms {
		for repeat := range r.o.Repeat {
			for i := range r.o.Clients {
				name := r.o.Clients[(i+repeat)%len(r.o.Clients)]
				run, err := r.one(ctx, form, name)
				if err != nil {
					return fmt.Errorf("bench: fetch: %s by %s: %w", form, name, err)
				}
				r.runs = append(r.runs, run)
				if repeat == r.o.Repeat-1 {
					costs, _ := r.samples(form, name)
					r.progress(fmt.Sprintf("%s: %s %.1f µs", form, name, costs.Median()))
				}
			}
		}
	}
	return nil
}

// one measures a client once: all its goroutines fetch until the time is over.
func (r *fetchResults) one(ctx context.Context, form Form, name string) (run fetchRun, err error) {
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
	heap := measure.Heap()
	began, cpu := time.Now(), measure.CPUTime()
	n, err := crew(ctx, form.Goroutines, r.o.Time, c)
	run = fetchRun{form: form, client: name, n: n, wall: time.Since(began), cpu: measure.CPUTime() - cpu}
	run.allocs, run.bytes = heap()
	return run, err
}
