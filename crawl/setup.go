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
func (s *seenStage) seenStore() drum.Options {
	o := s.plan.seenOptions(nil)
	o.Set, o.Name, o.Reserve = s.Set, state.NameURLSeen, s.space.reserve
	o.Wanted, o.Emit = func(res *drum.Result) bool { return res.New }, s.emitUnique
	return o
}

// robotsStore wires RobotsCache: checks go to Q, or to QR and RobotsRequested.
func (k *robotsCheck) robotsStore() drum.Options {
	o := k.plan.RobotsCache.shaped(robotsShape())
	o.Set, o.Name, o.Reserve = k.Set, state.NameRobotsCache, k.space.reserve
	o.Apply, o.Wanted, o.Emit = k.applyRobots, func(res *drum.Result) bool { return res.Op == drum.Check }, k.emitChecked
	if k.opt.RobotsForget > 0 {
		o.Expunge = k.forgetRobots
	}
	return o
}

// requestedStore wires RobotsRequested: hosts not asked yet go to QD.
func (q *robotsRequests) requestedStore() drum.Options {
	o := q.plan.RobotsRequested.shaped(requestedShape())
	o.Set, o.Name, o.Reserve = q.Set, state.NameRobotsRequested, q.space.reserve
	o.Apply, o.Wanted, o.Emit = applyRequested, func(res *drum.Result) bool { return res.New }, q.emitRequested
	if q.opt.RobotsForget > 0 {
		o.Expunge = q.forgetRequested
	}
	return o
}

// starOptions wires STAR: edges and checks come from transactions, places go to BEAST, which stands still during a round.
func (b *budgetStage) starOptions() (star.Options, error) {
	f, err := star.ParseFunction(string(b.opt.Budget))
	if err != nil {
		return star.Options{}, err
	}
	return star.Options{
		Set: b.Set, Name: state.NameStar, Edges: b.plan.Edges.options(b.space.reserve), Indegree: b.plan.Indegree.options(b.space.reserve),
		Recent: b.recentEdges,
		Budgets: star.Budgets{Function: f, Default: b.opt.BudgetDefault, Max: b.opt.BudgetMax,
			Ranks: b.opt.BudgetRanks, QueuePages: b.opt.QueuePages},
		MaxPlaced: b.opt.MaxPagesPerPLD,
		Place:     b.place, Emit: b.emitPlaced,
		Pin: func() func() { return b.beast.Pin() },
	}, nil
}

// CheckStores returns what opening the stores of a plan would find wrong with it, so that faults of flags are known before
// any directory is made.
func (o *Options) CheckStores(plan *Plan) error {
	c := newCrawler(*o)
	c.plan = *plan
	stars, err := c.budgets.starOptions()
	if err != nil {
		return err
	}
	queues := beast.Options{Set: c.Set, QueuesMax: o.QueuesMax}
	return errors.Join(c.seen.seenStore().Check(), c.check.robotsStore().Check(), c.requests.requestedStore().Check(), c.seen.namesStore().Check(),
		stars.Budgets.Validate(), queues.Validate())
}

func (o *output) warcOptions() warc.Options {
	return warc.Options{Set: o.Out, State: o.Set, Host: o.opt.Host, Mode: o.opt.OutMode, FileBytes: o.opt.WARCFileBytes, BufferBytes: o.plan.OutputBufferBytes, Level: o.opt.WARCLevel,
		Info: []warc.Field{
			{Name: "software", Value: "drumbeat/" + o.opt.Version},
			{Name: "operator", Value: o.opt.Contact},
			{Name: "http-header-user-agent", Value: o.opt.UserAgent},
			{Name: "robots", Value: o.robotsPolicy()},
			{Name: "isPartOf", Value: "crawl-" + o.CrawlID},
		}}
}

// robotsPolicy is what the warcinfo record says of it. robots.txt is always obeyed.
func (o *output) robotsPolicy() string {
	if o.opt.IgnoreNofollow {
		return "RFC 9309 and Crawl-delay obeyed; nofollow ignored"
	}
	return "RFC 9309, Crawl-delay and nofollow obeyed"
}

// rollOutput closes the output files that were begun Options.RollEvery ago, and reports whether there were any: the checkpoint after it
// gives them their final names.
func (o *output) rollOutput(now time.Time) (bool, error) {
	if o.opt.RollEvery <= 0 {
		return false, nil
	}
	begunBy := now.Add(-o.opt.RollEvery)
	rolled, err := o.warc.RollOld(begunBy)
	for _, l := range []*crawllog.Log{o.crawlLog, o.seedLog, o.robotsLog} {
		some, failed := l.RollOld(begunBy, now)
		rolled, err = rolled || some, errors.Join(err, failed)
	}
	if err != nil {
		return rolled, fmt.Errorf("crawl: roll output: %w", err)
	}
	return rolled, nil
}

// finishedOutput sums up the output files that got their final names in this run.
func (o *output) finishedOutput() outfile.Finished {
	all := o.warc.Finished()
	for _, l := range []*crawllog.Log{o.crawlLog, o.seedLog, o.robotsLog} {
		all.Merge(l.Finished())
	}
	return all
}

// finishOutput closes the output files, so that the checkpoint after it gives them their final names.
func (o *output) finishOutput() error {
	now := time.Now()
	if err := errors.Join(o.warc.Roll(), o.crawlLog.Roll(now), o.seedLog.Roll(now), o.robotsLog.Roll(now)); err != nil {
		return fmt.Errorf("crawl: finish output: %w", err)
	}
	return nil
}
