package bench

import (
	"context"
	"time"

	"drumbeat/beast"
	"drumbeat/bench/model"
	"drumbeat/bench/report"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// modelCmd has the flags for model.Model. Their help has the paper's symbols in brackets.
type modelCmd struct {
	Pages        []flags.Count  `placeholder:"N" default:"8e8,8e9,8e10,8e11,8e12" help:"Numbers of pages, one row each (N)."`
	Known        flags.Count    `placeholder:"N" default:"1e8" help:"Number of known URLs before the first link (U)."`
	LinksPerPage flags.Fraction `placeholder:"N" default:"59" help:"Links per page (l)."`
	Unique       flags.Fraction `placeholder:"SHARE" default:"1/9" help:"Share of links that are new (p)."`
	URLBytes     flags.Size     `name:"url-bytes" placeholder:"SIZE" default:"110B" help:"Size of a URL's text (b)."`
	KeyBytes     flags.Size     `placeholder:"SIZE" default:"8B" help:"Size of a URL's key (H)."`
	PointerBytes flags.Size     `placeholder:"SIZE" default:"4B" help:"Size of the pointer that a key needs in RAM (P)."`
	Buffer       flags.Size     `placeholder:"SIZE" default:"256kB" help:"Buffer size of a bucket (M)."`

	RAM             flags.Size     `name:"ram" placeholder:"SIZE" default:"1GB" help:"RAM in Table II (R)."`
	Disk            flags.Size     `placeholder:"SIZE" default:"4390GB" help:"Disk space in Table II (D)."`
	CompressedBytes flags.Fraction `placeholder:"N" default:"5.5" help:"Bytes per URL in Polybot's compressed file (bq)."`
	ColumnRAM       []flags.Size   `name:"column-ram" placeholder:"SIZE" default:"4GB,8GB" help:"RAM of the columns of Tables III, VI and VII (R)."`
	LeastDisk       flags.Size     `placeholder:"SIZE" default:"1TB" help:"Minimum disk space in Tables III, VI and VII, where it grows with the crawl (D)."`
	Bandwidth       flags.Size     `placeholder:"SIZE" default:"101250kB" help:"Bytes per second that disks read and write for URLseen (W)."`

	CacheSpeed []flags.Count  `placeholder:"N" default:"113e3,185e3,416e3,2e6" help:"Speeds of a RAM cache in URLs per second, one row of Table V each (mu)."`
	MaxRate    flags.Count    `placeholder:"N" default:"4000" help:"Pages per second that the CPU allows, in Table V (Smax)."`
	CacheRAM   flags.Size     `name:"cache-ram" placeholder:"SIZE" default:"320MB" help:"Size of the RAM cache in Table VI (c)."`
	Misses     flags.Fraction `placeholder:"SHARE" default:"0.33" help:"Share of links that miss the RAM cache, in Table VI (pi)."`
	EntryBytes flags.Size     `placeholder:"SIZE" default:"20B" help:"RAM per cache entry in Table VII (gamma)."`
	HostDelay  time.Duration  `placeholder:"DURATION" default:"40s" help:"Delay between requests to a host in Table VII (tau_h)."`
	CacheStep  flags.Size     `placeholder:"SIZE" default:"50MB" help:"Step by which Table VII searches the best cache size."`
	MissCurve  string         `placeholder:"CURVE" default:"0:0.84;1:0.41;2:0.26;10:0.22" help:"Miss rates in Table VII: FACTOR:SHARE pairs, each for caches of at least FACTOR gamma tau_h l S bytes (pi)."`

	PLDs           flags.Count    `name:"plds" placeholder:"N" default:"33e6" help:"Number of PLDs in Theorems 6 and 7 (V)."`
	MeanBudget     flags.Fraction `placeholder:"PAGES" default:"11" help:"Mean budget of a PLD (E[B])."`
	UniquePerPage  flags.Fraction `placeholder:"N" default:"6.5" help:"New URLs per page (L)."`
	PagesPerSecond flags.Count    `placeholder:"N" default:"3100" help:"Crawling rate in Theorems 6 and 7 (S)."`
	BudgetPages    []flags.Count  `placeholder:"N" default:"1e8,8e9,8e10" help:"Numbers of pages, one row of Theorems 6 and 7 each (N)."`

	output
}

// model returns the model with the parameters of the flags.
func (c *modelCmd) model() (model.Model, error) {
	var curve model.MissCurve
	if err := curve.UnmarshalText([]byte(c.MissCurve)); err != nil {
		return model.Model{}, err
	}
	m := model.Model{
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

// Run computes and prints.
func (c *modelCmd) Run(a *term.App) error {
	m, err := c.model()
	if err != nil {
		return term.Usage(err)
	}
	return c.measure(a, func(context.Context, func(string)) (*report.Report, error) { return m.Report() })
}
