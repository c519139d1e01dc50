package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBenchURLCommand: what goes in and what comes out.
func TestBenchURLCommand(t *testing.T) {
	dir, out, empty := t.TempDir(), t.TempDir(), t.TempDir()
	page := `<base href="//h.example/d/"><a href="a b">x</a><a href=c#d>y</a><a href=c>z</a><a href=mailto:x@y>`
	if err := os.WriteFile(filepath.Join(dir, "a page.html"), []byte(page), 0o666); err != nil {
		t.Fatal(err)
	}
	small := []string{"bench", "url", "--quiet", "--repeat=1", "--cache=1MiB", "--pages=3"}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{append(small, "--corpus="+dir, "--out="+out), 0, "4 references of 1 pages, of which 4 are different on their page; 50.0 % of these are plain"},
		{small, 0, "made: 3 pages of 59 links"},
		{append(small, "--corpus="+empty), 1, "no HTML file in"},
		{append(small, "--corpus="+dir+"/none"), 1, "no such file"},
		{append(small, "--repeat=0", "--pages=20000"), exitUsage, "want 1 to 10,000"},
	} {
		var text bytes.Buffer
		a := &app{stdout: &text, stderr: &text}
		if code := a.run(c.args); code != c.code || !strings.Contains(text.String(), c.want) {
			t.Errorf("%q: got code %d and\n%s\nwant code %d and %q", c.args, code, text.String(), c.code, c.want)
		}
	}
	if saved, err := os.ReadDir(out); err != nil || len(saved) != 3 {
		t.Errorf("saved %v, %v, want text, JSON and a plot", saved, err)
	}
}
