package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/dustin/go-humanize"

	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/dnscache"
	"drumbeat/fetch"
	"drumbeat/internal/simweb"
)

// demoWebRAM is kept of demo's --ram for the synthetic web: its tables, its log, the far ends of the connections.
const demoWebRAM = 96 << 20

// demoLinger ends the demo soon when only hosts are left whose robots.txt can't be had.
const demoLinger = time.Second

// demoBackoff is the rest of a host after its first failure: pages that answer 500 must not take longer than all the rest.
const demoBackoff = 100 * time.Millisecond

// demoKeepAlive is that of a crawl.
const demoKeepAlive = 15 * time.Second

// Run makes a synthetic web, serves it on loopback and crawls it as crawl does: real sockets, real DNS, real disk.
func (c *demoCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return usageError{err}
	}
	view := newView(a.stderr, c.Quiet, logLevel(c.LogLevel))
	defer view.close()
	web, err := c.web(view)
	if err != nil {
		return err
	}
	dir, remove, err := c.directory()
	if err != nil {
		return err
	}
	opt := c.options(web, dir)
	plan, err := makePlan(&opt)
	if err != nil {
		return errors.Join(err, remove())
	}
	c.introduce(view, web, &opt, plan)
	_, err = os.Stat(filepath.Join(dir, "state", "MANIFEST"))
	resumed := err == nil
	res, err := c.crawl(a, &opt, plan, &demoWeb{web, simweb.ServerOptions{DNSServers: 2}, view})
	finished := errors.Is(err, crawl.ErrFinished)
	if err != nil && !finished {
		return errors.Join(err, remove())
	}
	lines, checkErr := demoChecks(web, res, &opt, resumed)
	sum := summary{res: res, dirs: []string{dir}, ram: int64(c.RAM), finished: finished, demo: lines,
		next: []string{"drumbeat crawl --seeds seeds.txt --contact you@example.org   crawls the real web"}}
	if c.Dir == "" {
		sum.removed = true
	}
	return errors.Join(printSummary(a.stdout, sum), remove(), checkErr, endOf(res.Stop))
}

func (c *demoCmd) check() error {
	for _, n := range []struct {
		flag        string
		v           count
		least, most int64
	}{{"pages", c.Pages, 1, 1e9}, {"hosts", c.Hosts, 1, 1e6}, {"plds", c.PLDs, 1, int64(c.Hosts)}, {"connections", c.Connections, 1, 1e5}} {
		if int64(n.v) < n.least || int64(n.v) > n.most {
			return fmt.Errorf("--%s %d: must lie between %d and %d", n.flag, n.v, n.least, n.most)
		}
	}
	if c.HostDelay < 0 || c.ServerDelay < 0 {
		return errors.New("a delay is negative")
	}
	return nil
}

// web makes the synthetic web; where descriptors are short it has fewer addresses, for each takes two listeners.
func (c *demoCmd) web(view *view) (*simweb.Web, error) {
	o := simweb.Defaults(c.Seed)
	o.Pages, o.Hosts, o.PLDs = int(c.Pages), int(c.Hosts), int(c.PLDs)
	o.IPs = max(1, min(o.IPs, o.Hosts))
	o.CrawlDelay = 5 * c.HostDelay // asked for by some hosts' robots.txt
	o.LogRequests = 1              // the checks need counters only
	m, err := thisMachine()
	if err != nil {
		return nil, err
	}
	// A connection has both its ends here, and for every two in use one may be kept.
	if free := m.descriptors - m.reserved(); 2*int64(o.IPs)+3*int64(c.Connections) > free {
		c.Connections = count(max(1, min(int64(c.Connections), free/6)))
		o.IPs = int(max(1, min(int64(o.IPs), free/4)))
		view.note(fmt.Sprintf("%d connections and %d addresses, since the limit of descriptors is %d (ulimit -n)", c.Connections, o.IPs, m.descriptors))
	}
	web, err := simweb.New(o)
	if err != nil {
		return nil, usageError{err}
	}
	return web, nil
}

// directory is the one given, which stays, or a temporary one.
func (c *demoCmd) directory() (dir string, remove func() error, err error) {
	if c.Dir != "" {
		return filepath.Clean(c.Dir), func() error { return nil }, nil
	}
	dir, err = os.MkdirTemp("", "drumbeat-demo-")
	if err != nil {
		return "", nil, fmt.Errorf("demo: make a directory: %w", err)
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

func (c *demoCmd) options(web *simweb.Web, dir string) crawl.Options {
	return crawl.Options{
		FS: disk.OS(), Dirs: []string{dir}, SeedLines: web.Seeds(), Agent: defaultAgent, Contact: "demo@example.org",
		Version: versionNumber, Host: hostName(), RAMBytes: max(0, int64(c.RAM)-demoWebRAM), DiskBytes: 20 << 30, Connections: int(c.Connections), Retries: 3,
		HostDelay: c.HostDelay, HostDelayMin: c.HostDelay / 2,
		ServerDelay: c.ServerDelay, ServerDelayMin: c.ServerDelay / 2, KeepAlive: demoKeepAlive,
		Backoff: demoBackoff, BackoffMax: 10 * time.Second,
		Store: true, CrawlLog: crawl.LogAll, Linger: demoLinger, MaxDepth: crawl.Unlimited, CheckpointEvery: 5 * time.Second,
	}
}

// introduce says what is about to happen.
func (c *demoCmd) introduce(view *view, web *simweb.Web, opt *crawl.Options, plan crawl.Plan) {
	if c.Quiet {
		return
	}
	o := web.Options()
	fmt.Fprintf(view, "A synthetic web on loopback: about %s URLs on %s hosts of %s PLDs and %d addresses, seed %d.\n",
		humanize.Comma(int64(o.Pages)), humanize.Comma(int64(o.Hosts)), humanize.Comma(int64(o.PLDs)), o.IPs, o.Seed)
	fmt.Fprintf(view, "Delays: %v between two visits to a host, less for large budgets, never less than %v; %v to an address (the real web\n"+
		"gets 40s, 1s and 1s). Connections: %d. Directory: %s\n", c.HostDelay, opt.HostDelayMin, c.ServerDelay, c.Connections, opt.Dirs[0])
	for _, line := range plan.Lines() {
		fmt.Fprintln(view, line)
	}
}

// demoWeb is a web, how it is served, and where the crawl of it is shown.
type demoWeb struct {
	web   *simweb.Web
	serve simweb.ServerOptions
	view  *view
}

// crawl serves the web while it is crawled.
func (c *demoCmd) crawl(a *app, opt *crawl.Options, plan crawl.Plan, w *demoWeb) (*crawl.Result, error) {
	server, err := w.web.Start(context.Background(), w.serve)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	network, err := openNetwork(
		dnscache.Options{Servers: server.DNSAddrs(), MaxBytes: dnsCacheBytes(plan), Family: dnscache.Family4},
		fetch.Options{
			IdleConns: max(1, int(c.Connections)/2),
			UserAgent: userAgent(opt.Agent, opt.Contact), From: opt.Contact, Ports: []uint16{8080},
			AllowNets: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8)},
			MapPort: func(port uint16) uint16 {
				if port == 443 {
					return server.HTTPSPort()
				}
				return server.HTTPPort()
			},
			TLS: fetch.TLSOptions{Roots: w.web.CAPool()},
		})
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	opt.Resolver, opt.Fetcher = network.resolver, network.fetcher
	opt.AllowedAddr, opt.AllowedPort, opt.FetchLimits = network.fetcher.AllowedAddr, network.fetcher.AllowedPort, network.limits
	opt.UserAgent = userAgent(opt.Agent, opt.Contact)
	plan.HeapBytes += demoWebRAM
	res, err := a.crawl(opt, plan, w.view)
	return res, errors.Join(err, network.close(), server.Close())
}

// demoChecks compares the server's own log with what a correct crawl does. A resumed crawl has done a part of it before
// this server's time, so that only what must not happen can be seen.
func demoChecks(web *simweb.Web, res *crawl.Result, opt *crawl.Options, resumed bool) (lines []string, err error) {
	log := web.Log().Snapshot()
	say := func(name, format string, args ...any) { lines = append(lines, name+": "+fmt.Sprintf(format, args...)) }
	_, host := log.MinHostGap()
	if host.Host != "" {
		say("least gap", "%v between two requests to one host (%s), from the end of one to the start of the next, as the server saw it",
			host.Value.Round(10*time.Microsecond), host.Host)
	}
	if conns, _ := log.MaxHostConns(); conns > 0 {
		say("connections", "%d at most to one host at a time, %s in all", conns, humanize.Comma(int64(log.Conns)))
	}
	var errs []error
	check := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("demo: %s: %w", what, err))
		}
	}
	check("fetched more than once, or never linked to", log.CheckOnce())
	// The delay of an address counts from start to start; on a busy machine the servers here may read two heads at once that
	// were sent apart, so it isn't checked by their clock.
	check("too close together", log.CheckEndGaps(opt.HostDelayMin, 0))
	check("out of bounds", withinBounds(opt.RAMBytes+demoWebRAM))
	complete := res.Stop == crawl.StopDone && !resumed
	want := web.Expected(opt.Agent)
	if complete {
		check("not the set that can be reached", log.CheckFetched(want, 1))
	}
	switch {
	case len(errs) > 0:
		say("check", "FAILED, see below")
	case complete:
		say("check", "exactly the %s URLs that can be reached and are allowed, each once; %s that robots.txt forbids left alone",
			humanize.Comma(int64(want.Fetched)), humanize.Comma(int64(want.Refused)))
	default:
		say("check", "no URL twice, none that must not be fetched; the crawl is not complete, or was begun before")
	}
	return lines, errors.Join(errs...)
}
