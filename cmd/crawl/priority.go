package crawl

import (
	"fmt"

	"drumbeat/cmd/flags"
	"drumbeat/crawl"
	"drumbeat/crawl/strategy"
	"drumbeat/internal/human"
	"drumbeat/internal/walk"
)

// priorityFlags say in which order URLs are fetched.
type priorityFlags struct {
	Strategy order    `group:"budget" type:"parts" placeholder:"NAME"`
	Known    string   `group:"budget" placeholder:"FILE"`
	Watch    string   `group:"budget" placeholder:"FILE"`
	Priority priority `group:"budget" type:"parts" placeholder:"NAME"`
}

// order is the strategy, with the numbers of site-by-site and random-walk (package walk bounds them, too).
type order struct {
	Name string `part:"" enum:"irlbot,breadth-first,focused,best-first,site-by-site,snapshot,random-walk"`

	Sites   flags.Count `part:"sites" default:"64" least:"1" most:"1048576"`
	Walkers flags.Count `part:"walkers" default:"1000" least:"1" most:"10000"`
	URLs    flags.Count `part:"urls" default:"10000" least:"1" most:"10000000"`
	Jump    float64     `part:"jump" default:"0.142857" most:"0.9" placeholder:"P"`
}

// priority is the order within the budgets, with the lanes for it.
type priority struct {
	Name    string        `part:"" enum:"none,depth,indegree,hook,sitemap" default:"none"`
	Lanes   flags.Count   `part:"lanes" default:"0" most:"8"`
	Weights []flags.Count `part:"weights" least:"1" most:"65536" placeholder:"N:N:..." example:"8:4:2:1"`
}

// weights returns the weights of the lanes.
func (p *priorityFlags) weights() (w []uint32) {
	for _, n := range p.Priority.Weights {
		w = append(w, uint32(n))
	}
	return w
}

// check returns the first fault of the flags.
func (p *priorityFlags) check() error {
	if p.Known != "" && p.Strategy.Name == crawl.DefaultStrategy {
		p.Strategy.Name = strategy.Snapshot
	}
	switch {
	case p.Known != "" && p.Strategy.Name != strategy.Snapshot:
		return fmt.Errorf("--known follows no links, so --strategy %s does not apply", p.Strategy.Name)
	case p.Strategy.Name != crawl.DefaultStrategy && p.Priority.Name != crawl.DefaultPriority:
		return fmt.Errorf("--strategy %s sets its own priorities: leave out --priority %s", p.Strategy.Name,
			p.Priority.Name)
	}
	w := p.walk()
	if w.Bytes = 1; w.Validate() != nil && p.Strategy.Name == strategy.RandomWalk {
		return fmt.Errorf("--strategy random-walk: %w", w.Validate())
	}
	if p.Priority.Lanes == 1 && p.Priority.Name != crawl.DefaultPriority {
		return fmt.Errorf("--priority %s needs more than one of its lanes", p.Priority.Name)
	}
	if n := len(p.Priority.Weights); n > 0 && p.Priority.Lanes != 0 && n != int(p.Priority.Lanes) {
		return fmt.Errorf("--priority: weights has %d for %s", n,
			human.Counted(p.Priority.Lanes, "lane", "lanes"))
	}
	return nil
}

// walk returns the options of a random walk.
func (p *priorityFlags) walk() walk.Options {
	return walk.Options{Walkers: int(p.Strategy.Walkers), URLs: int(p.Strategy.URLs), Jump: p.Strategy.Jump}
}

func (p *priorityFlags) apply(o *crawl.OrderOptions) {
	o.Strategy, o.SitesAtOnce, o.Walk = p.Strategy.Name, int(p.Strategy.Sites), p.walk()
	o.Priority, o.Lanes, o.LaneWeights = p.Priority.Name, int(p.Priority.Lanes), p.weights()
	if o.Lanes == 0 && len(o.LaneWeights) > 0 && p.Priority.Name != crawl.DefaultPriority {
		o.Lanes = len(o.LaneWeights)
	}
}
