package bench

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"drumbeat/cmd/term"
)

// TestBenchDrum: each measurement runs in its own process, which reports results, limits and errors.
func TestBenchDrum(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Setenv(term.ChildMode, "main")
	dir := t.TempDir()
	small := []string{"bench", "drum", "--dir=" + dir, "-q", "--known=3e4", "--links=5e4", "--ram=8MiB", "--disk=2MB"}
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"--forms=plain,cached", "--against=mercator-a,mercator-b"}, term.ExitDone,
			[]string{"BenchmarkDrum/keys=3e4/ram=8MiB/form=plain \t", "form=mercator-b",
				"right, by the number of each link", "memory: "}},
		{[]string{"--forms=none"}, term.ExitUsage, []string{"set --forms or --against"}},
		{[]string{"--forms=abacus"}, term.ExitUsage, []string{"unknown method abacus"}},
		{[]string{"--unique=2"}, term.ExitUsage, []string{"--unique 2: want more than 0"}},
		{[]string{"--forms=plain", "--urls=" + dir + "/none"}, term.ExitFailure, []string{"does not exist"}},
		{[]string{"--disk=1000TB"}, term.ExitDiskFull, []string{"lower --disk"}},
	} {
		var out bytes.Buffer
		a := &term.App{Stdout: &out, Stderr: &out}
		if code := run(a, append(small[:len(small):len(small)], c.args...)); code != c.code {
			t.Errorf("%q: got exit code %d, want %d:\n%s", c.args, code, c.code, out.String())
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q: want %q in\n%s", c.args, want, out.String())
			}
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("left %v, %v", names, err)
	}
}
