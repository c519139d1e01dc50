package dns

import (
	"fmt"
	"strings"
	"time"

	"drumbeat/bench/report"
)

const (
	// dnsPerCore is the target: lookups per second of CPU.
	dnsPerCore = 100_000
	// dnsRateShare of in-flight/time must be reached when replies are late.
	dnsRateShare = 0.9
)

func (r *dnsRun) of(i int, f func(dnsSample) float64) report.Sample {
	return report.Of(r.samples[i], f)
}

// report fills rep.
func (r *dnsRun) report(rep *report.Report) {
	rep.Set("lookups", "%d a case, %d in flight, where replies come at once; %v a case, %d in flight, where they are late",
		r.opt.Lookups, r.opt.InFlight, r.opt.Span, r.opt.Waiting)
	rep.Set("collector", "GOGC %d for all clients, as in a crawl", gcPercent)
	t := report.Table{
		Title: fmt.Sprintf("Lookups against a name server in another process, medians of %d", r.opt.Repeat),
		Head: []string{"case", "client", "in flight", "lookups/s", "spread", "CPU us", "spread", "lookups/s of CPU", "allocs", "B",
			"sent again %", "failed"},
		Notes: []string{
			"CPU is user and system time of this process. Names are made before.",
			"hit: the name is in the cache. aliases: two, and the address, in one reply. tcp-10%: every tenth reply is cut and fetched by TCP.",
			"late: replies come after that time. loss: every 50th name's first question is lost, every 2,500th name's second too.",
			fmt.Sprintf("%s: one thread that sends and receives, %d in flight, and looks at nothing: the floor.", dnsBare, dnsBareWindow),
		},
	}
	for i, c := range r.cases {
		for _, s := range r.samples[i] {
			n := float64(max(1, s.lookups))
			rep.Add(fmt.Sprintf("BenchmarkDNS/case=%s/client=%s/inflight=%d", c.name, strings.ReplaceAll(c.client, " ", "-"), c.inFlight), s.lookups,
				report.Metric{Value: 1e9 / s.rate, Unit: "ns/op"}, report.Metric{Value: 1e3 * s.cpuMicros(), Unit: "cpu-ns/op"},
				report.Metric{Value: s.rate, Unit: "lookups/s"}, report.Metric{Value: float64(s.bytes) / n, Unit: "B/op"},
				report.Metric{Value: float64(s.allocs) / n, Unit: "allocs/op"}, report.Metric{Value: float64(s.failed), Unit: "failed"})
		}
		rate, cpu := r.of(i, func(s dnsSample) float64 { return s.rate }), r.of(i, dnsSample.cpuMicros)
		share := func(f func(dnsSample) float64) report.Sample {
			return r.of(i, func(s dnsSample) float64 { return f(s) / float64(max(1, s.lookups)) })
		}
		t.Add(c.name, c.client, fmt.Sprint(c.inFlight), report.Number(rate.Median()), rate.Spread(), report.Number(cpu.Median()), cpu.Spread(),
			report.Number(r.of(i, dnsSample.perCore).Median()),
			report.Number(share(func(s dnsSample) float64 { return float64(s.allocs) }).Median()),
			report.Number(share(func(s dnsSample) float64 { return float64(s.bytes) }).Median()),
			report.Number(100*share(func(s dnsSample) float64 { return float64(s.resent) }).Median()),
			report.Number(r.of(i, func(s dnsSample) float64 { return float64(s.failed) }).Median()))
	}
	rep.Tables = append(rep.Tables, t)
	r.check(rep)
}

// check compares with the targets.
func (r *dnsRun) check(rep *report.Report) {
	var floor float64
	failed := 0.0
	for i, c := range r.cases {
		perCore := r.of(i, dnsSample.perCore).Median()
		if c.client == dnsBare {
			floor = r.of(i, dnsSample.cpuMicros).Median()
		}
		if c.client != dnsOurs {
			continue
		}
		for _, s := range r.samples[i] {
			failed += float64(s.failed)
		}
		switch {
		case c.name == "miss":
			rep.Set("floor", "%.2f us of CPU for a bare send and receive, %.2f for a lookup: %.2f times", floor, 1e6/perCore, 1e6/perCore/floor)
			fallthrough
		case c.name == "hit", c.name == "nxdomain", c.name == "aliases":
			rep.Checks = append(rep.Checks, report.AtLeast("lookups/s of CPU, "+c.name, perCore, dnsPerCore, "/s"))
		case c.span > 0:
			want := float64(c.inFlight) / c.mean.Seconds()
			name := fmt.Sprintf("lookups/s, %s, of %d in flight / %v", c.name, c.inFlight, c.mean.Round(100*time.Microsecond))
			rep.Checks = append(rep.Checks, report.AtLeast(name, r.of(i, func(s dnsSample) float64 { return s.rate }).Median(),
				dnsRateShare*want, "/s"))
		}
	}
	rep.Checks = append(rep.Checks, report.AtMost("lookups that failed, all cases", failed, 0, ""))
}
