package crawl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"runtime"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/disk"
	"drumbeat/fetch"
	"drumbeat/internal/health"
	"drumbeat/internal/linktrace"
	"drumbeat/internal/pace"
	"drumbeat/internal/urlrule"
	"drumbeat/parse"
	"drumbeat/polite"
)

// BudgetPolicy names the budget function F(d) of the paper's section VI.
type BudgetPolicy string

// Resolver turns a host name into addresses. dnscache.Resolver is the real one. pld groups names for the limit on
// lookups in flight. Errors are *LookupError.
type Resolver interface {
	LookupHost(ctx context.Context, host, pld string) (Lookup, error)
}

// FreshResolver is a Resolver that remembers answers, and can ask again in spite of that.
type FreshResolver interface {
	LookupFresh(ctx context.Context, host, pld string) (Lookup, error)
}

// Lookup is a resolver's positive answer.
type Lookup struct {
	Addrs   []netip.Addr
	Expires time.Time
	// TTL is what the name server said, or 0; Server is the one that answered, or the zero Addr.
	TTL    time.Duration
	Server netip.Addr
	// Cached: the answer was known already. It tells nothing about the name servers.
	Cached bool
}

// LookupError is a resolver's negative answer or failure.
type LookupError struct {
	Host string
	// NotFound is true when the name does not exist or has no address (an answer), false when there was no usable
	// answer (SERVFAIL, timeout).
	NotFound bool
	// Certain is true when no name server need be asked to know that: it is no name that the DNS can hold.
	Certain bool
	// Cached: the answer was known already.
	Cached bool
	// NoAnswer is true when no name server answered at all: if that happens to all names, the fault is ours.
	NoAnswer bool
	// Busy is true when the question was never asked: too many wait already. It says nothing about the host.
	Busy bool
	// Expires is until when the answer holds.
	Expires time.Time
	Err     error
}

func (e *LookupError) Error() string { return fmt.Sprintf("crawl: look up %s: %v", e.Host, e.Err) }

// Unwrap returns the cause.
func (e *LookupError) Unwrap() error { return e.Err }

// Fetcher does one HTTP exchange. fetch.Client is the real one.
type Fetcher interface {
	Do(ctx context.Context, req *fetch.Request, resp *fetch.Response) error
}

// Options of a crawl. The zero field means the default in its comment unless it says otherwise.
type Options struct {
	// FS is the file system; nil means the machine's.
	FS disk.FS
	// Dirs hold state, logs and, without Out, output: one per disk. At least one.
	Dirs []string
	// AddDirs are those of Dirs that may be new to a crawl that has begun; any may for a new one.
	AddDirs []string
	// AddOut are those of Out that may be.
	AddOut []string
	// Out holds WARC files: one per disk. Default Dirs.
	Out []string
	// New refuses a directory that holds a crawl already.
	New bool

	// Seeds is the name of the seed file on FS, one URL or host a line; or SeedLines holds them.
	Seeds     string
	SeedLines []string

	// Agent is the product token of User-Agent and robots.txt matching (RFC 9309 2.2.1).
	Agent string
	// Contact is a mail address or URL of the operator, sent with every request.
	Contact string
	// UserAgent is the header that Fetcher sends, for the records of the output; "" leaves it out.
	UserAgent string
	Version   string
	// Host is the name of the machine, for the names of WARC files and their warcinfo records; "" means localhost.
	Host string

	Resolver Resolver
	Fetcher  Fetcher
	// FetchLimits are the Fetcher's; requests for robots.txt take them over, but for the size of the body.
	FetchLimits fetch.Limits

	// RAMBytes bounds the whole process; DiskBytes bounds state and output together.
	RAMBytes, DiskBytes int64
	// Connections is the most exchanges at once.
	Connections int
	// Rate bounds the requests a second, for pages and for robots.txt alike; zero: no limit.
	Rate pace.Schedule
	// Bandwidth bounds the bytes a second that the Fetcher receives, which has the same limiter; nil: no limit.
	Bandwidth *pace.Bandwidth
	// ConnectionSchedule is how many of the Connections may be used by the hour; zero: all.
	ConnectionSchedule pace.Schedule
	// Retries of a URL after a failed exchange; NoRetries for none.
	Retries int

	// KeepAlive is the longest time that a connection is kept for the next page of its host; 0: a connection for each page.
	KeepAlive time.Duration

	// Delays between visits; zero means no delay.
	HostDelay, HostDelayMin, ServerDelay, ServerDelayMin time.Duration
	// Backoff is the rest of a host after a failed exchange, doubling with each further one up to BackoffMax; defaults 10 s, 1 h.
	Backoff, BackoffMax time.Duration
	// HostFailures in a row make a host rest for long, HostRests such rests without a success have it given up; HostRefusals
	// without a page between make it rest for a day, a week, then for good (package health). 0: never.
	HostFailures, HostRests, HostRefusals int
	// RobotsWait is how long URLs wait for an unreachable robots.txt, from the first failure; 0: forever.
	RobotsWait time.Duration
	// RobotsForget is after how long what is known of an origin is forgotten, once it has expired and nobody has asked for it; 0: never.
	RobotsForget time.Duration
	// MaxPagesPerHost is how many URLs of an origin (scheme, host, port) are admitted to fetching, each counted once; 0: no limit.
	// What was fetched while there was none isn't counted.
	MaxPagesPerHost int64
	// PLDDelay is the least time between the starts of two requests to one PLD at BudgetDefault, PLDDelayMin the least of it at any
	// budget; zero means no delay.
	PLDDelay, PLDDelayMin time.Duration
	// NetworkRate is the most requests a second to one network, an IPv4 /24 or an IPv6 /48, and NetworkConnections the most
	// exchanges at once; zero means no limit.
	NetworkRate        float64
	NetworkConnections int
	// MaxCrawlDelay caps what a robots.txt may ask for.
	MaxCrawlDelay time.Duration
	// HostDelayFactor: a host rests so many times as long as its last answer took, MaxCrawlDelay at most; zero means that this
	// doesn't matter.
	HostDelayFactor float64

	Budget        BudgetPolicy
	BudgetDefault uint32 // B0, pages
	BudgetMax     uint32 // pages
	BudgetRanks   int    // K, PLDs
	QueuesMax     int
	// QueuePages: budgets of small crawls are scaled up until those of all known PLDs add up to so many pages; default
	// 10,000; Unlimited for no scaling.
	QueuePages int64

	// The paper's M, Δ, k, r, D and c; zero means as planned from RAMBytes and DiskBytes. CacheRAMBytes of Unlimited, -1,
	// means no cache.
	DrumBufferBytes int
	DrumChunkBytes  int
	DrumBuckets     int
	DrumBucketBytes int64
	DrumDiskBytes   int64
	CacheRAMBytes   int64
	// DrumWorkers is how many buckets of URLseen a pass merges at once, if RAM suffices; default one more than the CPUs
	// that Go may use, 8 at most: one waits for the disk as a rule.
	DrumWorkers     int
	QueueBlockBytes int
	WARCFileBytes   int64
	WARCLevel       int
	CheckpointEvery time.Duration
	// RollEvery is the age at which files of output are finished, so that they can be carried away while the crawl runs; they are
	// also finished when they are full, and at each orderly stop. 0: no age.
	RollEvery time.Duration
	Linger    time.Duration
	// StockTarget is how many URLs BEAST releases ahead of fetching; default 16 times the connections, or as many as the hosts' delays
	// ask for and RAM holds (stock.go).
	StockTarget    int
	RobotsInFlight int
	MaxPages       int64
	MaxTime        time.Duration
	MaxDepth       int // links followed from a seed at most: 0 for the seeds alone, Unlimited for no limit
	MaxURLBytes    int // longest URL; default 2083
	// KeepEscapes leaves percent-escapes as pages spell them, so that /%7Ea and /~a are two URLs; else they have one spelling
	// (weburl.FoldEscapes). It can't be changed later.
	KeepEscapes bool
	// MaxRedirects is how many redirects in a row are followed: a URL that more of them lead to, counted from the last page that
	// linked to one of them, isn't taken. Default DefaultRedirects, 250 at most; NoRedirects: none is followed.
	MaxRedirects int
	// OutMode is the mode of finished output files, such as 0640; the directories that they are in let the same people in. 0: 0600.
	OutMode fs.FileMode
	// ArchiveRobots stores the exchanges for robots.txt, redirects included, and ArchiveDNS the answers of the DNS, beside the pages.
	// Without Store neither is kept.
	ArchiveRobots, ArchiveDNS bool
	// URLRules rewrite URLs and leave some out; zero: they don't. They may change from run to run (package urlrule).
	URLRules urlrule.Options
	// Accept are the types of bodies that are read: "text/html", "text/*", "*/*", AcceptHTML. Of others a response has its head
	// alone, or two KiB where that takes a look. Empty: all are read. With Assets those of what pages consist of are, too.
	Accept []string
	// BodyCaps bound the bodies of some types, below FetchLimits.BodyBytes; of several that fit, the narrowest counts.
	BodyCaps []BodyCap
	// MaxPagesPerPLD is how many URLs of a PLD may go into BEAST, over all runs; those beyond are refused. 0: no limit.
	MaxPagesPerPLD  uint32
	Scope           state.Scope
	Store           bool
	PrivateSuffixes bool
	CrawlLog        state.LogLevel
	Log             *slog.Logger
	Snapshot        func(*Snapshot)
	SnapshotEvery   time.Duration
	LinkFilter      func(url []byte) bool
	// AllowedAddr says which addresses the Fetcher connects to; nil means all. It only saves futile attempts.
	AllowedAddr func(netip.Addr) bool
	// AllowedPort says which ports the Fetcher connects to; nil means all. Links to other ports are counted and dropped, before
	// anything is asked of their host.
	AllowedPort func(port uint16) bool
	// NetworkFlags tells the settings apart that AllowedAddr and AllowedPort are made from, in any coding. URLs that they
	// held back are tried again by the first run that has others.
	NetworkFlags string
	// IgnoreNofollow follows links although the page (meta robots, X-Robots-Tag) or their rel says nofollow.
	IgnoreNofollow bool
	// Rules are files of scope rules on FS, Blacklist such of hosts, PLDs and networks that nothing is asked of (docs/RULES.md);
	// none by default. Both are read at the start, and again whenever something comes from Reload: files with faults fail
	// the start, and leave the old rules in force later.
	Rules, Blacklist []string
	Reload           <-chan struct{}
	// LinkRels are the types of <link> elements and Link headers that are followed; 0 is parse.DefaultRels, parse.NoRels none.
	LinkRels parse.Rel
	// Assets: images, scripts, style sheets and what else pages consist of are fetched and stored too, and links in style sheets
	// followed. They are no pages, their names' extensions don't hold them back, they may be three links deeper than MaxDepth, and they
	// count nothing for a PLD's budget. Forms: the action of a form with method get is a link.
	Assets, Forms bool
	// WhenFull says what to do when a file system has less than KeepFree bytes left (0: what the buffers need to be written, and
	// some MiB), or when the crawl's files come near DiskBytes. Default WhenFullPause.
	WhenFull WhenFull
	KeepFree int64
	// TraceLinks is a file on FS that the key of each link goes to before the RAM cache looks at it, 8 bytes each (package linktrace);
	// "" is none. Seeds are no links. TraceLimit bounds its bytes; default 8 GiB, a billion links.
	TraceLinks string
	TraceLimit int64
	// Sitemaps follows the Sitemap lines of robots.txt, and reads what is a sitemap. SitemapBytes bounds the body of one that was
	// named as such, as received; default 10 MiB.
	Sitemaps     bool
	SitemapBytes int
	// Drain fetches what is queued and queues nothing new; links are counted as CountLinksDraining.
	Drain bool
	// Panicked is called when a goroutine of the crawl panics, for a bug of this program that nothing contained. It must end the
	// process: what is on disk is as after kill -9. nil: the panic goes on, which ends the process, too.
	Panicked func(value any, stack []byte)
	// reading is called before something that a site sent is read: tests have it panic.
	reading func(what string, url []byte)
	// hook is called at places where the tests cut the program off.
	hook func(place string)
	// tune changes the plan: tests have stores smaller than any RAM would give.
	tune func(*Plan)
	// tunePolicy changes what is done about hosts that fail or refuse: tests have shorter rests.
	tunePolicy func(*health.Policy)
	// tuneWaits changes how long faults that could be ours are waited for: tests over real sockets have shorter waits.
	tuneWaits func(*waits)
}

// Unlimited says that a limit is not in force.
const Unlimited = -1

// Values of Options.MaxRedirects: browsers' limit by the Fetch standard (4.4), and none.
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
	setInt(&o.DrumWorkers, min(maxWorkers, 1+runtime.GOMAXPROCS(0)))
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
	setInt(&o.Connections, 2000)
	setInt(&o.RobotsInFlight, max(64, o.Connections))
	setInt(&o.QueuesMax, 1024)
	setInt(&o.BudgetRanks, 10_000)
	setInt(&o.QueueBlockBytes, 128<<10)
	setInt(&o.WARCLevel, 1)
	setInt(&o.MaxURLBytes, 2083)
	setInt(&o.MaxRedirects, DefaultRedirects)
	setInt(&o.SitemapBytes, 10<<20)
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
		o.WhenFull = WhenFullPause
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

// Validate returns all faults of the options, joined.
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
	case "", WhenFullPause, WhenFullDrain, WhenFullStop:
	default:
		bad("when full %q is not pause, drain or stop", o.WhenFull)
	}
	if o.TraceLimit != 0 && o.TraceLimit < linktrace.MinLimitBytes {
		bad("a trace of %d bytes: want %d at least", o.TraceLimit, int64(linktrace.MinLimitBytes))
	}
	if o.MaxURLBytes < 0 {
		bad("URLs of %d bytes at most: negative", o.MaxURLBytes)
	}
	if o.MaxRedirects < NoRedirects || o.MaxRedirects > mostRedirects {
		bad("%d redirects in a row at most: want %d at most, or NoRedirects", o.MaxRedirects, mostRedirects)
	}
	if err := CheckBodies(o.Accept, o.BodyCaps); err != nil {
		faults = append(faults, err)
	}
	if _, err := urlrule.New(o.URLRules); err != nil {
		bad("%w", err)
	}
	if o.KeepFree < 0 {
		bad("space to keep free %d is negative", o.KeepFree)
	}
	if o.HostFailures < 0 || o.HostRests < 0 || o.HostRefusals < 0 || o.MaxPagesPerHost < 0 {
		bad("failures %d, rests %d, refusals %d or pages %d of a host are negative", o.HostFailures, o.HostRests, o.HostRefusals,
			o.MaxPagesPerHost)
	}
	for _, d := range []struct {
		name string
		v    time.Duration
	}{{"back-off", o.Backoff}, {"longest back-off", o.BackoffMax}, {"wait for robots.txt", o.RobotsWait}, {"time to forget robots.txt", o.RobotsForget},
		{"host delay", o.HostDelay}, {"least host delay", o.HostDelayMin}, {"server delay", o.ServerDelay},
		{"least server delay", o.ServerDelayMin}, {"PLD delay", o.PLDDelay}, {"least PLD delay", o.PLDDelayMin},
		{"longest Crawl-delay", o.MaxCrawlDelay}, {"keep-alive", o.KeepAlive}} {
		if d.v < 0 {
			bad("%s %v is negative", d.name, d.v)
		}
	}
	if err := (&polite.Options{NetworkRate: o.NetworkRate, NetworkConnections: o.NetworkConnections,
		ResponseFactor: o.HostDelayFactor}).Validate(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
