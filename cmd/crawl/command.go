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
	URLs   []string `arg:"" name:"url" optional:"" help:"Seeds: URLs or host names, instead of --seeds. The crawl copies them into the first --dir."`
	Seeds  string   `group:"what" common:"" placeholder:"FILE" help:"Read seeds from FILE, one URL or host name per line; # starts a comment. A bare host is tried by https, then by http. \"-\" reads standard input and copies it into the first --dir."`
	Dir    []string `group:"what" common:"" placeholder:"DIR" default:"${defaultDir}" help:"Keep the crawl in DIR. For several disks, repeat the flag or separate directories by commas (\\, is a literal comma)."`
	AddDir []string `group:"what" placeholder:"DIR" help:"Add DIR to the crawl for more disk space, unless it already belongs to it. --dir alone never adds a directory to an existing crawl."`
	Out    []string `group:"what" common:"" placeholder:"DIR" help:"Write WARC files to DIR. Repeatable, one per disk. Default: the --dir. s3://BUCKET/PREFIX: move finished WARC files, indexes and logs from the directories into this object store; indexes stay here, too."`
	AddOut []string `group:"what" placeholder:"DIR" help:"Add DIR for WARC files, unless it already belongs to the crawl. --out alone never adds a directory to an existing crawl."`
	Drain  bool     `group:"what" help:"Fetch queued URLs, queue no new links, then end. A later run without this flag continues the crawl."`
	New    bool     `group:"what" help:"Refuse a directory that already holds a crawl."`
	Scope  string   `group:"what" common:"" enum:"all,pld,host" default:"all" help:"Follow all links, or those within the PLDs or the hosts of the seeds. pld and host turn budgets off and set the default --host-delay to 2s."`

	flags.RuleFiles

	Sitemaps    bool        `group:"what" common:"" help:"Follow the sitemaps that robots.txt files name or pages link to. Their URLs are treated as links. Indexes, text lists, feeds and gzip are understood. Without this flag, Sitemap lines are only logged."`
	SitemapBody *flags.Size `group:"what" placeholder:"SIZE" help:"Read at most this many bytes of a sitemap, as received; decompressed it may have 50MiB. Default: 10MiB, or less if --ram is small."`

	MaxPages       flags.Count   `group:"limits" common:"" placeholder:"N" default:"0" help:"Stop after N pages (status 200, HTML), over all runs and nodes. 0: no limit."`
	OutagePatience time.Duration `group:"limits" placeholder:"DURATION" default:"24h" help:"Stop if no server, or no name server, has answered for this long. An outage, and servers that all ban us, look the same unless a --reference or a public name server answers: requests become few, one in ten minutes, and failures do not count. The same command resumes. 0: wait for ever."`
	Reference      []string      `group:"limits" placeholder:"URL" sep:"none" help:"When servers stop answering, request this URL, or the robots.txt of this host, at most once a minute. If it answers, the network works, and the failures are the sites'. Name your own server or a mirror. With https its certificate must be good. Repeatable, at most 8 times."`
	MaxTime        time.Duration `group:"limits" common:"" placeholder:"DURATION" default:"0s" help:"Stop after fetching for this long, over all runs. 0: no limit."`
	MaxDepth       *flags.Count  `group:"limits" common:"" placeholder:"N" help:"Follow at most N links from a seed. 0: fetch the seeds only. Default: no limit."`
	Linger         time.Duration `group:"limits" placeholder:"DURATION" default:"1m" help:"Wait this long before ending when only unreachable hosts and URLs without budget remain."`

	flags.URLRules
	flags.Bodies

	flags.Who
	flags.Delays
	flags.Health
	Retries flags.Count `group:"politeness" placeholder:"N" default:"3" help:"Retry a URL up to N times after a failed request. 0: no retries."`

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

	Store           string        `group:"output" enum:"warc,none" default:"warc" help:"Store responses in WARC files (warc), or not at all (none)."`
	ContentSeen     string        `group:"output" enum:"off,record,skip" default:"record" help:"Compare each body with all bodies before, under any URL. record stores a body once; later responses with it become WARC revisit records. skip does the same and does not follow their links, which ends mirrors and traps, but loses what only a mirror links to by relative links. off compares nothing."`
	NoArchive       string        `group:"output" name:"noarchive" enum:"keep,headers,drop" default:"keep" help:"Of a response with the robots directive noarchive (meta element or X-Robots-Tag, for all or for our agent), store everything (keep), the head without the body (headers), or nothing but a metadata record that says so (drop). Links are followed as before."`
	NoIndex         string        `group:"output" name:"noindex" enum:"keep,drop" default:"keep" help:"The same for the directive noindex."`
	Simhash         bool          `group:"output" help:"Store the simhash of the visible text of each page, in its metadata record and its index line. \"drumbeat export near-duplicates\" needs it. Costs about 40 us of CPU for a page of 30 KB."`
	WARCFormat      string        `group:"output" name:"warc-format" enum:"gz,zst" default:"gz" help:"Compress WARC files by gzip (gz, *.warc.gz, which every tool reads) or Zstandard (zst, *.warc.zst, the IIPC's proposal). A resumed crawl may change it."`
	WARCDict        string        `group:"output" name:"warc-dict" placeholder:"FILE|none" default:"none" help:"With --warc-format zst, compress with the dictionary in FILE, made by zstd --train. Each WARC file contains it. It saves 25 to 65 % of the space (docs/GUIDE.md)."`
	WARCLevel       string        `group:"output" name:"warc-level" enum:"fast,1,2,3,4,5,6,7,8,9" placeholder:"LEVEL" default:"fast" help:"Compress bodies in WARC files at this level: fast, or 1 to 9. Level 6 saves 12 % of the space and takes three times the CPU. For zst, fast to 2, 3 to 5 and 6 to 9 are the same. Bodies received compressed are stored unchanged."`
	OutMode         flags.OutMode `group:"output" placeholder:"MODE" default:"0600" help:"Octal permissions of finished WARC files, indexes and logs. 0640 lets the group read them and enter their directories (0750). DIR/state stays private."`
	ArchiveRobots   bool          `group:"output" negatable:"" default:"true" help:"Store robots.txt requests and responses, including redirects, as WARC records."`
	ArchiveDNS      bool          `group:"output" name:"archive-dns" negatable:"" default:"true" help:"Store DNS answers as WARC records (dns:HOST, text/dns), as Heritrix does."`
	CrawlLog        string        `group:"output" enum:"off,errors,all" default:"errors" help:"Log outcomes of single URLs, compressed, under DIR/log: off, errors or all."`
	TraceLinks      string        `group:"output" placeholder:"FILE" help:"Append the key of each link, 8 bytes, to FILE, for bench cache --trace. It contains no URLs. A write error ends the trace, not the crawl."`
	TraceLimit      flags.Size    `group:"output" placeholder:"SIZE" default:"8GiB" help:"End the trace at this size; the crawl continues."`
	CheckpointEvery time.Duration `group:"output" placeholder:"DURATION" default:"60s" help:"Make a checkpoint this often. A crash loses at most the work since the last one."`
	RollEvery       time.Duration `group:"output" placeholder:"DURATION" default:"1h" help:"Finish output files older than this, so they can be moved away during the crawl. Files are also finished when full and at an orderly stop. 0: not by age."`
	PrivateSuffixes bool          `group:"output" help:"Treat private suffixes (github.io, blogspot.com) as public suffixes, so each name below them is a PLD. Cannot be changed later."`
	reportFlags
}

// netFlags configure DNS and connections.
type netFlags struct {
	Resolver         []flags.ServerAddr `group:"net" placeholder:"HOST:PORT" help:"Send DNS queries to this server. Repeatable. Default: the servers in /etc/resolv.conf."`
	DNSRate          flags.Count        `group:"net" name:"dns-rate" placeholder:"N" default:"0" help:"Send at most N DNS queries per second. 0: no limit."`
	AllowNet         []flags.NetPrefix  `group:"net" common:"" placeholder:"CIDR" help:"Allow connections to these networks, private or of this machine. Example: 127.0.0.0/8. Repeatable."`
	NAT64Prefix      []flags.NAT64      `group:"net" name:"nat64-prefix" placeholder:"PREFIX" help:"Prefix of your network's NAT64 (RFC 6052), such as 2001:db8:64::/96. Addresses in it are treated as the IPv4 addresses that they embed. Repeatable."`
	Ports            []ports.Range      `group:"net" common:"" placeholder:"PORTS" help:"Allow connections to these ports besides 80 and 443. Give ports and ranges, such as 8080,8000-8099. Links to other ports are counted and dropped. Repeatable."`
	IP               string             `group:"net" name:"ip" enum:"auto,4,6,both" default:"auto" help:"IP versions to use: auto (those that this machine has a route for), 4, 6 or both."`
	TLS              string             `group:"net" name:"tls" enum:"record,require" default:"record" help:"On a bad certificate, record the fault and fetch (record), or fail (require). A certificate that cannot be parsed is a bad one, and needs a server with TLS 1.2. Requests with secrets of --sites fail in any case."`
	TLSLegacy        bool               `group:"net" name:"tls-legacy" help:"Also offer TLS 1.0 and 1.1, key exchange by RSA, and the cipher suites CBC with SHA-256, 3DES and RC4, for old servers. Requests with secrets of --sites do without."`
	HTTP2            string             `group:"net" name:"http2" enum:"on,off" default:"on" help:"Speak HTTP/2 with https servers that offer it, one request at a time on one connection (on), or only HTTP/1.1 (off)."`
	Connections      *flags.Connections `group:"net" common:"" placeholder:"N" help:"Use at most N concurrent connections. N may be a schedule: \"mon-fri 08:00-20:00 200; else 2000\". Default: 2000, or less if file descriptors are short."`
	Rate             flags.PagesRate    `group:"net" common:"" placeholder:"N" default:"none" help:"Send at most N requests per second, robots.txt too, from all nodes. N may be a schedule: \"mon-fri 08:00-20:00 20; sat,sun none; else 100\". The first matching entry applies; without one there is no limit. 0 and none: no limit. pause: send no request until the value changes."`
	Bandwidth        flags.Bandwidth    `group:"net" placeholder:"RATE" default:"none" help:"Receive at most this many bits per second from sites (headers, bodies, robots.txt and TLS; not DNS or TCP overhead; in a cluster, all nodes together), or a schedule: \"mon-fri 08:00-20:00 200Mbit; sat,sun 1Gbit; else 500Mbit\". Units: bit, kbit, Mbit, Gbit. 0 and none: no limit."`
	AcceptEncoding   flags.Codings      `group:"net" placeholder:"LIST" default:"gzip" help:"Content codings to ask servers for: a comma list of gzip, br, zstd, deflate and identity, or auto. br saves an eighth to a quarter of gzip's bytes and takes 3.5 times its CPU; zstd saves little, and few tools decode it in WARC files. auto: gzip, and also br while the network limits the speed (--bandwidth, or nearly all connections wait) and processors have room."`
	TimeZone         flags.TimeZone     `group:"net" placeholder:"NAME" help:"Time zone of the schedules, such as Europe/Berlin. Default: the machine's."`
	KeepAlive        time.Duration      `group:"net" placeholder:"DURATION" default:"15s" help:"Keep a connection open for at most this long for the next page of its host, if one is queued and due within that time. 0: use a connection per page."`
	ConnectTimeout   time.Duration      `group:"net" placeholder:"DURATION" default:"10s" help:"Limit a TCP connect, and a TLS handshake, to this time."`
	FirstByteTimeout time.Duration      `group:"net" placeholder:"DURATION" default:"20s" help:"Wait at most this long for the first byte of a response."`
	Timeout          time.Duration      `group:"net" placeholder:"DURATION" default:"60s" help:"Limit a whole request, from connect to last byte, to this time. The part of a body that passes through a file (--max-body) has another limit: a minute for each MiB."`
	MapPort          []flags.PortPair   `group:"net" hidden:"" placeholder:"A=B" help:"Connect to port B where a URL says A (synthetic webs)."`
}

// budgetFlags set how many pages of a PLD each BEAST queue takes (paper, sections V and VI).
type budgetFlags struct {
	Budget        string      `group:"budget" enum:"paper,equal,popular,inverse,proportional,supporters" default:"paper" help:"How the budget of a PLD follows from its in-degree: paper (linear by rank in the top ranks), equal, popular (top ranks only), inverse (less for top ranks), proportional (to the in-degree, and at least --budget-default), supporters (by rank among the PLDs that many trusted PLDs link to; less than --budget-default for those that hardly any trusted PLD links to)."`
	BudgetDefault flags.Count `group:"budget" placeholder:"PAGES" default:"10" help:"Budget, in pages per queue, of PLDs outside the top ranks. Small crawls have more: see --budget-queue."`
	BudgetQueue   flags.Count `group:"budget" placeholder:"PAGES" default:"10000" help:"Scale all budgets up while those of the known PLDs add up to fewer than PAGES, so that a small crawl does not read its queues again every few pages. 0: budgets hold as given."`
	BudgetMax     flags.Count `group:"budget" placeholder:"PAGES" default:"10000" help:"Budget, in pages per queue, of the PLD with the largest in-degree."`
	BudgetRanks   flags.Count `group:"budget" placeholder:"PLDS" default:"10000" help:"Number of PLDs in the top ranks; at most 1 % of known PLDs."`
	Trusted       string      `group:"budget" placeholder:"FILE" help:"With --budget supporters, let trust begin at the PLDs in FILE instead of at those of the seeds: a PLD, host or URL per line, at most 65,536 PLDs. SIGHUP reloads the file."`
	TrapScore     string      `group:"budget" enum:"off,on" default:"off" help:"Limit traps (on): a host of whose pages half or more repeat earlier ones nearly word for word gets 1/2 to 1/16 of its PLD's budget. Costs what --simhash costs, and 1 % of --ram."`
	QueuesMax     flags.Count `group:"budget" placeholder:"N" default:"1024" help:"Maximum number of BEAST queues ahead of the current one, a power of 2."`
}

// resourceFlags limit RAM and disk. Their help has the paper's symbols in brackets.
type resourceFlags struct {
	RAM      *flags.Size `group:"machine" common:"" name:"ram" placeholder:"SIZE" help:"Limit the RAM of the whole process (R), allocated as needed. Default: half of physical or cgroup memory, whichever is smaller; with --scope host or pld, or with --max-pages, 1GiB and more as the crawl grows."`
	Disk     *flags.Size `group:"machine" common:"" placeholder:"SIZE" help:"Limit the disk space of state and output. It is never exceeded; fetching stops before. Default: 90 % of the free space, plus what this crawl already holds."`
	KeepFree *flags.Size `group:"machine" placeholder:"SIZE" help:"Leave this much space free on every file system. Default: the most that a checkpoint writes, plus a margin."`
	WhenFull string      `group:"machine" enum:"pause,drain,stop" default:"pause" help:"What to do at --keep-free, or close to --disk: pause (until space is available), drain (from twice that space on, queue no new links) or stop."`
	DirectIO bool        `group:"machine" name:"direct-io" help:"Bypass the page cache (O_DIRECT) in merges where the file system supports it. For crawls whose state is many times larger than RAM."`
	flags.Drum
}

// reportFlags select what is printed.
type reportFlags struct {
	flags.Logging
	HistoryBytes flags.Size `group:"report" placeholder:"SIZE" default:"64MiB" help:"Keep a history of all figures in the first --dir, at most this large: a sample each 10s, older ones thinned. 0: none."`
	Summary      string     `group:"report" placeholder:"FILE" help:"Also write the final figures to FILE, as JSON."`
	PrintConfig  bool       `group:"report" common:"" help:"Print the configuration and the plan, then exit. The configuration has the values that differ from the defaults and their sources, as TOML for --config."`
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
