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
	Strategy    string        `group:"budget" placeholder:"NAME" enum:"irlbot,breadth-first,focused,best-first,site-by-site,snapshot,random-walk" default:"irlbot" help:"Order of the crawl. irlbot: budgets by in-degree, as in the paper, with --priority. breadth-first: by distance from the seeds, without budgets. focused: links of pages with a high score of --hook first. best-first: PLDs with a large in-degree first. site-by-site: finish sites before others begin. snapshot: the seeds and the targets of their redirects, no links. random-walk: a sample of the web, near to uniform (\"drumbeat export sample\"); fixed when a crawl begins."`
	SitesAtOnce flags.Count   `group:"budget" placeholder:"N" default:"64" help:"With --strategy site-by-site, begin N sites (PLDs) at once."`
	Walkers     flags.Count   `group:"budget" placeholder:"N" default:"1000" help:"With --strategy random-walk, have N walkers walk at once, 1 to 10000, but one for each 20 of --walk-urls at most."`
	WalkURLs    flags.Count   `name:"walk-urls" group:"budget" placeholder:"N" default:"10000" help:"With --strategy random-walk, end when N URLs were visited, seeds included, or after 20 N steps. More URLs make the sample more uniform."`
	WalkJump    float64       `name:"walk-jump" group:"budget" placeholder:"P" default:"0.142857" help:"With --strategy random-walk, jump with probability P in each step, to a random page of a random host among those visited; otherwise follow a link."`
	Known       string        `group:"budget" placeholder:"FILE" help:"Fetch the URLs in FILE once and follow no links (--strategy snapshot). FILE has one URL per line, or is a CDX or CDXJ index of an archive, also compressed by gzip. It is copied into the first --dir."`
	Priority    string        `group:"budget" enum:"none,depth,indegree,hook,sitemap" default:"none" help:"Fetch the better URLs first, within the budgets; the others still move. depth: few links from a seed. indegree: linked from a PLD with a large budget. hook: linked from a page with a high score of --hook. sitemap: by <priority> in sitemaps. A new crawl gets --lanes for it."`
	Lanes       flags.Count   `group:"budget" placeholder:"N" default:"0" help:"Number of lanes of BEAST for --priority, 1 to 8, fixed when a crawl begins. Each lane after the first takes 16 bytes a PLD on disk. 0: those of the crawl; 4 for a new crawl with --priority, otherwise 1."`
	LaneWeights []flags.Count `group:"budget" placeholder:"N" help:"Weights of the lanes, the best first, such as 8,4,2,1: their shares of the URLs read, and of each PLD's budget. Default: each is twice the next."`
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

// apply sets the options of the flags.
func (p *priorityFlags) apply(o *crawl.Options) {
	o.Order.Strategy, o.Order.SitesAtOnce = p.Strategy, int(p.SitesAtOnce)
	o.Order.Walk = p.walk()
	o.Order.Priority, o.Order.Lanes, o.Order.LaneWeights = p.Priority, int(p.Lanes), p.weights()
	if o.Order.Lanes == 0 && len(o.Order.LaneWeights) > 0 && p.Priority != crawl.DefaultPriority {
		o.Order.Lanes = len(o.Order.LaneWeights)
	}
}
