package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestBenchDecodeCommand: what goes in and what comes out.
func TestBenchDecodeCommand(t *testing.T) {
	out := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"bench", "decode", "--pages=5", "--levels=6", "--repeat=1", "--quiet", "--out=" + out}, 0,
			"BenchmarkDecode/coding=gzip/level=6/decoder=ours"},
		{[]string{"bench", "decode", "--levels=10"}, exitUsage, "level 10"},
		{[]string{"bench", "decode", "--corpus=" + out, "--pages=5", "--quiet"}, exitFailure, "no file named"},
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
