package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"drumbeat/bench"
	"drumbeat/bench/report"
)

// benchDNSCmd has the options of bench.DNS.
type benchDNSCmd struct {
	Lookups  *count    `placeholder:"N" help:"Lookups of each case whose replies come at once. Default: 500,000, or 100,000 with --quick."`
	InFlight count     `placeholder:"N" default:"256" help:"Lookups under way at once where replies come at once. Many more don't fit into the server's socket buffer."`
	Waiting  count     `placeholder:"N" default:"2000" help:"Lookups under way at once where replies come after 500 ms, fewer where they come sooner."`
	Span     *duration `placeholder:"DURATION" help:"How long each case with late replies is measured, after it has filled up. Default: 5s, or 1s with --quick."`
	Cases    []string  `placeholder:"NAME" help:"Measure these cases only: hit, miss, nxdomain, aliases, tcp-10%, late-20ms, late-500ms, late-20ms-loss-2%, late-500ms-loss-2%. Default: all."`
	Repeat   *count    `placeholder:"N" help:"How often all is measured. Default: 5, or 1 with --quick."`
	Crawl    bool      `help:"Crawl a synthetic web instead, with names answered at once and with 500 ms of delay and 2 % of loss, and compare pages/s."`
	Quick    bool      `help:"End within 30 s."`
	benchOutput
}

// benchDNSChildCmd is the name server of bench dns.
type benchDNSChildCmd struct{}

// Run serves until its input ends.
func (c *benchDNSChildCmd) Run(a *app) error {
	signal.Ignore(syscall.SIGINT) // it ends with its parent, which closes its input
	if err := bench.DNSChild(context.Background(), a.stdin, a.stdout); err != nil {
		return &ended{code: exitFailure, why: err.Error()}
	}
	return nil
}

// options is what the flags say.
func (c *benchDNSCmd) options() (bench.DNS, error) {
	d := bench.DNS{Lookups: 500_000, InFlight: int(c.InFlight), Waiting: int(c.Waiting), Span: 5 * time.Second, Repeats: 5, Cases: c.Cases, GCPercent: gcPercent}
	if c.Quick {
		d.Lookups, d.Span, d.Repeats = 100_000, time.Second, 1
	}
	if c.Lookups != nil {
		d.Lookups = int(*c.Lookups)
	}
	if c.Span != nil {
		d.Span = *c.Span
	}
	if c.Repeat != nil {
		d.Repeats = int(*c.Repeat)
	}
	program, err := os.Executable()
	if err != nil {
		return d, err
	}
	d.Command = []string{program, "bench", "dns-child"}
	return d, d.Validate()
}

// Run measures and prints.
func (c *benchDNSCmd) Run(a *app) error {
	d, err := c.options()
	if err != nil {
		return usageError{err}
	}
	return c.measure(a, func(ctx context.Context, progress func(string)) (*report.Report, error) {
		if c.Crawl {
			return c.crawlReport(ctx, a, min(d.Repeats, crawlDNSRepeats), progress)
		}
		d.Progress = progress
		return bench.RunDNS(ctx, d)
	})
}
