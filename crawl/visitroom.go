package crawl

import (
	"drumbeat/crawl/strategy"
	"drumbeat/crawl/visit"
	"drumbeat/internal/trapscore"
)

// wirePages creates what reads pages. The store of contents and the output must exist.
func (c *crawler) wirePages() {
	o := &c.opt
	c.pages.reads = visit.New(c.Run, c.Saved, visit.Options{Agent: o.Identity.Agent, Links: &o.Links, Output: &o.Output,
		Policy: c.links, Hook: o.opened.asker, Reading: o.tests.reading, Margin: &c.margin}, c.content, c.output)
	c.pages.reads.Wire(visit.Others{Sitemaps: c.pages.sitemaps, Score: c.pages.scoreLinks,
		Strategy: func() *strategy.Strategy { return c.strategy.Load() },
		Revisits: c.revisits, Renders: c.render.Wants,
		Traps: func() *trapscore.Table { return c.traps }})
}
