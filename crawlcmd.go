package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/dustin/go-humanize"

	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/dnscache"
	"drumbeat/fetch"
	"drumbeat/internal/bug"
	"drumbeat/pace"
)

// gcPercent lets the Go heap grow to four times what lives in it before it is collected. What is large and lives long is
// outside of the heap, so that this is some 100 MB; the memory limit is what bounds the heap in the end. In the demo on 2
// cores the collector takes a few percent of the CPU with it.
const gcPercent = 300

// Run crawls.
func (c *crawlCmd) Run(a *app, kctx *kong.Context) error {
	if err := c.check(); err != nil {
		return err
	}
	m, err := thisMachine()
	if err != nil {
		return err
	}
	notes, err := c.complete(m)
	if err != nil {
		return err
	}
	opt := c.options()
	plan, err := makePlan(&opt)
	if err != nil {
		return err
	}
	scoping, err := c.scopeFlags.read(c.PrivateSuffixes, c.Escapes == "keep")
	if err != nil {
		return err
	}
	if c.PrintConfig {
		return errors.Join(a.printConfig(a.stdout, kctx.Selected(), plan, &opt), scoping.print(a.stdout))
	}
	view := newView(a.stderr, c.Quiet, logLevel(c.LogLevel))
	defer view.close()
	if !c.Quiet {
		if err := scoping.print(view); err != nil {
			return err
		}
	}
	notes = append(notes, plan.Short()+"; --print-config shows all flags and the plan")
	for _, n := range append(notes, wideDirectories(slices.Concat(opt.Dirs, opt.Out), opt.OutMode)...) {
		view.note(n)
	}
	if in := c.seedInput(a.stdin); in != nil {
		if opt.Seeds, err = takeSeeds(&opt, in); err != nil {
			return err
		}
		opt.New = false // has been looked at
	}
	return c.start(a, &opt, plan, view)
}

// start opens the network and crawls.
func (c *crawlCmd) start(a *app, opt *crawl.Options, plan crawl.Plan, view *view) error {
	network, err := c.network(plan, opt.Bandwidth, a.namePanicked())
	if err != nil {
		return err
	}
	opt.Resolver, opt.Fetcher = network.resolver, network.fetcher
	opt.AllowedAddr, opt.AllowedPort, opt.FetchLimits = network.fetcher.AllowedAddr, network.fetcher.AllowedPort, network.limits
	if opt.SitemapBytes, err = c.sitemapBytes(network.limits, network.bodies); err != nil {
		return errors.Join(usageError{err}, network.close())
	}
	opt.UserAgent = c.UserAgent
	opt.Panicked = func(value any, stack []byte) {
		os.Exit(a.panicked(value, stack))
	}
	var res *crawl.Result
	err = c.profiled(func() (err error) {
		res, err = a.crawl(opt, plan, view)
		return err
	})
	var noSeed *noSeed
	if finished := errors.Is(err, crawl.ErrFinished); (err == nil || finished) && fetchedNothing(res) {
		noSeed = whyNoSeed(opt, res)
	}
	err = errors.Join(err, network.close())
	finished := errors.Is(err, crawl.ErrFinished)
	if err != nil && !finished {
		return err
	}
	if err := printSummary(a.stdout, summary{res: res, dirs: opt.Dirs, out: opt.Out, ram: opt.RAMBytes, finished: finished}); err != nil {
		return err
	}
	if c.Summary != "" {
		if err := saveSummary(c.Summary, res); err != nil {
			return err
		}
	}
	if noSeed != nil {
		noSeed.print(a.stderr)
		return &ended{code: exitNoSeed, why: "no seed could be fetched", quiet: true}
	}
	return endOf(res.Stop)
}

// endOf turns the reason for a crawl's end into what exit codes are made of.
func endOf(stop string) error {
	switch stop {
	case crawl.StopCancelled:
		return &ended{code: exitSignal, why: stop, quiet: true}
	case crawl.StopPages:
		return &ended{code: exitPages, why: stop, quiet: true}
	case crawl.StopDisk:
		return &ended{code: exitDiskFull, why: "a disk is nearly full, or --disk nearly reached (--when-full stop); the same command goes on when there is room"}
	case crawl.StopDrained:
		return &ended{code: exitDrained, why: stop, quiet: true}
	case crawl.StopTime:
		return &ended{code: exitTime, why: stop, quiet: true}
	}
	return nil
}

// options are the crawl's, but for the network.
func (c *crawlCmd) options() crawl.Options {
	o := crawl.Options{
		FS: disk.OS(), Dirs: clean(c.dirs()), AddDirs: clean(c.AddDir), Out: clean(c.outs()), AddOut: clean(c.AddOut), New: c.New, Seeds: c.Seeds,
		Agent: c.Agent, Contact: c.Contact, Version: versionNumber, Host: hostName(),
		RAMBytes: int64(*c.RAM), DiskBytes: int64(*c.Disk), Connections: int(c.Connections.most()), Retries: int(c.Retries),
		Budget: crawl.BudgetPolicy(c.Budget), BudgetDefault: uint32(c.BudgetDefault), BudgetMax: uint32(c.BudgetMax),
		BudgetRanks: int(c.BudgetRanks), QueuesMax: int(c.QueuesMax),
		KeepAlive: c.KeepAlive, CheckpointEvery: c.CheckpointEvery, RollEvery: c.RollEvery, ArchiveRobots: c.ArchiveRobots, ArchiveDNS: c.ArchiveDNS, OutMode: c.OutMode.wide(), Linger: c.Linger,
		MaxPages: int64(c.MaxPages), MaxTime: c.MaxTime, MaxDepth: crawl.Unlimited,
		Scope: crawl.Scope(c.Scope), Store: c.Store == "warc", Sitemaps: c.Sitemaps, PrivateSuffixes: c.PrivateSuffixes,
		CrawlLog: crawl.LogLevel(c.CrawlLog), Drain: c.Drain, WhenFull: crawl.WhenFull(c.WhenFull), KeepFree: int64(orZero(c.KeepFree)),
		NetworkFlags: c.netFlags.digest(),
		Rules:        c.Rules, Blacklist: c.Blacklist, TraceLinks: c.TraceLinks, TraceLimit: int64(c.TraceLimit),
		Rate: c.Rate.Schedule.In(c.TimeZone.Location), ConnectionSchedule: c.Connections.hours().In(c.TimeZone.Location),
		Bandwidth: pace.NewBandwidth(c.Bandwidth.Schedule.In(c.TimeZone.Location), time.Now()),
	}
	if c.MaxDepth != nil {
		o.MaxDepth = int(*c.MaxDepth)
	}
	if c.DirectIO {
		o.FS = disk.Direct()
	}
	c.healthFlags.apply(&o)
	c.drumFlags.apply(&o)
	c.delayFlags.apply(&o)
	c.linkFlags.apply(&o)
	c.urlFlags.apply(&o)
	c.acceptFlags.apply(&o)
	return o
}

// hostName is the machine's name, without which files of two machines may have one name.
func hostName() string {
	name, _ := os.Hostname() // "" if there is none
	return name
}

// wideDirectories warns of directories that were there before and that others may look into or change. What the crawl
// makes has mode 0700 or 0600; the mode of what a person made is left to the person.
// What outMode lets in is meant to be let in; mode 0 is for nobody else.
func wideDirectories(paths []string, outMode fs.FileMode) (notes []string) {
	meant := outMode | outMode&0o444>>2
	for _, p := range paths {
		for _, sub := range [...]string{"", "state", "warc", "log"} {
			name := filepath.Join(p, sub)
			info, err := os.Stat(name)
			if err != nil || !info.IsDir() || info.Mode().Perm()&0o077 == 0 ||
				sub != "state" && info.Mode().Perm()&0o077&^meant == 0 {
				continue
			}
			what := "read"
			if info.Mode().Perm()&0o022 != 0 {
				what = "changed"
			}
			notes = append(notes, fmt.Sprintf("WARNING: directory %s can be %s by others (mode %04o); chmod 700 would close it",
				name, what, info.Mode().Perm()))
		}
	}
	return notes
}

func clean(paths []string) (out []string) {
	for _, p := range paths {
		out = append(out, filepath.Clean(p))
	}
	return out
}

// makePlan divides RAM and disk; too little is a fault of the flags.
func makePlan(opt *crawl.Options) (crawl.Plan, error) {
	o := *opt // it fills in defaults
	plan, err := crawl.MakePlan(&o)
	if err == nil {
		err = o.CheckStores(&plan)
	}
	if err != nil {
		return plan, usageError{err}
	}
	return plan, nil
}

// printConfig prints the effective flags and the plan.
func (a *app) printConfig(out io.Writer, command *kong.Node, plan crawl.Plan, opt *crawl.Options) error {
	if err := printSettings(out, command); err != nil {
		return err
	}
	for _, line := range planLines(plan, opt) {
		if _, err := fmt.Fprintln(out, "# "+line); err != nil {
			return err
		}
	}
	return nil
}

// planLines are the plan, and what it promises for --max-pages, or a billion.
func planLines(plan crawl.Plan, opt *crawl.Options) []string {
	lines := plan.Lines()
	if f, err := plan.Forecast(opt, crawl.Load{Pages: float64(opt.MaxPages)}); err == nil {
		lines = append(lines, f.Lines()...)
	}
	return lines
}

// network is what a crawl talks to the world with.
type network struct {
	limits   fetch.Limits
	bodies   int64 // of RAM, for bodies
	resolver crawl.Resolver
	fetcher  *fetch.Client
	dns      *dnscache.Resolver
}

func (n *network) close() error { return errors.Join(n.fetcher.Close(), n.dns.Close()) }

func (c *crawlCmd) network(plan crawl.Plan, limiter *pace.Bandwidth, panicked func(string, any, []byte)) (*network, error) {
	family, err := dnscache.ParseFamily(c.IP)
	if err != nil {
		return nil, usageError{err}
	}
	servers := make([]netip.AddrPort, 0, len(c.Resolver))
	for _, s := range c.Resolver {
		servers = append(servers, s.AddrPort)
	}
	limits := fetch.Limits{Connect: c.ConnectTimeout, TLS: c.ConnectTimeout, FirstByte: c.FirstByteTimeout,
		Total: c.Timeout, BodyBytes: int(c.MaxBody.most()), DecodedBytes: int(min(4*c.MaxBody.most(), maxBodyLimit))}
	bodies := max(plan.BodyBytes, limits.MemoryBytes())
	if bodies > plan.HeapBytes/2 {
		return nil, usageError{fmt.Errorf("--max-body %s is too much for --ram: one page may take %s, the Go heap's share is %s",
			humanize.IBytes(uint64(c.MaxBody.most())), humanize.IBytes(uint64(bodies)), humanize.IBytes(uint64(plan.HeapBytes)))}
	}
	m, err := thisMachine()
	if err != nil {
		return nil, err
	}
	return openNetwork(
		dnscache.Options{Servers: servers, Rate: float64(c.DNSRate), MaxBytes: dnsCacheBytes(plan), Family: family, MixCase: true,
			Panicked: panicked},
		fetch.Options{
			Limits: limits, BufferBytes: bodies, IdleConns: m.forCrawl(c).idleConnections(c.Connections.most()),
			UserAgent: c.UserAgent, From: c.from(), Accept: crawl.AcceptHeader(c.Accept), AllowNets: prefixes(c.AllowNet),
			Ports:   portList(c.Ports),
			MapPort: portMap(c.MapPort), Limiter: limiter, TLS: fetch.TLSOptions{Require: c.TLS == "require"},
		})
}

func openNetwork(d dnscache.Options, f fetch.Options) (*network, error) {
	client, err := fetch.New(f)
	if err != nil {
		return nil, usageError{err}
	}
	dns, err := dnscache.New(d)
	if err != nil {
		return nil, errors.Join(usageError{err}, client.Close())
	}
	return &network{resolver: names{dns}, fetcher: client, dns: dns, limits: f.Limits, bodies: f.BufferBytes}, nil
}

// dnsCacheBytes is the DNS cache's part of the Go heap.
func dnsCacheBytes(plan crawl.Plan) int64 { return max(1<<20, min(96<<20, plan.HeapBytes/16)) }

func portMap(pairs []portPair) func(uint16) uint16 {
	if len(pairs) == 0 {
		return nil
	}
	to := make(map[uint16]uint16, len(pairs))
	for _, p := range pairs {
		to[p.from] = p.to
	}
	return func(port uint16) uint16 {
		if p, ok := to[port]; ok {
			return p
		}
		return port
	}
}

// names is dnscache as crawl wants it.
type names struct{ dns *dnscache.Resolver }

// LookupHost implements crawl.Resolver.
func (n names) LookupHost(ctx context.Context, host, pld string) (crawl.Lookup, error) {
	answer, err := n.dns.Lookup(ctx, host, pld)
	return crawlLookup(host, answer, err)
}

// LookupFresh implements crawl.FreshResolver.
func (n names) LookupFresh(ctx context.Context, host, pld string) (crawl.Lookup, error) {
	answer, err := n.dns.LookupFresh(ctx, host, pld)
	return crawlLookup(host, answer, err)
}

// crawlLookup is what dnscache says, as crawl wants it.
func crawlLookup(host string, answer dnscache.Answer, err error) (crawl.Lookup, error) {
	if err == nil {
		return crawl.Lookup{Addrs: answer.Addrs, Expires: answer.Expires, TTL: answer.TTL, Server: answer.Server, Cached: answer.Cached}, nil
	}
	var de *dnscache.Error
	if errors.As(err, &de) {
		return crawl.Lookup{}, &crawl.LookupError{Host: host, NotFound: de.Kind.Permanent(), NoAnswer: de.Kind == dnscache.KindTimeout,
			Certain: de.Kind == dnscache.KindBadName, Cached: de.Cached,
			Busy: de.Kind == dnscache.KindBusy, Expires: de.Expires, Err: err}
	}
	return crawl.Lookup{}, err
}

// crawl runs the crawl, with the process bounded to the plan, until it ends or a signal stops it.
func (a *app) crawl(opt *crawl.Options, plan crawl.Plan, view *view) (*crawl.Result, error) {
	limit := debug.SetMemoryLimit(plan.HeapBytes)
	percent := debug.SetGCPercent(gcPercent)
	defer func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	}()
	opt.Log = slog.New(slog.NewTextHandler(view, &slog.HandlerOptions{Level: view.level}))
	view.log = opt.Log
	opt.Snapshot = view.show
	opt.SnapshotEvery = time.Second
	ctx, release := a.stopOnSignal(context.Background())
	defer release()
	rules := len(opt.Rules)+len(opt.Blacklist) > 0
	if a.onHangup != nil && (rules || !signal.Ignored(syscall.SIGHUP)) { // nohup(1) has it ignored
		again, release := a.onHangup()
		defer release()
		if rules {
			opt.Reload = again
		} else {
			ctx = a.stopOnHangup(ctx, again)
		}
	}
	return crawl.Run(ctx, *opt)
}

// stopOnHangup ends the context when the terminal has gone: with no files to be read again that is what SIGHUP says.
func (a *app) stopOnHangup(parent context.Context, gone <-chan struct{}) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		defer bug.Fatal()
		select {
		case <-gone:
			fmt.Fprintln(a.stderr, "drumbeat: hangup: stopping; fetches end and a checkpoint is made")
			cancel(errSignal)
		case <-parent.Done():
			cancel(nil)
		}
	}()
	return ctx
}

func logLevel(name string) (level slog.Level) {
	_ = level.UnmarshalText([]byte(name)) // the flag's enum has been checked
	return level
}

// directoryErrors are those that blame a directory.
var directoryErrors = [...]error{disk.ErrLocked, crawl.ErrIncompatible, crawl.ErrExists, crawl.ErrHolds, crawl.ErrUnusable}
