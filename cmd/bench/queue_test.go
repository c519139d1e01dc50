package bench

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"drumbeat/cmd/term"
)

// TestBenchQueueCommand: exit codes and output for good and bad flags.
func TestBenchQueueCommand(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	small := []string{"bench", "queue", "--dir=" + dir, "--size=100KiB", "--block=8KiB", "--queues=2",
		"--repeat=1", "--quiet"}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{append(small, "--out="+out), 0, "BenchmarkQueue/op=read/records=url/block=8KiB/"},
		{append(small, "--appenders=0"), 0, "appenders=2"},
		{[]string{"bench", "queue"}, term.ExitUsage, "--dir"},
	} {
		var text bytes.Buffer
		a := &term.App{Stdout: &text, Stderr: &text}
		if code := run(a, c.args); code != c.code || !strings.Contains(text.String(), c.want) {
			t.Errorf("%q: got code %d and\n%s\nwant code %d and %q", c.args, code, text.String(), c.code, c.want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want an empty directory", left, err)
	}
	if saved, err := os.ReadDir(out); err != nil || len(saved) != 2 {
		t.Errorf("saved %v, %v, want text and JSON", saved, err)
	}
}
