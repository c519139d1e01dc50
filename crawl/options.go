package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"runtime"
	"time"

	"drumbeat/crawl/outage"
	"drumbeat/crawl/output"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/resolve"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/fetch"
	"drumbeat/internal/health"
	"drumbeat/internal/hook"
	"drumbeat/internal/linktrace"
	"drumbeat/internal/pace"
	"drumbeat/internal/ports"
	"drumbeat/internal/revisit"
	"drumbeat/internal/urlrule"
	"drumbeat/internal/walk"
	"drumbeat/parse"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/state/history"
	"drumbeat/warc"
)

// BudgetPolicy names the budget function F(d) of the paper's section VI.
type BudgetPolicy string

// Resolver resolves a host name to addresses. dnscache.Resolver is the implementation.
type Resolver = outage.Resolver

// Lookup is a positive answer of a resolver.
type Lookup = resolve.Lookup

// LookupError is a negative answer or a failure of a resolver.
type LookupError = resolve.Error

// Fetcher does one HTTP exchange. fetch.Client is the implementation.
type Fetcher interface {
	Do(ctx context.Context, req *fetch.Request, resp *fetch.Response) error
}

// Options are the options of a crawl. A zero field means the default in its comment unless the comment says
// otherwise.
type Options struct {
	// FS is the file system; nil means the machine's.
	FS disk.FS
	// Dirs hold state, logs and, without Out, output; one per disk. At least one is required.
	Dirs []string
	// AddDirs are the members of Dirs that may be new to an existing crawl. For a new crawl all may be new.
	AddDirs []string
	// AddOut are the members of Out that may be new to an existing crawl.
	AddOut []string
	// Out holds the WARC files; one per disk. Default: Dirs.
	Out []string
	// New refuses a directory that holds a crawl already.
	New bool

	// Seeds is the name of the seed file on FS, with one URL or host per line. SeedLines holds the lines if
	// Seeds is "".
	Seeds     string
	SeedLines []string

	// Agent is the product token of User-Agent and robots.txt matching (RFC 9309 2.2.1).
	Agent string
	// Contact is an e-mail address or URL of the operator, sent with every request.
	Contact string
	// UserAgent is the User-Agent header of Fetcher, for the records of the output; "" omits it.
	UserAgent string
	Version   string
	// Host is the name of the machine in the names of WARC files and in warcinfo records; "" means
	// localhost.
	Host string

	Resolver Resolver
	Fetcher  Fetcher
	// FetchLimits are the limits of Fetcher. Requests for robots.txt use them too, except for the body
	// size.
	FetchLimits fetch.Limits

	// SetAcceptEncoding replaces the Accept-Encoding of Fetcher's requests (fetch.Client.SetAcceptEncoding). If
	// set, the crawl chooses the codings by its load (package observe). nil: they stay as Fetcher has them.
	SetAcceptEncoding func(header string) error
	// SitemapEncoding is the Accept-Encoding of requests for sitemaps. RAM holds a sitemap as received, and only
	// gzip is decoded as it is read, so other codings would cut a large one. Default: gzip.
	SitemapEncoding string

	// RAMBytes limits the RAM of the process. DiskBytes limits state and output together.
	RAMBytes, DiskBytes int64
	// BrokerRAM is the part of RAMBytes for a broker in this process.
	BrokerRAM int64
	// Connections is the limit of concurrent exchanges.
	Connections int
	// OutagePatience ends the crawl if the network or the name servers have answered nothing for so long; zero means
	// never. What is queued stays so.
	OutagePatience time.Duration
	// References are URLs of servers that the operator expects to answer always, at most MaxReferences
	// (CheckReference). They are asked when known servers do not answer: the network works if one of them does.
	References []string
	// Rate limits the requests per second, for pages and robots.txt together; zero means no limit.
	Rate pace.Schedule
	// Bandwidth limits the bytes per second that Fetcher receives. Fetcher must use the same limiter. nil
	// means no limit.
	Bandwidth *pace.Bandwidth
	// ConnectionSchedule limits the connections in use by time of day; zero means no limit.
	ConnectionSchedule pace.Schedule
	// Retries is the number of further attempts after a failed exchange of a URL; NoRetries for none.
	Retries int

	// KeepAlive is the longest time that a connection stays open for the next page of its host; 0 closes it
	// after each exchange.
	KeepAlive time.Duration

	// The delays between requests to a host or server; zero means no delay.
	HostDelay, HostDelayMin, ServerDelay, ServerDelayMin time.Duration
	// Backoff is the back-off of a host after a failed exchange. It doubles with each further failure up to
	// BackoffMax. Defaults: 10 s, 1 h.
	Backoff, BackoffMax time.Duration
	// After HostFailures consecutive failures a host enters a long back-off. After HostRests long back-offs
	// without a success it is given up. HostRefusals refusals without a page in between cause a back-off of
	// a day, then a week, then for good (package health). 0 means never.
	HostFailures, HostRests, HostRefusals int
	// RobotsWait is how long URLs wait for an unavailable robots.txt, from its first failure; 0 means
	// without limit.
	RobotsWait time.Duration
	// RobotsForget is how long the data of an origin are kept after they have expired and nothing used
	// them; 0 means for ever.
	RobotsForget time.Duration
	// MaxPagesPerHost limits the URLs of an origin (scheme, host, port) that are admitted to fetching, each
	// counted once; 0 means no limit. URLs fetched while there was no limit do not count.
	MaxPagesPerHost int64
	// PLDDelay is the least time between the starts of two requests to one PLD with a budget of
	// BudgetDefault. PLDDelayMin is its minimum for larger budgets. Zero means no delay.
	PLDDelay, PLDDelayMin time.Duration
	// NetworkRate limits the requests per second to one network (IPv4 /24 or IPv6 /48), NetworkConnections
	// the concurrent exchanges. Zero means no limit.
	NetworkRate        float64
	NetworkConnections int
	// MaxCrawlDelay limits the Crawl-delay of a robots.txt.
	MaxCrawlDelay time.Duration
	// HostDelayFactor times the duration of a host's last response is a minimum for the delay of the host,
	// up to MaxCrawlDelay. Zero means no such minimum.
	HostDelayFactor float64
	// AdaptiveDelay lets hosts whose answers stay quick and clean have shorter delays, by steps down to
	// HostDelayMin (package polite). It needs a HostDelayFactor.
	AdaptiveDelay bool

	Budget        BudgetPolicy
	BudgetDefault uint32 // B0, pages
	BudgetMax     uint32 // pages
	BudgetRanks   int    // K, PLDs
	QueuesMax     int    // of each lane
	// Strategy is the order of the crawl as a whole (package strategy), "" or DefaultStrategy for the paper's with
	// Priority. SitesAtOnce is Strategy.SitesAtOnce; 0 is its default. Both may change from run to run.
	Strategy    string
	SitesAtOnce int
	// Cluster makes the crawl one node of several; nil for a crawl of one node.
	Cluster *Cluster
	// Walk are the options of the strategy random-walk, zeros for the defaults; Bytes and Seed are set by the crawl. Whether
	// a crawl is a random walk is fixed when it begins.
	Walk walk.Options
	// Priority is the strategy that spreads URLs over lanes (package strategy); "" is DefaultPriority. LaneWeights are
	// the lanes' weights; nil is strategy.DefaultWeights. Both may change from run to run.
	Priority    string
	LaneWeights []uint32
	// Lanes is the number of lanes of BEAST. It is fixed when a crawl begins: 0 is that of the crawl, and for a new
	// crawl the strategy's.
	Lanes int
	// QueuePages scales up the budgets of small crawls until the budgets of all known PLDs add up to
	// QueuePages. Default 10,000; Unlimited means no scaling.
	QueuePages int64

	// These are the paper's M, Δ, k, r, D and c. Zero means a value planned from RAMBytes and DiskBytes.
	// CacheRAMBytes of Unlimited means no cache.
	DrumBufferBytes int
	DrumChunkBytes  int
	DrumBuckets     int
	DrumBucketBytes int64
	DrumDiskBytes   int64
	CacheRAMBytes   int64
	// DrumWorkers is the number of URLseen buckets that a pass merges in parallel, if RAM suffices.
	// Default: one more than GOMAXPROCS, at most 8, because one worker usually waits for the disk.
	DrumWorkers     int
	QueueBlockBytes int
	WARCFileBytes   int64
	WARCFormat      warc.Format
	WARCDict        []byte // of zst files, from warc.ReadDict; empty: none
	WARCLevel       int    // warc.LevelFast, or 1 to 9
	CheckpointEvery time.Duration
	// RollEvery is the age at which output files are finished, so that they can be moved away while the
	// crawl runs. Files are also finished when they are full and when the crawl stops. 0 means no age
	// limit.
	RollEvery time.Duration
	Linger    time.Duration
	// StockTarget is the number of URLs that BEAST releases ahead of fetching. Default: 16 times the
	// connections, or more if the hosts' delays need it and RAM suffices (package stock).
	StockTarget    int
	RobotsInFlight int
	MaxPages       int64
	MaxTime        time.Duration
	MaxDepth       int // most links followed from a seed: 0 for the seeds only, Unlimited for no limit
	MaxURLBytes    int // longest URL; default 2083
	// KeepEscapes keeps percent-escapes as pages spell them, so that /%7Ea and /~a are two URLs. Otherwise
	// both have one spelling (weburl.FoldEscapes). It is fixed when the crawl begins.
	KeepEscapes bool
	// MaxRedirects is the limit of redirects in a row, counted from the last page that linked to one of
	// them. URLs beyond it are not taken. Default DefaultRedirects, at most 250; NoRedirects follows none.
	MaxRedirects int
	// OutMode is the mode of finished output files, such as 0640. Their directories get the matching
	// access. 0 means 0600.
	OutMode fs.FileMode
	// ArchiveRobots stores the exchanges for robots.txt, including redirects. ArchiveDNS stores the DNS
	// answers. Both require Store.
	ArchiveRobots, ArchiveDNS bool
	// URLRules rewrite or exclude URLs (package urlrule). They may change from run to run.
	URLRules urlrule.Options
	// Accept are the types of bodies that are read: "text/html", "text/*", "*/*", AcceptHTML. Of other
	// responses only the head is read, or up to two KiB to check whether the body is a page. Empty reads
	// all types. Assets adds the types of the parts of pages.
	Accept []string
	// BodyCaps limit the bodies of some types, below FetchLimits.BodyBytes. The most specific match counts.
	BodyCaps []BodyCap
	// MaxPagesPerPLD limits the URLs of a PLD that enter BEAST, over all runs. Further URLs are refused. 0
	// means no limit.
	MaxPagesPerPLD uint32
	Scope          state.Scope
	Store          bool
	// ContentSeen says what happens to bodies seen before; "": ContentRecord. ContentRecord without Store is
	// ContentOff.
	ContentSeen state.ContentSeen
	// NoArchive and NoIndex say what is stored of a response with this directive; "": ArchiveKeep.
	NoArchive, NoIndex state.Archive
	// Hook is a program that is asked about each page (package hook); nil for none. Run starts it, and sets Note
	// and Program.
	Hook *hook.Options
	// Render has a browser render some pages; nil: none.
	Render *RenderOptions
	// Simhash stores the simhash of each page's visible text (package internal/simhash).
	Simhash bool
	// Recrawl says when URLs are visited again; nil: never.
	Recrawl *revisit.Policy
	// TrapScore limits hosts whose pages repeat one another to a part of their PLD's budget (package
	// internal/trapscore). It costs the time of Simhash, and RAM.
	TrapScore       bool
	PrivateSuffixes bool
	CrawlLog        state.LogLevel
	// Log gets messages. A handler that blocks stops the stage that logs, but none that waits for its locks.
	Log           *slog.Logger
	Snapshot      func(*Snapshot)
	SnapshotEvery time.Duration
	LinkFilter    func(url []byte) bool
	// AllowedAddr reports whether Fetcher connects to an address; nil means to all. It only avoids futile
	// attempts.
	AllowedAddr func(netip.Addr) bool
	// NAT64 are the Fetcher's prefixes of translators. The blacklist applies to IPv4 addresses in theirs, too.
	NAT64 []netip.Prefix
	// Ports are those that Fetcher connects to. Links to other ports are counted and dropped before any
	// request to their host.
	Ports ports.Set
	// NetworkFlags identifies the settings behind AllowedAddr and Ports, in any encoding. The first
	// run with other settings tries the URLs again that they held back.
	NetworkFlags string
	// IgnoreNofollow follows links despite nofollow in the page (meta robots, X-Robots-Tag) or in their
	// rel.
	IgnoreNofollow bool
	// Rules are files of scope rules on FS. Blacklist are files of hosts, PLDs and networks to which no
	// request is sent (docs/RULES.md). Default: none. Both are read at the start and again for each value
	// from Reload. Files with errors fail the start; later they leave the old rules in force.
	Rules, Blacklist []string
	Reload           <-chan struct{}
	// ObjectStore takes finished output files, which then leave the local directories; nil for none.
	ObjectStore *output.ObjectStoreOptions
	// Trusted is a file on FS of the PLDs at which trust begins, instead of at the seeds, for the budget function supporters;
	// "" for none. A line is a URL, a host or a PLD; at most star.MostSeeds PLDs. It is read and read again like Rules, and
	// the next computation uses it.
	Trusted string
	// Extract has the texts of pages extracted; nil for none. It needs Store.
	Extract *output.ExtractOptions
	// Sites is a file on FS with the settings of some sites (package sites, docs/SITES.md); "" for none. It is
	// read and read again like Rules. Env returns variables of the environment, which its secrets may name.
	Sites string
	Env   func(name string) (value string, ok bool)
	// LinkRels are the types of <link> elements and Link headers to follow; 0 means parse.DefaultRels.
	// parse.NoRels follows none.
	LinkRels parse.Rel
	// Assets fetches and stores images, scripts, style sheets and other parts of pages, and follows links
	// in style sheets. Assets are not pages: the filter of file-name extensions does not apply to them,
	// they may be three links deeper than MaxDepth, and they do not count against a PLD's budget. Forms
	// follows the action of forms with method get.
	Assets, Forms bool
	// WhenFull is what to do when a file system has less than KeepFree bytes free (0: the size of the
	// buffers and some MiB), or when the crawl's files come near DiskBytes. Default WhenFullPause.
	WhenFull space.WhenFull
	KeepFree int64
	// TraceLinks is a file on FS that records the key of each link before the RAM cache filters it, 8 bytes
	// each (package linktrace); "" means none. Seeds are not recorded. TraceLimit limits its size; default
	// 8 GiB, a billion links.
	TraceLinks string
	TraceLimit int64
	// Sitemaps follows the Sitemap lines of robots.txt and reads sitemaps. SitemapBytes limits the body of
	// a named sitemap, as received; default 10 MiB.
	Sitemaps     bool
	SitemapBytes int
	// HistoryBytes bounds the history of figures in the first directory (package history); at least
	// history.MinBytes, 0 for none.
	HistoryBytes int64
	// Control serves the operator while the crawl runs; nil for none.
	Control *Control
	// TimeZone is the time zone of schedules that the operator sets; nil is the local one.
	TimeZone *time.Location
	// Drain fetches queued URLs and queues no new ones. Links are counted as CountLinksDraining.
	Drain bool
	// Panicked is called when a goroutine of the crawl panics because of a bug that was not contained. It
	// must end the process. The files on disk are as after kill -9. If it is nil, the panic continues and
	// ends the process.
	Panicked func(value any, stack []byte)
	// limit holds DiskBytes across the rounds of a run.
	limit *space.Limit
	// filled keeps the filter of contents across the rounds of a run.
	filled *filledFilter
	// asker is what Hook opens. Tests set it instead.
	asker asker
	// reading is called before data of a site are read. Tests let it panic.
	reading func(what string, url []byte)
	// processorsInUse replaces the measurement of the processors; see processorMeter.inUse.
	processorsInUse func(now time.Time) float64
	// hook is called at the places where tests interrupt the program.
	hook func(place string)
	// quarantineBytes replaces quarantineMost; 0: it does not.
	quarantineBytes int64
	// tune changes the plan, so that tests can have smaller stores than any RAM would give.
	tune func(*plan.Plan)
	// tunePolicy changes the policy for failing hosts, so that tests can have shorter back-offs.
	tunePolicy func(*health.Policy)
	// tuneWaits changes the waits after failures that may be ours, so that tests over real sockets can have
	// shorter ones.
	tuneWaits func(*retryWaits)
}

// Unlimited disables a limit.
const Unlimited = -1

// These are values of Options.MaxRedirects: the limit of browsers by the Fetch standard (4.4), and none.
const (
	DefaultRedirects = 20
	NoRedirects      = -1
	mostRedirects    = 250 // a record counts them in a byte
)

func (o *Options) defaults() {
	setInt := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	setDuration := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	setInt(&o.DrumWorkers, min(plan.MaxWorkers, 1+runtime.GOMAXPROCS(0)))
	if o.FS == nil {
		o.FS = disk.OS()
	}
	if len(o.Out) == 0 {
		o.Out = o.Dirs
	}
	if o.RAMBytes == 0 {
		o.RAMBytes = 1 << 30
	}
	if o.DiskBytes == 0 {
		o.DiskBytes = 100 << 30
	}
	if o.ContentSeen == "" {
		o.ContentSeen = state.ContentRecord
	}
	if !o.Store && o.ContentSeen == state.ContentRecord {
		o.ContentSeen = state.ContentOff // there is nothing to record
	}
	setInt(&o.Connections, 2000)
	setInt(&o.RobotsInFlight, max(64, o.Connections))
	setInt(&o.QueuesMax, 1024)
	setInt(&o.BudgetRanks, 10_000)
	setInt(&o.QueueBlockBytes, 128<<10)
	setInt(&o.MaxURLBytes, 2083)
	setInt(&o.MaxRedirects, DefaultRedirects)
	setInt(&o.SitemapBytes, 10<<20)
	o.SitemapEncoding = cmp.Or(o.SitemapEncoding, "gzip")
	if o.Render != nil {
		r := *o.Render
		r.defaults()
		o.Render = &r
	}
	setDuration(&o.CheckpointEvery, time.Minute)
	setDuration(&o.MaxCrawlDelay, 300*time.Second)
	setDuration(&o.Backoff, firstBackoff)
	setDuration(&o.BackoffMax, max(maxBackoff, o.Backoff))
	setDuration(&o.SnapshotEvery, time.Second)
	if o.BudgetDefault == 0 {
		o.BudgetDefault = 10
	}
	if o.BudgetMax == 0 {
		o.BudgetMax = 10_000
	}
	if o.LinkRels == 0 {
		o.LinkRels = parse.DefaultRels
	}
	if o.Budget == "" {
		o.Budget = "paper"
	}
	if o.WhenFull == "" {
		o.WhenFull = space.WhenFullPause
	}
	if o.Scope == "" {
		o.Scope = state.ScopeAll
	}
	if o.CrawlLog == "" {
		o.CrawlLog = state.LogErrors
	}
	if o.WARCFileBytes == 0 {
		o.WARCFileBytes = 1_000_000_000
	}
	if o.TraceLimit == 0 {
		o.TraceLimit = 8 << 30
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Validate returns all errors in the options, joined.
func (o *Options) Validate() error {
	var faults []error
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf("crawl: "+format, args...)) }
	if len(o.Dirs) == 0 {
		bad("no directory given")
	}
	if o.Resolver == nil || o.Fetcher == nil {
		bad("no resolver or no fetcher given")
	}
	if o.Agent == "" {
		bad("no agent token given")
	}
	if n := len(o.References); n > outage.MaxReferences {
		bad("%d references given, want at most %d", n, outage.MaxReferences)
	}
	for _, url := range o.References {
		if got, err := outage.CheckReference(url); err != nil || got != url {
			bad("reference %q is no canonical URL", url)
		}
	}
	switch o.Scope {
	case "", state.ScopeAll, state.ScopePLD, state.ScopeHost:
	default:
		bad("scope %q is not all, pld or host", o.Scope)
	}
	switch o.CrawlLog {
	case "", state.LogOff, state.LogErrors, state.LogAll:
	default:
		bad("crawl log level %q is not off, errors or all", o.CrawlLog)
	}
	switch o.WhenFull {
	case "", space.WhenFullPause, space.WhenFullDrain, space.WhenFullStop:
	default:
		bad("when full %q is not pause, drain or stop", o.WhenFull)
	}
	if err := o.Cluster.validate(o); err != nil {
		faults = append(faults, err)
	}
	if o.TraceLimit != 0 && o.TraceLimit < linktrace.MinLimitBytes {
		bad("trace limit of %d bytes: want at least %d", o.TraceLimit, int64(linktrace.MinLimitBytes))
	}
	if o.HistoryBytes != 0 && o.HistoryBytes < history.MinBytes {
		bad("history of %d bytes: want 0, or at least %d", o.HistoryBytes, history.MinBytes)
	}
	if o.MaxURLBytes < 0 {
		bad("maximum URL length %d is negative", o.MaxURLBytes)
	}
	if o.MaxRedirects < NoRedirects || o.MaxRedirects > mostRedirects {
		bad("redirect limit %d: want at most %d, or NoRedirects", o.MaxRedirects, mostRedirects)
	}
	if o.Render != nil && len(o.Render.Rules) == 0 {
		bad("a browser without rules that say which pages it renders")
	}
	if err := CheckBodies(o.Accept, o.BodyCaps); err != nil {
		faults = append(faults, err)
	}
	if _, err := urlrule.New(o.URLRules); err != nil {
		bad("%w", err)
	}
	if o.seedsOnly() && o.Sitemaps {
		bad("strategy %s follows no links, so it takes no sitemaps", o.Strategy)
	}
	if o.walks() {
		if o.Sitemaps || o.Recrawl != nil || o.Render != nil {
			bad("strategy %s takes no sitemaps, visits no page again, and renders none", o.Strategy)
		}
		opt := o.walkOptions(1)
		if err := opt.Validate(); err != nil {
			faults = append(faults, err)
		}
	}
	if o.SitesAtOnce < 0 || o.SitesAtOnce > MaxSitesAtOnce {
		bad("%d sites at once: want 1 to %d", o.SitesAtOnce, MaxSitesAtOnce)
	}
	if _, err := o.strategyOf(o.Lanes, nil); err != nil && (o.Lanes != 0 || len(o.LaneWeights) == 0) {
		bad("%w", err) // weights alone may be those of an existing crawl's lanes
	}
	if o.Recrawl != nil {
		if err := o.Recrawl.Validate(); err != nil {
			bad("%w", err)
		}
	}
	if o.KeepFree < 0 {
		bad("space to keep free %d is negative", o.KeepFree)
	}
	if o.HostFailures < 0 || o.HostRests < 0 || o.HostRefusals < 0 || o.MaxPagesPerHost < 0 {
		bad("failures %d, rests %d, refusals %d or pages %d of a host are negative",
			o.HostFailures, o.HostRests, o.HostRefusals, o.MaxPagesPerHost)
	}
	for _, d := range []struct {
		name string
		v    time.Duration
	}{{"back-off", o.Backoff}, {"longest back-off", o.BackoffMax},
		{"wait for robots.txt", o.RobotsWait}, {"time to forget robots.txt", o.RobotsForget},
		{"host delay", o.HostDelay}, {"least host delay", o.HostDelayMin}, {"server delay", o.ServerDelay},
		{"least server delay", o.ServerDelayMin}, {"PLD delay", o.PLDDelay}, {"least PLD delay", o.PLDDelayMin},
		{"longest Crawl-delay", o.MaxCrawlDelay}, {"keep-alive", o.KeepAlive}} {
		if d.v < 0 {
			bad("%s %v is negative", d.name, d.v)
		}
	}
	if err := (&polite.Options{NetworkRate: o.NetworkRate, NetworkConnections: o.NetworkConnections,
		ResponseFactor: o.HostDelayFactor, Adaptive: o.AdaptiveDelay}).Validate(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
