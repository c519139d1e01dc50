// Package dns measures lookups by package dnscache, beside other clients of DNS.
//
//	go run ./bench/lab dns
//
// The name server lies in a process of its own (Serve), so that getrusage counts the client alone. Its names say what becomes of a
// question: an address at once, late or after a loss, aliases, no such name, a cut reply. Beside ours are miekg/dns, net.Resolver,
// and a bare socket: one thread that sends questions packed before and reads replies without looking at them, as the floor.
//
// # Checks
//
// CPU of a lookup, lookups a second with late and lost replies, and no lookup that fails.
//
// # Concurrency and memory
//
// A goroutine for each lookup under way, and names of a case: some 100 bytes each, 2^22 of them at most. Measure waits for all; the
// server ends with its input.
package dns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	stdsync "sync"
	"sync/atomic"
	"time"

	"drumbeat/bench/measure"
	"drumbeat/bench/report"
	"drumbeat/dnscache"
)

// Options are what is measured, and flags of command lab.
type Options struct {
	Lookups  measure.Count `placeholder:"N" help:"Lookups of each case whose replies come at once. Default: 500,000, or 100,000 with --quick."`
	InFlight int           `placeholder:"N" default:"256" help:"Lookups under way at once where replies come at once. Many more don't fit into the server's socket buffer."`
	Waiting  int           `placeholder:"N" default:"2000" help:"Lookups under way at once where replies come after 500 ms, fewer where they come sooner."`
	Span     time.Duration `placeholder:"DURATION" help:"How long each case with late replies is measured, after it has filled up. Default: 5s, or 1s with --quick."`
	Cases    []string      `placeholder:"NAME" help:"Measure these cases only: hit, miss, nxdomain, aliases, tcp-10%, late-20ms, late-500ms, late-20ms-loss-2%, late-500ms-loss-2%. Default: all."`
	Repeat   int           `placeholder:"N" help:"How often all is measured. Default: 5, or 1 with --quick."`
	Quick    bool          `help:"End within 30 s."`
}

// ServerCommand is the command of this program that calls Serve.
const ServerCommand = "dns-server"

// gcPercent is the garbage collector's setting, as command crawl has it.
const gcPercent = 300

// dnsMost bounds the names of a case, some 100 bytes each, so that numbers fit into an address.
const dnsMost = 1 << 22

// Validate fills in defaults and returns all faults joined.
func (d *Options) Validate() error {
	measure.Default(&d.Lookups, measure.Quick(d.Quick, measure.Count(100_000), 500_000))
	measure.Default(&d.Span, measure.Quick(d.Quick, time.Second, 5*time.Second))
	measure.Default(&d.Repeat, measure.Quick(d.Quick, 1, 5))
	var errs []error
	for _, n := range []struct {
		name    string
		v, most int
	}{{"lookups", int(d.Lookups), dnsMost}, {"lookups in flight", d.InFlight, 16384}, {"lookups that wait", d.Waiting, 16384},
		{"repeats", d.Repeat, 1000}} {
		if n.v < 1 || n.v > n.most {
			errs = append(errs, fmt.Errorf("bench: dns: %d %s: must lie between 1 and %d", n.v, n.name, n.most))
		}
	}
	for _, name := range d.Cases {
		if !slices.ContainsFunc(d.cases(), func(c dnsCase) bool { return c.name == name }) {
			errs = append(errs, fmt.Errorf("bench: dns: no case is named %q", name))
		}
	}
	if d.Span < time.Second || d.Span > time.Hour {
		errs = append(errs, fmt.Errorf("bench: dns: span %v: must lie between 1s and 1h", d.Span))
	}
	return errors.Join(errs...)
}

// dnsCase is a kind of lookup by a client.
type dnsCase struct {
	name, client string
	kind         string // of the names
	inFlight     int
	lookups      int
	span         time.Duration // measured; 0: until all lookups are done
	// mean is how long a lookup takes if the client adds nothing, 0: as fast as it goes.
	mean time.Duration
	want dnscache.Kind
	hits bool // the names are known before
}

// dnsSample is one measurement of a case.
type dnsSample struct {
	lookups int64
	rate    float64 // lookups/s
	cpu     time.Duration
	failed  int64
	allocs  uint64
	bytes   uint64
	resent  int64 // questions beyond one a lookup
}

func (s dnsSample) cpuMicros() float64 {
	return float64(s.cpu.Nanoseconds()) / 1e3 / float64(max(1, s.lookups))
}

// perCore is how many lookups a second of CPU is enough for.
func (s dnsSample) perCore() float64 { return 1e6 / s.cpuMicros() }

// dnsTimeouts are the resolver's defaults, which mean is computed with.
var dnsFirstTimeout, dnsSecondTimeout = time.Second, 2 * time.Second

// dnsMean is the time of a lookup of the kind l<ms>: after a question that is lost the next goes out when its timeout ends.
func dnsMean(delay time.Duration) time.Duration {
	once := 1 / float64(dnsLossEvery)
	return delay + time.Duration(once*float64(dnsFirstTimeout)+once*once*float64(dnsSecondTimeout))
}

const (
	dnsOurs = "ours"
	dnsBare = "bare socket"
	dnsLib  = "miekg/dns"
	dnsStd  = "net.Resolver"
)

func (d *Options) cases() []dnsCase {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	// Short delays get fewer in flight, so that it isn't the CPU that binds.
	late := func(name, kind string, delay, mean time.Duration) dnsCase {
		n := max(1, int(float64(d.Waiting)*min(1, delay.Seconds()/0.5)))
		return dnsCase{name: name, client: dnsOurs, kind: kind, inFlight: n, span: d.Span, mean: mean,
			lookups: min(dnsMost, 2*int(float64(n)*(float64(d.Span+2*mean)/float64(mean))))}
	}
	quick := func(name, client, kind string) dnsCase {
		return dnsCase{name: name, client: client, kind: kind, inFlight: d.InFlight, lookups: int(d.Lookups)}
	}
	hit := quick("hit", dnsOurs, dnsPlain)
	hit.hits, hit.inFlight = true, 1
	missing := quick("nxdomain", dnsOurs, dnsMissing)
	missing.want = dnscache.KindNXDomain
	cut := quick("tcp-10%", dnsOurs, dnsCut)
	cut.lookups = max(1, int(d.Lookups)/10)
	few := func(c dnsCase) dnsCase { c.lookups = max(1, int(d.Lookups)/5); return c }
	return []dnsCase{
		hit, quick("miss", dnsBare, dnsPlain), quick("miss", dnsOurs, dnsPlain), few(quick("miss", dnsLib, dnsPlain)),
		few(quick("miss", dnsStd, dnsPlain)), missing, quick("aliases", dnsOurs, dnsAlias), cut,
		late("late-20ms", dnsDelay+"20", ms(20), ms(20)), late("late-500ms", dnsDelay+"500", ms(500), ms(500)),
		late("late-20ms-loss-2%", dnsLoss+"20", ms(20), dnsMean(ms(20))), late("late-500ms-loss-2%", dnsLoss+"500", ms(500), dnsMean(ms(500))),
	}
}

// dnsRun is one run of Measure.
type dnsRun struct {
	opt     *Options
	server  netip.AddrPort
	cases   []dnsCase
	samples [][]dnsSample // by case
	next    int           // number of the first name not used yet
}

// Measure measures lookups by package dnscache and other clients against a name server in another process.
func (d *Options) Measure(ctx context.Context, progress func(string)) (rep *report.Report, err error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	rep = report.New("dns", "Lookups: rate and CPU, against a name server on loopback")
	var addr netip.AddrPort
	command, err := measure.Self(ServerCommand)
	if err != nil {
		return nil, err
	}
	p, err := measure.Start(ctx, command, struct{}{}, &addr)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	r := &dnsRun{opt: d, server: addr, cases: d.cases()}
	if len(d.Cases) > 0 {
		r.cases = slices.DeleteFunc(r.cases, func(c dnsCase) bool { return !slices.Contains(d.Cases, c.name) })
	}
	r.samples = make([][]dnsSample, len(r.cases))
	for n := range d.Repeat {
		for i, c := range r.cases {
			progress(fmt.Sprintf("%d of %d: %s, %s", n*len(r.cases)+i+1, d.Repeat*len(r.cases), c.name, c.client))
			s, err := r.measure(ctx, &c)
			if err != nil {
				return nil, err
			}
			r.samples[i] = append(r.samples[i], s)
		}
	}
	r.report(rep)
	return rep, nil
}

// dnsClient does one lookup. worker numbers the callers, from 0.
type dnsClient interface {
	lookup(ctx context.Context, worker int, name string) (ok bool)
	// resent is how many questions went out beyond one a lookup, if that is known.
	resent() int64
	close() error
}

func (r *dnsRun) measure(ctx context.Context, c *dnsCase) (s dnsSample, err error) {
	names := make([]string, c.lookups)
	for i := range names {
		names[i] = strconv.Itoa((r.next+i)%(1<<24)) + "." + c.kind + ".bench.test"
	}
	r.next += len(names)
	if c.client == dnsBare {
		return measureBareDNS(ctx, r.server, names, min(c.inFlight, dnsBareWindow))
	}
	client, err := r.client(c, len(names))
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, client.close()) }()
	if c.hits {
		names = names[:min(len(names), 10_000)]
		(&dnsLoad{names: names, client: client, inFlight: r.opt.InFlight, total: len(names)}).run(ctx)
	}
	runtime.GC()
	heap := measure.Heap()
	l := &dnsLoad{names: names, client: client, inFlight: c.inFlight, total: c.lookups, span: c.span, mean: c.mean}
	resent, cpu := client.resent(), measure.CPUTime()
	l.run(ctx)
	s.cpu = measure.CPUTime() - cpu
	s.allocs, s.bytes = heap()
	s.lookups, s.rate, s.failed, s.resent = l.done.Load(), l.rate(), l.failed.Load(), client.resent()-resent
	return s, ctx.Err()
}

// dnsLoad has lookups made by inFlight goroutines until all are done, or for a span after the time to fill up.
type dnsLoad struct {
	names    []string // gone round
	client   dnsClient
	inFlight int
	total    int
	span     time.Duration
	mean     time.Duration // of a lookup: who begins is spread over it, so that replies come evenly

	began                  time.Time
	took                   time.Duration
	next                   atomic.Int64
	done, failed, measured atomic.Int64
}

func (l *dnsLoad) rate() float64 {
	if l.span > 0 {
		return float64(l.measured.Load()) / l.span.Seconds()
	}
	return float64(l.done.Load()) / l.took.Seconds()
}

func (l *dnsLoad) run(ctx context.Context) {
	l.began = time.Now()
	var wg stdsync.WaitGroup
	for w := range l.inFlight {
		wg.Go(func() { l.work(ctx, w) })
	}
	wg.Wait()
	l.took = time.Since(l.began)
}

// work makes lookups one after the other.
func (l *dnsLoad) work(ctx context.Context, worker int) {
	if l.mean > 0 {
		select {
		case <-time.After(l.mean * time.Duration(worker) / time.Duration(l.inFlight)):
		case <-ctx.Done():
		}
	}
	fill := 2 * l.mean
	for ctx.Err() == nil {
		i := int(l.next.Add(1)) - 1
		if i >= l.total {
			return
		}
		if !l.client.lookup(ctx, worker, l.names[i%len(l.names)]) {
			l.failed.Add(1)
		}
		l.done.Add(1)
		if l.span == 0 {
			continue
		}
		at := time.Since(l.began)
		if at > fill+l.span {
			return
		}
		if at > fill {
			l.measured.Add(1)
		}
	}
}
