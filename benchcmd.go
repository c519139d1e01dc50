package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"drumbeat/beast"
	"drumbeat/bench"
	"drumbeat/bench/report"
)

// benchCmd is the table of bench's commands.
type benchCmd struct {
	Model benchModelCmd `cmd:"" help:"Compute the paper's tables II, III, V, VI and VII and the examples of its theorems, beside the printed numbers. The defaults are the paper's values."`
	Disk  benchDiskCmd  `cmd:"" help:"Measure how fast directories are written and read in sequence, and which crawling rate that supports."`

	Checkpoint benchCheckpointCmd `cmd:"" help:"Measure checkpoints of a store with full bucket buffers while tuples come in: how long nothing can be added, what is written, how long it takes."`
}

// benchOutput has the options that measurements share.
type benchOutput struct {
	Out   string `placeholder:"DIR" help:"Also put the report into DIR, which is made if need be: as text, as JSON, and a plot (SVG) of each figure."`
	Check bool   `help:"Exit with 1 if a figure misses the target stated for it."`
	Quiet bool   `short:"q" help:"Print no progress."`
}

// measure runs a measurement until a signal, prints its report, and saves and checks it as the flags say.
func (o *benchOutput) measure(a *app, run func(ctx context.Context, progress func(string)) (*report.Report, error)) error {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	progress := func(what string) { fmt.Fprintln(a.stderr, what) }
	if o.Quiet {
		progress = func(string) {}
	}
	r, err := run(ctx, progress)
	if err != nil && ctx.Err() != nil {
		return &ended{code: exitSignal, why: "stopped by a signal"}
	}
	if err != nil {
		return err
	}
	r.Command = "drumbeat " + strings.Join(a.args, " ")
	if err := r.Write(a.stdout); err != nil {
		return err
	}
	if o.Out != "" {
		names, err := r.Save(o.Out)
		if err != nil {
			return err
		}
		progress("saved " + strings.Join(names, ", "))
	}
	if err := r.Err(); o.Check && err != nil {
		return err
	}
	return nil
}

// benchCheckpointCmd has the options of bench.Checkpoint.
type benchCheckpointCmd struct {
	Dir     []string      `placeholder:"DIR" required:"" sep:"none" help:"Directory for the files, which are removed at the end. Repeat it for several disks."`
	Buffers size          `placeholder:"SIZE" default:"1GiB" help:"All bucket buffers together."`
	Buckets count         `placeholder:"N" default:"4096" help:"Buckets, a power of two (k)."`
	Count   count         `placeholder:"N" default:"5" help:"Checkpoints after the first, which saves full buffers."`
	Every   time.Duration `placeholder:"DURATION" default:"10s" help:"Time between them."`
	Rate    count         `placeholder:"N" default:"100000" help:"Tuples a second that come in."`
}

// Run measures and prints.
func (c *benchCheckpointCmd) Run(a *app) error {
	b := bench.Checkpoint{Dirs: c.Dir, BufferBytes: int64(c.Buffers), Buckets: int(c.Buckets), Count: int(c.Count),
		Every: c.Every, Rate: int(c.Rate)}
	if err := b.Validate(); err != nil {
		return usageError{err}
	}
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	r, err := bench.RunCheckpoint(ctx, b)
	if err != nil && ctx.Err() != nil {
		return &ended{code: exitSignal, why: "stopped by a signal"}
	}
	if err != nil {
		return err
	}
	return r.Write(a.stdout)
}

// benchModelCmd has the parameters of bench.Model. The paper's symbols are in brackets.
type benchModelCmd struct {
	Pages        []count  `placeholder:"N" default:"8e8,8e9,8e10,8e11,8e12" help:"Pages of a crawl, one row each (N)."`
	Known        count    `placeholder:"N" default:"1e8" help:"URLs known before the first link (U)."`
	LinksPerPage fraction `placeholder:"N" default:"59" help:"Links on a page (l)."`
	Unique       fraction `placeholder:"SHARE" default:"1/9" help:"Share of links that are new (p)."`
	URLBytes     size     `name:"url-bytes" placeholder:"SIZE" default:"110B" help:"Text of a URL (b)."`
	KeyBytes     size     `placeholder:"SIZE" default:"8B" help:"Key of a URL (H)."`
	PointerBytes size     `placeholder:"SIZE" default:"4B" help:"Pointer that a key needs in RAM (P)."`
	Buffer       size     `placeholder:"SIZE" default:"256kB" help:"Buffer of a bucket (M)."`

	RAM             size     `name:"ram" placeholder:"SIZE" default:"1GB" help:"RAM in Table II (R)."`
	Disk            size     `placeholder:"SIZE" default:"4390GB" help:"Disk in Table II (D)."`
	CompressedBytes fraction `placeholder:"N" default:"5.5" help:"Bytes of a URL in Polybot's compressed file (bq)."`
	ColumnRAM       []size   `name:"column-ram" placeholder:"SIZE" default:"4GB,8GB" help:"RAM of the columns of Tables III, VI and VII (R)."`
	LeastDisk       size     `placeholder:"SIZE" default:"1TB" help:"Least disk in Tables III, VI and VII, where it grows with the crawl (D)."`
	Bandwidth       size     `placeholder:"SIZE" default:"101250kB" help:"Bytes a second that disks read and write for URLseen (W)."`

	CacheSpeed []count       `placeholder:"N" default:"113e3,185e3,416e3,2e6" help:"URLs a second that a RAM cache takes, one row of Table V each (mu)."`
	MaxRate    count         `placeholder:"N" default:"4000" help:"Pages a second that the CPU admits, in Table V (Smax)."`
	CacheRAM   size          `name:"cache-ram" placeholder:"SIZE" default:"320MB" help:"RAM cache in Table VI (c)."`
	Misses     fraction      `placeholder:"SHARE" default:"0.33" help:"Share of links that miss it, in Table VI (pi)."`
	EntryBytes size          `placeholder:"SIZE" default:"20B" help:"RAM of an entry of the cache in Table VII (gamma)."`
	HostDelay  time.Duration `placeholder:"DURATION" default:"40s" help:"Time between visits to a host in Table VII (tau_h)."`
	CacheStep  size          `placeholder:"SIZE" default:"50MB" help:"Steps in which Table VII searches the best size of the cache."`
	MissCurve  string        `placeholder:"CURVE" default:"0:0.84;1:0.41;2:0.26;10:0.22" help:"Misses in Table VII, FACTOR:SHARE from FACTOR gamma tau_h l S bytes of cache on (pi)."`

	PLDs           count    `name:"plds" placeholder:"N" default:"33e6" help:"PLDs in Theorems 6 and 7 (V)."`
	MeanBudget     fraction `placeholder:"PAGES" default:"11" help:"Mean budget of a PLD (E[B])."`
	UniquePerPage  fraction `placeholder:"N" default:"6.5" help:"New URLs on a page (L)."`
	PagesPerSecond count    `placeholder:"N" default:"3100" help:"Crawling rate in Theorems 6 and 7 (S)."`
	BudgetPages    []count  `placeholder:"N" default:"1e8,8e9,8e10" help:"Pages of a crawl, one row of Theorems 6 and 7 each (N)."`
}

// benchDiskCmd has the options of bench.Disk.
type benchDiskCmd struct {
	Dir    []string `placeholder:"DIR" required:"" sep:"none" help:"Directory to measure. Repeat it for several disks: each alone, then all together."`
	Size   *size    `placeholder:"SIZE" help:"Bytes that one measurement moves in a directory; 1.5 times as much space is taken meanwhile. Default: 1GiB, or 128MiB with --quick."`
	Chunk  []size   `placeholder:"SIZE" help:"Size of a single read or write, a multiple of 4KiB. Repeatable. Default: 64KiB, 256KiB, 1MiB, 2MiB, 4MiB, 8MiB; with --quick 64KiB, 1MiB, 8MiB."`
	Repeat *count   `placeholder:"N" help:"How often everything is measured. Default: 3, or 1 with --quick."`
	Quick  bool     `help:"End within 30 s: sizes are cut to what a probe says fits in."`

	Alpha        fraction `placeholder:"N" default:"3.33" help:"How often the text of all links is written and read (alpha): 3.33 is DRUM's in the paper's Table III for 80 billion pages."`
	Share        fraction `placeholder:"SHARE" default:"0.15" help:"Share of the disks' time for URLseen, as in the paper."`
	URLBytes     size     `name:"url-bytes" placeholder:"SIZE" default:"110B" help:"Text of a URL (b)."`
	LinksPerPage fraction `placeholder:"N" default:"59" help:"Links on a page (l)."`

	Quiet bool `short:"q" help:"Print no progress."`
}

// fraction is a number, or a quotient such as 1/9.
type fraction float64

// UnmarshalText reads "0.15" or "1/9".
func (f *fraction) UnmarshalText(text []byte) error {
	a, b, ok := strings.Cut(string(text), "/")
	if !ok {
		b = "1"
	}
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	if q := x / y; err1 == nil && err2 == nil && q >= 0 && q <= 1e18 {
		*f = fraction(q)
		return nil
	}
	return fmt.Errorf("%q is no number such as 0.15 or 1/9", text)
}

// floats turns numbers of a flag into those of a formula.
func floats[T ~int64](list []T) []float64 {
	out := make([]float64, len(list))
	for i, v := range list {
		out[i] = float64(v)
	}
	return out
}

// model is what the flags say.
func (c *benchModelCmd) model() (bench.Model, error) {
	var curve bench.MissCurve
	if err := curve.UnmarshalText([]byte(c.MissCurve)); err != nil {
		return bench.Model{}, err
	}
	m := bench.Model{
		Known: float64(c.Known), LinksPerPage: float64(c.LinksPerPage), UniqueFraction: float64(c.Unique),
		URLBytes: float64(c.URLBytes), KeyBytes: float64(c.KeyBytes), PointerBytes: float64(c.PointerBytes),
		BufferBytes: float64(c.Buffer), Pages: floats(c.Pages),
		RAMBytes: float64(c.RAM), DiskBytes: float64(c.Disk), CompressedBytes: float64(c.CompressedBytes),
		ScaledRAMBytes: floats(c.ColumnRAM), LeastDiskBytes: float64(c.LeastDisk), Bandwidth: float64(c.Bandwidth),
		CacheSpeeds: floats(c.CacheSpeed), MaxRate: float64(c.MaxRate),
		CacheBytes: float64(c.CacheRAM), Misses: float64(c.Misses),
		EntryBytes: float64(c.EntryBytes), HostDelay: c.HostDelay.Seconds(), CacheStepBytes: float64(c.CacheStep), Curve: curve,
		Beast: beast.Model{
			PLDs: float64(c.PLDs), MeanBudget: float64(c.MeanBudget), UniquePerPage: float64(c.UniquePerPage),
			PagesPerSecond: float64(c.PagesPerSecond), URLBytes: float64(c.URLBytes),
		},
		BeastPages: floats(c.BudgetPages),
	}
	return m, m.Validate()
}

// Run prints the tables.
func (c *benchModelCmd) Run(a *app) error {
	m, err := c.model()
	if err != nil {
		return usageError{err}
	}
	return m.Write(a.stdout)
}

// quickBudget leaves room for what a measurement takes beyond its share, below 30 s.
const quickBudget = 20 * time.Second

// options is what the flags say.
func (c *benchDiskCmd) options(a *app) bench.Disk {
	d := bench.Disk{
		Dirs: c.Dir, Bytes: 1 << 30, Repeats: 3,
		Alpha: float64(c.Alpha), URLBytes: float64(c.URLBytes), LinksPerPage: float64(c.LinksPerPage), Share: float64(c.Share),
	}
	if c.Quick {
		d.Bytes, d.Repeats, d.Chunks, d.Budget = 128<<20, 1, []int{64 << 10, 1 << 20, 8 << 20}, quickBudget
	}
	if c.Size != nil {
		d.Bytes = int64(*c.Size)
	}
	if c.Repeat != nil {
		d.Repeats = int(*c.Repeat)
	}
	if len(c.Chunk) > 0 {
		d.Chunks = nil
	}
	for _, s := range c.Chunk {
		d.Chunks = append(d.Chunks, int(s))
	}
	if !c.Quiet {
		d.Progress = func(what string) { fmt.Fprintln(a.stderr, what) }
	}
	return d
}

// Run measures and prints.
func (c *benchDiskCmd) Run(a *app) error {
	d := c.options(a)
	if d.Bytes == 0 || d.Repeats == 0 {
		return usageError{errors.New("--size and --repeat can't be 0")}
	}
	if err := d.Validate(); err != nil {
		return usageError{err}
	}
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	r, err := bench.RunDisk(ctx, d)
	if err != nil && ctx.Err() != nil {
		return &ended{code: exitSignal, why: "stopped by a signal"}
	}
	if err != nil {
		return err
	}
	return r.Write(a.stdout)
}
