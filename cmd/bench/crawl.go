package bench

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	benchcrawl "drumbeat/bench/crawl"
	"drumbeat/bench/report"
	crawlcmd "drumbeat/cmd/crawl"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/dnscache"
	"drumbeat/internal/simweb"
)

// crawlCmd has the options of benchcrawl.Options.
type crawlCmd struct {
	Dir         []string     `placeholder:"DIR" required:"" help:"Directory for the crawl's files, which are removed at the end. Repeat it for several disks."`
	Transport   string       `enum:"sockets,inproc" default:"sockets" help:"sockets: the web is in another process, on addresses of 127/8. inproc: its pages are made in this process, without sockets, DNS or TLS, to run many URLs through the disk structures."`
	Pages       *flags.Count `placeholder:"N" help:"End after so many pages. Default: 300,000 (50,000 with --https), or 30,000 with --quick, where --urls isn't given."`
	URLs        *flags.Count `name:"urls" placeholder:"N" help:"End when so many different URLs have been seen."`
	Duration    *duration    `placeholder:"DURATION" help:"End then at the latest. Default: 1h, or 12s with --quick."`
	Hosts       *flags.Count `placeholder:"N" help:"Hosts of the web; their pages are endless. Default: the seeds, and one for 25 pages, of which two fifths become known: so one for some 60 pages, as in the paper's crawl."`
	Seeds       flags.Count  `placeholder:"N" default:"1000" help:"Hosts whose roots are the seeds; most links between hosts lead to them. Others become known by one page in 50."`
	PLDs        *flags.Count `name:"plds" placeholder:"N" help:"Pay-level domains. Default: a third of the hosts."`
	Addrs       flags.Count  `placeholder:"N" default:"512" help:"Addresses that serve them."`
	PageBytes   flags.Size   `placeholder:"SIZE" default:"25kB" help:"Mean size of a page."`
	Links       flags.Count  `placeholder:"N" default:"59" help:"Links of a page."`
	New         float64      `placeholder:"N" default:"6.5" help:"Links of a page that are new, on average; 1.5 at least."`
	Gzip        bool         `help:"Send pages as gzip. A page costs the server no more by that, but is compressed a part at a time, and so less than usual."`
	HTTPS       bool         `name:"https" help:"All URLs are https."`
	KeepAlive   duration     `placeholder:"DURATION" default:"0s" help:"Keep connections for so long for the next page of their host. 0s: a connection for each page."`
	RAM         flags.Size   `name:"ram" placeholder:"SIZE" default:"1GiB" help:"RAM of the crawler, as crawl's."`
	Disk        flags.Size   `placeholder:"SIZE" default:"40GB" help:"Disk of the crawler, as crawl's."`
	DrumDisk    *flags.Size  `placeholder:"SIZE" help:"Disk for links that wait for URLseen (D). Default: as crawl's, or with --growth so that the run has some 20 full passes."`
	Connections flags.Count  `placeholder:"N" default:"256" help:"Exchanges at once at most, of the crawl and of the bare loop."`
	Store       *string      `enum:"warc,none" placeholder:"FORM" help:"warc: write WARC files. none: keep no pages. Default: warc, or none with --transport inproc."`
	NoBare      bool         `help:"Don't measure the bare loop: the crawler's client fetching pages of the same web from as many goroutines, for 5s, or 2s with --quick."`
	Repeat      flags.Count  `placeholder:"N" default:"1" help:"How often everything is measured."`
	Seed        flags.Count  `placeholder:"N" default:"1" help:"Seed of the web."`
	Growth      bool         `help:"Report the tenths of the run, and check the last against the second, and RSS against --ram. Default with --transport inproc."`
	Quick       bool         `help:"End within 30 s."`
	output
}

// crawlServerCmd is the web of bench crawl in a process of its own.
type crawlServerCmd struct{}

// Run serves until its input ends.
func (c *crawlServerCmd) Run(a *term.App) error {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	return benchcrawl.Serve(ctx, a.Stdin, a.Stdout)
}

// newHosts is the share of pages with a link to a host that need not be known yet.
const newHosts = 0.02

// options is what the flags say.
func (c *crawlCmd) options() (benchcrawl.Options, error) {
	b := benchcrawl.Options{
		Dirs: c.Dir, InProcess: c.Transport == "inproc", RAMBytes: int64(c.RAM), DiskBytes: int64(c.Disk), DrumDiskBytes: int64(flags.OrZero(c.DrumDisk)), Connections: int(c.Connections),
		Repeats: int(c.Repeat), Agent: flags.DefaultAgent, UserAgent: flags.UserAgent(flags.DefaultAgent, "bench@example.org"), GCPercent: crawlcmd.GCPercent,
		Names: func(r *dnscache.Resolver) crawl.Resolver { return crawlcmd.ResolverOf(r) }, Profiles: c.Profile, Duration: time.Hour, BareTime: 5 * time.Second,
		KeepAlive: c.KeepAlive, Pages: int64(flags.OrZero(c.Pages)), URLs: int64(flags.OrZero(c.URLs)),
	}
	if c.Quick {
		b.Duration, b.BareTime = 12*time.Second, 2*time.Second
	}
	if c.Duration != nil {
		b.Duration = *c.Duration
	}
	if b.Pages == 0 && b.URLs == 0 {
		switch b.Pages = 300_000; {
		case c.Quick:
			b.Pages = 30_000
		case c.HTTPS:
			b.Pages = 50_000
		}
	}
	b.Bare, b.Growth = !c.NoBare && !b.InProcess, c.Growth || b.InProcess
	b.Store = !b.InProcess
	if c.Store != nil {
		b.Store = *c.Store == "warc"
	}
	pages := float64(b.Pages)
	if pages == 0 {
		pages = float64(b.URLs) / max(1, c.New)
	}
	hosts := int(c.Seeds) + int(pages/25)
	if c.Hosts != nil {
		hosts = int(*c.Hosts)
	}
	plds := max(1, hosts/3)
	if c.PLDs != nil {
		plds = int(*c.PLDs)
	}
	b.Web = simweb.FlatOptions{Seed: uint64(c.Seed), Hosts: hosts, Roots: min(hosts, int(c.Seeds)), NewHosts: newHosts, PLDs: plds, Addrs: int(c.Addrs), PageBytes: int(c.PageBytes),
		Links: int(c.Links), New: c.New, HTTPS: c.HTTPS, Gzip: c.Gzip}
	program, err := os.Executable()
	if err != nil {
		return b, err
	}
	b.Command = []string{program, "bench", "crawl-server"}
	if c.Pages != nil && *c.Pages == 0 || c.URLs != nil && *c.URLs == 0 {
		return b, errors.New("--pages and --urls can't be 0")
	}
	return b, b.Validate()
}

// Run measures and prints. --profile is for the measured time of each form here, which is profiled anyhow.
func (c *crawlCmd) Run(a *term.App) error {
	b, err := c.options()
	if err != nil {
		return term.Usage(err)
	}
	c.Profile = ""
	return c.measure(a, func(ctx context.Context, progress func(string)) (*report.Report, error) {
		return benchcrawl.Run(ctx, b, progress)
	})
}
