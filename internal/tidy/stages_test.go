package tidy

import (
	"strings"
	"testing"
)

// TestStagesAreDescribed: the comment of each stage describes the goroutines that run it.
func TestStagesAreDescribed(t *testing.T) {
	stages, _, comments := crawlGraphs(t)
	for name := range stages {
		if !strings.Contains(comments[name], "oroutine") {
			t.Errorf("the comment of %s does not mention goroutines: %q", name, comments[name])
		}
	}
}
