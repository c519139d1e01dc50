package admin

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"drumbeat/state/history"
)

// TestHistoryNames: names are split at commas outside of quotes, and a metric's name is the sum of its series.
func TestHistoryNames(t *testing.T) {
	if got := splitNames(`a,b{c="x,y"}, d`); !slices.Equal(got, []string{"a", `b{c="x,y"}`, "d"}) {
		t.Errorf("got %q", got)
	}
	nan := math.NaN()
	data := &history.Data{Times: make([]time.Time, 3), Series: map[string][]float64{
		`b{c="x"}`: {1, nan, nan}, `b{c="y"}`: {2, 5, nan}, "bc": {100, 100, 100}}}
	for name, want := range map[string]string{"b": "[3,5,null]", `b{c="y"}`: "[2,5,null]", "bc": "[100,100,100]",
		"none": "[null,null,null]"} {
		if got, err := json.Marshal(seriesOf(data, name)); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
	}
}
