package strategy

import (
	"math/bits"

	"drumbeat/weburl"
)

// BestFirst is the name of the strategy that fetches the URLs of PLDs with large in-degrees first.
const BestFirst = "best-first"

// bestFirst has a lane for each factor of 4 below the largest in-degree. The lane of a URL follows its PLD's
// in-degree at the time of STAR's check.
func (s *Strategy) bestFirst() { s.lane, s.site, s.Free = last, byIndegree, true }

// last is the last lane.
func last(s *Strategy, _ *weburl.Record) int { return s.Lanes - 1 }

func byIndegree(_ *Strategy, lane int, site *Site) int {
	if site.Indegree == 0 {
		return lane
	}
	return min(lane, (bits.Len32(site.Largest/site.Indegree)-1)/2)
}
