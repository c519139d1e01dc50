package state

import (
	"strings"
	"testing"
)

// TestPlaceText: texts have words for the names of places that only programs read: those of JSON, metrics and exports.
func TestPlaceText(t *testing.T) {
	words := map[string]string{"failed": "over budget", "awaitrobots": "waiting for robots.txt", "held": "not allowed",
		"unstreamed": "new", "robotscheck": "robots.txt check", "content": "content check",
		"star": "STAR", "beast": "BEAST", "ram": "in RAM"}
	for p := range Place(NumPlaces) {
		want := p.String()
		if text, ok := words[want]; ok {
			want = text
			delete(words, p.String())
		}
		if got := p.Text(); got != want {
			t.Errorf("%s: got %q, want %q", p, got, want)
		}
	}
	if len(words) > 0 {
		t.Errorf("no place has the names of %v", words)
	}
}

// TestReasonText: every reason has a name of its own and words for people, which no name of several words is.
func TestReasonText(t *testing.T) {
	names := map[string]bool{}
	for r := ReasonRobots; r < NumReasons; r++ {
		words, _ := ReasonText(r.String())
		if words == "" || r.String() == "" || names[r.String()] || strings.Contains(words, "-") && words == r.String() {
			t.Errorf("reason %d: name %q, words %q", r, r, words)
		}
		names[r.String()] = true
	}
}
