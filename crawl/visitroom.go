package crawl

import (
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/dispatch"
	"drumbeat/crawl/hook"
	"drumbeat/crawl/outage"
	"drumbeat/crawl/sitemaps"
	"drumbeat/crawl/strategy"
	"drumbeat/crawl/visit"
	"drumbeat/internal/trapscore"
)

// wirePages creates what fetches, reads and stores pages, and gives it to the dispatcher. All rooms below
// must exist.
func (c *crawler) wirePages() {
	o := &c.opt
	reads := visit.New(c.Run, c.Saved, visit.Options{Agent: o.Identity.Agent, Links: &o.Links, Output: &o.Output,
		Policy: c.links, Hook: o.opened.asker, Reading: o.tests.reading, Margin: &c.margin, Sites: c.sites,
		Retries: o.Health.Retries, ServerDelay: o.Politeness.ServerDelay, OurFault: c.faultWaits.ourFault,
		Asked: hook.Procs(o.opened.asker, o.Hook)}, c.content, c.output)
	maps := sitemaps.New(sitemaps.Options{Links: &o.Links, Limits: o.Network.FetchLimits, Policy: c.links,
		Dated: o.Recrawl != nil, Scored: func() bool { return c.strategy.Load().Scores == strategy.SitemapScore }})
	c.pages = visit.NewStage(reads, visit.Needs{Check: c.check, Content: c.content, Fetcher: c.fetcher,
		Health: c.health, Outages: c.outages, Render: c.render, Sitemaps: maps, Space: c.space, Walk: c.walk})
	c.pages.Wire(visit.Others{Grants: c.dispatcher, Buffers: c.dispatcher, Deferrals: c.deferrals, Orders: c.orders,
		Again: visit.Again{Room: c.orders.Room, Begin: c.orders.Begin, Note: c.operator.NoteOrdered,
			Pinned: c.operator.Pinned}, EndVisit: c.deferrals.EndVisit, SendLinks: c.seen.SendLinks,
		Fetched: c.budgets.Fetched, Answered: c.sketches.AddAnswer,
		Wake:     func(tx *account.Tx) { c.seen.Wake(tx); c.budgets.Wake(tx) },
		Strategy: c.strategy.Load, BudgetRange: c.budgets.BudgetRange, Revisits: c.deferrals.Revisits,
		Traps: func() *trapscore.Table { return c.traps }})
	c.dispatcher.Wire(dispatch.Others{Visits: c.pages, Deferrals: c.deferrals, Orders: c.orders,
		LackURLs: c.passes.LackURLs, PageLimit: c.node.PageLimit, Disowned: c.node.Disowned,
		PLDShare: c.node.Share})
}

// retryWaits are the waits after failures that may be ours.
type retryWaits struct {
	outage.Waits
	ourFault time.Duration // before another attempt of a URL after a fault of this machine
}

// makeWaits returns the default waits, which a test may change.
func (o *Options) makeWaits() retryWaits {
	w := retryWaits{Waits: outage.DefaultWaits(), ourFault: visit.OurFaultPause}
	if o.tests.tuneWaits != nil {
		o.tests.tuneWaits(&w)
	}
	return w
}
