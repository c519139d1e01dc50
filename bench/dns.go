package bench

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

	"drumbeat/bench/report"
	"drumbeat/dnscache"
)

// DNS are the options of RunDNS. All fields but Cases, GCPercent and Progress are required.
type DNS struct {
	// Command starts a process that runs DNSChild.
	Command []string
	// Lookups are made in each case whose replies come at once.
	Lookups int
	// InFlight lookups are under way where replies come at once, Waiting where they come after 500 ms or get lost, fewer where they come sooner.
	InFlight, Waiting int
	// Span is how long a case with late replies is measured, after a time to fill up.
	Span time.Duration
	// Cases are the names of those to be measured; nil: all.
	Cases []string
	// Repeats is how often each case is measured.
	Repeats int
	// GCPercent is the garbage collector's setting, as command crawl has it; 0: as it is.
	GCPercent int
	// Progress is told what is being done; it may be nil.
	Progress func(string)
}

// dnsMost bounds the names of a case, some 100 bytes each, so that numbers fit into an address.
const dnsMost = 1 << 22

// Validate returns all faults joined.
func (d *DNS) Validate() error {
	var errs []error
	if len(d.Command) == 0 {
		errs = append(errs, errors.New("bench: dns: no command for the name server"))
	}
	for _, n := range []struct {
		name    string
		v, most int
	}{{"lookups", d.Lookups, dnsMost}, {"lookups in flight", d.InFlight, 16384}, {"lookups that wait", d.Waiting, 16384},
		{"repeats", d.Repeats, 1000}} {
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

func (d *DNS) cases() []dnsCase {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	// Short delays get fewer in flight, so that it isn't the CPU that binds.
	late := func(name, kind string, delay, mean time.Duration) dnsCase {
		n := max(1, int(float64(d.Waiting)*min(1, delay.Seconds()/0.5)))
		return dnsCase{name: name, client: dnsOurs, kind: kind, inFlight: n, span: d.Span, mean: mean,
			lookups: min(dnsMost, 2*int(float64(n)*(float64(d.Span+2*mean)/float64(mean))))}
	}
	quick := func(name, client, kind string) dnsCase {
		return dnsCase{name: name, client: client, kind: kind, inFlight: d.InFlight, lookups: d.Lookups}
	}
	hit := quick("hit", dnsOurs, dnsPlain)
	hit.hits, hit.inFlight = true, 1
	missing := quick("nxdomain", dnsOurs, dnsMissing)
	missing.want = dnscache.KindNXDomain
	cut := quick("tcp-10%", dnsOurs, dnsCut)
	cut.lookups = max(1, d.Lookups/10)
	few := func(c dnsCase) dnsCase { c.lookups = max(1, d.Lookups/5); return c }
	return []dnsCase{
		hit, quick("miss", dnsBare, dnsPlain), quick("miss", dnsOurs, dnsPlain), few(quick("miss", dnsLib, dnsPlain)),
		few(quick("miss", dnsStd, dnsPlain)), missing, quick("aliases", dnsOurs, dnsAlias), cut,
		late("late-20ms", dnsDelay+"20", ms(20), ms(20)), late("late-500ms", dnsDelay+"500", ms(500), ms(500)),
		late("late-20ms-loss-2%", dnsLoss+"20", ms(20), dnsMean(ms(20))), late("late-500ms-loss-2%", dnsLoss+"500", ms(500), dnsMean(ms(500))),
	}
}

// dnsRun is one run of RunDNS.
type dnsRun struct {
	opt     DNS
	server  netip.AddrPort
	cases   []dnsCase
	samples [][]dnsSample // by case
	next    int           // number of the first name not used yet
}

// RunDNS measures lookups by package dnscache and other clients against a name server in another process.
func RunDNS(ctx context.Context, d DNS) (rep *report.Report, err error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	if d.GCPercent > 0 {
		defer debug.SetGCPercent(debug.SetGCPercent(d.GCPercent))
	}
	rep = report.New("dns", "Lookups: rate and CPU, against a name server on loopback")
	p, err := startDNSProcess(ctx, d.Command)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	r := &dnsRun{opt: d, server: p.addr, cases: d.cases()}
	if len(d.Cases) > 0 {
		r.cases = slices.DeleteFunc(r.cases, func(c dnsCase) bool { return !slices.Contains(d.Cases, c.name) })
	}
	r.samples = make([][]dnsSample, len(r.cases))
	for n := range d.Repeats {
		for i, c := range r.cases {
			if d.Progress != nil {
				d.Progress(fmt.Sprintf("%d of %d: %s, %s", n*len(r.cases)+i+1, d.Repeats*len(r.cases), c.name, c.client))
			}
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

// dnsClient does one lookup. worker numbers who asks, from 0.
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
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l := &dnsLoad{names: names, client: client, inFlight: c.inFlight, total: c.lookups, span: c.span, mean: c.mean}
	resent, cpu := client.resent(), cpuTime()
	l.run(ctx)
	s.cpu = cpuTime() - cpu
	runtime.ReadMemStats(&after)
	s.lookups, s.rate, s.failed, s.resent = l.done.Load(), l.rate(), l.failed.Load(), client.resent()-resent
	s.allocs, s.bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
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
