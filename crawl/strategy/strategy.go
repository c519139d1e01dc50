package strategy

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"drumbeat/weburl"
)

// MaxLanes is the largest number of lanes, that of package beast. DefaultLanes is the number for strategies that use
// lanes.
const (
	MaxLanes     = 8
	DefaultLanes = 4
)

// Source is the figure that becomes the score of a page's links.
type Source uint8

// The sources of scores.
const (
	NoScore        Source = iota // links have no score
	HookScore                    // what the hook answered for the page
	SitemapScore                 // what the sitemap says about each URL
	IndegreeBudget               // the budget of the page's PLD
)

// Strategy says how URLs are spread over lanes. It does not change.
type Strategy struct {
	Name    string
	Lanes   int      // number of lanes, from 1 to MaxLanes
	Weights []uint32 // of each lane: its share of the URLs read, and of each PLD's budget
	Budgets bool     // PLDs have budgets; otherwise every queue takes any number of URLs of a PLD
	Scores  Source   // what links get as their score
	// Free lets better lanes overtake all others: they don't wait until the worse lanes have read their queues. Budgets
	// then hold within each lane, not over all of them.
	Free bool
	// Decay is how much of a page's own score its links inherit at least; 0 for none of it.
	Decay float64
	// SitesAtOnce is the number of PLDs in each queue of the last lane, if that lane has the sites that are not begun;
	// else 0.
	SitesAtOnce int
	// SeedsOnly says that no link is followed.
	SeedsOnly bool
	// Walk says that only links are followed that a random walk chooses.
	Walk bool

	lane func(s *Strategy, rec *weburl.Record) int
	site func(s *Strategy, lane int, site *Site) int
}

// Site is what STAR knows of the PLD of a URL when it places the URL.
type Site struct {
	Indegree, Largest uint32 // of the PLD, and the largest of all
	Begun             bool   // with SitesAtOnce: the PLD's queue in the last lane has been reached
}

// Names are the names that New knows.
var Names = [...]string{"none", "depth", "indegree", "hook", "sitemap",
	BreadthFirst, Focused, BestFirst, SiteBySite, Snapshot, RandomWalk}

// New returns the strategy with a name. lanes 0 is DefaultLanes, or 1 for none. weights nil is DefaultWeights.
func New(name string, lanes int, weights []uint32) (Strategy, error) {
	s := Strategy{Name: name, Lanes: lanes, Weights: weights, Budgets: true}
	switch name {
	case "none":
	case "depth":
		s.lane = byDepth
	case "indegree":
		s.lane, s.Scores = byScore, IndegreeBudget
	case "hook":
		s.lane, s.Scores = byScore, HookScore
	case "sitemap":
		s.lane, s.Scores = bySitemap, SitemapScore
	case BreadthFirst:
		s.breadthFirst()
	case Focused:
		s.focused()
	case BestFirst:
		s.bestFirst()
	case SiteBySite:
		s.siteBySite()
	case Snapshot:
		s.snapshot()
	case RandomWalk:
		s.randomWalk()
	default:
		return Strategy{}, fmt.Errorf("strategy: %q: want %s", name, strings.Join(Names[:], ", "))
	}
	if s.Lanes == 0 {
		if s.Lanes = DefaultLanes; s.oneLane() {
			s.Lanes = 1
		}
	}
	if s.Lanes < 1 || s.Lanes > MaxLanes {
		return Strategy{}, fmt.Errorf("strategy: %d lanes: want 1 to %d", lanes, MaxLanes)
	}
	if len(s.Weights) == 0 {
		s.Weights = DefaultWeights(s.Lanes)
		if s.Free {
			s.Weights = steepWeights(s.Lanes)
		}
	}
	if len(s.Weights) != s.Lanes {
		return Strategy{}, fmt.Errorf("strategy: %d weights for %d lanes", len(s.Weights), s.Lanes)
	}
	if !s.oneLane() && s.Lanes == 1 {
		return Strategy{}, fmt.Errorf("strategy: %s needs more than one lane", name)
	}
	return s, nil
}

// DefaultWeights returns the weights of a number of lanes: each is twice the next, the last is 1.
func DefaultWeights(lanes int) []uint32 {
	weights := make([]uint32, lanes)
	for i := range weights {
		weights[i] = 1 << (lanes - 1 - i)
	}
	return weights
}

// steepWeights returns the weights of lanes that overtake each other: each is eight times the next, or 2^16 if that is
// less.
func steepWeights(lanes int) []uint32 {
	weights := make([]uint32, lanes)
	for i := range weights {
		weights[i] = 1 << min(3*(lanes-1-i), 16)
	}
	return weights
}

// oneLane reports whether a strategy treats all URLs alike.
func (s *Strategy) oneLane() bool { return s.lane == nil }

// Lane returns the lane of a URL, from 0 to Lanes-1.
func (s *Strategy) Lane(rec *weburl.Record) uint8 {
	if s.Lanes == 1 || s.oneLane() || rec.Flags&weburl.FlagSeed != 0 {
		return 0
	}
	return uint8(max(0, min(s.lane(s, rec), s.Lanes-1)))
}

// LaneAmong is Lane where the operator gives some sites other lanes: URLs that a strategy treats alike are in
// the middle lane, seeds excepted.
func (s *Strategy) LaneAmong(rec *weburl.Record) uint8 {
	if s.oneLane() && rec.Flags&weburl.FlagSeed == 0 {
		return uint8(s.Lanes / 2)
	}
	return s.Lane(rec)
}

// BySite reports whether SiteLane may choose another lane than Lane.
func (s *Strategy) BySite() bool { return s.site != nil && s.Lanes > 1 }

// SiteLane returns the lane of a URL once its PLD is known. lane is that of Lane.
func (s *Strategy) SiteLane(lane uint8, site *Site) uint8 {
	return uint8(max(0, min(s.site(s, int(lane), site), s.Lanes-1)))
}

// LinkScore returns the score of the links of a page to which the hook has given a quality between 0 and 1. own is the
// score of the page, 0 if it has none.
func (s *Strategy) LinkScore(quality float64, own uint8) uint8 {
	if own != 0 {
		quality = max(quality, s.Decay*Quality(own))
	}
	return ScoreOf(quality)
}

// byDepth maps depths 0 and 1 to lane 0, and twice as many to each further lane.
func byDepth(_ *Strategy, rec *weburl.Record) int { return bits.Len16(rec.Depth|1) - 1 }

// byScore divides the scores evenly between the lanes. URLs without one are in the middle lane.
func byScore(s *Strategy, rec *weburl.Record) int {
	if rec.Score == 0 {
		return s.Lanes / 2
	}
	return int(MaxScore-rec.Score) * s.Lanes / MaxScore
}

// bySitemap prefers sitemaps themselves, since they say what is important.
func bySitemap(s *Strategy, rec *weburl.Record) int {
	if rec.Flags&weburl.FlagSitemap != 0 {
		return 0
	}
	return byScore(s, rec)
}

// MaxScore is the best score. 0 is none, 1 the worst.
const MaxScore = 255

// ScoreOf returns the score of a quality between 0 and 1; other numbers count as the nearest, NaN as 0.
func ScoreOf(quality float64) uint8 {
	if !(quality > 0) {
		return 1
	}
	return uint8(1 + math.Round(min(quality, 1)*(MaxScore-1)))
}

// Quality returns the quality of a score that is not 0.
func Quality(score uint8) float64 { return float64(score-1) / (MaxScore - 1) }

// ScoreOfBudget returns the score of a page whose PLD has a budget, from 0 for the default budget to 1 for the largest,
// by its logarithm. A budget of 0 is not known yet.
func ScoreOfBudget(budget, normal, largest uint32) uint8 {
	if budget == 0 || largest <= normal || normal == 0 {
		return 0
	}
	return ScoreOf(math.Log(float64(budget)/float64(normal)) / math.Log(float64(largest)/float64(normal)))
}
