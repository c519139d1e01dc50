package crawl

import (
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cmd/term"
)

// TestSpeedFlags: --print-config prints schedules that give the same values when read again; an error names
// the position of the fault.
func TestSpeedFlags(t *testing.T) {
	base := []string{"crawl", "--seeds=-", "--contact=a@example.org", "--resolver=192.0.2.1", "--print-config",
		"--dir=" + filepath.Join(t.TempDir(), "c"), "--ram=1GiB"}
	speed := func(args ...string) (lines []string) {
		out, _ := wantExit(t, term.ExitDone, "", append(append([]string(nil), base...), args...)...)
		for line := range strings.Lines(out) {
			for _, name := range []string{"rate", "bandwidth", "connections", "time-zone"} {
				if value, ok := strings.CutPrefix(line, name+" = "); ok {
					value, _, _ = strings.Cut(value, "  # ")
					lines = append(lines, "--"+name+"="+strings.Trim(value, `"`))
				}
			}
		}
		return lines
	}
	for _, c := range []struct{ args, want []string }{
		{nil, nil}, // only what differs from the defaults
		{[]string{"--rate=0", "--bandwidth=0", "--connections=77"}, []string{"--connections=77"}},
		{[]string{"--rate=mon-fri 8:00-20:00 20;else 0.5", "--bandwidth=22:00-06:00 none; else 500 Mbit/s",
			"--connections=sat,sun 300; else 20", "--time-zone=Asia/Tokyo"},
			[]string{"--connections=sat-sun 300; else 20", "--rate=mon-fri 08:00-20:00 20; else 0.5",
				"--bandwidth=22:00-06:00 none; else 500Mbit", "--time-zone=Asia/Tokyo"}},
	} {
		got := speed(c.args...)
		for _, line := range c.want {
			if !strings.Contains("\n"+strings.Join(got, "\n")+"\n", "\n"+line+"\n") {
				t.Errorf("%v: got %q, want %q", c.args, got, line)
			}
		}
		if again := speed(got...); strings.Join(again, "\n") != strings.Join(got, "\n") {
			t.Errorf("%q given again is %q", got, again)
		}
	}
	for arg, want := range map[string]string{
		"--rate=mon 5; tue": `"tue" at character 8`, "--bandwidth=200MB": "unknown unit MB",
		"--connections=0":   "can't be 0",
		"--connections=1.5": "want a whole number", "--time-zone=Atlantis": "not a time zone",
		"--rate=-1": "want a value",
	} {
		if _, errs := wantExit(t, term.ExitUsage, "",
			append(append([]string(nil), base...), arg)...); !strings.Contains(errs, want) {
			t.Errorf("%s: got %q, want %q", arg, errs, want)
		}
	}
}
