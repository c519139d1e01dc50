package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"drumbeat/bench/report"
	"drumbeat/crawl"
	"drumbeat/internal/simweb"
)

// The two name services that bench dns --crawl compares.
const (
	crawlDNSDelay     = 500 * time.Millisecond
	crawlDNSLossEvery = 50 // 2 % of the questions
	// crawlDNSShare of the pages/s must be left.
	crawlDNSShare = 0.9
	// crawlDNSRepeats bounds the repeats: a crawl takes half a minute.
	crawlDNSRepeats = 3
	// crawlDNSPages are fetched for each host looked up, less than a sixth of IRLbot's 24 for each lookup.
	crawlDNSPages = 4
)

// crawlRates are the pages per second of one crawl.
type crawlRates struct {
	pages, lookups, failed int64
	took                   time.Duration
	steady                 float64 // since a quarter of the pages was there
}

func (r *crawlRates) all() float64 { return float64(r.pages) / r.took.Seconds() }

// crawlReport crawls a synthetic web twice a repeat, with a quick name service and with one that is late and loses questions.
func (c *benchDNSCmd) crawlReport(ctx context.Context, a *app, repeats int, progress func(string)) (*report.Report, error) {
	pages := int64(60_000)
	if c.Quick {
		pages = 15_000
	}
	rep := report.New("dns-crawl", "A crawl with a name service that is late and loses questions")
	rep.Set("web", "synthetic, in this process, over loopback; %d pages are fetched, some %d for each host looked up", pages, crawlDNSPages)
	forms := []struct {
		name  string
		serve simweb.ServerOptions
	}{
		{"at-once", simweb.ServerOptions{DNSServers: 2}},
		{"late-500ms-loss-2%", simweb.ServerOptions{DNSServers: 2, DNSDelay: crawlDNSDelay, DNSLossEvery: crawlDNSLossEvery}},
	}
	t := report.Table{
		Title: fmt.Sprintf("Crawls of %d pages, medians of %d", pages, repeats),
		Head:  []string{"name service", "pages/s", "spread", "after the first quarter", "spread", "lookups", "failed"},
		Notes: []string{"Both crawls have the same web, delays and connections. Whole crawls begin with one host: each step away from it waits",
			"for a name, so that the first pages tell the depth of the web rather than what a long crawl does."},
	}
	var steady []report.Sample
	for _, form := range forms {
		var all, later, lookups, failed report.Sample
		for n := range repeats {
			progress(fmt.Sprintf("crawl %d of %d, names %s", n+1, repeats, form.name))
			r, err := crawlWith(ctx, a, form.serve, pages)
			if err != nil {
				return nil, err
			}
			all, later = append(all, r.all()), append(later, r.steady)
			lookups, failed = append(lookups, float64(r.lookups)), append(failed, float64(r.failed))
			rep.Add("BenchmarkCrawl/names="+form.name, r.pages, report.Metric{Value: r.took.Seconds() * 1e9 / float64(r.pages), Unit: "ns/op"},
				report.Metric{Value: r.all(), Unit: "pages/s"}, report.Metric{Value: r.steady, Unit: "steady-pages/s"},
				report.Metric{Value: float64(r.lookups), Unit: "lookups"})
		}
		t.Add(form.name, report.Number(all.Median()), all.Spread(), report.Number(later.Median()), later.Spread(),
			report.Number(lookups.Median()), report.Number(failed.Median()))
		steady = append(steady, later)
	}
	rep.Tables = append(rep.Tables, t)
	rep.Checks = append(rep.Checks, report.AtLeast("pages/s with names late and lost, of those with names at once", steady[1].Median()/steady[0].Median(),
		crawlDNSShare, ""))
	return rep, nil
}

// crawlWith crawls until that many pages are there, in a temporary directory.
func crawlWith(ctx context.Context, a *app, serve simweb.ServerOptions, pages int64) (r crawlRates, err error) {
	d := demoCmd{Pages: count(6 * pages), Hosts: count(pages / crawlDNSPages), PLDs: count(max(1, pages/crawlDNSPages/4)), Seed: 1, RAM: 1 << 30,
		Connections: defaultConnections, HostDelay: 10 * time.Millisecond, ServerDelay: 2 * time.Millisecond}
	view := newView(a.stderr, true, slog.LevelWarn)
	defer view.close()
	web, err := d.web(view)
	if err != nil {
		return r, err
	}
	dir, remove, err := d.directory()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	opt := d.options(web, dir)
	opt.MaxPages = pages
	plan, err := makePlan(&opt)
	if err != nil {
		return r, err
	}
	var quarter crawl.Snapshot
	view.watch = func(s *crawl.Snapshot) {
		if quarter.Elapsed == 0 && s.Count(crawl.CountPages) >= pages/4 {
			quarter = *s
		}
	}
	res, err := d.crawl(a, &opt, plan, &demoWeb{web, serve, view})
	if err != nil {
		return r, err
	}
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	if res.Stop != crawl.StopPages {
		return r, fmt.Errorf("bench: dns: the crawl ended with %q before it had %d pages", res.Stop, pages)
	}
	s := &res.Snapshot
	r = crawlRates{pages: s.Count(crawl.CountPages), lookups: s.Count(crawl.CountLookups),
		failed: s.Count(crawl.CountLookupFailures), took: s.Elapsed}
	if quarter.Elapsed == 0 || quarter.Elapsed >= s.Elapsed {
		return r, fmt.Errorf("bench: dns: the crawl took %v, too short a time to be measured", s.Elapsed)
	}
	r.steady = float64(r.pages-quarter.Count(crawl.CountPages)) / (s.Elapsed - quarter.Elapsed).Seconds()
	return r, nil
}
