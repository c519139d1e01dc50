package crawl

import (
	"cmp"
	"errors"
	"fmt"

	"drumbeat/beast"
	"drumbeat/cluster"
	"drumbeat/crawl/strategy"
	"drumbeat/internal/walk"
	"drumbeat/state"
	"drumbeat/state/changes"
)

// DefaultPriority is the strategy without lanes. DefaultStrategy is that of the paper, with Options.Order.Priority.
const (
	DefaultPriority = "none"
	DefaultStrategy = "irlbot"
)

// strategyOf returns the strategy of the options for a number of lanes; 0 is the default of the strategy. f is the
// operator's change, nil for none.
func (o *Options) strategyOf(lanes int, change *changes.Priority) (strategy.Strategy, error) {
	name, weights := cmp.Or(o.Order.Priority, DefaultPriority), o.Order.LaneWeights
	if o.Order.Strategy != "" && o.Order.Strategy != DefaultStrategy {
		if name != DefaultPriority {
			return strategy.Strategy{}, fmt.Errorf("strategy %s sets its own priorities: remove --priority %s",
				o.Order.Strategy, name)
		}
		name = o.Order.Strategy
	}
	if change != nil {
		name = change.Name
		if len(change.Weights) > 0 {
			weights = change.Weights
		}
	}
	s, err := strategy.New(name, lanes, weights)
	if err != nil {
		return s, err
	}
	turns := beast.Turns{Weights: s.Weights}
	if err := turns.Validate(); err != nil {
		return s, err
	}
	s.Budgets = s.Budgets && o.Admission.Scope == state.ScopeAll
	if s.SitesAtOnce > 0 {
		s.SitesAtOnce = cmp.Or(o.Order.SitesAtOnce, s.SitesAtOnce)
	}
	return s, o.checkScores(&s)
}

// checkScores reports why this crawl cannot have the scores of a strategy.
func (o *Options) checkScores(s *strategy.Strategy) error {
	switch s.Scores {
	case strategy.HookScore:
		if o.Hook == nil && o.opened.asker == nil {
			return fmt.Errorf("--priority %s needs --hook", s.Name)
		}
	case strategy.SitemapScore:
		if !o.Links.Sitemaps {
			return fmt.Errorf("--priority %s needs --sitemaps", s.Name)
		}
	case strategy.IndegreeBudget:
		if o.Admission.Scope != state.ScopeAll {
			return fmt.Errorf("--priority %s needs budgets by in-degree, but they are off because --scope is not all",
				s.Name)
		}
	}
	return nil
}

// seedsOnly reports whether no link is followed.
func (o *Options) seedsOnly() bool { return o.Order.Strategy == strategy.Snapshot }

// newLanes returns the number of lanes of a new crawl.
func (o *Options) newLanes() int {
	s, err := o.strategyOf(o.Order.Lanes, nil)
	if err != nil {
		return max(1, o.Order.Lanes)
	}
	return s.Lanes
}

// fixLanes sets and returns the number of lanes, which is fixed when a crawl begins: that of the manifest,
// or of the options for a new crawl.
func (e *engine) fixLanes(m *state.Manifest) (int, error) {
	if e.opt.Order.Lanes == 0 {
		if e.opt.Order.Lanes = e.opt.newLanes(); m != nil {
			e.opt.Order.Lanes = max(1, m.Frozen.Lanes)
		}
	}
	_, err := e.opt.strategyOf(e.opt.Order.Lanes, nil)
	if err != nil && m != nil && max(1, m.Frozen.Lanes) == 1 {
		err = fmt.Errorf("%w; the number of lanes is fixed when a crawl begins (--priority), and this one has 1", err)
	}
	if err != nil {
		return 0, fmt.Errorf("crawl: %w", err)
	}
	return e.opt.Order.Lanes, nil
}

// openStrategy puts the strategy of the flags, or of the operator, in force.
func (c *crawler) openStrategy() error {
	s, err := c.opt.strategyOf(c.opt.Order.Lanes, c.operator.Priority())
	if err != nil {
		return fmt.Errorf("crawl: priority set by the operator: %w", err)
	}
	c.strategy.Store(&s)
	return nil
}

// checkPriority reports why a strategy cannot be used in this run; nil is that of the flags.
func (e *engine) checkPriority(p *changes.Priority) error {
	s, err := e.opt.strategyOf(e.opt.Order.Lanes, p)
	if err == nil && s.SeedsOnly != e.opt.seedsOnly() {
		err = fmt.Errorf("%s cannot begin or end while the crawl runs: it decides which links are followed",
			strategy.Snapshot)
	}
	if err == nil && s.Walk != e.opt.walks() {
		err = fmt.Errorf("%s is fixed when a crawl begins: it decides which links are followed", strategy.RandomWalk)
	}
	if err != nil && e.opt.Order.Lanes == 1 {
		err = errors.New("this crawl started with one lane (--priority lanes), which cannot change")
	}
	return err
}

// newPriority puts the strategy of the operator in force: for URLs that STAR checks from now on, and, by the goroutine
// "scan", for those in BEAST's queues. Those in QF follow when they are scanned.
func (c *crawler) newPriority() error {
	if err := c.openStrategy(); err != nil {
		return err
	}
	return c.budgets.NewTurns()
}

// walks reports whether the crawl is a random walk.
func (o *Options) walks() bool { return o.Order.Strategy == strategy.RandomWalk }

// walkOptions returns the options of the walk, for bytes of memory.
func (o *Options) walkOptions(bytes int64) walk.Options {
	return walk.Options{Walkers: cmp.Or(o.Order.Walk.Walkers, walk.DefaultWalkers),
		URLs: cmp.Or(o.Order.Walk.URLs, walk.DefaultURLs),
		Jump: cmp.Or(o.Order.Walk.Jump, walk.DefaultJump), Bytes: bytes, Part: o.walkPart()}
}

// walkPart returns the part of a walk that this node begins with: that of its slots.
func (o *Options) walkPart() walk.Part {
	if o.Cluster == nil || o.Cluster.Table == nil {
		return walk.Part{}
	}
	p := walk.Part{Of: cluster.Slots}
	for node := range o.Cluster.Node {
		p.From += o.Cluster.Table.Share(node)
	}
	p.To = p.From + o.Cluster.Table.Share(o.Cluster.Node)
	return p
}
