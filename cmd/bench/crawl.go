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

// crawlCmd has the flags for benchcrawl.Options.
type crawlCmd struct {
	Dir         []string     `placeholder:"DIR" required:"" help:"Directory for the crawl's files, which are removed at the end. Repeat it for several disks."`
	Transport   string       `enum:"sockets,inproc" default:"sockets" help:"sockets: serve the web from another process, on addresses of 127/8. inproc: generate its pages in this process, without sockets, DNS or TLS, to run many URLs through the disk structures."`
	Pages       *flags.Count `placeholder:"N" help:"End after N pages. Default without --urls: 300,000 (50,000 with --https), or 30,000 with --quick."`
	URLs        *flags.Count `name:"urls" placeholder:"N" help:"End after N different URLs have been seen."`
	Duration    *duration    `placeholder:"DURATION" help:"Maximum duration. Default: 1h, or 12s with --quick."`
	Hosts       *flags.Count `placeholder:"N" help:"Number of hosts of the web, each with endless pages. Default: the seeds plus one per 25 pages, of which two fifths become known: about one per 60 pages, as in the paper's crawl."`
	Seeds       flags.Count  `placeholder:"N" default:"1000" help:"Number of hosts whose root pages are the seeds. Most links between hosts lead to them; one page in 50 makes another host known."`
	PLDs        *flags.Count `name:"plds" placeholder:"N" help:"Number of pay-level domains. Default: a third of the hosts."`
	Addrs       flags.Count  `placeholder:"N" default:"512" help:"Number of IP addresses that serve the hosts."`
	PageBytes   flags.Size   `placeholder:"SIZE" default:"25kB" help:"Mean size of a page."`
	Links       flags.Count  `placeholder:"N" default:"59" help:"Links per page."`
	New         float64      `placeholder:"N" default:"6.5" help:"Mean number of new links per page, at least 1.5."`
	Gzip        bool         `help:"Compress pages with gzip, in parts, so the server needs no more CPU per page; the ratio is lower than usual."`
	HTTPS       bool         `name:"https" help:"Use https for all URLs."`
	KeepAlive   duration     `placeholder:"DURATION" default:"0s" help:"Keep connections open for this long for the next page of their host. 0: use a connection per page."`
	RAM         flags.Size   `name:"ram" placeholder:"SIZE" default:"1GiB" help:"RAM of the crawler, as crawl --ram."`
	Disk        flags.Size   `placeholder:"SIZE" default:"40GB" help:"Disk space of the crawler, as crawl --disk."`
	DrumDisk    *flags.Size  `placeholder:"SIZE" help:"Disk space for links that wait for URLseen (D). Default: as for crawl; with --growth small enough for some 20 full passes."`
	Connections flags.Count  `placeholder:"N" default:"256" help:"Maximum concurrent connections, of the crawl and of the bare loop."`
	Store       *string      `enum:"warc,none" placeholder:"FORM" help:"warc: write WARC files. none: store no pages. Default: warc, or none with --transport inproc."`
	NoBare      bool         `help:"Skip the bare loop, in which the crawler's client fetches pages of the same web from as many goroutines, for 5s, or 2s with --quick."`
	Repeat      flags.Count  `placeholder:"N" default:"1" help:"Number of repetitions."`
	Seed        flags.Count  `placeholder:"N" default:"1" help:"Random seed of the web."`
	Growth      bool         `help:"Report each tenth of the run, compare the last with the second, and RSS with --ram. On by default with --transport inproc."`
	Quick       bool         `help:"End within 30 s."`
	output
}

// crawlServerCmd serves the web of bench crawl in its own process.
type crawlServerCmd struct{}

// Run serves until its input ends.
func (c *crawlServerCmd) Run(a *term.App) error {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	return benchcrawl.Serve(ctx, a.Stdin, a.Stdout)
}

// newHosts is the share of pages with a link to a possibly unknown host.
const newHosts = 0.02

// options returns the options of the measurement.
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

// Run measures and prints. The benchmark itself writes the profiles of --profile, of the measured time of
// each form.
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
