package crawl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"drumbeat/bench/measure"
	"drumbeat/bench/result"
	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/dnscache"
	"drumbeat/internal/human"
	"drumbeat/internal/simweb"
)

// Options holds the parameters of Measure: the whole crawler against a flat web, over sockets with the web
// in another process, or without sockets. The fields are flags of command bench. A zero means the default.
type Options struct {
	Dirs      []string      `name:"dir" placeholder:"DIR" required:""`
	Transport string        `enum:"sockets,inproc" default:"sockets"`
	Pages     int64         `type:"count" placeholder:"N"`
	URLs      int64         `name:"urls" type:"count" placeholder:"N"`
	Duration  time.Duration `placeholder:"DURATION"`

	Resume bool
	Keep   bool

	Hosts     int     `type:"count" placeholder:"N"`
	Seeds     int     `type:"count" placeholder:"N" default:"1000"`
	PLDs      int     `name:"plds" type:"count" placeholder:"N"`
	Addrs     int     `type:"count" placeholder:"N" default:"512"`
	PageBytes int     `type:"size" placeholder:"SIZE" default:"25kB"`
	Links     int     `type:"count" placeholder:"N" default:"59"`
	New       float64 `placeholder:"N" default:"6.5"`
	NewHosts  float64 `placeholder:"SHARE" default:"0.02"`
	Gzip      bool
	HTTPS     bool `name:"https"`

	KeepAlive     time.Duration `placeholder:"DURATION" default:"0s"`
	RAMBytes      int64         `name:"ram" type:"size" placeholder:"SIZE" default:"1GiB"`
	DiskBytes     int64         `name:"disk" type:"size" placeholder:"SIZE" default:"40GB"`
	DrumDiskBytes int64         `name:"drum-disk" type:"size" placeholder:"SIZE"`
	Connections   int           `type:"count" placeholder:"N" default:"256"`
	Store         *string       `enum:"warc,none" placeholder:"FORM"`
	NoBare        bool
	BudgetParts   *string `enum:"hosts,directories" placeholder:"PARTS"` // nil: PLDs
	Repeats       int     `name:"repeat" type:"count" placeholder:"N" default:"1"`
	Seed          uint64  `type:"count" placeholder:"N" default:"1"`
	Growth        bool
	Quick         bool

	// Agent and UserAgent identify the crawler in requests; GCPercent is the garbage collector's setting,
	// as in command crawl.
	Agent     string `kong:"-"`
	UserAgent string `kong:"-"`
	GCPercent int    `kong:"-"`
	// Names turns a DNS cache into a crawl's resolver.
	Names func(*dnscache.Resolver) crawl.Resolver `kong:"-"`
	// Profiles is a directory for the raw CPU profiles; "" for none.
	Profiles string `kong:"-"`
	// Command is the command line that starts the web's process: it calls Serve.
	Command []string `kong:"-"`

	// Derived options: the web, whether this process generates its responses, whether to write WARC files,
	// and whether to measure the bare loop.
	web                          simweb.FlatOptions
	inProcess, store, fetchAlone bool

	tests testOptions
}

// testOptions are for tests: intervals, 0 for the usual ones; the pages of a host, 0 for endless ones; and a function
// that sees each snapshot.
type testOptions struct {
	watch, save, checkpoint time.Duration
	hostPages               uint64
	look                    func(*crawl.Snapshot)
}

// derive fills in the derived options.
func (c *Options) derive() {
	measure.Default(&c.Duration, measure.Quick(c.Quick, 12*time.Second, time.Hour))
	if c.Pages == 0 && c.URLs == 0 {
		c.Pages = measure.Quick[int64](c.Quick, 30_000, measure.Quick[int64](c.HTTPS, 50_000, 300_000))
	}
	c.inProcess = c.Transport == "inproc"
	c.fetchAlone, c.Growth = !c.NoBare && !c.inProcess, c.Growth || c.inProcess
	if c.store = !c.inProcess; c.Store != nil {
		c.store = *c.Store == "warc"
	}
	pages := float64(c.Pages)
	if pages == 0 {
		pages = float64(c.URLs) / max(1, c.New)
	}
	measure.Default(&c.Hosts, c.Seeds+
		int(math.Round(min(2*c.NewHosts*pages, float64(max(0, simweb.MaxFlatHosts-c.Seeds))))))
	measure.Default(&c.PLDs, max(1, c.Hosts/3))
	c.web = simweb.FlatOptions{Seed: c.Seed, Hosts: c.Hosts, Roots: min(c.Hosts, c.Seeds),
		NewHosts: c.NewHosts, PLDs: c.PLDs, Addrs: c.Addrs, PageBytes: c.PageBytes, Links: c.Links, New: c.New,
		HTTPS: c.HTTPS, Gzip: c.Gzip, HostPages: c.tests.hostPages}
}

// Complete fills in defaults and returns all faults joined.
func (c *Options) Complete() error {
	c.derive()
	need, faults := measure.Faults("crawl")
	need(len(c.Dirs) > 0, "--dir: want at least one directory")
	need(c.Pages >= 0 && c.URLs >= 0, "--pages and --urls must not be negative")
	need(c.Duration > 0, "--duration %s: want more than 0 s", human.Duration(c.Duration))
	need(c.Connections >= 1 && c.Repeats >= 1 && c.RAMBytes >= 1 &&
		c.DiskBytes >= 1, "--connections, --repeat, --ram and --disk must be at least 1")
	need(c.KeepAlive >= 0, "--keep-alive must not be negative")
	need(!c.Resume || c.inProcess && c.Repeats == 1, "--resume needs --transport inproc and --repeat 1")
	need(!c.Keep || c.Resume, "--keep needs --resume")
	need(!c.inProcess || !c.HTTPS && !c.Gzip, "--https and --gzip need --transport sockets")
	return errors.Join(c.web.Validate(), faults())
}

// bareTime returns the duration of the bare loop.
func (c *Options) bareTime() time.Duration {
	return measure.Quick(c.Quick, 2*time.Second, 5*time.Second)
}

// expect returns estimates of the pages and URLs of the run.
func (c *Options) expect() (pages, urls float64) {
	pages, urls = float64(c.Pages), float64(c.URLs)
	if pages == 0 {
		pages = urls / c.web.New
	}
	return pages, max(urls, pages*c.web.New)
}

// crawlPasses is the number of full passes of URLseen in a run that shows growth. crawlLinkBytes is the
// disk space of a waiting link: text compressed 4:1, and a key. Three links reach URLseen per new URL
// (plan's figure).
const (
	crawlPasses    = 20
	crawlLinkBytes = 37
	crawlLeastDisk = 32 << 20
)

// drumDisk returns D. With the plan's 10 GB a run of 10⁸ URLs has two full passes and shows no growth.
func (c *Options) drumDisk() int64 {
	if c.DrumDiskBytes > 0 || !c.Growth {
		return c.DrumDiskBytes
	}
	_, urls := c.expect()
	return max(crawlLeastDisk, int64(3*crawlLinkBytes*urls/crawlPasses))
}

// Upper bounds of the crawl's files, in bytes. A stored page takes a part of its size, as gzip of level 1
// compresses the flat web's text, and the heads of its records. A crawl of 10⁸ URLs took 43 a URL beside
// those that waited in STAR's buckets: 19 in BEAST's queues and QF, 5 for its key and 10 for replaced keys, 5
// in URLseen's buckets, 4 elsewhere. A fifth is margin. While few are known, most wait in STAR's buckets,
// which --ram bounds: 3.2 GB with 1 GiB.
const (
	crawlStoredShare = 0.5
	crawlPageBytes   = 2000
	crawlURLBytes    = 52
	crawlStarBytes   = 110 // a URL
	crawlStarMost    = 4   // times --ram
)

// room returns an error if a directory has too little free space for a crawl that has fetched some pages and seen some
// URLs already.
func (c *Options) room(hasPages, hasURLs int64) error {
	pages, urls := c.expect()
	pages, urls = max(0, pages-float64(hasPages)), max(0, urls-float64(hasURLs))
	need := urls*crawlURLBytes + min(urls*crawlStarBytes, crawlStarMost*float64(c.RAMBytes))
	if c.store {
		need += pages * (crawlPageBytes + crawlStoredShare*float64(c.web.PageBytes))
	}
	for _, dir := range c.Dirs {
		free, _, err := disk.OS().Space(dir)
		if err != nil {
			return fmt.Errorf("bench: crawl: %w", err)
		}
		if part := need / float64(len(c.Dirs)); float64(free) < part {
			return fmt.Errorf(
				"bench: crawl: %s has %s free, and the crawl may need %s: choose another --dir, fewer "+
					"--pages, or --store none",
				dir, human.Bytes(free), human.Bytes(part))
		}
	}
	return nil
}

// Measure measures each repeat against a server of its own.
func (c Options) Measure(ctx context.Context, progress func(what string)) (*result.Report, error) {
	if err := c.Complete(); err != nil {
		return nil, err
	}
	b := &crawlBench{Options: c, progress: progress}
	if c.Resume {
		return b.resume(ctx)
	}
	if err := c.room(0, 0); err != nil {
		return nil, err
	}
	for n := range c.Repeats {
		if err := b.once(ctx, n); err != nil {
			return nil, err
		}
	}
	return b.report(), nil
}

// crawlBench is the state of Measure.
type crawlBench struct {
	Options
	progress    func(string)
	flat        *simweb.Flat
	bare, whole []*Result
	saved       *resumed // nil without --resume
}

// resume continues a crawl, or begins one that can be continued, and removes its files if it is over.
func (b *crawlBench) resume(ctx context.Context) (r *result.Report, err error) {
	if b.saved, err = b.openResumed(); err != nil {
		return nil, err
	}
	over := false
	defer func() { err = errors.Join(err, b.saved.close(over && !b.Keep)) }()
	if b.saved.Over && b.saved.Result != nil {
		b.whole = append(b.whole, b.saved.Result)
	} else {
		if err := b.room(b.saved.pages, b.saved.found); err != nil {
			return nil, err
		}
		if err := b.once(ctx, 0); err != nil {
			return nil, err
		}
	}
	over = b.saved.Over
	return b.report(), nil
}

// once measures one repeat: the bare loop, then the crawl, against one server.
func (b *crawlBench) once(ctx context.Context, n int) (err error) {
	if b.flat, err = simweb.NewFlat(b.web); err != nil {
		return err
	}
	if b.inProcess {
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
	server, err := startCrawlServer(ctx, b.Command, &b.web)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	client, err := b.client(server)
	if err != nil {
		return err
	}
	if b.fetchAlone {
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
