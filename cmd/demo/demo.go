// Package demo is the command demo: it serves a synthetic web on loopback, in the same process, and crawls
// it as crawl does, with real sockets, DNS and files.
//
// Command is its flags: the size of the web, the delays, RAM, and the directory. It shares none with crawl,
// since their defaults suit a run of half a minute; their environment variables begin with DRUMBEAT_DEMO_.
// Web makes the web (internal/simweb), Options the crawl's options, Crawl serves and crawls; bench dns uses
// these three with slow name servers.
//
// After the crawl, the log of the web's servers is compared with a correct crawl: it fetches each reachable
// URL once and no other, keeps the delays and one connection per host, and stays within --ram and a share of
// the CPU for garbage collection. A crawl that was cut short or resumed is checked only for forbidden
// requests.
//
// With --serve there is no crawl here. The web waits for crawls by other processes, and says at its end what they
// fetched. With flags of crawl the fetched URLs are counted, not compared: such a crawl may rightly fetch others.
//
// Exit codes: those of a crawl's end; term.ExitFailure (1) if a check failed, whatever ended the crawl;
// term.ExitUsage (2) for a bad flag.
//
// The servers have goroutines of their own, which end before Run returns. The web's tables and counters take
// at most some 96 MiB of --ram.
package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	crawlcmd "drumbeat/cmd/crawl"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/dnscache"
	"drumbeat/fetch"
	"drumbeat/internal/human"
	"drumbeat/internal/pace"
	"drumbeat/internal/ports"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// Command is the table of demo's flags.
type Command struct {
	CrawlFlags []string `arg:"" optional:"" name:"crawl-flag"`

	Pages       flags.Count   `group:"what" placeholder:"N" default:"26000"`
	Hosts       flags.Count   `group:"what" placeholder:"N" default:"2000"`
	PLDs        flags.Count   `group:"what" name:"plds" placeholder:"N" default:"500"`
	Seed        uint64        `group:"what" placeholder:"N" default:"1"`
	Warc        []string      `group:"what" name:"warc" placeholder:"DIR"`
	Seeds       string        `group:"what" placeholder:"FILE"`
	Delays      bool          `group:"what" name:"stored-delays"`
	Hostile     bool          `group:"what"`
	Serve       uint16        `group:"what" placeholder:"PORT"`
	MaxTime     time.Duration `group:"what" placeholder:"DURATION"`
	Dir         string        `group:"what" short:"d" placeholder:"DIR"`
	RAM         flags.Size    `group:"machine" name:"ram" placeholder:"SIZE" default:"512MiB"`
	Connections flags.Count   `group:"net" placeholder:"N" default:"500"`
	HostDelay   time.Duration `group:"politeness" placeholder:"DURATION" default:"10ms"`
	ServerDelay time.Duration `group:"politeness" placeholder:"DURATION" default:"2ms"`
	ServerLog   string        `group:"report" placeholder:"FILE"`
	flags.Logging
	flags.Admin
	Config string `group:"report" placeholder:"FILE"`
}

// webRAM is the part of --ram reserved for the synthetic web, in bytes: its tables, its log, and the server
// side of the connections.
const webRAM = 96 << 20

// linger is short, so the demo ends soon when only hosts with an unreachable robots.txt remain.
const linger = time.Second

// backoff is the back-off of a host after its first failure. It is short, so pages that answer 500 do not
// delay the end.
const backoff = 100 * time.Millisecond

// nextCrawl suggests a first crawl of the real web: one site, politely.
const nextCrawl = "drumbeat crawl https://example.org/ --contact you@example.org --scope host --max-time 2m   " +
	"crawls one site of the real web"

// historyBytes is the default of crawl's --history-bytes.
const historyBytes = 64 << 20

// keepAlive is the default of crawl's --keep-alive.
const keepAlive = 15 * time.Second

// Run makes the web, crawls it, and prints the summary and the checks.
func (c *Command) Run(a *term.App) error {
	if err := c.check(); err != nil {
		return term.Usage(err)
	}
	if len(c.Warc) > 0 {
		return c.runStored(a)
	}
	view := crawlcmd.NewView(a.Stderr, &c.Logging)
	view.RAM = int64(c.RAM)
	defer view.Close()
	web, err := c.Web(view)
	if err != nil {
		return err
	}
	if c.Serve > 0 {
		return c.serve(a, web)
	}
	dir, remove, err := c.Directory()
	if err != nil {
		return err
	}
	opt, err := c.crawlOptions(a, web, dir)
	if err != nil {
		return errors.Join(err, remove())
	}
	plan, err := crawlcmd.MakePlan(&opt)
	if err != nil {
		return errors.Join(err, remove())
	}
	c.introduce(view, web, &opt, plan)
	ended := c.limitTime(&opt)
	_, err = os.Stat(filepath.Join(dir, "state", "MANIFEST"))
	resumed := err == nil
	serve := simweb.ServerOptions{DNSServers: 2}
	requests, err := openServerLog(c.ServerLog)
	if err != nil {
		return errors.Join(err, remove())
	}
	if requests != nil {
		serve.Requests = requests
	}
	res, err := c.Crawl(a, &opt, plan, &Served{Web: web, Serve: serve, View: view})
	logErr := requests.close()
	finished := errors.Is(err, state.ErrFinished)
	if err != nil && !finished {
		return errors.Join(err, logErr, remove())
	}
	lines, checkErr := checks(web, res, &opt, resumed)
	if len(c.CrawlFlags) > 0 {
		lines, checkErr = c.compareLent(web, &opt)
	}
	sum := crawlcmd.Summary{Result: res, Dirs: []string{dir}, RAM: int64(c.RAM), Finished: finished, More: lines,
		Page: "URL", Next: []string{nextCrawl}}
	if c.Dir == "" {
		sum.Removed = true
		sum.Next = []string{"drumbeat demo --dir demo   keeps the crawl, for drumbeat report, get, log and audit",
			nextCrawl}
	}
	err = crawlcmd.PrintSummary(a.Stdout, sum)
	if c.Hostile {
		err = errors.Join(err, printHostile(a.Stdout, web, dir))
	}
	return errors.Join(err, remove(), checkErr, logErr, ended(res.Stop))
}

func (c *Command) check() error {
	for _, n := range []struct {
		flag        string
		v           flags.Count
		least, most int64
	}{{"pages", c.Pages, 1, 1e9}, {"hosts", c.Hosts, 1, 1e6}, {"plds", c.PLDs, 1, int64(c.Hosts)},
		{"connections", c.Connections, 1, 1e5}} {
		if int64(n.v) < n.least || int64(n.v) > n.most {
			return fmt.Errorf("--%s %d: must be between %d and %d", n.flag, n.v, n.least, n.most)
		}
	}
	switch stored := len(c.Warc) > 0; {
	case stored && c.Hostile:
		return errors.New("--hostile can't be used with --warc: a stored crawl has only its own hosts")
	case c.Serve > 0 && (c.Dir != "" || len(c.CrawlFlags) > 0):
		return errors.New("--serve can't be used with --dir or with flags of crawl after --: it only " +
			"serves and crawls nothing")
	case c.Serve > 1<<16-3:
		return fmt.Errorf("--serve %d: the two ports after it must exist, too", c.Serve)
	case !stored && c.Seeds != "":
		return errors.New("--seeds needs --warc: the synthetic web has its own seeds")
	case !stored && c.Delays:
		return errors.New("--stored-delays needs --warc")
	case c.MaxTime < 0:
		return errors.New("--max-time can't be negative")
	}
	if c.HostDelay < 0 || c.ServerDelay < 0 {
		return errors.New("--host-delay and --server-delay can't be negative")
	}
	return nil
}

// Web makes the synthetic web. If descriptors are short it lowers the number of connections and of
// addresses, since each address needs two listeners.
func (c *Command) Web(view *crawlcmd.View) (*simweb.Web, error) {
	o := simweb.Defaults(c.Seed)
	o.Pages, o.Hosts, o.PLDs = int(c.Pages), int(c.Hosts), int(c.PLDs)
	o.IPs = max(1, min(o.IPs, o.Hosts))
	o.CrawlDelay = 5 * c.HostDelay // in the robots.txt of some hosts
	o.LogRequests = 1              // the checks need only counters
	o.Signals = true
	if c.Serve > 0 {
		// As on the web, where most hosts share no network; a cluster visits each with one node at a time.
		o.Networks = o.IPs
	}
	if c.Hostile {
		for _, k := range simweb.HostileKinds() {
			o.Hostile = append(o.Hostile, k.Name)
		}
	}
	free, err := freeDescriptors()
	if err != nil {
		return nil, err
	}
	if 2*int64(o.IPs)+perConnection*int64(c.Connections) > free {
		c.Connections = flags.Count(max(1, min(int64(c.Connections), free/(2*perConnection))))
		o.IPs = int(max(1, min(int64(o.IPs), free/4)))
		view.Note(fmt.Sprintf("lowered to %s and %s: %d file descriptors are free (ulimit -n)",
			human.Counted(c.Connections, "connection", "connections"),
			human.Counted(o.IPs, "address", "addresses"), free))
	}
	web, err := simweb.New(o)
	if err != nil {
		return nil, term.Usage(err)
	}
	return web, nil
}

// perConnection is the number of descriptors for each connection: both ends are in this process, and for every
// two in use one idle connection may be kept.
const perConnection = 3

// freeDescriptors returns the number of descriptors for connections and addresses.
func freeDescriptors() (int64, error) {
	m, err := term.ThisMachine()
	if err != nil {
		return 0, err
	}
	return m.Descriptors - m.Reserved(), nil
}

// Directory returns --dir, or else a new temporary directory; remove deletes only the latter.
func (c *Command) Directory() (dir string, remove func() error, err error) {
	if c.Dir != "" {
		return filepath.Clean(c.Dir), func() error { return nil }, nil
	}
	dir, err = os.MkdirTemp("", "drumbeat-demo-")
	if err != nil {
		return "", nil, fmt.Errorf("demo: make a directory: %w", err)
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

// Options returns the options of the crawl of web in dir, without resolver and fetcher.
func (c *Command) Options(web *simweb.Web, dir string) crawl.Options {
	opt := c.options(dir)
	opt.Admission.SeedLines = slices.Concat(web.Seeds(), web.HostileSeeds())
	return opt
}

// crawlOptions does the same with the flags of crawl that were given after --.
func (c *Command) crawlOptions(a *term.App, web *simweb.Web, dir string) (crawl.Options, error) {
	opt := c.Options(web, dir)
	if len(c.CrawlFlags) == 0 {
		return opt, nil
	}
	lent, err := c.lentOptions(a, dir, os.DevNull)
	lent.Admission.Seeds, lent.Admission.SeedLines = "", opt.Admission.SeedLines
	return lent, err
}

// options returns the options of a crawl in dir, without seeds, resolver and fetcher.
func (c *Command) options(dir string) crawl.Options {
	return crawl.Options{
		Disk: crawl.DiskOptions{FS: disk.OS(), Dirs: []string{dir}, CheckpointEvery: 5 * time.Second},
		Identity: crawl.IdentityOptions{Agent: flags.DefaultAgent, Contact: "demo@example.org", Version: term.Version(),
			Host: crawlcmd.HostName()},
		Limits: crawl.LimitsOptions{RAMBytes: max(0, int64(c.RAM)-webRAM), DiskBytes: 20 << 30, Linger: linger,
			MaxDepth: crawl.Unlimited, MaxTime: c.MaxTime},
		Network: crawl.NetworkOptions{Connections: int(c.Connections), KeepAlive: keepAlive,
			Bandwidth: pace.NewBandwidth(pace.Schedule{}, time.Now())}, // none until ctl limits sets one
		Health: crawl.HealthOptions{Retries: 3, Backoff: backoff, BackoffMax: 10 * time.Second},
		Politeness: crawl.PolitenessOptions{HostDelay: c.HostDelay, HostDelayMin: c.HostDelay / 2,
			ServerDelay: c.ServerDelay, ServerDelayMin: c.ServerDelay / 2},
		Output:  crawl.OutputOptions{Store: true, ArchiveRobots: true, ArchiveDNS: true, CrawlLog: state.LogAll},
		Observe: crawl.ObserveOptions{HistoryBytes: historyBytes},
	}
}

// introduce prints the web, the delays and the plan.
func (c *Command) introduce(view *crawlcmd.View, web *simweb.Web, opt *crawl.Options, plan crawl.Plan) {
	o := web.Options()
	view.Say(
		fmt.Sprintf("A synthetic web on loopback: about %s on %s of %s and %s, seed %d.\n",
			human.Counted(o.Pages, "URL", "URLs"), human.Counted(o.Hosts, "host", "hosts"),
			human.Counted(o.PLDs, "PLD", "PLDs"),
			human.Counted(o.IPs, "address", "addresses"), o.Seed))
	view.Say(fmt.Sprintf("Delays: %s between requests to a host, at least %s with a large budget; %s to an address.\n"+
		"A crawl of the real web has 40 s, 1 s and 1 s. Connections: %d. Directory: %s\n", human.Duration(c.HostDelay),
		human.Duration(opt.Politeness.HostDelayMin), human.Duration(c.ServerDelay), c.Connections, opt.Disk.Dirs[0]))
	for _, line := range plan.Lines() {
		view.Say(line + "\n")
	}
}

// Served is a web, the options of its servers, and the view of its crawl.
type Served struct {
	Web   *simweb.Web
	Serve simweb.ServerOptions
	View  *crawlcmd.View
}

// Crawl serves the web and crawls it.
func (c *Command) Crawl(a *term.App, opt *crawl.Options, plan crawl.Plan, w *Served) (res *crawl.Result, err error) {
	server, err := w.Web.Start(context.Background(), w.Serve)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	err = c.network(opt, &plan, server.DNSAddrs(), fetch.Options{
		Ports: ports.Of(8080), TLS: fetch.TLSOptions{Roots: w.Web.CAPool()}, Limits: c.limits(), HTTP2: c.Hostile,
		MapPort: func(port uint16) uint16 {
			if port == 443 {
				return server.HTTPSPort()
			}
			return server.HTTPPort()
		},
	}, func() (err error) {
		res, err = crawlcmd.Execute(a, opt, plan, w.View, c.Admin)
		return err
	})
	return res, errors.Join(err, server.Close())
}

// network opens the resolver and the client of a crawl on loopback, and closes them after run.
func (c *Command) network(opt *crawl.Options, plan *crawl.Plan, servers []netip.AddrPort, client fetch.Options,
	run func() error) error {
	client.IdleConns, client.Limiter = max(1, int(c.Connections)/2), opt.Network.Bandwidth
	client.UserAgent, client.From = flags.UserAgent(opt.Identity.Agent, opt.Identity.Contact), opt.Identity.Contact
	client.AllowNets = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8)}
	network, err := crawlcmd.OpenNetwork(
		dnscache.Options{Servers: servers, MaxBytes: crawlcmd.DNSCacheBytes(*plan), Family: dnscache.Family4}, client)
	if err != nil {
		return err
	}
	opt.Network.Resolver, opt.Network.Fetcher = network.Resolver, network.Fetcher
	opt.Network.AllowedAddr, opt.Network.Ports, opt.Network.FetchLimits = network.Fetcher.AllowedAddr,
		network.Fetcher.Ports(), network.Limits
	opt.Identity.UserAgent = client.UserAgent
	plan.HeapBytes += webRAM
	return errors.Join(run(), network.Close())
}
