package state

import "testing"

// TestPlaceText: in text QF is "over-budget"; JSON, metrics and exports keep "failed", which programs read.
// All other places have one name.
func TestPlaceText(t *testing.T) {
	for p := range Place(NumPlaces) {
		want := p.String()
		if p == PlaceOverBudget {
			if want != "failed" {
				t.Errorf("QF is %q for programs, want failed", want)
			}
			want = "over-budget"
		}
		if got := p.Text(); got != want {
			t.Errorf("%s: got %q, want %q", p, got, want)
		}
	}
}
