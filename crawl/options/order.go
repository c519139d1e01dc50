package options

import (
	"fmt"

	"drumbeat/internal/walk"
)

// MaxSitesAtOnce bounds Order.SitesAtOnce. It is more than the connections of a machine.
const MaxSitesAtOnce = 1 << 20

// Order is the order in which a crawl fetches URLs.
type Order struct {
	// Strategy is the order of the crawl as a whole (package strategy), "" or crawl.DefaultStrategy for the
	// paper's with Priority. SitesAtOnce is Strategy.SitesAtOnce; 0 is its default. Both may change from run to
	// run.
	Strategy    string
	SitesAtOnce int
	// Walk are the options of the strategy random-walk, zeros for the defaults; Bytes and Seed are set by the
	// crawl. Whether a crawl is a random walk is fixed when it begins.
	Walk walk.Options
	// Priority is the strategy that spreads URLs over lanes (package strategy); "" is crawl.DefaultPriority.
	// LaneWeights are the lanes' weights; nil is strategy.DefaultWeights. Both may change from run to run.
	Priority    string
	LaneWeights []uint32
	// Lanes is the number of lanes of BEAST. It is fixed when a crawl begins: 0 is that of the crawl, and for a
	// new crawl the strategy's.
	Lanes int
	// StockTarget is the number of URLs that BEAST releases ahead of fetching. Default: 16 times the
	// connections, or more if the hosts' delays need it and RAM suffices (package stock).
	StockTarget int
	// Watch is the file of a watch list, "" for none: lines of a canonical URL, a space and a deadline as RFC 3339 has
	// it, or the URL alone, in the order of deadlines. Its URLs are fetched before all others, the earliest deadlines
	// first. A file with other content is another list. Not for a node of a cluster.
	Watch string
}

// Validate returns an error if the number of sites at once is out of its range.
func (o *Order) Validate() error {
	if o.SitesAtOnce < 0 || o.SitesAtOnce > MaxSitesAtOnce {
		return fmt.Errorf("crawl: %d sites at once: want 1 to %d", o.SitesAtOnce, MaxSitesAtOnce)
	}
	return nil
}
