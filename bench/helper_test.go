package bench

import (
	"os"
	"strings"
	"testing"

	"drumbeat/bench/report"
)

// reportText returns a report as it is printed. All of its figures must be drawable.
func reportText(t *testing.T, r *report.Report) string {
	t.Helper()
	var text strings.Builder
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Figures {
		if _, err := f.SVG(); err != nil {
			t.Error(err)
		}
	}
	return text.String()
}

// checkHas looks for each of the strings in what was printed.
func checkHas(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q in it", text, want)
		}
	}
}

// checkEmpty checks that a measurement has left nothing in its directories.
func checkEmpty(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("got %v, %v, want an empty directory", left, err)
		}
	}
}
