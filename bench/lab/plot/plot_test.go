package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"drumbeat/bench/report"
)

// TestDrawAll: the figures of a saved report become SVG files in its directory; a figure without points is
// an error.
func TestDrawAll(t *testing.T) {
	r := report.New("drum", "a test")
	r.Figures = []report.Figure{{Name: "io", Title: "I/O", X: "keys", Y: "B/link", LogX: true, LogY: true, Series: []report.Series{
		{Name: "measured", Points: []report.Point{{X: 1e6, Y: 20}, {X: 1e7, Y: 40}, {X: 0, Y: 4}}},
		{Name: "Theorem 2", Model: true, Points: []report.Point{{X: 1e6, Y: 21}, {X: 1e7, Y: 41}}},
		{Name: "empty"},
	}}}
	dir := t.TempDir()
	if _, err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	names, err := drawAll(filepath.Join(dir, "drum.json"))
	if err != nil || len(names) != 1 || names[0] != filepath.Join(dir, "drum-io.svg") {
		t.Fatalf("got %q, %v", names, err)
	}
	svg, err := os.Open(names[0])
	if err != nil {
		t.Fatal(err)
	}
	defer svg.Close()
	for d, n := xml.NewDecoder(svg), 0; ; n++ {
		if _, err := d.Token(); err == io.EOF && n > 50 {
			break
		} else if err != nil {
			t.Fatalf("token %d: %v", n, err)
		}
	}
	if _, err := drawSVG(report.Figure{Name: "none"}); !errors.Is(err, report.ErrNoPoints) {
		t.Errorf("got %v, want an error for an empty figure", err)
	}
	if _, err := drawAll(filepath.Join(dir, "drum.txt")); err == nil {
		t.Error("a report's text was drawn")
	}
}
