package crawl

import (
	"context"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/gate"
	"drumbeat/crawl/reader"
	"drumbeat/crawl/render"
	"drumbeat/internal/health"
	"drumbeat/state"
)

// wireRender creates the stage of the browser. The dispatcher and the fetcher must exist.
func (c *crawler) wireRender() {
	o := &c.opt
	c.render = render.New(c.Run, c.Saved, render.Options{Log: o.Observe.Log, FS: o.Disk.FS, Browser: o.Render,
		UserAgent: o.Identity.UserAgent, Links: c.links, Sites: c.sites, IgnoreNofollow: o.Links.IgnoreNofollow,
		Agent: o.Identity.Agent, Assets: o.Links.Assets, NoIndex: o.Output.NoIndex == state.ArchiveDrop,
		NoArchive:   o.Output.NoArchive == state.ArchiveDrop || o.Output.NoArchive == state.ArchiveHeaders,
		FetchLimits: o.Network.FetchLimits, MaxCrawlDelay: o.Politeness.MaxCrawlDelay}, c.fetcher, c.outages, c.output,
		c.space)
	c.render.Wire(render.Others{Heaps: func() render.Heaps { return c.polite }, Slots: c.dispatcher,
		MayAsk: c.health.MayAsk, RestAfter: gate.RestAfter,
		Clear: func(tx *account.Tx, host uint64) error { return c.health.Clear(tx, host, health.Verdict{}) },
		Rules: c.requests.RulesOf, Cluster: c.node,
		Lend: func(ctx context.Context) (*reader.Reader, func(bool)) { return c.pages.Lend(ctx) },
		SendLinks: func(b *admit.Batch, tx *account.Tx) error {
			if err := c.seen.SendLinks(b, tx); err != nil {
				return err
			}
			c.seen.Wake(tx)
			return nil
		}})
}
