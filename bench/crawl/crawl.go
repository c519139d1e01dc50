package crawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drumbeat/bench/report"
	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/dnscache"
	"drumbeat/internal/simweb"
)

// Options measures the whole crawler against a flat web: over sockets, with the web in another process, or without sockets.
type Options struct {
	Dirs []string
	Web  simweb.FlatOptions
	// Pages ends the crawl after so many pages, URLs when so many different URLs have been seen; 0: not. One of them must be set.
	Pages, URLs int64
	// Duration ends a measurement whatever has been reached.
	Duration time.Duration
	// InProcess leaves out sockets, DNS and the fetcher: responses are made by the generator in this process.
	InProcess bool
	// Bare measures too a loop that fetches pages of the same server by the same client and does nothing with them, for
	// BareTime. Not with InProcess.
	Bare     bool
	BareTime time.Duration

	RAMBytes, DiskBytes int64
	// DrumDiskBytes is D, the disk of links that wait for URLseen; 0: as the crawl plans it, or, with Growth, what makes some
	// crawlPasses full passes in the run: with the plan's 10 GB a run of 10⁸ URLs has two, and no growth would be seen.
	DrumDiskBytes int64
	Connections   int
	// KeepAlive is how long connections are kept for the next page of the same host; 0: a connection for each page.
	KeepAlive time.Duration
	// Store writes WARC files.
	Store   bool
	Repeats int
	// Growth reports the tenths of the run, and checks the last against the second.
	Growth bool

	// Agent and UserAgent are sent; GCPercent is the garbage collector's setting, as command crawl has it.
	Agent, UserAgent string
	GCPercent        int
	// Names makes a crawl's resolver of a DNS cache.
	Names func(*dnscache.Resolver) crawl.Resolver
	// Profiles is a directory for the raw profiles of what is measured; "" for none.
	Profiles string
	// Command starts the process that serves the web: Serve of the same program.
	Command []string
}

// Validate returns all faults joined.
func (c *Options) Validate() error {
	errs := []error{c.Web.Validate()}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("bench: crawl: "+format, args...)) }
	if len(c.Dirs) == 0 {
		bad("no directory")
	}
	if c.Pages < 0 || c.URLs < 0 || c.Pages == 0 && c.URLs == 0 {
		bad("neither a number of pages nor of URLs to crawl")
	}
	if c.Duration <= 0 || c.Bare && c.BareTime <= 0 {
		bad("no time to measure in")
	}
	if c.Connections < 1 || c.Repeats < 1 || c.RAMBytes < 1 || c.DiskBytes < 1 {
		bad("connections, repeats, RAM and disk must be 1 at least")
	}
	if c.KeepAlive < 0 {
		bad("a negative time to keep connections")
	}
	if c.InProcess && (c.Web.HTTPS || c.Web.Gzip) {
		bad("without sockets there is neither TLS nor gzip")
	}
	return errors.Join(errs...)
}

// expect is how many pages and URLs the run comes to, as far as that can be told.
func (c *Options) expect() (pages, urls float64) {
	pages, urls = float64(c.Pages), float64(c.URLs)
	if pages == 0 {
		pages = urls / c.Web.New
	}
	return pages, max(urls, pages*c.Web.New)
}

// crawlPasses is how many full passes of URLseen a run has that shows growth, crawlLinkBytes what a waiting link takes: three
// reach URLseen for each URL that is new (plan's figure; its text compressed 4:1, and a key).
const (
	crawlPasses    = 20
	crawlLinkBytes = 37
	crawlLeastDisk = 32 << 20
)

// drumDisk is D.
func (c *Options) drumDisk() int64 {
	if c.DrumDiskBytes > 0 || !c.Growth {
		return c.DrumDiskBytes
	}
	_, urls := c.expect()
	return max(crawlLeastDisk, int64(3*crawlLinkBytes*urls/crawlPasses))
}

// What a crawl's files take at most, bytes: for each page stored, that part of it, as gzip of level 1 makes of the flat web's
// text, and the heads of its records; for each URL its record in a queue (60 B, twice while it moves), its key and its part of
// URLseen's buckets.
const (
	crawlStoredShare = 0.5
	crawlPageBytes   = 2000
	crawlURLBytes    = 250
)

// room refuses directories that are too full.
func (c *Options) room() error {
	pages, urls := c.expect()
	need := urls * crawlURLBytes
	if c.Store {
		need += pages * (crawlPageBytes + crawlStoredShare*float64(c.Web.PageBytes))
	}
	for _, dir := range c.Dirs {
		free, _, err := disk.OS().Space(dir)
		if err != nil {
			return fmt.Errorf("bench: crawl: %w", err)
		}
		if part := need / float64(len(c.Dirs)); float64(free) < part {
			return fmt.Errorf("bench: crawl: %s has %s free, %s may be needed: take another directory, fewer pages, or store none",
				dir, report.DecimalBytes(float64(free)), report.DecimalBytes(part))
		}
	}
	return nil
}

// Run measures.
func Run(ctx context.Context, c Options, progress func(string)) (*report.Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := c.room(); err != nil {
		return nil, err
	}
	b := &crawlBench{Options: c, progress: progress}
	for n := range c.Repeats {
		if err := b.once(ctx, n); err != nil {
			return nil, err
		}
	}
	return b.report(), nil
}

// crawlBench is what Run works on.
type crawlBench struct {
	Options
	progress    func(string)
	flat        *simweb.Flat
	bare, whole []*Result
}

// once measures one repeat: the bare loop, then the crawl, against one server.
func (b *crawlBench) once(ctx context.Context, n int) (err error) {
	if b.flat, err = simweb.NewFlat(b.Web); err != nil {
		return err
	}
	if b.InProcess {
		t, err := newInProcess(b.flat, b.fetchOptions())
		if err != nil {
			return err
		}
		run, err := b.crawl(ctx, n, t, nil)
		if err == nil {
			b.whole = append(b.whole, run)
		}
		return errors.Join(err, t.close())
	}
	server, err := startCrawlServer(ctx, b.Command, &b.Web)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	client, err := b.client(server)
	if err != nil {
		return err
	}
	if b.Bare {
		run, err := b.bareLoop(ctx, n, client, server)
		if err != nil {
			return err
		}
		b.bare = append(b.bare, run)
	}
	run, err := b.crawl(ctx, n, client, server)
	if err == nil {
		b.whole = append(b.whole, run)
	}
	return errors.Join(err, client.close())
}
