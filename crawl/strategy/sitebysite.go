package strategy

// SiteBySite is the name of the strategy that finishes sites before it begins others. A site is a PLD.
const SiteBySite = "site-by-site"

// DefaultSitesAtOnce is the default of Strategy.SitesAtOnce. Hosts have delays, so a single site would leave nearly all
// connections idle.
const DefaultSitesAtOnce = 64

// siteBySite has two lanes. The last one holds the sites that are not begun, in the order in which they were
// found, a few in each queue. When BEAST reaches a queue, its sites are begun: all their further URLs go to
// lane 0, which is read first. So the next queue of sites is reached when little is left of the sites before.
//
// There are no budgets, since a site is to be finished.
func (s *Strategy) siteBySite() {
	s.lane, s.site, s.Budgets, s.Free, s.SitesAtOnce = last, begunFirst, false, true, DefaultSitesAtOnce
	if s.Lanes == 0 {
		s.Lanes = 2
	}
	if len(s.Weights) == 0 {
		s.Weights = steepWeights(s.Lanes)
		s.Weights[0] = 1 << 16 // nothing else is read while sites that are begun have URLs
	}
}

func begunFirst(s *Strategy, _ int, site *Site) int {
	if site.Begun {
		return 0
	}
	return s.Lanes - 1
}
