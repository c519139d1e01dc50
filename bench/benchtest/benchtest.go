// Package benchtest has checks of the output and the leftover files of measurements, for tests only.
//
// Text returns the printed form of a report. Has checks that strings occur in it. Empty checks that a
// measurement left no files in its directories, also after an error or a cancelled context.
//
// # Use
//
//	r, err := disk.Run(t.Context(), opt, progress)
//	…
//	benchtest.Has(t, benchtest.Text(t, r), "BenchmarkDisk/op=write")
//	benchtest.Empty(t, opt.Dirs...)
//
// # Concurrency
//
// Call these functions from the goroutine of the test, as package testing requires.
package benchtest

import (
	"os"
	"strings"
	"testing"

	"drumbeat/bench/result"
)

// Text returns the printed form of a report.
func Text(t *testing.T, r *result.Report) string {
	t.Helper()
	var text strings.Builder
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// Has checks that text contains each of the strings.
func Has(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q in it", text, want)
		}
	}
}

// Empty checks that directories are empty.
func Empty(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("got %v, %v, want an empty directory", left, err)
		}
	}
}
