package tidy

import (
	"strings"
	"testing"
)

// TestStagesAreDescribed: the comment of each stage describes the goroutines that run it.
func TestStagesAreDescribed(t *testing.T) {
	r := roomsOf(t)
	for name := range r.stages {
		if !strings.Contains(r.comments[name], "oroutine") {
			t.Errorf("the comment of %s does not mention goroutines: %q", name, r.comments[name])
		}
	}
}
