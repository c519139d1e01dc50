package cluster

import "testing"

// TestLargestText: status names the measures that have counts, and no factor of 0.
func TestLargestText(t *testing.T) {
	for want, l := range map[string]*largestLoads{
		"": {},
		"Largest load: node 1 has 1.50 times the mean of the pages.":        {Pages: largestLoad{1, 1.5}},
		"Largest load: node 2 has 2.00 times the mean of the waiting URLs.": {Waiting: largestLoad{2, 2}},
	} {
		if got := l.text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := (*largestLoads)(nil).text(); got != "" {
		t.Errorf("without loads: %q", got)
	}
}
