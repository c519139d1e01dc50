package plan

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/crawl/outlook"
	"drumbeat/crawl/plan"
	"drumbeat/disk"
	"drumbeat/internal/human"
)

// given says which flags were given.
type given func(name string) bool

// ofCrawl plans with the measured figures of a crawl. Flags that were given replace them.
func (c *Command) ofCrawl(a *term.App, kctx *kong.Context, settings *flags.Settings) error {
	is := given(func(name string) bool { return settings.Given(kctx.Selected(), name) })
	if is("nodes") || len(c.Cluster) > 0 {
		return term.Usage(errors.New("--from plans with the figures of one crawl or node: leave out --nodes and " +
			"--cluster"))
	}
	if err := c.Check(); err != nil {
		return term.Usage(err)
	}
	from := flags.Clean(c.From)
	f, err := outlook.Read(disk.OS(), from)
	if err != nil {
		return err
	}
	c.take(is, f)
	o, err := c.Options()
	if err != nil {
		return err
	}
	o.Output.Store = f.Storing
	if is("store") {
		o.Output.Store = c.Store.Kind == "warc"
	}
	in := outlook.Input{Figures: f, Dirs: o.Disk.Dirs, Elsewhere: is("dir") || is("out"), Given: c.replaced(is),
		NoOutput: !o.Output.Store, Now: time.Now(), Plan: plannerOf(o),
		Machine: outlook.Machine{RAMBytes: int64(*c.RAM), DiskBytes: int64(*c.Disk), Dirs: len(o.Disk.Dirs)}}
	if c.Measure {
		if in.Given.DiskRate, err = measureDisks(a, c.Dir); err != nil {
			return err
		}
	}
	look, err := outlook.Make(in)
	if err != nil {
		return term.Usage(err)
	}
	if c.JSON {
		err = term.WriteJSON(a.Stdout, look)
	} else {
		err = (&words{look}).write(a.Stdout)
	}
	if full := look.DiskFull; err == nil && is("pages") && full != nil && full.Pages < look.Target {
		err = term.Usage(fmt.Errorf("--disk %s is too little for %s pages; about %s fit", c.Disk,
			human.Rough(look.Target), human.Rough(full.Pages)))
	}
	return err
}

// take sets the flags of the machine that were not given to those of the crawl.
func (c *Command) take(is given, f *outlook.Figures) {
	if !is("dir") {
		c.Dir = slices.Clone(f.Dirs)
	}
	if c.RAM == nil && f.RAMBytes > 0 {
		c.RAM = new(flags.Size(f.RAMBytes))
	}
	if c.Disk == nil && !is("dir") && f.DiskLimit > 0 {
		c.Disk = new(flags.Size(f.DiskLimit))
	}
	if c.Connections == nil && f.Connections > 0 {
		c.Connections = new(flags.Connections)
		c.Connections.Lower(int64(f.Connections))
	}
}

// replaced returns the figures that flags replace.
func (c *Command) replaced(is given) (l plan.Load) {
	all := c.Load()
	for _, f := range []struct {
		flag     string
		at, from *float64
	}{{"pages", &l.Pages, &all.Pages}, {"links-per-page", &l.LinksPerPage, &all.LinksPerPage},
		{"unique", &l.UniqueFraction, &all.UniqueFraction}, {"url-bytes", &l.URLBytes, &all.URLBytes},
		{"text-ratio", &l.TextRatio, &all.TextRatio}, {"misses", &l.Misses, &all.Misses},
		{"page-bytes", &l.PageBytes, &all.PageBytes}, {"max-rate", &l.MaxRate, &all.MaxRate},
		{"disk-rate", &l.DiskRate, &all.DiskRate}} {
		if is(f.flag) {
			*f.at = *f.from
		}
	}
	return l
}

// plannerOf returns a function that plans a crawl with these options for other machines.
func plannerOf(o crawl.Options) func(outlook.Machine) (plan.Plan, error) {
	return func(m outlook.Machine) (plan.Plan, error) {
		other := o
		other.Limits.RAMBytes, other.Limits.DiskBytes = m.RAMBytes, m.DiskBytes
		other.Disk.Dirs = slices.Clone(o.Disk.Dirs)
		for len(other.Disk.Dirs) < m.Dirs {
			other.Disk.Dirs = append(other.Disk.Dirs, fmt.Sprintf("%s-%d", o.Disk.Dirs[0], len(other.Disk.Dirs)))
		}
		return crawl.MakePlan(&other)
	}
}
