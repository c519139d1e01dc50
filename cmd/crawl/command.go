// Package crawl is the command crawl. It makes the options of package drumbeat/crawl from flags, environment
// and machine, shows the progress of the crawl, and prints its end.
//
// Command (command.go) is the table of its flags; groups that other commands share come from package flags.
// settings.go checks the flags and computes defaults from the machine, options.go turns them into
// crawl.Options, network.go opens the resolver and the fetcher. seeds.go copies seeds from standard input or
// the command line into the crawl's first directory, so the same command resumes.
//
// View (view.go, progress.go) shows a running crawl: on a terminal as a block of lines below the log,
// rewritten each second, elsewhere as a line every ten seconds. Summary (summary.go) is the end, and json.go
// has the same figures for --summary. noseed.go names the missing flags if no seed could be fetched.
//
// demo and bench crawl in the same way, with webs of their own, by OpenNetwork, MakePlan, Execute, View and
// Summary. Execute bounds the process to the plan (memory limit, garbage collector) and handles SIGINT,
// SIGTERM and SIGHUP. Any goroutine may write to a View.
//
// Exit codes: all of package term's. EndOf returns those of an orderly end: 0 done, 3 disk full, 11 signal,
// 14 --max-pages, 15 --max-time, 17 drained. Others are 16 if no seed could be fetched, and 4 for a
// directory that is in use, foreign or incomplete.
package crawl

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/internal/ports"
	"drumbeat/state"
)

// Command is the table of crawl's flags. A pointer is nil if the flag is not given and the machine decides.
type Command struct {
	URLs   []string `arg:"" name:"url" optional:""`
	Seeds  string   `group:"what" common:"" placeholder:"FILE"`
	Dir    []string `group:"what" common:"" placeholder:"DIR" default:"${defaultDir}"`
	AddDir []string `group:"what" placeholder:"DIR"`
	Out    []string `group:"what" common:"" placeholder:"DIR"`
	AddOut []string `group:"what" placeholder:"DIR"`
	Drain  bool     `group:"what"`
	New    bool     `group:"what"`
	Scope  string   `group:"what" common:"" enum:"all,pld,host" default:"all"`

	flags.RuleFiles

	Sitemaps    bool        `group:"what" common:""`
	SitemapBody *flags.Size `group:"what" placeholder:"SIZE"`

	MaxPages       flags.Count   `group:"limits" common:"" placeholder:"N" default:"0"`
	OutagePatience time.Duration `group:"limits" placeholder:"DURATION" default:"24h"`
	Reference      []string      `group:"limits" placeholder:"URL" sep:"none"`
	MaxTime        time.Duration `group:"limits" common:"" placeholder:"DURATION" default:"0s"`
	MaxDepth       *flags.Count  `group:"limits" common:"" placeholder:"N"`
	Linger         time.Duration `group:"limits" placeholder:"DURATION" default:"1m"`

	flags.URLRules
	flags.Bodies

	flags.Who
	flags.Delays
	flags.Health
	Retries flags.Count `group:"politeness" placeholder:"N" default:"3"`

	flags.Links

	netFlags

	budgetFlags

	resourceFlags

	hookFlags
	renderFlags
	recrawlFlags
	extractFlags
	priorityFlags
	storeFlags
	clusterFlags

	Store           string        `group:"output" enum:"warc,none" default:"warc"`
	ContentSeen     string        `group:"output" enum:"off,record,skip" default:"record"`
	NoArchive       string        `group:"output" name:"noarchive" enum:"keep,headers,drop" default:"keep"`
	NoIndex         string        `group:"output" name:"noindex" enum:"keep,drop" default:"keep"`
	Simhash         bool          `group:"output"`
	WARCFormat      string        `group:"output" name:"warc-format" enum:"gz,zst" default:"gz"`
	WARCDict        string        `group:"output" name:"warc-dict" placeholder:"FILE|none" default:"none"`
	WARCLevel       string        `group:"output" name:"warc-level" enum:"fast,1,2,3,4,5,6,7,8,9" placeholder:"LEVEL" default:"fast"`
	OutMode         flags.OutMode `group:"output" placeholder:"MODE" default:"0600"`
	ArchiveRobots   bool          `group:"output" negatable:"" default:"true"`
	ArchiveDNS      bool          `group:"output" name:"archive-dns" negatable:"" default:"true"`
	CrawlLog        string        `group:"output" enum:"off,errors,all" default:"errors"`
	TraceLinks      string        `group:"output" placeholder:"FILE"`
	TraceLimit      flags.Size    `group:"output" placeholder:"SIZE" default:"8GiB"`
	CheckpointEvery time.Duration `group:"output" placeholder:"DURATION" default:"60s"`
	RollEvery       time.Duration `group:"output" placeholder:"DURATION" default:"1h"`
	PrivateSuffixes bool          `group:"output"`
	reportFlags
}

// netFlags configure DNS and connections.
type netFlags struct {
	Resolver         []flags.ServerAddr `group:"net" placeholder:"HOST:PORT"`
	DNSRate          flags.Count        `group:"net" name:"dns-rate" placeholder:"N" default:"0"`
	AllowNet         []flags.NetPrefix  `group:"net" common:"" placeholder:"CIDR"`
	NAT64Prefix      []flags.NAT64      `group:"net" name:"nat64-prefix" placeholder:"PREFIX"`
	Ports            []ports.Range      `group:"net" common:"" placeholder:"PORTS"`
	IP               string             `group:"net" name:"ip" enum:"auto,4,6,both" default:"auto"`
	TLS              string             `group:"net" name:"tls" enum:"record,require" default:"record"`
	TLSLegacy        bool               `group:"net" name:"tls-legacy"`
	HTTP2            string             `group:"net" name:"http2" enum:"on,off" default:"on"`
	Connections      *flags.Connections `group:"net" common:"" placeholder:"N"`
	Rate             flags.PagesRate    `group:"net" common:"" placeholder:"N" default:"none"`
	Bandwidth        flags.Bandwidth    `group:"net" placeholder:"RATE" default:"none"`
	AcceptEncoding   flags.Codings      `group:"net" placeholder:"LIST" default:"gzip"`
	TimeZone         flags.TimeZone     `group:"net" placeholder:"NAME"`
	KeepAlive        time.Duration      `group:"net" placeholder:"DURATION" default:"15s"`
	ConnectTimeout   time.Duration      `group:"net" placeholder:"DURATION" default:"10s"`
	FirstByteTimeout time.Duration      `group:"net" placeholder:"DURATION" default:"20s"`
	Timeout          time.Duration      `group:"net" placeholder:"DURATION" default:"60s"`
	MapPort          []flags.PortPair   `group:"net" hidden:"" placeholder:"A=B"`
}

// budgetFlags set how many pages of a PLD each BEAST queue takes (paper, sections V and VI).
type budgetFlags struct {
	Budget        string      `group:"budget" enum:"paper,equal,popular,inverse,proportional,supporters" default:"paper"`
	BudgetDefault flags.Count `group:"budget" placeholder:"PAGES" default:"10"`
	BudgetQueue   flags.Count `group:"budget" placeholder:"PAGES" default:"10000"`
	BudgetMax     flags.Count `group:"budget" placeholder:"PAGES" default:"10000"`
	BudgetRanks   flags.Count `group:"budget" placeholder:"PLDS" default:"10000"`
	Trusted       string      `group:"budget" placeholder:"FILE"`
	TrapScore     string      `group:"budget" enum:"off,on" default:"off"`
	QueuesMax     flags.Count `group:"budget" placeholder:"N" default:"1024"`
}

// resourceFlags limit RAM and disk. Their help has the paper's symbols in brackets.
type resourceFlags struct {
	RAM      *flags.Size `group:"machine" common:"" name:"ram" placeholder:"SIZE"`
	Disk     *flags.Size `group:"machine" common:"" placeholder:"SIZE"`
	KeepFree *flags.Size `group:"machine" placeholder:"SIZE"`
	WhenFull string      `group:"machine" enum:"pause,drain,stop" default:"pause"`
	DirectIO bool        `group:"machine" name:"direct-io"`
	flags.Drum
}

// reportFlags select what is printed.
type reportFlags struct {
	flags.Logging
	HistoryBytes flags.Size `group:"report" placeholder:"SIZE" default:"64MiB"`
	Summary      string     `group:"report" placeholder:"FILE"`
	PrintConfig  bool       `group:"report" common:""`
	flags.Sources
	flags.Profiling `group:"report"`
	flags.Admin
}

// Help returns the text after the usage in crawl -h.
func (*Command) Help() string {
	return `Examples:
  drumbeat crawl https://example.org/ --contact you@example.org --scope host --max-time 2m
  drumbeat crawl --seeds seeds.txt --contact https://example.org/bot --dir /disk1/c --dir /disk2/c
  drumbeat crawl https://my.example/ --contact you@my.example --preset own-site
  drumbeat crawl --config crawl.toml --print-config`
}

// Run crawls.
func (c *Command) Run(a *term.App, kctx *kong.Context, settings *flags.Settings) error {
	if err := c.check(); err != nil {
		return err
	}
	m, err := term.ThisMachine()
	if err != nil {
		return err
	}
	notes, err := c.Complete(m)
	if err != nil {
		return err
	}
	opt := c.Options()
	if opt.Output.WARCDict, err = c.readDict(); err != nil {
		return term.Usage(err)
	}
	if err := c.ReadCluster(&opt); err != nil {
		return err
	}
	plan, err := MakePlan(&opt)
	if err != nil {
		return err
	}
	hideSecrets(&opt, a)
	scoping, err := c.readRules(opt.Admission.Env)
	if err != nil {
		return err
	}
	if c.PrintConfig {
		return errors.Join(settings.Print(a.Stdout, kctx.Selected()), printPlan(a.Stdout, plan, &opt), scoping.Print(a.Stdout))
	}
	if err := c.openStore(&opt); err != nil {
		return err
	}
	view := NewView(a.Stderr, &c.Logging)
	defer view.Close()
	var rules strings.Builder
	if err := scoping.Print(&rules); err != nil {
		return err
	}
	view.Say(rules.String())
	stop, err := c.openCluster(&opt, c.Timeout, func(text string) { view.log.Warn("cluster: " + text) })
	if err != nil {
		return err
	}
	if c.listens != "" {
		notes = append(notes, "the broker of the cluster listens on "+c.listens)
	}
	notes = append(notes, plan.Short()+"; --print-config shows the configuration and the plan")
	for _, n := range append(notes, wideDirectories(slices.Concat(opt.Disk.Dirs, opt.Disk.Out), opt.Output.OutMode)...) {
		view.Note(n)
	}
	if c.Known != "" {
		if opt.Admission.Seeds, err = c.readKnown(&opt, view); err != nil {
			return err
		}
		opt.Disk.New = false // takeSeeds has checked it, and has marked the directory
	} else if in := c.seedInput(a.Stdin); in != nil {
		if opt.Admission.Seeds, err = takeSeeds(&opt, in); err != nil {
			return err
		}
		opt.Disk.New = false // takeSeeds has checked it, and has marked the directory
	}
	return errors.Join(c.start(a, &opt, plan, view), stop())
}

// maxNetsLogged bounds a line of the log.
const maxNetsLogged = 16

// start opens the network and crawls.
func (c *Command) start(a *term.App, opt *crawl.Options, plan crawl.Plan, view *View) error {
	network, err := c.network(plan, opt.Network.Bandwidth, a.NamePanicked())
	if err != nil {
		return err
	}
	opt.Network.Resolver, opt.Network.Fetcher = network.Resolver, network.Fetcher
	if nets := network.Fetcher.OwnPublicNets(); len(nets) > 0 {
		view.log.Info("crawl: addresses on the networks of this machine's interfaces are refused; --allow-net admits them",
			"networks", nets[:min(len(nets), maxNetsLogged)], "of", len(nets))
	}
	opt.Network.AllowedAddr, opt.Network.Ports, opt.Network.FetchLimits = network.Fetcher.AllowedAddr, network.Fetcher.Ports(), network.Limits
	opt.Links.SitemapEncoding = c.AcceptEncoding.ForSitemaps()
	if c.AcceptEncoding.Auto {
		opt.Network.SetAcceptEncoding = network.Fetcher.SetAcceptEncoding
	}
	if opt.Links.SitemapBytes, err = c.sitemapBytes(network.Limits, network.bodies); err != nil {
		return errors.Join(term.Usage(err), network.Close())
	}
	opt.Identity.UserAgent = c.UserAgent
	opt.Observe.Panicked = func(value any, stack []byte) {
		view.out.wait()
		a.Die(value, stack)
	}
	var res *crawl.Result
	err = c.Profiled(func() (err error) {
		res, err = Execute(a, opt, plan, view, c.Admin)
		return err
	})
	var noSeed *noSeed
	if finished := errors.Is(err, state.ErrFinished); (err == nil || finished) && fetchedNothing(res) {
		noSeed = whyNoSeed(opt, network.Fetcher.Refusal, res)
	}
	err = errors.Join(err, network.Close())
	finished := errors.Is(err, state.ErrFinished)
	if err != nil && !finished {
		return err
	}
	sum := Summary{Result: res, Dirs: opt.Disk.Dirs, out: opt.Disk.Out, format: opt.Output.WARCFormat, RAM: opt.Limits.RAMBytes, Finished: finished}
	if opt.Extract != nil {
		sum.extract = opt.Extract.Dir
	}
	if err := PrintSummary(a.Stdout, sum); err != nil {
		return err
	}
	if c.Summary != "" {
		if err := saveSummary(c.Summary, res); err != nil {
			return err
		}
	}
	if noSeed != nil {
		noSeed.print(a.Stderr)
		return &term.Ended{Code: term.ExitNoSeed, Why: "no seed could be fetched", Quiet: true}
	}
	return EndOf(res.Stop)
}

// EndOf returns the error, with its exit code, for the reason of a crawl's end; nil if the crawl is done.
func EndOf(stop string) error {
	switch stop {
	case crawl.StopCancelled:
		return &term.Ended{Code: term.ExitSignal, Why: stop, Quiet: true}
	case crawl.StopPages:
		return &term.Ended{Code: term.ExitPages, Why: stop, Quiet: true}
	case crawl.StopDisk:
		return &term.Ended{Code: term.ExitDiskFull, Why: "a disk is nearly full, or --disk is nearly reached (--when-full stop); the last error of " +
			"the log says which, and how much is used"}
	case crawl.StopDrained:
		return &term.Ended{Code: term.ExitDrained, Why: stop, Quiet: true}
	case crawl.StopOutage:
		return &term.Ended{Code: term.ExitOutage, Why: "nothing has answered for as long as --outage-patience allows: the network or the name servers are down, or " +
			"all servers drop our packets; the same command resumes"}
	case crawl.StopTime:
		return &term.Ended{Code: term.ExitTime, Why: stop, Quiet: true}
	}
	return nil
}
