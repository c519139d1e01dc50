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
func (r *ring) seenStore() drum.Options {
	o := r.plan.seenOptions(nil)
	o.Set, o.Name, o.Reserve = r.Set, state.NameURLSeen, r.reserve
	o.Wanted, o.Emit = func(res *drum.Result) bool { return res.New }, r.emitUnique
	return o
}

// robotsStore wires RobotsCache: checks go to Q, or to QR and RobotsRequested.
func (r *ring) robotsStore() drum.Options {
	o := r.plan.RobotsCache.shaped(robotsShape())
	o.Set, o.Name, o.Reserve = r.Set, state.NameRobotsCache, r.reserve
	o.Apply, o.Wanted, o.Emit = r.applyRobots, func(res *drum.Result) bool { return res.Op == drum.Check }, r.emitChecked
	if r.opt.RobotsForget > 0 {
		o.Expunge = r.forgetRobots
	}
	return o
}

// requestedStore wires RobotsRequested: hosts not asked yet go to QD.
func (r *ring) requestedStore() drum.Options {
	o := r.plan.RobotsRequested.shaped(requestedShape())
	o.Set, o.Name, o.Reserve = r.Set, state.NameRobotsRequested, r.reserve
	o.Apply, o.Wanted, o.Emit = applyRequested, func(res *drum.Result) bool { return res.New }, r.emitRequested
	if r.opt.RobotsForget > 0 {
		o.Expunge = r.forgetRequested
	}
	return o
}

// starOptions wires STAR: edges and checks come from steps, places go to BEAST, which stands still during a round.
func (r *ring) starOptions() (star.Options, error) {
	f, err := star.ParseFunction(string(r.opt.Budget))
	if err != nil {
		return star.Options{}, err
	}
	return star.Options{
		Set: r.Set, Name: state.NameStar, Edges: r.plan.Edges.options(r.reserve), Indegree: r.plan.Indegree.options(r.reserve),
		Recent: r.recentEdges,
		Budgets: star.Budgets{Function: f, Default: r.opt.BudgetDefault, Max: r.opt.BudgetMax,
			Ranks: r.opt.BudgetRanks, QueuePages: r.opt.QueuePages},
		MaxPlaced: r.opt.MaxPagesPerPLD,
		Place:     r.place, Emit: r.emitPlaced,
		Pin: func() func() { return r.beast.Pin() },
	}, nil
}

// CheckStores returns what opening the stores of a plan would find wrong with it, so that faults of flags are known before
// any directory is made.
func (o *Options) CheckStores(plan *Plan) error {
	r := newRing(*o)
	r.plan = *plan
	stars, err := r.starOptions()
	if err != nil {
		return err
	}
	queues := beast.Options{Set: r.Set, QueuesMax: o.QueuesMax}
	return errors.Join(r.seenStore().Check(), r.robotsStore().Check(), r.requestedStore().Check(), r.namesStore().Check(),
		stars.Budgets.Validate(), queues.Validate())
}

func (r *ring) warcOptions() warc.Options {
	return warc.Options{Set: r.Out, State: r.Set, Host: r.opt.Host, Mode: r.opt.OutMode, FileBytes: r.opt.WARCFileBytes, BufferBytes: r.plan.OutputBufferBytes, Level: r.opt.WARCLevel,
		Info: []warc.Field{
			{Name: "software", Value: "drumbeat/" + r.opt.Version},
			{Name: "operator", Value: r.opt.Contact},
			{Name: "http-header-user-agent", Value: r.opt.UserAgent},
			{Name: "robots", Value: r.robotsPolicy()},
			{Name: "isPartOf", Value: "crawl-" + r.CrawlID},
		}}
}

// robotsPolicy is what the warcinfo record says of it. robots.txt is always obeyed.
func (r *ring) robotsPolicy() string {
	if r.opt.IgnoreNofollow {
		return "RFC 9309 and Crawl-delay obeyed; nofollow ignored"
	}
	return "RFC 9309, Crawl-delay and nofollow obeyed"
}

// rollOutput closes the output files that were begun Options.RollEvery ago, and reports whether there were any: the checkpoint after it
// gives them their final names.
func (r *ring) rollOutput(now time.Time) (bool, error) {
	if r.opt.RollEvery <= 0 {
		return false, nil
	}
	begunBy := now.Add(-r.opt.RollEvery)
	rolled, err := r.warc.RollOld(begunBy)
	for _, l := range []*crawllog.Log{r.crawlLog, r.seedLog, r.robotsLog} {
		some, failed := l.RollOld(begunBy, now)
		rolled, err = rolled || some, errors.Join(err, failed)
	}
	if err != nil {
		return rolled, fmt.Errorf("crawl: roll output: %w", err)
	}
	return rolled, nil
}

// finishedOutput sums up the output files that got their final names in this run.
func (r *ring) finishedOutput() outfile.Finished {
	all := r.warc.Finished()
	for _, l := range []*crawllog.Log{r.crawlLog, r.seedLog, r.robotsLog} {
		all.Merge(l.Finished())
	}
	return all
}

// finishOutput closes the output files, so that the checkpoint after it gives them their final names.
func (r *ring) finishOutput() error {
	now := time.Now()
	if err := errors.Join(r.warc.Roll(), r.crawlLog.Roll(now), r.seedLog.Roll(now), r.robotsLog.Roll(now)); err != nil {
		return fmt.Errorf("crawl: finish output: %w", err)
	}
	return nil
}
