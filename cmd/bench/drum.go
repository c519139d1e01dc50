package bench

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	benchdrum "drumbeat/bench/drum"
	"drumbeat/bench/report"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// drumCmd has the flags for benchdrum.Options. Their help has the paper's symbols in brackets.
type drumCmd struct {
	Dir     []string `placeholder:"DIR" required:"" help:"Directory for the files, which are removed at the end. Repeat it for several disks."`
	Forms   []string `placeholder:"NAME" default:"plain,rice,s2,log,crew,ours,cached,each" help:"Forms of DRUM to measure, each adding to the one before: plain (the paper's), rice (coded keys), s2 (text compressed in buckets), log (one log of text), crew (parallel passes), ours (bypassing the page cache), cached (with a RAM cache); also each (rice, merging single buckets, with a skewed case); or none."`
	Against []string `placeholder:"NAME" default:"none" help:"Baselines to measure in the same run and RAM: mercator-a, mercator-b, polybot, bloom, ram; or none, or all."`

	Links     *flags.Count   `placeholder:"N" help:"Number of links to check (n). Default: 1e8, or 2e6 with --quick."`
	Known     []flags.Count  `placeholder:"N" help:"Number of known keys before the first link (U). Repeatable: each is one point in the figures. Default: 1e8, or 1e6 with --quick."`
	Unique    flags.Fraction `placeholder:"SHARE" default:"1/9" help:"Share of links that are new (p)."`
	MissShare flags.Fraction `placeholder:"SHARE" default:"0.33" help:"Share of links that miss a RAM cache in front (pi), including new ones. The stream repeats recent URLs accordingly."`
	RAM       *flags.Size    `name:"ram" placeholder:"SIZE" help:"RAM of each method (R). Default: 256MiB, or 16MiB with --quick."`
	Disk      *flags.Size    `placeholder:"SIZE" help:"Disk space for waiting links (D). Default: 8GB, or 96MB with --quick."`
	CacheRAM  *flags.Size    `name:"cache-ram" placeholder:"SIZE" help:"Size of the RAM cache of the form cached, part of --ram. Default: an eighth of --ram."`
	Buffer    *flags.Size    `placeholder:"SIZE" help:"Buffer size of a bucket (M), a multiple of 4KiB. Default: 256KiB, or less if --ram is small."`
	URLs      string         `name:"urls" placeholder:"FILE" help:"Read the URLs from FILE, one per line (gzip if it ends with .gz), instead of generating them. No key is then known before the first link."`
	Seed      flags.Count    `placeholder:"N" default:"1" help:"Random seed of the generated links."`
	Repeat    *flags.Count   `placeholder:"N" help:"Number of repetitions. Default: 1."`
	RivalTime *duration      `placeholder:"DURATION" help:"End a baseline after this time, with fewer links. Default: 1m, or 2s with --quick."`
	Workers   flags.Count    `placeholder:"N" default:"0" help:"Number of buckets that crew, ours and cached merge concurrently. 0: the number of processors."`
	Adders    flags.Count    `placeholder:"N" default:"0" help:"Number of goroutines that add links. 0: the number of processors; baselines have one."`
	Theorem   bool           `help:"Instead measure the plain form, Mercator-B and Polybot at small sizes, where the quadratic term of the theorems is small, equal to the others, and dominant."`
	NoLimit   bool           `help:"Do not limit the memory of the measured processes, page cache included, to 1.25 R + 64 MiB."`
	Quick     bool           `help:"Use small sizes, to end within 30 s."`

	output
}

// duration is a time.Duration; a flag of type *duration is nil if it is not given.
type duration = time.Duration

// drumChildCmd runs one measurement of bench drum in its own process.
type drumChildCmd struct{}

// Run reads a job from standard input and writes its result to standard output.
func (c *drumChildCmd) Run(a *term.App) error {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	if err := benchdrum.Child(ctx, a.Stdin, a.Stdout); err != nil {
		return &term.Ended{Code: term.ExitFailure, Why: err.Error(), Quiet: true}
	}
	return nil
}

// methods returns the names of forms and baselines, in order.
func (c *drumCmd) methods() (names []string) {
	for _, list := range [][]string{c.Forms, c.Against} {
		for _, name := range list {
			switch name = strings.TrimSpace(name); name {
			case "none", "":
			case "all":
				names = append(names, benchdrum.Baselines()...)
			default:
				names = append(names, name)
			}
		}
	}
	return names
}

// options returns the options of the measurement.
func (c *drumCmd) options() (benchdrum.Options, error) {
	d := benchdrum.Options{
		Dirs: c.Dir, Methods: c.methods(), UniqueShare: float64(c.Unique), Misses: float64(c.MissShare),
		URLs: c.URLs, Seed: uint64(c.Seed), Theorem: c.Theorem, NoLimit: c.NoLimit,
		Workers: int(c.Workers), Adders: int(c.Adders),
		Known: []int64{100_000_000}, Links: 100_000_000, RAMBytes: 256 << 20, DiskBytes: 8e9, Repeats: 1, BaselineTime: time.Minute,
	}
	if c.Quick {
		d.Known, d.Links, d.RAMBytes, d.DiskBytes, d.BaselineTime = []int64{1_000_000}, 2_000_000, 16<<20, 96e6, 2*time.Second
	}
	if len(c.Known) > 0 {
		d.Known = nil
		for _, u := range c.Known {
			d.Known = append(d.Known, int64(u))
		}
	}
	if c.Links != nil {
		d.Links = int64(*c.Links)
	}
	if c.RAM != nil {
		d.RAMBytes = int64(*c.RAM)
	}
	if c.Disk != nil {
		d.DiskBytes = int64(*c.Disk)
	}
	if c.CacheRAM != nil {
		d.CacheBytes = int64(*c.CacheRAM)
	}
	if c.Buffer != nil {
		d.BufferBytes = int(*c.Buffer)
	}
	if c.Repeat != nil {
		d.Repeats = int(*c.Repeat)
	}
	if c.RivalTime != nil {
		d.BaselineTime = *c.RivalTime
	}
	if len(d.Methods) == 0 && !d.Theorem {
		return d, errors.New("no method: give --forms or --against")
	}
	if d.Links == 0 || d.RAMBytes == 0 || d.DiskBytes == 0 || d.Repeats == 0 || d.BaselineTime == 0 || d.UniqueShare == 0 || d.Misses == 0 {
		return d, errors.New("--links, --ram, --disk, --repeat, --rival-time, --unique and --miss-share can't be 0")
	}
	program, err := os.Executable()
	if err != nil {
		return d, err
	}
	d.Command = []string{program, "bench", "drum-child"}
	return d, d.Validate()
}

// Run measures and prints.
func (c *drumCmd) Run(a *term.App) error {
	d, err := c.options()
	if err != nil {
		return term.Usage(err)
	}
	return c.measure(a, func(ctx context.Context, progress func(string)) (*report.Report, error) {
		return benchdrum.Run(ctx, d, progress)
	})
}
