package plan

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"drumbeat/cmd/term"
)

// planMachine are flags that make the plan independent of the machine.
var planMachine = []string{"--ram=16GiB", "--disk=8TB", "--connections=2000", "--max-rate=4000", "--disk-rate=500MB",
	"--drum=workers=2", "--dir=/a", "--dir=/b"}

// TestPlanGolden: the output of plan for one machine, and for four.
func TestPlanGolden(t *testing.T) {
	golden(t, "testdata/plan.txt", "--pages=1e9")
	golden(t, "testdata/plannodes.txt", "--pages=3e9", "--nodes=4", "--cluster=embed")
}

func golden(t *testing.T, name string, args ...string) {
	var out, errs bytes.Buffer
	a := &term.App{Stdout: &out, Stderr: &errs}
	if code := run(a, append(append([]string{"plan"}, args...), planMachine...)); code != 0 {
		t.Fatalf("code %d: %s", code, errs.String())
	}
	if *update {
		if err := os.WriteFile(name, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("got\n%s\nwant %s", out.String(), name)
	}
}

// TestPlanCommand: exit codes and messages for good and bad flags.
func TestPlanCommand(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--pages=1e9", "--disk=1TB"}, term.ExitUsage, "--disk 931 GiB is too little: 1e9 pages take"},
		{[]string{"--ram=20MiB"}, term.ExitUsage, "is too little for 2,000 connections; the minimum is"},
		{[]string{"--drum=merge=8GiB"}, term.ExitUsage, "1B to 4095MiB"},
		{[]string{"--drum=buckets=100"}, term.ExitUsage, "power of 2"},
		{[]string{"--drum=buffer=5000"}, term.ExitUsage, "multiple of 4KiB"},
		{[]string{"--unique=1.5"}, term.ExitUsage, "at most 1"},
		{[]string{"--pages=0"}, term.ExitUsage, "--pages can't be 0"},
		{[]string{"--measure"}, term.ExitUsage, "exclude each other"},
		{[]string{"--nodes=0"}, term.ExitUsage, "must be between 1 and 4096"},
		{[]string{"--nodes=5000"}, term.ExitUsage, "must be between 1 and 4096"},
		{[]string{"--cluster=embed"}, term.ExitUsage, "--cluster needs --nodes"},
		{[]string{"--nodes=2", "--links-away=0"}, term.ExitUsage, "--links-away 0"},
		{[]string{"--nodes=64", "--cluster=embed", "--disk=100GB"}, term.ExitUsage,
			"for each of 64 nodes is 65 GiB, more than half of --disk 93 GiB"},
		{[]string{"--nodes=1000", "--ram=900MB"}, term.ExitUsage,
			"for the exchange with other nodes; the minimum is"},
		{[]string{"--nodes=8", "--cluster=embed", "--cluster-stream=64MiB"}, 0, "use a larger --cluster-stream"},
		{[]string{"--nodes=2000", "--pages=1e10"}, 0, "has room for the marks of 1,216 nodes"},
		{[]string{"--store=none", "--pages=1e10", "--drum=cache=0"}, 0, "1e10 pages"},
	} {
		var out bytes.Buffer
		a := &term.App{Stdout: &out, Stderr: &out}
		if code := run(a, append(append([]string{"plan"}, planMachine...), c.args...)); code != c.code ||
			!strings.Contains(out.String(), c.want) {
			t.Errorf("%q: got code %d and\n%s\nwant code %d and %q", c.args, code, out.String(), c.code, c.want)
		}
	}
}

// TestPlanJSON: --json prints the plan; --measure finds a rate and leaves no files.
func TestPlanJSON(t *testing.T) {
	dir := t.TempDir()
	var out, errs bytes.Buffer
	a := &term.App{Stdout: &out, Stderr: &errs}
	if code := run(a, []string{"plan", "--json", "--pages=1e6", "--ram=1GiB", "--disk=1TB", "--measure",
		"--dir=" + dir + "/new"}); code != 0 {
		t.Fatalf("code %d: %s", code, errs.String())
	}
	var p planned
	if err := json.Unmarshal(out.Bytes(), &p); err != nil || !p.Forecast.Fits || p.URLSeen.Buckets == 0 ||
		p.Forecast.Load.DiskRate <= 0 {
		t.Errorf("got %+v, %v", p, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want an empty directory", left, err)
	}
}
