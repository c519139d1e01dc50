// Package crawl is the command crawl: flags, environment and machine become the options of package drumbeat/crawl, which
// crawls; this package shows how it goes and says how it ended.
//
// Command (command.go) is the table of its flags; groups that other commands have as well are embedded from package flags.
// settings.go checks them and completes them by what the machine has, options.go turns them into crawl.Options, network.go
// opens the resolver and the fetcher that they describe. seeds.go copies seeds from standard input or the command line into
// the crawl's first directory, so that the same command resumes.
//
// View (view.go, progress.go) is what a person sees of a running crawl: on a terminal a block of lines below the log,
// rewritten each second, elsewhere a line every ten seconds. Summary (summary.go) is the end, and json.go the same figures
// for --summary. noseed.go says which flags are missing when nothing could be fetched.
//
// demo and bench crawl in the same way, with a web of their own: they use OpenNetwork, MakePlan, Execute, View and Summary.
// Execute bounds the process to the plan (memory limit, garbage collector), and has SIGINT, SIGTERM and SIGHUP stop it or
// read its rule files again. A View may be written to by any goroutine.
//
// Exit codes: all of package term's. EndOf gives those of an orderly end: 0 done, 3 disk full, 11 signal, 14 --max-pages,
// 15 --max-time, 17 drained; 16 when no seed could be fetched; 4 for a directory that is in use, foreign or incomplete.
package crawl

import (
	"errors"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/crawl/state"
)

// Command is the table of crawl's flags. A pointer is nil where the flag isn't given and the machine decides.
type Command struct {
	URLs   []string `arg:"" name:"url" optional:"" help:"Seeds: URLs or hosts, in place of --seeds. They are copied into the first --dir, as standard input is."`
	Seeds  string   `group:"what" placeholder:"FILE" help:"Seeds, one URL or host a line, # comments. A bare host is tried by https, then by http. \"-\" is standard input, which is copied into the first --dir."`
	Dir    []string `group:"what" placeholder:"DIR" default:"${defaultDir}" help:"Directory of the crawl. For several disks one directory each: repeat the flag, or put commas between them (\\, is a comma in a name)."`
	AddDir []string `group:"what" placeholder:"DIR" help:"A further directory, for more disk: added to the crawl if it doesn't belong to it yet. --dir alone adds none to a crawl that has begun."`
	Out    []string `group:"what" placeholder:"DIR" help:"Directory for WARC files. Repeatable, one per disk. Default: the --dir."`
	AddOut []string `group:"what" placeholder:"DIR" help:"A further directory for WARC files: added to the crawl if it doesn't belong to it yet. --out alone adds none to a crawl that has begun."`
	Drain  bool     `group:"what" help:"Fetch what is queued and queue no new links: ends a crawl gently. A later run without it goes on."`
	New    bool     `group:"what" help:"Refuse a directory that holds a crawl already."`
	Scope  string   `group:"what" enum:"all,pld,host" default:"all" help:"Which links are followed: all, those in the PLDs of the seeds, or those on the hosts of the seeds. With pld and host, budgets are off and the default --host-delay is 2s."`

	flags.RuleFiles

	Sitemaps    bool        `group:"what" help:"Follow the Sitemap lines of robots.txt files, and what else is a sitemap: indexes, lists, feeds, packed or not. Their URLs are links like any. Without this they are only logged."`
	SitemapBody *flags.Size `group:"what" placeholder:"SIZE" help:"Longest sitemap read, as received; unpacked it may be 50MiB. Default: 10MiB, or less where --ram is short."`

	MaxPages flags.Count   `group:"limits" placeholder:"N" default:"0" help:"Stop at so many pages (status 200, HTML), over all runs of this crawl. 0: no limit."`
	MaxTime  time.Duration `group:"limits" placeholder:"DURATION" default:"0s" help:"Stop after fetching for so long, over all runs of this crawl. 0: no limit."`
	MaxDepth *flags.Count  `group:"limits" placeholder:"N" help:"Follow at most so many links from a seed. 0: the seeds alone. Default: no limit."`
	Linger   time.Duration `group:"limits" placeholder:"DURATION" default:"1m" help:"How long to wait before ending when only unreachable hosts and URLs without budget are left."`

	flags.URLRules
	flags.Bodies

	flags.Who
	flags.Delays
	flags.Health
	Retries flags.Count `group:"manners" placeholder:"N" default:"3" help:"Further attempts at a URL whose exchange failed."`

	flags.Links

	netFlags

	budgetFlags

	resourceFlags

	Store           string        `group:"output" enum:"warc,none" default:"warc" help:"What is kept of responses: warc (all of them) or none (pure discovery)."`
	OutMode         flags.OutMode `group:"output" placeholder:"MODE" default:"0600" help:"Permissions of finished WARC files, indexes and logs, in octal: 0640 lets the group read them, and opens the directories that they are in (0750) to it. DIR/state stays closed."`
	ArchiveRobots   bool          `group:"output" negatable:"" default:"true" help:"Store the exchanges for robots.txt, redirects included, as WARC records."`
	ArchiveDNS      bool          `group:"output" name:"archive-dns" negatable:"" default:"true" help:"Store the answers of the DNS as WARC records (dns:HOST, text/dns), as Heritrix does."`
	CrawlLog        string        `group:"output" enum:"off,errors,all" default:"errors" help:"Outcomes of single URLs in the compressed log under DIR/log: off, errors, all."`
	TraceLinks      string        `group:"output" placeholder:"FILE" help:"Record the key of each link, 8 bytes, for bench cache --trace: FILE is made or appended to. It tells no URL, and no fault of it stops the crawl."`
	TraceLimit      flags.Size    `group:"output" placeholder:"SIZE" default:"8GiB" help:"Most bytes of that file; then it ends, and the crawl goes on."`
	CheckpointEvery time.Duration `group:"output" placeholder:"DURATION" default:"60s" help:"Time between checkpoints: the most work that a crash can cost."`
	RollEvery       time.Duration `group:"output" placeholder:"DURATION" default:"1h" help:"Finish output files that are so old, so that they can be moved away while the crawl runs. They are also finished when full, and at each orderly stop. 0: not by age."`
	PrivateSuffixes bool          `group:"output" help:"Let privately run public suffixes (github.io, blogspot.com) make PLDs. Can't be changed later."`
	reportFlags
}

// netFlags say how the network is reached.
type netFlags struct {
	Resolver         []flags.ServerAddr `group:"net" placeholder:"HOST:PORT" help:"DNS server. Repeatable. Default: those of /etc/resolv.conf."`
	DNSRate          flags.Count        `group:"net" name:"dns-rate" placeholder:"N" default:"0" help:"Most DNS queries a second. 0: no limit."`
	AllowNet         []flags.NetPrefix  `group:"net" placeholder:"CIDR" help:"Addresses that may be connected to although they aren't public, such as 127.0.0.0/8. Repeatable."`
	Ports            []flags.PortRange  `group:"net" placeholder:"PORTS" help:"Ports that may be connected to besides 80 and 443: a list of ports and ranges, such as 8080,8000-8099. Links to other ports are counted and dropped. Repeatable."`
	IP               string             `group:"net" name:"ip" enum:"auto,4,6,both" default:"auto" help:"IP versions: auto (those that this machine has a route for), 4, 6, both."`
	TLS              string             `group:"net" name:"tls" enum:"record,require" default:"record" help:"Certificates: record what is wrong with one and fetch, or require a good one."`
	Connections      *flags.Connections `group:"net" placeholder:"N" help:"Most exchanges at once, or a schedule: \"mon-fri 08:00-20:00 200; else 2000\". Default: 2000, or less where descriptors are short."`
	Rate             flags.PagesRate    `group:"net" placeholder:"N" default:"none" help:"Most requests a second, for pages and robots.txt alike, or a schedule: \"mon-fri 08:00-20:00 20; sat,sun none; else 100\". The first entry that holds counts, and where none holds there is no limit. 0 and none: no limit; pause: nothing is asked for until the value changes."`
	Bandwidth        flags.Bandwidth    `group:"net" placeholder:"RATE" default:"none" help:"Most bits received a second from sites (heads, bodies, robots.txt, TLS; neither DNS nor TCP's own), or a schedule: \"mon-fri 08:00-20:00 200Mbit; sat,sun 1Gbit; else 500Mbit\". Units: bit, kbit, Mbit, Gbit. 0 and none: no limit."`
	TimeZone         flags.TimeZone     `group:"net" placeholder:"NAME" help:"Time zone of the schedules, such as Europe/Berlin. Default: the machine's."`
	KeepAlive        time.Duration      `group:"net" placeholder:"DURATION" default:"15s" help:"Longest time that a connection is kept open for the next page of its host, if one waits and the delay between them is no longer. 0: a connection for each page."`
	ConnectTimeout   time.Duration      `group:"net" placeholder:"DURATION" default:"10s" help:"Longest TCP connect, and longest TLS handshake."`
	FirstByteTimeout time.Duration      `group:"net" placeholder:"DURATION" default:"20s" help:"Longest wait for the first byte of an answer."`
	Timeout          time.Duration      `group:"net" placeholder:"DURATION" default:"60s" help:"Longest exchange, from connect to last byte."`
	MapPort          []flags.PortPair   `group:"net" hidden:"" placeholder:"A=B" help:"Connect to port B where a URL says A (synthetic webs)."`
}

// budgetFlags say how many pages of a PLD each BEAST queue takes (the paper's sections V and VI).
type budgetFlags struct {
	Budget        string      `group:"budget" enum:"paper,equal,popular,inverse" default:"paper" help:"How a PLD's budget follows from its in-degree: paper (top ranks more, linearly by rank), equal, popular (top ranks only), inverse (top ranks less)."`
	BudgetDefault flags.Count `group:"budget" placeholder:"PAGES" default:"10" help:"Pages a queue of a PLD outside the top ranks."`
	BudgetMax     flags.Count `group:"budget" placeholder:"PAGES" default:"10000" help:"Pages a queue of the PLD with the largest in-degree."`
	BudgetRanks   flags.Count `group:"budget" placeholder:"PLDS" default:"10000" help:"How many PLDs are top ranks; at most 1 % of those known."`
	QueuesMax     flags.Count `group:"budget" placeholder:"N" default:"1024" help:"Most BEAST queues ahead of the current one."`
}

// resourceFlags divide the machine. The paper's symbols are in brackets.
type resourceFlags struct {
	RAM      *flags.Size `group:"machine" name:"ram" placeholder:"SIZE" help:"Most RAM of the whole process (R and all else); it is touched as it is needed. Default: half of the smaller of physical and cgroup memory; with --scope host and pld, and with --max-pages, 1GiB and more as the crawl grows."`
	Disk     *flags.Size `group:"machine" placeholder:"SIZE" help:"Disk space for state and output. Default: 90 % of what is free, and what this crawl holds already."`
	KeepFree *flags.Size `group:"machine" placeholder:"SIZE" help:"Space left free on every file system. Default: what a checkpoint writes at most, and some more."`
	WhenFull string      `group:"machine" enum:"pause,drain,stop" default:"pause" help:"When a disk has no more than --keep-free, or --disk is nearly reached: pause (until there is room), drain (from twice that on, queue no new links), stop."`
	DirectIO bool        `group:"machine" name:"direct-io" help:"Read and write what merges move past the page cache (O_DIRECT), where the file system can: for crawls whose state is many times larger than RAM."`
	flags.Drum
}

// reportFlags say what the person sees.
type reportFlags struct {
	Quiet           bool   `group:"report" short:"q" help:"Print warnings, errors and nothing else."`
	LogLevel        string `group:"report" enum:"debug,info,warn,error" default:"info" help:"Least level that is logged: debug, info, warn, error."`
	Summary         string `group:"report" placeholder:"FILE" help:"Also write the figures of the end into FILE, as JSON."`
	PrintConfig     bool   `group:"report" help:"Print the effective value of every flag and the plan, and end."`
	flags.Profiling `group:"report"`
}

// Help goes behind the usage in crawl -h.
func (*Command) Help() string {
	return `Examples:
  drumbeat crawl https://example.org/ --contact you@example.org --scope host
  drumbeat crawl --seeds seeds.txt --contact https://example.org/bot --dir /disk1/crawl --add-dir /disk2/crawl
  drumbeat crawl http://127.0.0.1:8080/ --contact you@example.org --scope host --ports 8080 --allow-net 127.0.0.1`
}

// Run crawls.
func (c *Command) Run(a *term.App, kctx *kong.Context) error {
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
	plan, err := MakePlan(&opt)
	if err != nil {
		return err
	}
	scoping, err := c.RuleFiles.Read(c.PrivateSuffixes, c.Escapes == "keep")
	if err != nil {
		return err
	}
	if c.PrintConfig {
		return errors.Join(printConfig(a.Stdout, kctx.Selected(), plan, &opt), scoping.Print(a.Stdout))
	}
	view := NewView(a.Stderr, c.Quiet, LogLevel(c.LogLevel))
	defer view.Close()
	if !c.Quiet {
		if err := scoping.Print(view); err != nil {
			return err
		}
	}
	notes = append(notes, plan.Short()+"; --print-config shows all flags and the plan")
	for _, n := range append(notes, wideDirectories(slices.Concat(opt.Dirs, opt.Out), opt.OutMode)...) {
		view.Note(n)
	}
	if in := c.seedInput(a.Stdin); in != nil {
		if opt.Seeds, err = takeSeeds(&opt, in); err != nil {
			return err
		}
		opt.New = false // has been looked at
	}
	return c.start(a, &opt, plan, view)
}

// start opens the network and crawls.
func (c *Command) start(a *term.App, opt *crawl.Options, plan crawl.Plan, view *View) error {
	network, err := c.network(plan, opt.Bandwidth, a.NamePanicked())
	if err != nil {
		return err
	}
	opt.Resolver, opt.Fetcher = network.Resolver, network.Fetcher
	opt.AllowedAddr, opt.AllowedPort, opt.FetchLimits = network.Fetcher.AllowedAddr, network.Fetcher.AllowedPort, network.Limits
	if opt.SitemapBytes, err = c.sitemapBytes(network.Limits, network.bodies); err != nil {
		return errors.Join(term.Usage(err), network.Close())
	}
	opt.UserAgent = c.UserAgent
	opt.Panicked = a.Die
	var res *crawl.Result
	err = c.Profiled(func() (err error) {
		res, err = Execute(a, opt, plan, view)
		return err
	})
	var noSeed *noSeed
	if finished := errors.Is(err, state.ErrFinished); (err == nil || finished) && fetchedNothing(res) {
		noSeed = whyNoSeed(opt, res)
	}
	err = errors.Join(err, network.Close())
	finished := errors.Is(err, state.ErrFinished)
	if err != nil && !finished {
		return err
	}
	if err := PrintSummary(a.Stdout, Summary{Result: res, Dirs: opt.Dirs, out: opt.Out, RAM: opt.RAMBytes, Finished: finished}); err != nil {
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

// EndOf turns the reason for a crawl's end into what exit codes are made of.
func EndOf(stop string) error {
	switch stop {
	case crawl.StopCancelled:
		return &term.Ended{Code: term.ExitSignal, Why: stop, Quiet: true}
	case crawl.StopPages:
		return &term.Ended{Code: term.ExitPages, Why: stop, Quiet: true}
	case crawl.StopDisk:
		return &term.Ended{Code: term.ExitDiskFull, Why: "a disk is nearly full, or --disk nearly reached (--when-full stop); the same command goes on when there is room"}
	case crawl.StopDrained:
		return &term.Ended{Code: term.ExitDrained, Why: stop, Quiet: true}
	case crawl.StopTime:
		return &term.Ended{Code: term.ExitTime, Why: stop, Quiet: true}
	}
	return nil
}
