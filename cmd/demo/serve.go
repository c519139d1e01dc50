package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/dustin/go-humanize"

	crawlcmd "drumbeat/cmd/crawl"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/internal/human"
	"drumbeat/internal/simweb"
	"drumbeat/internal/storedweb"
)

// untilSignal returns a context that ends with a signal or --max-time.
func (c *Command) untilSignal() (ctx context.Context, release func()) {
	ctx, release = signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	if c.MaxTime <= 0 {
		return ctx, release
	}
	limited, cancel := context.WithTimeout(ctx, c.MaxTime)
	return limited, func() { cancel(); release() }
}

// serve serves the web until a signal or --max-time, for crawls by other processes, and compares their requests with
// a correct crawl. Requests that are missing or were made twice are no failure: the crawl may be under way, and a kill
// repeats what its last checkpoint lacks.
func (c *Command) serve(a *term.App, web *simweb.Web) error {
	ctx, release := c.untilSignal()
	defer release()
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
	seeds := slices.Concat(web.Seeds(), web.HostileSeeds())
	traps := ""
	if c.Hostile {
		traps = " Some of its hosts have endless pages."
	}
	fmt.Fprintf(a.Stdout,
		"A synthetic web on loopback, until Ctrl-C: %s to fetch, %s that robots.txt forbids.%s "+
			"Crawl it with the seeds\n\n  %s\n\nand with\n\n  --allow-net=127.0.0.0/8 --resolver=%v --ports=8080 "+
			"--map-port=80=%d --map-port=8080=%d --map-port=443=%d\n\n",
		human.Counted(want.Fetched, "URL", "URLs"),
		humanize.Comma(int64(want.Refused)), traps, strings.Join(seeds, "\n  "), server.DNSAddrs()[0],
		port, port, port+1)
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
	fetched, twice, bad := counted(log, want)
	fmt.Fprintf(a.Stdout, "fetched %d of %s, %d of them more than once\n", fetched,
		human.Counted(want.Fetched, "URL", "URLs"), twice)
	if c.Hostile {
		requests := 0
		for _, n := range log.Hostile {
			requests += n.Requests
		}
		fmt.Fprintf(a.Stdout, "hostile hosts: %d of them got %s\n", len(log.Hostile),
			human.Counted(requests, "request", "requests"))
	}
	if len(bad) > 0 {
		return fmt.Errorf("demo: %s requested that robots.txt forbids, or that no link leads to, such as %s",
			human.Counted(len(bad), "URL was", "URLs were"), slices.Min(bad))
	}
	return nil
}

// counted compares the requests with a correct crawl: bad are URLs that it does not fetch.
func counted(log *simweb.Snapshot, want *simweb.Expected) (fetched, twice int, bad []string) {
	bad = slices.Collect(maps.Keys(log.Wrong))
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
	return fetched, twice, bad
}

// compareLent says what a crawl with flags of crawl fetched. Only its bounds are checked: its flags may exclude URLs,
// ask for URLs again or ignore robots.txt.
func (c *Command) compareLent(web *simweb.Web, opt *crawl.Options) (lines []string, err error) {
	want := web.Expected(opt.Identity.Agent)
	fetched, twice, bad := counted(web.Log().Snapshot(), want)
	return []string{
			fmt.Sprintf("check: fetched %d of the %s that a crawl without these flags fetches, %d of them "+
				"more than once, and %d others", fetched, human.Counted(want.Fetched, "URL", "URLs"), twice,
				len(bad))},
		crawlcmd.WithinBounds(opt.Limits.RAMBytes + webRAM)
}

// maxMapped bounds the ports whose flags are printed.
const maxMapped = 64

// serveStored serves a stored crawl until a signal or --max-time, for crawls by other processes, and says what they
// asked for.
func (c *Command) serveStored(a *term.App, view *crawlcmd.View, web *storedweb.Web) error {
	ctx, release := c.untilSignal()
	defer release()
	seeds, err := c.storedSeeds(web)
	if err != nil {
		return err
	}
	if err := web.Start(ctx); err != nil {
		return fmt.Errorf("demo: --serve %d: %w", c.Serve, err)
	}
	found := web.Found()
	var mapped, opened []string
	for _, r := range web.Ports() {
		for p := int(r.First); p <= int(r.Last) && len(mapped) < maxMapped; p++ {
			mapped = append(mapped, fmt.Sprintf("--map-port=%d=%d", p, c.Serve))
			if p != 80 && p != 443 {
				opened = append(opened, strconv.Itoa(p))
			}
		}
	}
	if len(opened) > 0 {
		mapped = append(mapped, "--ports="+strings.Join(opened, ","))
	}
	if len(mapped) >= maxMapped {
		view.Note(fmt.Sprintf("the stored URLs have more ports; the flags of the first %d are printed", maxMapped))
	}
	fmt.Fprintf(a.Stdout, "A stored crawl on loopback, until Ctrl-C: %s on %s. Crawl it with\n\n"+
		"  --seeds=%s --allow-net=127.0.0.0/8 --resolver=%v %s\n\n",
		human.Counted(found.URLs, "URL", "URLs"), human.Counted(found.Hosts, "host", "hosts"), seeds,
		web.DNSAddrs()[0], strings.Join(mapped, " "))
	<-ctx.Done()
	counts, err := web.Counts()
	if err != nil {
		return err
	}
	for _, line := range storedLines(&found, counts) {
		fmt.Fprintln(a.Stdout, line)
	}
	return errors.Join(printNames(a.Stdout, &found, counts), damageOf(&found, counts))
}
