package crawl

import (
	"errors"
	"fmt"
	"time"

	"drumbeat/beast"
	"drumbeat/crawl/state"
	"drumbeat/drum"
	"drumbeat/internal/crawllog"
	"drumbeat/star"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
)

// options are those of a store of star.
func (p *DrumPlan) options(reserve func(int64) (func(), error)) drum.Options {
	o := p.shaped(drum.Options{})
	o.Reserve = reserve
	return o
}

// seenStore wires URLseen: what is new goes to STAR.
func (c *crawler) seenStore() drum.Options {
	o := c.plan.seenOptions(nil)
	o.Set, o.Name, o.Reserve = c.Set, state.NameURLSeen, c.reserve
	o.Wanted, o.Emit = func(res *drum.Result) bool { return res.New }, c.emitUnique
	return o
}

// robotsStore wires RobotsCache: checks go to Q, or to QR and RobotsRequested.
func (c *crawler) robotsStore() drum.Options {
	o := c.plan.RobotsCache.shaped(robotsShape())
	o.Set, o.Name, o.Reserve = c.Set, state.NameRobotsCache, c.reserve
	o.Apply, o.Wanted, o.Emit = c.applyRobots, func(res *drum.Result) bool { return res.Op == drum.Check }, c.emitChecked
	if c.opt.RobotsForget > 0 {
		o.Expunge = c.forgetRobots
	}
	return o
}

// requestedStore wires RobotsRequested: hosts not asked yet go to QD.
func (c *crawler) requestedStore() drum.Options {
	o := c.plan.RobotsRequested.shaped(requestedShape())
	o.Set, o.Name, o.Reserve = c.Set, state.NameRobotsRequested, c.reserve
	o.Apply, o.Wanted, o.Emit = applyRequested, func(res *drum.Result) bool { return res.New }, c.emitRequested
	if c.opt.RobotsForget > 0 {
		o.Expunge = c.forgetRequested
	}
	return o
}

// starOptions wires STAR: edges and checks come from transactions, places go to BEAST, which stands still during a round.
func (c *crawler) starOptions() (star.Options, error) {
	f, err := star.ParseFunction(string(c.opt.Budget))
	if err != nil {
		return star.Options{}, err
	}
	return star.Options{
		Set: c.Set, Name: state.NameStar, Edges: c.plan.Edges.options(c.reserve), Indegree: c.plan.Indegree.options(c.reserve),
		Recent: c.recentEdges,
		Budgets: star.Budgets{Function: f, Default: c.opt.BudgetDefault, Max: c.opt.BudgetMax,
			Ranks: c.opt.BudgetRanks, QueuePages: c.opt.QueuePages},
		MaxPlaced: c.opt.MaxPagesPerPLD,
		Place:     c.place, Emit: c.emitPlaced,
		Pin: func() func() { return c.beast.Pin() },
	}, nil
}

// CheckStores returns what opening the stores of a plan would find wrong with it, so that faults of flags are known before
// any directory is made.
func (o *Options) CheckStores(plan *Plan) error {
	c := newCrawler(*o)
	c.plan = *plan
	stars, err := c.starOptions()
	if err != nil {
		return err
	}
	queues := beast.Options{Set: c.Set, QueuesMax: o.QueuesMax}
	return errors.Join(c.seenStore().Check(), c.robotsStore().Check(), c.requestedStore().Check(), c.namesStore().Check(),
		stars.Budgets.Validate(), queues.Validate())
}

func (c *crawler) warcOptions() warc.Options {
	return warc.Options{Set: c.Out, State: c.Set, Host: c.opt.Host, Mode: c.opt.OutMode, FileBytes: c.opt.WARCFileBytes, BufferBytes: c.plan.OutputBufferBytes, Level: c.opt.WARCLevel,
		Info: []warc.Field{
			{Name: "software", Value: "drumbeat/" + c.opt.Version},
			{Name: "operator", Value: c.opt.Contact},
			{Name: "http-header-user-agent", Value: c.opt.UserAgent},
			{Name: "robots", Value: c.robotsPolicy()},
			{Name: "isPartOf", Value: "crawl-" + c.CrawlID},
		}}
}

// robotsPolicy is what the warcinfo record says of it. robots.txt is always obeyed.
func (c *crawler) robotsPolicy() string {
	if c.opt.IgnoreNofollow {
		return "RFC 9309 and Crawl-delay obeyed; nofollow ignored"
	}
	return "RFC 9309, Crawl-delay and nofollow obeyed"
}

// rollOutput closes the output files that were begun Options.RollEvery ago, and reports whether there were any: the checkpoint after it
// gives them their final names.
func (c *crawler) rollOutput(now time.Time) (bool, error) {
	if c.opt.RollEvery <= 0 {
		return false, nil
	}
	begunBy := now.Add(-c.opt.RollEvery)
	rolled, err := c.warc.RollOld(begunBy)
	for _, l := range []*crawllog.Log{c.crawlLog, c.seedLog, c.robotsLog} {
		some, failed := l.RollOld(begunBy, now)
		rolled, err = rolled || some, errors.Join(err, failed)
	}
	if err != nil {
		return rolled, fmt.Errorf("crawl: roll output: %w", err)
	}
	return rolled, nil
}

// finishedOutput sums up the output files that got their final names in this run.
func (c *crawler) finishedOutput() outfile.Finished {
	all := c.warc.Finished()
	for _, l := range []*crawllog.Log{c.crawlLog, c.seedLog, c.robotsLog} {
		all.Merge(l.Finished())
	}
	return all
}

// finishOutput closes the output files, so that the checkpoint after it gives them their final names.
func (c *crawler) finishOutput() error {
	now := time.Now()
	if err := errors.Join(c.warc.Roll(), c.crawlLog.Roll(now), c.seedLog.Roll(now), c.robotsLog.Roll(now)); err != nil {
		return fmt.Errorf("crawl: finish output: %w", err)
	}
	return nil
}
