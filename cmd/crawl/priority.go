package crawl

import (
	"fmt"

	"drumbeat/cmd/flags"
	"drumbeat/crawl"
	"drumbeat/crawl/strategy"
	"drumbeat/internal/walk"
)

// priorityFlags say in which order URLs are fetched.
type priorityFlags struct {
	Strategy    string        `group:"budget" placeholder:"NAME" enum:"${strategies}" default:"irlbot"`
	SitesAtOnce flags.Count   `group:"budget" placeholder:"N" default:"64"`
	Walkers     flags.Count   `group:"budget" placeholder:"N" default:"1000"`
	WalkURLs    flags.Count   `name:"walk-urls" group:"budget" placeholder:"N" default:"10000"`
	WalkJump    float64       `name:"walk-jump" group:"budget" placeholder:"P" default:"0.142857"`
	Known       string        `group:"budget" placeholder:"FILE"`
	Priority    string        `group:"budget" enum:"none,depth,indegree,hook,sitemap" default:"none"`
	Lanes       flags.Count   `group:"budget" placeholder:"N" default:"0"`
	LaneWeights []flags.Count `group:"budget" placeholder:"N"`
}

// weights returns the weights of the lanes.
func (p *priorityFlags) weights() (w []uint32) {
	for _, n := range p.LaneWeights {
		w = append(w, uint32(n))
	}
	return w
}

// check returns the first fault of the flags.
func (p *priorityFlags) check() error {
	if p.Lanes < 0 || p.Lanes > strategy.MaxLanes {
		return fmt.Errorf("--lanes %d: must be between 0 and %d", p.Lanes, strategy.MaxLanes)
	}
	if p.Known != "" && p.Strategy == crawl.DefaultStrategy {
		p.Strategy = strategy.Snapshot
	}
	switch {
	case p.Known != "" && p.Strategy != strategy.Snapshot:
		return fmt.Errorf("--known follows no links, so it takes no --strategy %s", p.Strategy)
	case p.Strategy != crawl.DefaultStrategy && p.Priority != crawl.DefaultPriority:
		return fmt.Errorf("--strategy %s has priorities of its own: leave out --priority %s", p.Strategy, p.Priority)
	case p.SitesAtOnce < 1 || p.SitesAtOnce > crawl.MaxSitesAtOnce:
		return fmt.Errorf("--sites-at-once %d: must be between 1 and %d", p.SitesAtOnce, crawl.MaxSitesAtOnce)
	}
	w := p.walk()
	if w.Bytes = 1; w.Validate() != nil && p.Strategy == strategy.RandomWalk {
		return fmt.Errorf("--walkers, --walk-urls or --walk-jump: %w", w.Validate())
	}
	if p.Lanes == 1 && p.Priority != crawl.DefaultPriority {
		return fmt.Errorf("--priority %s needs more than one of --lanes", p.Priority)
	}
	for _, w := range p.LaneWeights {
		if w < 1 || w > maxLaneWeight {
			return fmt.Errorf("--lane-weights: %d: must be between 1 and %d", w, maxLaneWeight)
		}
	}
	if n := len(p.LaneWeights); n > 0 && p.Lanes != 0 && n != int(p.Lanes) {
		return fmt.Errorf("--lane-weights: %d weights for %d lanes", n, p.Lanes)
	}
	return nil
}

// walk returns the options of a random walk.
func (p *priorityFlags) walk() walk.Options {
	return walk.Options{Walkers: int(p.Walkers), URLs: int(p.WalkURLs), Jump: p.WalkJump}
}

// maxLaneWeight is beast.MaxWeight.
const maxLaneWeight = 1 << 16

func (p *priorityFlags) apply(o *crawl.OrderOptions) {
	o.Strategy, o.SitesAtOnce, o.Walk = p.Strategy, int(p.SitesAtOnce), p.walk()
	o.Priority, o.Lanes, o.LaneWeights = p.Priority, int(p.Lanes), p.weights()
	if o.Lanes == 0 && len(o.LaneWeights) > 0 && p.Priority != crawl.DefaultPriority {
		o.Lanes = len(o.LaneWeights)
	}
}
