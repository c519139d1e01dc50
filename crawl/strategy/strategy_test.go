package strategy_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"drumbeat/crawl/strategy"
	"drumbeat/weburl"
)

func TestLanes(t *testing.T) {
	seed := uint8(weburl.FlagSeed)
	for _, c := range []struct {
		name  string
		lanes int
		rec   weburl.Record
		want  uint8
	}{
		{"none", 0, weburl.Record{Depth: 9}, 0},
		{"none", 4, weburl.Record{Depth: 9, Score: 1}, 0},
		{"depth", 0, weburl.Record{}, 0},
		{"depth", 0, weburl.Record{Depth: 1}, 0},
		{"depth", 0, weburl.Record{Depth: 2}, 1},
		{"depth", 0, weburl.Record{Depth: 3}, 1},
		{"depth", 0, weburl.Record{Depth: 4}, 2},
		{"depth", 0, weburl.Record{Depth: 7}, 2},
		{"depth", 0, weburl.Record{Depth: 8}, 3},
		{"depth", 0, weburl.Record{Depth: math.MaxUint16}, 3},
		{"depth", 8, weburl.Record{Depth: math.MaxUint16}, 7},
		{"hook", 0, weburl.Record{}, 2},
		{"hook", 0, weburl.Record{Flags: seed}, 0},
		{"hook", 0, weburl.Record{Score: strategy.ScoreOf(1)}, 0},
		{"hook", 0, weburl.Record{Score: strategy.ScoreOf(0.8)}, 0},
		{"hook", 0, weburl.Record{Score: strategy.ScoreOf(0.6)}, 1},
		{"hook", 0, weburl.Record{Score: strategy.ScoreOf(0.3)}, 2},
		{"hook", 0, weburl.Record{Score: strategy.ScoreOf(0)}, 3},
		{"hook", 8, weburl.Record{Score: 1}, 7},
		{"sitemap", 0, weburl.Record{}, 2},
		{"sitemap", 0, weburl.Record{Flags: weburl.FlagSitemap}, 0},
		{"sitemap", 0, weburl.Record{Score: strategy.ScoreOf(0.51)}, 1},
		{"indegree", 0, weburl.Record{Score: strategy.ScoreOfBudget(10, 10, 10_000)}, 3},
		{"indegree", 0, weburl.Record{Score: strategy.ScoreOfBudget(10_000, 10, 10_000)}, 0},
		{"indegree", 0, weburl.Record{Score: strategy.ScoreOfBudget(400, 10, 10_000)}, 1},
		{"indegree", 0, weburl.Record{Score: strategy.ScoreOfBudget(0, 10, 10_000)}, 2},
	} {
		s, err := strategy.New(c.name, c.lanes, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Lane(&c.rec); got != c.want {
			t.Errorf("%s with %d lanes: lane %d of %+v, want %d", c.name, s.Lanes, got, c.rec, c.want)
		}
	}
}

// Every record has a lane, and a better score never a worse one.
func TestLaneOfEveryScore(t *testing.T) {
	for lanes := 2; lanes <= strategy.MaxLanes; lanes++ {
		s, err := strategy.New("hook", lanes, nil)
		if err != nil {
			t.Fatal(err)
		}
		used := map[uint8]int{}
		last := uint8(lanes)
		for score := 1; score <= strategy.MaxScore; score++ {
			lane := s.Lane(&weburl.Record{Score: uint8(score)})
			if lane > last || int(lane) >= lanes {
				t.Fatalf("%d lanes: score %d has lane %d, the one below has %d", lanes, score, lane, last)
			}
			last = lane
			used[lane]++
		}
		for lane, n := range used {
			if n < strategy.MaxScore/lanes-1 || len(used) != lanes {
				t.Errorf("%d lanes: lane %d has %d scores, %d are used", lanes, lane, n, len(used))
			}
		}
	}
}

func TestScore(t *testing.T) {
	for _, c := range []struct {
		quality float64
		want    uint8
	}{{0, 1}, {-1, 1}, {math.NaN(), 1}, {1, 255}, {7, 255}, {0.5, 128}} {
		if got := strategy.ScoreOf(c.quality); got != c.want {
			t.Errorf("score of %v is %d, want %d", c.quality, got, c.want)
		}
	}
	if q := strategy.Quality(128); q != 0.5 {
		t.Errorf("quality of score 128 is %v", q)
	}
}

func TestNew(t *testing.T) {
	if got := strategy.DefaultWeights(4); !slices.Equal(got, []uint32{8, 4, 2, 1}) {
		t.Errorf("weights of 4 lanes: %v", got)
	}
	for _, c := range []struct {
		name    string
		lanes   int
		weights []uint32
		fault   string
	}{
		{"best", 0, nil, "want none"}, {"depth", 9, nil, "9 lanes"}, {"depth", -1, nil, "-1 lanes"},
		{"depth", 1, nil, "more than one"}, {"depth", 3, []uint32{1, 2}, "2 weights for 3 lanes"},
	} {
		if _, err := strategy.New(c.name, c.lanes, c.weights); err == nil || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("New(%q, %d, %v): %v, want %q", c.name, c.lanes, c.weights, err, c.fault)
		}
	}
}
