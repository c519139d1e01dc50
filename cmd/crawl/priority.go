package crawl

import (
	"fmt"

	"drumbeat/cmd/flags"
	"drumbeat/crawl"
	"drumbeat/crawl/strategy"
)

// priorityFlags say which URLs go first.
type priorityFlags struct {
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

// maxLaneWeight is beast.MaxWeight.
const maxLaneWeight = 1 << 16

// apply sets the options of the flags.
func (p *priorityFlags) apply(o *crawl.Options) {
	o.Priority, o.Lanes, o.LaneWeights = p.Priority, int(p.Lanes), p.weights()
	if o.Lanes == 0 && len(o.LaneWeights) > 0 && p.Priority != crawl.DefaultPriority {
		o.Lanes = len(o.LaneWeights)
	}
}
