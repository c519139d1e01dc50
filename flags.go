package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// defaultAgent is the product token that stands in User-Agent and that robots.txt groups are compared with.
const defaultAgent = "drumbeat"

// defaultDir holds a crawl when --dir doesn't say otherwise.
const defaultDir = "drumbeat-crawl"

// cli is the one table of commands and flags: it makes the parser, -h and docs/FLAGS.md, which a test compares.
type cli struct {
	Crawl   crawlCmd   `cmd:"" help:"Crawl from a list of seeds. The same command resumes, and adds seeds that are new in the file."`
	Demo    demoCmd    `cmd:"" help:"Crawl a synthetic web that is served by this very process on loopback."`
	Plan    planCmd    `cmd:"" help:"Say what a crawl of so many pages will take of RAM and disk, and how fast it can be, by the plan that the crawl itself would make."`
	Explain explainCmd `cmd:"" help:"Say what the crawler thinks of a thing. Without arguments: JSON lines in, JSON lines out."`
	BotPage botPageCmd `cmd:"" name:"bot-page" help:"Print or serve the page for site owners that the operator of a crawl publishes: who crawls, why, how to stop it or slow it down, from where it comes."`
	Audit   auditCmd   `cmd:"" help:"Read the files of a stopped crawl and prove that no URL was lost or doubled."`
	Repair  repairCmd  `cmd:"" help:"Bring a stopped crawl with damaged files to a state that balances and can go on, and say what is lost. Nothing is deleted: what it replaces it moves to DIR/state/damaged."`
	Dirs    dirsCmd    `cmd:"" help:"The directories of a crawl: which is which, and how to let one go that holds nothing."`
	Bench   benchCmd   `cmd:"" help:"Measure this machine, and compute what the paper's formulas promise for it."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

// crawlCmd is the table of crawl's flags. A pointer is nil where the flag isn't given and the machine decides.
type crawlCmd struct {
	URLs   []string `arg:"" name:"url" optional:"" help:"Seeds: URLs or hosts, in place of --seeds. They are copied into the first --dir, as standard input is."`
	Seeds  string   `group:"what" placeholder:"FILE" help:"Seeds, one URL or host a line, # comments. A bare host is tried by https, then by http. \"-\" is standard input, which is copied into the first --dir."`
	Dir    []string `group:"what" placeholder:"DIR" default:"${defaultDir}" help:"Directory of the crawl. For several disks one directory each: repeat the flag, or put commas between them (\\, is a comma in a name)."`
	AddDir []string `group:"what" placeholder:"DIR" help:"A further directory, for more disk: added to the crawl if it doesn't belong to it yet. --dir alone adds none to a crawl that has begun."`
	Out    []string `group:"what" placeholder:"DIR" help:"Directory for WARC files. Repeatable, one per disk. Default: the --dir."`
	AddOut []string `group:"what" placeholder:"DIR" help:"A further directory for WARC files: added to the crawl if it doesn't belong to it yet. --out alone adds none to a crawl that has begun."`
	Drain  bool     `group:"what" help:"Fetch what is queued and queue no new links: ends a crawl gently. A later run without it goes on."`
	New    bool     `group:"what" help:"Refuse a directory that holds a crawl already."`
	Scope  string   `group:"what" enum:"all,pld,host" default:"all" help:"Which links are followed: all, those in the PLDs of the seeds, or those on the hosts of the seeds. With pld and host, budgets are off and the default --host-delay is 2s."`

	scopeFlags

	Sitemaps    bool  `group:"what" help:"Follow the Sitemap lines of robots.txt files, and what else is a sitemap: indexes, lists, feeds, packed or not. Their URLs are links like any. Without this they are only logged."`
	SitemapBody *size `group:"what" placeholder:"SIZE" help:"Longest sitemap read, as received; unpacked it may be 50MiB. Default: 10MiB, or less where --ram is short."`

	MaxPages count         `group:"limits" placeholder:"N" default:"0" help:"Stop at so many pages (status 200, HTML), over all runs of this crawl. 0: no limit."`
	MaxTime  time.Duration `group:"limits" placeholder:"DURATION" default:"0s" help:"Stop after fetching for so long, over all runs of this crawl. 0: no limit."`
	MaxDepth *count        `group:"limits" placeholder:"N" help:"Follow at most so many links from a seed. 0: the seeds alone. Default: no limit."`
	Linger   time.Duration `group:"limits" placeholder:"DURATION" default:"1m" help:"How long to wait before ending when only unreachable hosts and URLs without budget are left."`

	urlFlags
	acceptFlags

	whoFlags
	delayFlags
	healthFlags
	Retries count `group:"manners" placeholder:"N" default:"3" help:"Further attempts at a URL whose exchange failed."`

	linkFlags

	netFlags

	budgetFlags

	resourceFlags

	Store           string        `group:"output" enum:"warc,none" default:"warc" help:"What is kept of responses: warc (all of them) or none (pure discovery)."`
	OutMode         outMode       `group:"output" placeholder:"MODE" default:"0600" help:"Permissions of finished WARC files, indexes and logs, in octal: 0640 lets the group read them, and opens the directories that they are in (0750) to it. DIR/state stays closed."`
	ArchiveRobots   bool          `group:"output" negatable:"" default:"true" help:"Store the exchanges for robots.txt, redirects included, as WARC records."`
	ArchiveDNS      bool          `group:"output" name:"archive-dns" negatable:"" default:"true" help:"Store the answers of the DNS as WARC records (dns:HOST, text/dns), as Heritrix does."`
	CrawlLog        string        `group:"output" enum:"off,errors,all" default:"errors" help:"Outcomes of single URLs in the compressed log under DIR/log: off, errors, all."`
	TraceLinks      string        `group:"output" placeholder:"FILE" help:"Record the key of each link, 8 bytes, for bench cache --trace: FILE is made or appended to. It tells no URL, and no fault of it stops the crawl."`
	TraceLimit      size          `group:"output" placeholder:"SIZE" default:"8GiB" help:"Most bytes of that file; then it ends, and the crawl goes on."`
	CheckpointEvery time.Duration `group:"output" placeholder:"DURATION" default:"60s" help:"Time between checkpoints: the most work that a crash can cost."`
	RollEvery       time.Duration `group:"output" placeholder:"DURATION" default:"1h" help:"Finish output files that are so old, so that they can be moved away while the crawl runs. They are also finished when full, and at each orderly stop. 0: not by age."`
	PrivateSuffixes bool          `group:"output" help:"Let privately run public suffixes (github.io, blogspot.com) make PLDs. Can't be changed later."`
	reportFlags
}

// scopeFlags say which URLs are taken, and who is left alone.
type scopeFlags struct {
	Rules     []string `group:"what" placeholder:"FILE" help:"Scope rules (docs/RULES.md): hosts, PLDs, URL prefixes, SURTs and expressions that are taken or left out; the first that matches wins, and goes before --scope. Repeatable. Read again on SIGHUP."`
	Blacklist []string `group:"what" placeholder:"FILE" help:"Hosts, PLDs and networks of which nothing is asked, be they queued already (docs/RULES.md). Repeatable. Read again on SIGHUP, which takes effect within seconds."`
}

// whoFlags say who asks.
type whoFlags struct {
	Agent     string `group:"manners" placeholder:"TOKEN" default:"${defaultAgent}" help:"Product token of User-Agent, which robots.txt groups are compared with: letters, - and _ (RFC 9309)."`
	Contact   string `group:"manners" placeholder:"WHO" help:"Mail address or URL of the person who answers for this crawl. Sent with every request. There is no default, and no crawl without it."`
	UserAgent string `group:"manners" placeholder:"TEXT" help:"User-Agent header in place of \"TOKEN/VERSION (+WHO)\". The token and the contact must stand in it."`
	From      string `group:"manners" placeholder:"MAIL" help:"Mail address for the From header (RFC 9110). none: no such header. Default: --contact if that is a mail address, else none."`
}

// delayFlags bound how often a host, a PLD, a server and a network are visited.
type delayFlags struct {
	HostDelay      *time.Duration `group:"manners" placeholder:"DURATION" help:"Time between two visits to a host whose PLD has the default budget; less for larger budgets. 0: none, for your own servers. Default: 40s, or 2s with --scope host and pld."`
	HostDelayMin   *time.Duration `group:"manners" placeholder:"DURATION" help:"Least time between two visits to a host, whatever its budget. Default: 1s, or --host-delay if that is less."`
	ServerDelay    time.Duration  `group:"manners" placeholder:"DURATION" default:"1s" help:"Time between two visits to an IP address at the default budget. 0: none, for your own servers."`
	ServerDelayMin *time.Duration `group:"manners" placeholder:"DURATION" help:"Least time between two visits to an IP address. Default: 200ms, or --server-delay if that is less."`
	PLDDelay       *time.Duration `group:"manners" name:"pld-delay" placeholder:"DURATION" help:"Time between two requests to a PLD, whichever its hosts, at the default budget; less for larger budgets. 0: none. Default: 500ms, or --host-delay if that is less."`
	PLDDelayMin    *time.Duration `group:"manners" name:"pld-delay-min" placeholder:"DURATION" help:"Least time between two requests to a PLD, whatever its budget. Default: 20ms, or --pld-delay if that is less."`

	NetworkRate        *float64      `group:"manners" placeholder:"N" help:"Most requests a second to a network (IPv4 /24, IPv6 /48). 0: no limit. Default: 10, or no limit if --server-delay is 0."`
	NetworkConnections *count        `group:"manners" placeholder:"N" help:"Most exchanges at once with a network; one of its addresses may have half of them. 0: no limit. Default: 20, or no limit if --server-delay is 0."`
	HostDelayFactor    *float64      `group:"manners" placeholder:"N" help:"A host rests so many times as long as its last answer took, if that is more than --host-delay; --max-crawl-delay at most. 0: it doesn't matter. Default: 10, or 0 if --host-delay is 0."`
	MaxCrawlDelay      time.Duration `group:"manners" placeholder:"DURATION" default:"300s" help:"Longest Crawl-delay of a robots.txt that is obeyed; a longer one counts as this."`
}

// healthFlags say what is done about hosts that fail or refuse, and about those that have too many pages.
type healthFlags struct {
	Backoff         time.Duration `group:"manners" placeholder:"DURATION" default:"10s" help:"Rest of a host after 429, 503, another 5xx, a timeout, a reset or a connection that isn't had; twice as long after each further one. A longer Retry-After is obeyed, up to 24h at a time."`
	BackoffMax      time.Duration `group:"manners" placeholder:"DURATION" default:"1h" help:"Where that doubling ends."`
	HostFailures    count         `group:"manners" placeholder:"N" default:"10" help:"After so many failures in a row a host rests for 1h, then 2h, 4h … up to 24h, one request between. 0: never."`
	HostRests       count         `group:"manners" placeholder:"N" default:"5" help:"After so many of these rests without any success it is given up, and its URLs are refused. 0: never."`
	HostRefusals    count         `group:"manners" placeholder:"N" default:"10" help:"After so many 401 and 403 without a page between (a challenge page, and a connection cut right after the request, count as 3) a host rests a day, the next time a week, then it is left alone for good. 0: never."`
	RobotsWait      time.Duration `group:"manners" placeholder:"DURATION" default:"720h" help:"How long URLs wait for a robots.txt that can't be had, from the first failure; then they are refused. 0: endlessly."`
	RobotsForget    time.Duration `group:"manners" placeholder:"DURATION" default:"720h" help:"Forget what is known of a host whose robots.txt expired so long ago and was not needed since. 0: never."`
	MaxPagesPerHost count         `group:"limits" placeholder:"N" default:"0" help:"Fetch at most so many URLs of an origin (scheme, host and port); further ones are refused. 0: no limit."`
}

// netFlags say how the network is reached.
type netFlags struct {
	Resolver         []serverAddr  `group:"net" placeholder:"HOST:PORT" help:"DNS server. Repeatable. Default: those of /etc/resolv.conf."`
	DNSRate          count         `group:"net" name:"dns-rate" placeholder:"N" default:"0" help:"Most DNS queries a second. 0: no limit."`
	AllowNet         []netPrefix   `group:"net" placeholder:"CIDR" help:"Addresses that may be connected to although they aren't public, such as 127.0.0.0/8. Repeatable."`
	Ports            []portRange   `group:"net" placeholder:"PORTS" help:"Ports that may be connected to besides 80 and 443: a list of ports and ranges, such as 8080,8000-8099. Links to other ports are counted and dropped. Repeatable."`
	IP               string        `group:"net" name:"ip" enum:"auto,4,6,both" default:"auto" help:"IP versions: auto (those that this machine has a route for), 4, 6, both."`
	TLS              string        `group:"net" name:"tls" enum:"record,require" default:"record" help:"Certificates: record what is wrong with one and fetch, or require a good one."`
	Connections      *connections  `group:"net" placeholder:"N" help:"Most exchanges at once, or a schedule: \"mon-fri 08:00-20:00 200; else 2000\". Default: 2000, or less where descriptors are short."`
	Rate             pagesRate     `group:"net" placeholder:"N" default:"none" help:"Most requests a second, for pages and robots.txt alike, or a schedule: \"mon-fri 08:00-20:00 20; sat,sun none; else 100\". The first entry that holds counts, and where none holds there is no limit. 0 and none: no limit; pause: nothing is asked for until the value changes."`
	Bandwidth        bandwidth     `group:"net" placeholder:"RATE" default:"none" help:"Most bits received a second from sites (heads, bodies, robots.txt, TLS; neither DNS nor TCP's own), or a schedule: \"mon-fri 08:00-20:00 200Mbit; sat,sun 1Gbit; else 500Mbit\". Units: bit, kbit, Mbit, Gbit. 0 and none: no limit."`
	TimeZone         timeZone      `group:"net" placeholder:"NAME" help:"Time zone of the schedules, such as Europe/Berlin. Default: the machine's."`
	KeepAlive        time.Duration `group:"net" placeholder:"DURATION" default:"15s" help:"Longest time that a connection is kept open for the next page of its host, if one waits and the delay between them is no longer. 0: a connection for each page."`
	ConnectTimeout   time.Duration `group:"net" placeholder:"DURATION" default:"10s" help:"Longest TCP connect, and longest TLS handshake."`
	FirstByteTimeout time.Duration `group:"net" placeholder:"DURATION" default:"20s" help:"Longest wait for the first byte of an answer."`
	Timeout          time.Duration `group:"net" placeholder:"DURATION" default:"60s" help:"Longest exchange, from connect to last byte."`
	MapPort          []portPair    `group:"net" hidden:"" placeholder:"A=B" help:"Connect to port B where a URL says A (synthetic webs)."`
}

// budgetFlags say how many pages of a PLD each BEAST queue takes (the paper's sections V and VI).
type budgetFlags struct {
	Budget        string `group:"budget" enum:"paper,equal,popular,inverse" default:"paper" help:"How a PLD's budget follows from its in-degree: paper (top ranks more, linearly by rank), equal, popular (top ranks only), inverse (top ranks less)."`
	BudgetDefault count  `group:"budget" placeholder:"PAGES" default:"10" help:"Pages a queue of a PLD outside the top ranks."`
	BudgetMax     count  `group:"budget" placeholder:"PAGES" default:"10000" help:"Pages a queue of the PLD with the largest in-degree."`
	BudgetRanks   count  `group:"budget" placeholder:"PLDS" default:"10000" help:"How many PLDs are top ranks; at most 1 % of those known."`
	QueuesMax     count  `group:"budget" placeholder:"N" default:"1024" help:"Most BEAST queues ahead of the current one."`
}

// resourceFlags divide the machine. The paper's symbols are in brackets.
type resourceFlags struct {
	RAM      *size  `group:"machine" name:"ram" placeholder:"SIZE" help:"Most RAM of the whole process (R and all else); it is touched as it is needed. Default: half of the smaller of physical and cgroup memory; with --scope host and pld, and with --max-pages, 1GiB and more as the crawl grows."`
	Disk     *size  `group:"machine" placeholder:"SIZE" help:"Disk space for state and output. Default: 90 % of what is free, and what this crawl holds already."`
	KeepFree *size  `group:"machine" placeholder:"SIZE" help:"Space left free on every file system. Default: what a checkpoint writes at most, and some more."`
	WhenFull string `group:"machine" enum:"pause,drain,stop" default:"pause" help:"When a disk has no more than --keep-free, or --disk is nearly reached: pause (until there is room), drain (from twice that on, queue no new links), stop."`
	DirectIO bool   `group:"machine" name:"direct-io" help:"Read and write what merges move past the page cache (O_DIRECT), where the file system can: for crawls whose state is many times larger than RAM."`
	drumFlags
}

// drumFlags are URLseen's geometry.
type drumFlags struct {
	DrumBuffer  *size `group:"machine" placeholder:"SIZE" help:"Buffer of a URLseen bucket (M). Default: from --ram."`
	DrumChunk   *size `group:"machine" placeholder:"SIZE" help:"Piece in which URLseen's cache file is read and written (delta). Default: from --ram."`
	DrumBuckets count `group:"machine" placeholder:"N" default:"0" help:"URLseen buckets (k), a power of 2. 0: from --ram."`
	DrumBucket  *size `group:"machine" placeholder:"SIZE" help:"Most of a bucket that one merge reads (r). Default: from --ram."`
	DrumDisk    *size `group:"machine" placeholder:"SIZE" help:"Disk space for URLseen's buckets (D). Default: from --disk."`
	DrumWorkers count `group:"machine" placeholder:"N" default:"0" help:"URLseen buckets merged at once, if --ram suffices. 0: one more than CPUs, at most 8."`
	CacheRAM    *size `group:"machine" name:"cache-ram" placeholder:"SIZE" help:"RAM cache of recent URLs in front of URLseen (c). 0: none. Default: from --ram."`
}

// reportFlags say what the person sees.
type reportFlags struct {
	Quiet       bool   `group:"report" short:"q" help:"Print warnings, errors and nothing else."`
	LogLevel    string `group:"report" enum:"debug,info,warn,error" default:"info" help:"Least level that is logged: debug, info, warn, error."`
	Summary     string `group:"report" placeholder:"FILE" help:"Also write the figures of the end into FILE, as JSON."`
	PrintConfig bool   `group:"report" help:"Print the effective value of every flag and the plan, and end."`
	profileFlag `group:"report"`
}

type demoCmd struct {
	Pages       count         `group:"what" placeholder:"N" default:"26000" help:"URLs of the synthetic web, about; four in five are pages, the rest redirects, errors and files."`
	Hosts       count         `group:"what" placeholder:"N" default:"2000" help:"Hosts of the synthetic web."`
	PLDs        count         `group:"what" name:"plds" placeholder:"N" default:"500" help:"Pay-level domains of the synthetic web."`
	Seed        uint64        `group:"what" placeholder:"N" default:"1" help:"Number that the whole web is drawn from."`
	Dir         string        `group:"what" placeholder:"DIR" help:"Directory of the crawl, kept. Default: a temporary one."`
	RAM         size          `group:"machine" name:"ram" placeholder:"SIZE" default:"512MiB" help:"RAM of the whole process, the synthetic web included."`
	Connections count         `group:"net" placeholder:"N" default:"500" help:"Most exchanges at once."`
	HostDelay   time.Duration `group:"manners" placeholder:"DURATION" default:"10ms" help:"Time between two visits to a host; half of it for PLDs with large budgets."`
	ServerDelay time.Duration `group:"manners" placeholder:"DURATION" default:"2ms" help:"Time between two visits to an address; half of it for large budgets."`
	Quiet       bool          `group:"report" short:"q" help:"Print the summary alone."`
	LogLevel    string        `group:"report" enum:"debug,info,warn,error" default:"info" help:"Least level that is logged: debug, info, warn, error."`
}

type explainCmd struct {
	Robots explainRobotsCmd `cmd:"" help:"Does a robots.txt allow a URL, and by which rule? Lines: {\"robots\" or \"robots_base64\", \"agent\", \"url\"}. With --dir: what do the rules that a crawl has say of URLs?"`
	URL    explainURLCmd    `cmd:"" name:"url" help:"What becomes of a reference? Lines: {\"base\", \"ref\"}. With --dir: why was a URL crawled, or not?"`
	Links  explainLinksCmd  `cmd:"" help:"Which links does a page have? Lines: {\"url\", \"content_type\", \"html\" or \"html_base64\"}."`
	PLD    explainPLDCmd    `cmd:"" name:"pld" help:"Which pay-level domain does a host belong to? Lines: {\"host\"}."`
	Scope  explainScopeCmd  `cmd:"" help:"Which scope rule, and which rule of a blacklist, decides for a URL? Lines: {\"url\", \"addr\"}."`
	Host   explainHostCmd   `cmd:"" help:"With --dir: what does a crawl know of a host, and where are its URLs?"`
}

type explainScopeCmd struct {
	URLs            []string `arg:"" name:"url" optional:"" help:"URLs."`
	Rules           []string `placeholder:"FILE" help:"As for crawl."`
	Blacklist       []string `placeholder:"FILE" help:"As for crawl."`
	Addr            string   `placeholder:"IP" help:"Address of the URLs' host, for the networks of a blacklist."`
	PrivateSuffixes bool     `help:"As for crawl."`
}

type explainRobotsCmd struct {
	File  string   `arg:"" optional:"" help:"A robots.txt; \"-\" is standard input. With --dir: a URL, or \"-\" for lines on standard input."`
	URLs  []string `arg:"" name:"url" optional:"" help:"URLs, or paths that start with /."`
	Agent string   `placeholder:"TOKEN" default:"${defaultAgent}" help:"Product token of the crawler."`
	explainDirFlags
}

type explainURLCmd struct {
	Refs            []string `arg:"" name:"ref" optional:"" help:"References as they stand on a page. With --dir: URLs; \"-\" is lines on standard input."`
	Base            string   `placeholder:"URL" help:"URL of that page."`
	PrivateSuffixes bool     `help:"As for crawl."`
	explainDirFlags
}

type explainHostCmd struct {
	Hosts []string `arg:"" name:"host" optional:"" help:"Host names or addresses, with a port if it isn't 80 or 443; \"-\" is lines on standard input."`
	explainDirFlags
}

type explainLinksCmd struct {
	File        string `arg:"" optional:"" help:"A page; \"-\" is standard input."`
	URL         string `name:"url" placeholder:"URL" default:"http://page.invalid/" help:"URL of the page."`
	ContentType string `placeholder:"TYPE" help:"Content-Type header that came with the page."`
}

type explainPLDCmd struct {
	Hosts           []string `arg:"" name:"host" optional:"" help:"Host names or addresses."`
	PrivateSuffixes bool     `help:"As for crawl."`
}

type auditCmd struct {
	Dir  []string `arg:"" name:"dir" help:"Directories of the crawl, all of them."`
	Deep bool     `help:"Also verify every checksum, WARC files, index and logs, and look up the key of each URL in URLseen. Goes on behind damage and lists it."`
	auditFlags
}

type repairCmd struct {
	Dir    []string `arg:"" name:"dir" help:"Directories of the crawl, all of them."`
	DryRun bool     `help:"Say what would be done and what is lost, and change nothing."`
	auditFlags
}

// auditFlags are those of the commands that read a stopped crawl.
type auditFlags struct {
	Out  []string `placeholder:"DIR" help:"Directories of the output, if the crawl has --out. Without them the output is left out."`
	RAM  size     `name:"ram" placeholder:"SIZE" default:"256MiB" help:"RAM for sorting keys. What the crawl had in buffers at its last checkpoint comes on top."`
	Tmp  string   `placeholder:"DIR" help:"Where keys are sorted that don't fit into --ram, 13 bytes a URL, in a directory audit-tmp that is removed at the end. Default: the first directory."`
	JSON bool     `name:"json" help:"Print JSON."`
}

type dirsCmd struct {
	List   dirsListCmd   `cmd:"" help:"Say of which crawl directories are, and which ones."`
	Forget dirsForgetCmd `cmd:"" help:"Let the directories of a stopped crawl go that aren't named, if it has nothing in them. All its files are read first, as by audit --deep; a directory that holds any is kept, with exit code 4."`
}

type dirsListCmd struct {
	Dir []string `arg:"" name:"dir" help:"Directories."`
}

type dirsForgetCmd struct {
	Dir []string `arg:"" name:"dir" help:"The directories that stay."`
	Out []string `placeholder:"DIR" help:"Directories of the output, if the crawl has --out."`
}

type versionCmd struct{}

// flagGroups are the headings of -h and docs/FLAGS.md, in order.
var flagGroups = [...]kong.Group{
	{Key: "what", Title: "What is crawled"},
	{Key: "limits", Title: "When it stops"},
	{Key: "urls", Title: "Which URLs"},
	{Key: "manners", Title: "Manners"},
	{Key: "net", Title: "Network"},
	{Key: "budget", Title: "Budgets"},
	{Key: "machine", Title: "RAM and disk"},
	{Key: "output", Title: "What is kept"},
	{Key: "report", Title: "What is printed"},
}

// newParser returns the parser that fills c.
func newParser(c *cli, opts ...kong.Option) (*kong.Kong, error) {
	opts = append([]kong.Option{
		kong.Name("drumbeat"),
		kong.Description("drumbeat crawls the web with one machine, as the IRLbot paper describes. " +
			"drumbeat help COMMAND says more of a command, drumbeat --version which program this is."),
		kong.Vars{"defaultDir": defaultDir, "defaultAgent": defaultAgent},
		kong.PostBuild(nameEnvironment),
		kong.ValueFormatter(flagHelp),
		kong.ExplicitGroups(flagGroups[:]),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
	}, opts...)
	p, err := kong.New(c, opts...)
	if err != nil {
		return nil, fmt.Errorf("BUG: the flag table: %w", err)
	}
	return p, nil
}

// nameEnvironment names the environment variable of every flag: DRUMBEAT_HOST_DELAY for --host-delay. Those of demo and
// bench have names of their own, so that a crawl's settings don't leak into them.
func nameEnvironment(k *kong.Kong) error {
	for _, command := range k.Model.Children {
		prefix := "DRUMBEAT_"
		if command.Name == "demo" || command.Name == "bench" {
			prefix += strings.ToUpper(command.Name) + "_"
		}
		nodes := append([]*kong.Node{command}, command.Children...)
		for _, node := range nodes {
			for _, flag := range node.Flags {
				name := prefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
				if command.Name == "explain" && slices.Contains(explainOwn[:], flag.Name) {
					name = "DRUMBEAT_EXPLAIN_" + strings.TrimPrefix(name, prefix)
				}
				flag.Envs = []string{name}
				flag.Tag.Envs = flag.Envs
			}
		}
	}
	return nil
}

// explainOwn are the flags of explain whose variables are not a crawl's: where DRUMBEAT_DIR is set, explain url stays what it is
// without --dir.
var explainOwn = [...]string{"dir", "out", "json", "fast"}

// flagHelp is a flag's help with its default.
func flagHelp(v *kong.Value) string {
	if v.HasDefault && v.Default != "" && v.Name != "help" && !v.IsBool() && !strings.Contains(v.Help, v.Default+":") {
		return v.Help + " Default: " + v.Default + "."
	}
	return v.Help
}
