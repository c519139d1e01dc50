package visit

import (
	"testing"
	"time"

	"drumbeat/crawl/options"
	"drumbeat/crawl/testworld"
	"drumbeat/internal/revisit"
	"drumbeat/state"
	"drumbeat/weburl"
)

// TestRecrawlImportance: the budget of a page's PLD, to the power of --revisit importance, shortens the time until the
// next visit, down to the least interval. A budget that is not known changes nothing.
func TestRecrawlImportance(t *testing.T) {
	const hour = time.Hour
	saved := &state.Saved{Hasher: weburl.NewHasher(weburl.Secret{1}), Suffixes: weburl.NewSuffixes(false)}
	p := New(nil, saved, Options{Links: &options.Links{}, Output: &options.Output{}}, nil, nil)
	resp := answered(t, testworld.Answer{200, "", "<html>text"})
	for _, c := range []struct {
		importance float64
		budget     uint32
		want       time.Duration
	}{{0, 160, 64 * hour}, {0.5, 160, 16 * hour}, {0.5, 40, 32 * hour}, {0.5, 10, 64 * hour}, {0.5, 0, 64 * hour},
		{1, 160, 6 * hour}, {1, 20, 32 * hour}, {1, 5, 128 * hour}, {1, 1, 200 * hour}} {
		p.others = Others{BudgetRange: func() (normal, largest uint32) { return 10, 160 },
			Revisits: func([]byte) (revisit.Policy, bool) {
				return revisit.Policy{Kind: revisit.Uniform, Least: 6 * hour, Longest: 200 * hour,
					Default: 64 * hour, Gone: 2, Importance: c.importance}, true
			}}
		v, err := p.noteVisit(&Worker{}, &weburl.Record{URL: []byte("http://a.test/"), Budget: c.budget}, resp)
		got := time.Duration(v.History.Interval) * time.Second
		if err != nil || got != c.want {
			t.Errorf("importance %g, budget %d: the next visit after %v, want %v; %v", c.importance, c.budget, got,
				c.want, err)
		}
	}
}
