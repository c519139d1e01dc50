package demo

import (
	"context"
	"fmt"
	"maps"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/dustin/go-humanize"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/simweb"
)

// serve serves the web until a signal or --max-time, for crawls by other processes, and compares their requests with
// a correct crawl. Requests that are missing or were made twice are no failure: the crawl may be under way, and a kill
// repeats what its last checkpoint lacks.
func (c *Command) serve(a *term.App, web *simweb.Web) error {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	if c.MaxTime > 0 {
		limited, cancel := context.WithTimeout(ctx, c.MaxTime)
		defer cancel()
		ctx = limited
	}
	requests, err := openServerLog(c.ServerLog)
	if err != nil {
		return err
	}
	port := uint16(c.Serve)
	opt := simweb.ServerOptions{HTTPPort: port, HTTPSPort: port + 1, DNSPort: port + 2}
	if requests != nil {
		opt.Requests = requests
	}
	server, err := web.Start(ctx, opt)
	if err != nil {
		requests.close()
		return fmt.Errorf("demo: --serve %d: %w", c.Serve, err)
	}
	want := web.Expected(flags.DefaultAgent)
	fmt.Fprintf(a.Stdout, "A synthetic web on loopback, until Ctrl-C: %s URLs to fetch, %s that robots.txt forbids. Crawl it with the seeds\n\n  %s\n\n"+
		"and with\n\n  --allow-net=127.0.0.0/8 --resolver=%v --ports=8080 --map-port=80=%d --map-port=8080=%d --map-port=443=%d\n\n",
		humanize.Comma(int64(want.Fetched)), humanize.Comma(int64(want.Refused)), strings.Join(web.Seeds(), "\n  "),
		server.DNSAddrs()[0], port, port, port+1)
	<-ctx.Done()
	if err := server.Close(); err != nil {
		requests.close()
		return fmt.Errorf("demo: %w", err)
	}
	if err := requests.close(); err != nil {
		return err
	}
	return c.compare(a, web, want)
}

// compare prints what was fetched of want, and returns an error if anything was that must not be.
func (c *Command) compare(a *term.App, web *simweb.Web, want *simweb.Expected) error {
	log := web.Log().Snapshot()
	fetched, twice, bad := 0, 0, slices.Collect(maps.Keys(log.Wrong))
	for url, n := range log.Fetches {
		if ok, _, _ := want.Has(url); !ok {
			bad = append(bad, url)
			continue
		}
		fetched++
		if n > 1 {
			twice++
		}
	}
	fmt.Fprintf(a.Stdout, "fetched %d of %d URLs, %d of them more than once\n", fetched, want.Fetched, twice)
	if len(bad) > 0 {
		return fmt.Errorf("demo: %d URLs were requested that robots.txt forbids, or that no link leads to, such as %s", len(bad), slices.Min(bad))
	}
	return nil
}
