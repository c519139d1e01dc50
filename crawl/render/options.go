package render

import (
	"context"
	"log/slog"
	"time"

	"drumbeat/admit"
	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/reader"
	"drumbeat/disk"
	"drumbeat/fetch"
	cdp "drumbeat/internal/render"
	"drumbeat/polite"
	"drumbeat/queue"
	"drumbeat/robots"
)

// BrowserOptions say which pages a browser renders, and what that may take. Zero values of the limits mean the
// defaults.
type BrowserOptions struct {
	Endpoint   string        // of the browser, as render.ParseEndpoint takes it; with Launch its name in texts
	Launch     *cdp.Launch   // starts a browser; nil: one runs at Endpoint
	Rules      []string      // files of scope rules; a page that they include is rendered. None: all pages are
	Tabs       int           // pages at once; default 2
	Time       time.Duration // of a page without a request under way; default 10 s
	Longest    time.Duration // of a page in all; default 10 min
	Requests   int           // of a page; default 100
	Resources  int           // images, style sheets and fonts of a page that are fetched; default 200, or NoResources
	PageBytes  int64         // received for a page, and at most of its DOM; default 8 MiB
	QueueBytes int64         // of pages that wait on disk; default 1 GiB
	CacheBytes int64         // of answers kept in RAM; default 32 MiB

	// Dial connects to the browser; nil: cdp.Dial. Tests replace it.
	Dial func(ctx context.Context, endpoint string) (Browser, error)
}

// NoResources as BrowserOptions.Resources fetches none, and stores no answers to the requests of pages.
const NoResources = -1

// Defaults fills in the zero values.
func (o *BrowserOptions) Defaults() {
	setDefault(&o.Tabs, 2)
	setDefault(&o.Time, 10*time.Second)
	setDefault(&o.Longest, 10*time.Minute)
	setDefault(&o.Requests, 100)
	setDefault(&o.Resources, 200)
	setDefault(&o.PageBytes, 8<<20)
	setDefault(&o.QueueBytes, 1<<30)
	setDefault(&o.CacheBytes, 32<<20)
	switch {
	case o.Dial != nil:
	case o.Launch != nil:
		o.Dial = func(ctx context.Context, _ string) (Browser, error) { return o.Launch.Start(ctx) }
	default:
		o.Dial = func(ctx context.Context, endpoint string) (Browser, error) { return cdp.Dial(ctx, endpoint) }
	}
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Browser is a connection to a browser; cdp.Browser is the implementation.
type Browser interface {
	Render(ctx context.Context, p *cdp.Page, f cdp.Fetcher, l *cdp.Limits) (*cdp.Result, error)
	Done() <-chan struct{}
	Product() string
	Close()
}

// RAM returns the bytes of the Go heap that rendering may take: the caches, the connection, and for each tab its
// own (cdp.TabRAM), the task, in the queue and in a message, and up to five copies of what a page receives: the
// answers, in Base64 and as records, then the DOM as it grows. With several nodes each request of a tab may have a
// message, and three exchanges are unpacked or packed: one that another node has made, and one made for another node,
// with its block.
func (o *BrowserOptions) RAM(nodes int) int64 {
	if o == nil {
		return 0
	}
	r := *o
	r.Defaults()
	tab := cdp.TabRAM + 3*queue.MaxRecord + 5*r.PageBytes
	all := r.CacheBytes + storedRAM + cdp.RAM
	if nodes > 1 {
		all += 3 * mostPlain
		tab += requestsAtOnce * cluster.MaxMessageBytes
	}
	return all + int64(r.Tabs)*tab
}

// Options are the options of a Stage.
type Options struct {
	Log            *slog.Logger
	FS             disk.FS
	Browser        *BrowserOptions // with its defaults; nil: no browser, and a Stage does nothing
	UserAgent      string
	Links          *admit.Policy // the ports and hosts that may be asked
	Sites          *inforce.Sites
	IgnoreNofollow bool
	Agent          string // of robots directives
	NoArchive      bool   // an answer with this directive is not stored
	NoIndex        bool   // likewise
	Assets         bool   // the parts of all pages are fetched, too
	FetchLimits    fetch.Limits
	MaxCrawlDelay  time.Duration
}

// Others are the stages that a Stage calls. All are safe for concurrent use.
type Others struct {
	Heaps func() Heaps
	Slots Slots
	// MayAsk returns an error while a host is in a long back-off or given up.
	MayAsk func(host []byte) error
	// RestAfter returns the back-off of a host after an exchange that was not for a page; 0 for none.
	RestAfter func(resp *fetch.Response, err error) time.Duration
	// Clear moves the URLs of a host in back-off to disk. It is part of a transaction.
	Clear func(tx *account.Tx, host uint64) error
	// Rules requests the robots.txt of an origin; it may take minutes.
	Rules func(ctx context.Context, origin string) (*robots.HostData, error)
	// Lend waits for a reader; nil: ctx ended first. back returns it; broken says that a panic left it in any state.
	Lend func(ctx context.Context) (r *reader.Reader, back func(broken bool))
	// SendLinks sends links to URLseen. It is part of a transaction.
	SendLinks func(b *admit.Batch, tx *account.Tx) error
	Cluster   Cluster
}

// Cluster reaches the other nodes.
type Cluster interface {
	Elsewhere(host []byte) bool // another node owns the host
	Away() bool                 // the other nodes cannot be reached: there is no broker
	// Ask asks the owner of a host, and returns its answer; abandoned says that there will be none.
	Ask(ctx context.Context, host []byte, kind string, data []byte) (answer []byte, abandoned bool, _ error)
	// Answer passes the questions of other nodes to answer until stop is called.
	Answer(kind string, answer func(ctx context.Context, from int, data []byte) []byte) (stop func(), _ error)
}

// Heaps has the hosts and URLs in RAM. polite.Scheduler is the implementation.
type Heaps interface {
	Admit(now time.Time, item *polite.Item) polite.Verdict
	Done(now time.Time, g *polite.Grant, r polite.Result)
}

// Slots has the connection slots of the crawl. A grant comes with one.
type Slots interface {
	// Enter takes a share of the PLD's connections for a grant. If there is none, it drops the grant and returns how
	// long to wait after this many attempts; otherwise 0.
	Enter(g *polite.Grant, attempts int) time.Duration
	// Leave returns the slot and the share of a grant.
	Leave(g *polite.Grant)
	// Drop ends a grant for which nothing was sent, and returns its slot.
	Drop(g *polite.Grant)
	// Buffer returns a buffer for a response. back takes it again.
	Buffer() (resp *fetch.Response, back func())
}
