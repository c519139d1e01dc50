package crawl

import (
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/strategy"
	"drumbeat/crawl/visit"
	"drumbeat/fetch"
	"drumbeat/internal/trapscore"
	"drumbeat/weburl"
)

// wirePages creates what reads pages. The store of contents and the output must exist.
func (c *crawler) wirePages() {
	o := &c.opt
	c.pages.reads = visit.New(c.Run, c.Saved, visit.Options{Agent: o.Identity.Agent, Links: &o.Links, Output: &o.Output,
		Policy: c.links, Hook: o.opened.asker, Reading: o.tests.reading, Margin: &c.margin}, c.content, c.output)
	c.pages.reads.Wire(visit.Others{Sitemaps: pageSitemaps{c.pages}, Score: c.pages.scoreLinks,
		Strategy: func() *strategy.Strategy { return c.strategy.Load() },
		Revisits: c.revisits, Renders: c.render.Wants,
		Traps: func() *trapscore.Table { return c.traps }})
	c.dispatcher.newWorker = c.pages.reads.NewWorker
}

// pageSitemaps implements visit.Sitemaps.
type pageSitemaps struct{ p *pageStage }

func (s pageSitemaps) Flags(rec *weburl.Record) uint8     { return s.p.sitemapFlags(rec) }
func (s pageSitemaps) ParentOf(rec *weburl.Record) []byte { return s.p.parentOf(rec) }
func (s pageSitemaps) Is(rec *weburl.Record, resp *fetch.Response) bool {
	return s.p.isSitemap(rec, resp)
}
func (s pageSitemaps) Read(b *admit.Batch, rec *weburl.Record, resp *fetch.Response, now time.Time) {
	s.p.readSitemap(b, rec, resp, now)
}
