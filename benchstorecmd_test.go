package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestBenchStoreCommand: what goes in and what comes out.
func TestBenchStoreCommand(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--dir=" + dir, "--quick", "--pages=64", "--repeat=1", "--quiet", "--out=" + out}, exitDone, "BenchmarkStore/page=gzip/way=ours"},
		{[]string{"--dir=" + dir, "--level=12"}, exitUsage, "level 12"},
		{[]string{}, exitUsage, "--dir"},
	} {
		var text bytes.Buffer
		a := &app{stdout: &text, stderr: &text}
		if code := a.run(append([]string{"bench", "store"}, c.args...)); code != c.code || !strings.Contains(text.String(), c.want) {
			t.Errorf("%q: got code %d and\n%s\nwant code %d and %q", c.args, code, text.String(), c.code, c.want)
		}
	}
	if saved, err := os.ReadDir(out); err != nil || len(saved) != 3 {
		t.Errorf("saved %v, %v, want text, JSON and a plot", saved, err)
	}
}
