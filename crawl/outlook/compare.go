package outlook

import (
	"fmt"
	"math"

	"drumbeat/drum"
)

// Machine is what a plan divides.
type Machine struct {
	RAMBytes  int64   `json:"ramBytes"`
	DiskBytes int64   `json:"diskBytes"`
	Dirs      int     `json:"dirs"`     // directories of state, one a disk
	DiskRate  float64 `json:"diskRate"` // W, bytes/s of all disks together; set by Make
}

// Change is a machine and what the model says of it at Outlook.Target.
type Change struct {
	Name    string  `json:"name"`
	Machine Machine `json:"machine"`
	// LinkBytes are the bytes read and written for a link that reaches URLseen, Alpha the same in units of its text.
	LinkBytes float64 `json:"linkBytes"`
	Alpha     float64 `json:"alpha"`
	// PassLinks are the links of a pass.
	PassLinks float64 `json:"passLinks"`
	// PageBytes is the I/O of a page, DiskPages the pages/s that the disks allow (Theorem 3).
	PageBytes float64 `json:"pageBytes"`
	DiskPages float64 `json:"diskPagesPerSecond"`
	// DiskFull is the number of pages at which the disk is full; 0 if it does not become full.
	DiskFull float64 `json:"diskFull"`
}

// changes returns the machine as it is, and with more.
func changes(m Machine) []Change {
	ram, disks, fast := m, m, m
	ram.RAMBytes *= 2
	disks.DiskBytes, disks.Dirs, disks.DiskRate = 2*m.DiskBytes, 2*m.Dirs, 2*m.DiskRate
	fast.DiskRate *= 2
	return []Change{{Name: "as it is", Machine: m}, {Name: "twice the RAM", Machine: ram},
		{Name: "twice the disks", Machine: disks}, {Name: "disks twice as fast", Machine: fast}}
}

// judge computes what the model says of a change for the links that follow once the crawl has pages.
func (g *growth) judge(c *Change, pages float64, dirs []string) error {
	l := g.loadAt(pages)
	l.DiskRate = c.Machine.DiskRate
	forecast, err := g.plan.Forecast(l)
	if err != nil {
		return err
	}
	cost := g.marginal(pages, dirs)
	links := g.per.Misses * g.per.LinksPerPage
	c.LinkBytes, c.Alpha, c.PassLinks = cost.Bytes(), cost.Bytes()/g.per.URLBytes, cost.PassTuples
	c.PageBytes = forecast.PageIOBytes + cost.Bytes()*links - forecast.Cost.Bytes()*forecast.Load.Misses*
		forecast.Load.LinksPerPage
	c.DiskPages = forecast.Load.DiskRate / c.PageBytes
	return nil
}

// marginal returns the cost of the next full passes of a crawl that has pages.
func (g *growth) marginal(pages float64, dirs []string) drum.Cost {
	o := g.plan.SeenOptions(dirs)
	fresh := g.newURLs(pages*1.01) - g.newURLs(pages)
	links := 0.01 * pages * g.per.LinksPerPage * g.per.Misses
	in := drum.CostInput{Known: g.f.Unique + g.newURLs(pages), Tuples: 1e15,
		UniqueFraction: min(1, max(1e-9, fresh/max(1, links))), AuxBytes: g.per.URLBytes, AuxRatio: g.text}
	in.PassTuples = o.Cost(in).PassTuples
	in.Tuples = in.PassTuples * max(1, math.Ceil(10*links/in.PassTuples))
	return o.Cost(in)
}

// Bound is what bounds the passes of URLseen: the cases of Theorem 2.
type Bound string

// The bounds.
const (
	ByRAM  Bound = "ram"
	ByDisk Bound = "disk"
	ByBoth Bound = "both"
)

// worthwhile is how far alpha must fall for a change to count.
const worthwhile = 0.97

// more is the growth of a pass that counts.
const more = 1.05

// boundOf says by the passes of the alternatives what bounds them.
func boundOf(list []Change) Bound {
	now, ram, disks := list[0].PassLinks, list[1].PassLinks, list[2].PassLinks
	switch {
	case ram > more*now && disks <= more*now:
		return ByRAM
	case disks > more*now && ram <= more*now:
		return ByDisk
	}
	return ByBoth
}

// theorem says in words what Theorem 2 says of more RAM and more disk space.
func (o *Outlook) theorem() string {
	now := &o.Changes[0]
	lower := func(i int) string {
		c := &o.Changes[i]
		return fmt.Sprintf("lowers the overhead alpha from %.2f to %.2f", now.Alpha, c.Alpha)
	}
	if best := min(o.Changes[1].Alpha, o.Changes[2].Alpha); best > now.Alpha*worthwhile {
		return fmt.Sprintf("The overhead alpha is %.2f, and more RAM or disk space would not lower it (Theorem 2): "+
			"with so few known URLs the links themselves cost more than passes over the known keys", now.Alpha)
	}
	switch o.Bound {
	case ByRAM:
		return "RAM bounds the passes of URLseen (Theorem 2, first case): twice the RAM " + lower(1) +
			"; more disk space alone does not"
	case ByDisk:
		return "Disk space bounds the passes of URLseen (Theorem 2, second case): twice the space " + lower(2) +
			"; more RAM alone does not"
	}
	return "RAM and disk space bound the passes of URLseen together (Theorem 2): twice the RAM " + lower(1) +
		", twice the space to " + fmt.Sprintf("%.2f", o.Changes[2].Alpha)
}
