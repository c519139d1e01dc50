// Package benchtest checks what measurements print and leave behind. It is for their tests alone.
//
// Text returns a report as it is printed, and fails a test whose report has a figure that nothing can be
// drawn of. Has looks for what must be printed. Empty looks at directories that a measurement was given:
// all of its files must be gone, also after an error and after it has been called off.
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
// As package testing has it: from the goroutine of the test.
package benchtest

import (
	"os"
	"strings"
	"testing"

	"drumbeat/bench/report"
)

// Text returns a report as it is printed. All of its figures must have points.
func Text(t *testing.T, r *report.Report) string {
	t.Helper()
	var text strings.Builder
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Figures {
		if err := f.Validate(); err != nil {
			t.Error(err)
		}
	}
	return text.String()
}

// Has looks for each of the strings in what was printed.
func Has(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q in it", text, want)
		}
	}
}

// Empty checks that a measurement has left nothing in its directories.
func Empty(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("got %v, %v, want an empty directory", left, err)
		}
	}
}
