// Package plan is the command plan: it predicts the RAM, disk space and speed of a crawl, by the plan that
// the crawl itself would make.
//
// Command is its flags. Those of the machine (--ram, --disk, --dir, and URLseen's geometry in flags.Drum)
// have the meaning and the defaults of crawl; a test compares the two commands' plans. Those of the web
// (pages, links per page, bytes of a URL) are the paper's symbols, with its values as defaults.
//
// Run calls crawl.MakePlan and Plan.Forecast with the options of that crawl, and prints tables, or one JSON
// object with --json. --measure first writes and reads some 100 MB in each directory, or in its nearest
// existing parent, to measure the disks; SIGINT and SIGTERM stop it. Otherwise plan writes nothing, and the
// directories need not exist.
//
// Exit codes: 0 if the crawl fits; term.ExitUsage (2) if a flag is bad, RAM is too small, or the disk is too
// small for the pages, with the number of pages that fit; term.ExitSignal (11) if a signal stopped
// --measure.
//
// testdata/plan.txt is a golden file: go test ./cmd/plan -run TestPlanGolden -update rewrites it.
package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	benchdisk "drumbeat/bench/disk"
	"drumbeat/bench/report"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/crawl/state"
	"drumbeat/disk"
)

// Command is the table of plan's flags. Their help has the paper's symbols in brackets.
type Command struct {
	Pages        flags.Count    `group:"what" placeholder:"N" default:"1e9" help:"Number of pages of the crawl (N)."`
	LinksPerPage flags.Fraction `group:"what" placeholder:"N" default:"59" help:"Links per page (l)."`
	Unique       flags.Fraction `group:"what" placeholder:"SHARE" default:"1/9" help:"Share of links that lead to new URLs (p)."`
	URLBytes     flags.Size     `group:"what" name:"url-bytes" placeholder:"SIZE" default:"110B" help:"Mean size of a URL's text and what travels with it (b)."`
	TextRatio    flags.Fraction `group:"what" placeholder:"N" default:"4" help:"Compression ratio of URLs on disk."`
	Misses       flags.Fraction `group:"what" placeholder:"SHARE" default:"0" help:"Share of links that are not in the RAM cache of recent URLs (pi). 0: 0.33, as in the paper, or 1 with --cache-ram 0."`
	Store        string         `group:"what" enum:"warc,none" default:"warc" help:"As for crawl."`
	PageBytes    flags.Size     `group:"what" placeholder:"SIZE" default:"6kB" help:"Mean compressed size of a page in a WARC file."`
	CrawlLog     string         `group:"what" enum:"off,errors,all" default:"errors" help:"As for crawl."`

	Dir         []string     `group:"machine" placeholder:"DIR" default:"${defaultDir}" help:"Directory of the crawl; it need not exist. Repeat the flag for several disks."`
	RAM         *flags.Size  `group:"machine" name:"ram" placeholder:"SIZE" help:"As for crawl."`
	Disk        *flags.Size  `group:"machine" placeholder:"SIZE" help:"As for crawl."`
	KeepFree    *flags.Size  `group:"machine" placeholder:"SIZE" help:"As for crawl."`
	Connections *flags.Count `group:"machine" placeholder:"N" help:"As for crawl."`
	QueuesMax   flags.Count  `group:"machine" placeholder:"N" default:"1024" help:"As for crawl."`
	DiskRate    *flags.Size  `group:"machine" placeholder:"SIZE" help:"Bytes per second that all disks together read and write (W). Default: 150MB per --dir, or the result of --measure."`
	Measure     bool         `group:"machine" help:"Measure --disk-rate: write and read some 100 MB in each --dir, or in its nearest parent that exists."`
	MaxRate     *flags.Count `group:"machine" placeholder:"N" help:"Pages per second that CPU and network allow (Smax). Default: 1000 per processor, as in the paper."`
	flags.Drum

	JSON bool `group:"report" name:"json" help:"Print JSON."`
}

// load returns the properties of the web and the machine that the flags set.
func (c *Command) load() crawl.Load {
	l := crawl.Load{Pages: float64(c.Pages), LinksPerPage: float64(c.LinksPerPage), UniqueFraction: float64(c.Unique),
		URLBytes: float64(c.URLBytes), TextRatio: float64(c.TextRatio), Misses: float64(c.Misses), PageBytes: float64(c.PageBytes)}
	if c.DiskRate != nil {
		l.DiskRate = float64(*c.DiskRate)
	}
	if c.MaxRate != nil {
		l.MaxRate = float64(*c.MaxRate)
	}
	return l
}

// check returns the first fault that can be seen in the flags alone.
func (c *Command) check() error {
	for _, f := range []struct {
		flag string
		zero bool
	}{{"pages", c.Pages == 0}, {"links-per-page", c.LinksPerPage == 0}, {"unique", c.Unique == 0}, {"url-bytes", c.URLBytes == 0},
		{"text-ratio", c.TextRatio == 0}, {"page-bytes", c.PageBytes == 0}, {"disk-rate", c.DiskRate != nil && *c.DiskRate == 0},
		{"max-rate", c.MaxRate != nil && *c.MaxRate == 0}, {"ram", c.RAM != nil && *c.RAM == 0}, {"disk", c.Disk != nil && *c.Disk == 0},
		{"connections", c.Connections != nil && *c.Connections == 0}, {"queues-max", c.QueuesMax == 0}} {
		if f.zero {
			return fmt.Errorf("--%s can't be 0", f.flag)
		}
	}
	if c.Measure && c.DiskRate != nil {
		return errors.New("--measure and --disk-rate exclude each other")
	}
	if n := c.QueuesMax; n > 1<<20 || n&(n-1) != 0 {
		return fmt.Errorf("--queues-max %d: must be a power of 2 up to %d", n, 1<<20)
	}
	return errors.Join(c.Drum.Check(), c.load().Validate())
}

// Options returns the options of the planned crawl, with crawl's defaults for this machine.
func (c *Command) Options() (crawl.Options, error) {
	m, err := term.ThisMachine()
	if err != nil {
		return crawl.Options{}, err
	}
	if c.RAM == nil {
		c.RAM = new(flags.Size(m.RAMBytes / 2))
	}
	if c.Disk == nil {
		n, err := term.DiskBytes(disk.OS(), c.Dir)
		if err != nil {
			return crawl.Options{}, term.Usage(err)
		}
		c.Disk = new(flags.Size(n))
	}
	if c.Connections == nil {
		n, _ := m.Connections(flags.DefaultConnections)
		c.Connections = new(flags.Count(n))
	}
	o := crawl.Options{Dirs: flags.Clean(c.Dir), RAMBytes: int64(*c.RAM), DiskBytes: int64(*c.Disk), Connections: int(*c.Connections),
		KeepFree: int64(flags.OrZero(c.KeepFree)), QueuesMax: int(c.QueuesMax), Store: c.Store == "warc", CrawlLog: state.LogLevel(c.CrawlLog)}
	c.Drum.Apply(&o)
	return o, nil
}

// planned is the result that plan prints, in words or as JSON.
type planned struct {
	RAMBytes    int64          `json:"ramBytes"`
	DiskBytes   int64          `json:"diskBytes"`
	Dirs        int            `json:"dirs"`
	Connections int            `json:"connections"`
	URLSeen     crawl.DrumPlan `json:"urlSeen"`
	// URLSeenDiskBytes is D, the disk space for URLseen's buckets.
	URLSeenDiskBytes int64          `json:"urlSeenDiskBytes"`
	RAM              []crawl.Amount `json:"ram"`
	Forecast         crawl.Forecast `json:"forecast"`
	// MostPages is the number of pages that fit on the disk.
	MostPages float64 `json:"mostPages"`
}

// Run plans and prints.
func (c *Command) Run(a *term.App) error {
	if err := c.check(); err != nil {
		return term.Usage(err)
	}
	o, err := c.Options()
	if err != nil {
		return err
	}
	load := c.load()
	if c.Measure {
		if load.DiskRate, err = measureDisks(a, c.Dir); err != nil {
			return err
		}
	}
	plan, err := crawl.MakePlan(&o)
	if err != nil {
		return term.Usage(err)
	}
	f, err := plan.Forecast(&o, load)
	if err != nil {
		return term.Usage(err)
	}
	p := planned{RAMBytes: plan.RAMBytes, DiskBytes: plan.DiskBytes, Dirs: len(o.Dirs), Connections: o.Connections, URLSeen: plan.URLSeen,
		URLSeenDiskBytes: plan.URLSeenDiskBytes, RAM: plan.RAM(), Forecast: f, MostPages: plan.MostPages(&o, load)}
	if c.JSON {
		enc := json.NewEncoder(a.Stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(p)
	} else {
		err = p.write(a.Stdout)
	}
	if err == nil && !f.Fits {
		err = term.Usage(fmt.Errorf("--disk %s is too little: %s pages take %s; about %s pages fit", flags.Size(plan.DiskBytes),
			about(f.Load.Pages), report.DecimalBytes(float64(f.DiskBytes)), about(p.MostPages)))
	}
	return err
}

// measureDisks measures W, the bytes per second that the disks of all directories read and write together.
func measureDisks(a *term.App, dirs []string) (float64, error) {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	var existing []string
	for _, dir := range dirs {
		e, err := term.ExistingParent(dir)
		if err != nil {
			return 0, term.Usage(err)
		}
		existing = append(existing, e)
	}
	fmt.Fprintln(a.Stderr, "measuring the disks")
	w, err := benchdisk.Rate(ctx, existing)
	if err != nil && ctx.Err() != nil {
		return 0, &term.Ended{Code: term.ExitSignal, Why: "stopped by a signal"}
	}
	return w, err
}

// write prints the plan in words and tables.
func (p *planned) write(w io.Writer) error {
	f := &p.Forecast
	b := func(n int64) string { return report.DecimalBytes(float64(n)) }
	s := &p.URLSeen
	where := "one directory"
	if p.Dirs > 1 {
		where = fmt.Sprintf("%d directories", p.Dirs)
	}
	_, err := fmt.Fprintf(w, "%s pages: %s links, of which %s reach URLseen; %s unique URLs\n"+
		"RAM %s, disk %s in %s, %d connections\n\n"+
		"URLseen: k = %d buckets, M = %s, r = %s of RAM per round, %d concurrent, delta = %s, D = %s for buckets\n"+
		"  I/O %.1f bytes per link: keys %.1f, text %.1f, cache %.1f; alpha %.2f, by the paper (eq. 14) %.2f\n"+
		"  %s links per pass, %.0f passes\n"+
		"  %.2g expected collisions (n²/2^65): new URLs that count as seen\n\n",
		about(f.Load.Pages), about(f.Links), about(f.Checked), about(f.Unique),
		flags.Size(p.RAMBytes), flags.Size(p.DiskBytes), where, p.Connections,
		s.Buckets, flags.Size(s.BufferBytes), flags.Size(s.BucketBytes), max(1, s.Workers), flags.Size(s.ChunkBytes), b(p.URLSeenDiskBytes),
		f.Cost.Bytes(), f.Cost.KeysRead+f.Cost.KeysWritten, f.Cost.AuxRead+f.Cost.AuxWritten, f.Cost.CacheRead+f.Cost.CacheWritten,
		f.Alpha, f.PaperAlpha, about(f.Cost.PassTuples), math.Ceil(f.Cost.Passes), f.Collisions)
	if err != nil {
		return err
	}
	ram := amounts("RAM", p.RAM, p.RAMBytes)
	ram.Notes = []string{"The last four are the Go heap. --ram limits the sum."}
	used := amounts("Maximum disk space", f.Disk, f.DiskBytes)
	used.Notes = []string{fmt.Sprintf("About %s pages fit into --disk.", about(p.MostPages))}
	pageIO := amounts("I/O per page", f.PageIO, int64(f.PageIOBytes))
	for _, t := range []report.Table{ram, used, pageIO} {
		if err := t.Write(w); err != nil {
			return err
		}
	}
	limit := "disks"
	if f.Rate < f.DiskRate {
		limit = "CPU and network"
	}
	_, err = fmt.Fprintf(w, "Pages/s: disks of %s/s allow %s (%s for URLseen alone), CPU and network %s.\n"+
		"Limited by %s: %s at %s pages/s. Politeness is another limit: hosts / delay.\n",
		report.DecimalBytes(f.Load.DiskRate), report.Number(f.DiskRate), report.Number(f.SeenRate), report.Number(f.Load.MaxRate), limit,
		days(f.Seconds), report.Number(f.Rate))
	return err
}

// amounts returns a table of parts and their sum.
func amounts(title string, parts []crawl.Amount, sum int64) report.Table {
	t := report.Table{Title: title, Head: []string{"part", "size", "share", ""}}
	for _, p := range append(parts, crawl.Amount{Name: "total", Bytes: sum}) {
		t.Add(p.Name, report.DecimalBytes(float64(p.Bytes)), fmt.Sprintf("%.1f %%", 100*float64(p.Bytes)/float64(max(1, sum))), p.Of)
	}
	return t
}

// about formats a number with three digits.
func about(v float64) string {
	mantissa, exponent, ok := strings.Cut(strconv.FormatFloat(v, 'g', 3, 64), "e")
	if !ok {
		return mantissa
	}
	return mantissa + "e" + strings.TrimLeft(exponent, "+0")
}

// days formats a duration, in days if it is long.
func days(seconds float64) string {
	if seconds >= 48*3600 {
		return fmt.Sprintf("%.3g days", seconds/86400)
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}
