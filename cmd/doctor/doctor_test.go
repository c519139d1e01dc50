package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// quiet are flags with which doctor sends nothing and writes little.
var quiet = []string{"doctor", "--no-network", "--disk-test=1MiB", "--pages=1000", "--ram=256MiB", "--connections=100"}

// TestCommand: JSON has every check; the exit code is 1 if one fails; the directories stay empty.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	args := append(slices.Clone(quiet), "--json", "--dir="+dir+"/a", "--dir="+dir+"/b", "--out="+dir+"/c")
	code, out, errs := cmdtest.Run[commands](t, "", args...)
	var got struct {
		Need     needs
		Problems int
		Checks   []struct{ Check, Status, Now string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	if want := min(1, got.Problems); code != want {
		t.Errorf("got exit code %d, want %d: %s", code, want, out)
	}
	if n := got.Need; n.Connections != 100 || n.RAMBytes != 256<<20 || n.Pages != 1000 || n.Files == 0 ||
		n.OutputBytes != 6e6 || n.OutputRate == 0 {
		t.Errorf("got %+v", n)
	}
	for _, want := range []string{"kernel", "open files", "clock", "name server", "directory " + dir + "/c",
		"speed of " + dir + "/b"} {
		found := false
		for _, c := range got.Checks {
			found = found || c.Check == want && c.Now != ""
		}
		if !found {
			t.Errorf("no check %q in %s", want, out)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want an empty directory", left, err)
	}
	if !strings.Contains(errs, "writing and reading 1.0 MiB in "+dir) {
		t.Errorf("got the progress %q", errs)
	}
}

// TestFailingCommand: a directory that cannot be created is a problem, not a bad flag.
func TestFailingCommand(t *testing.T) {
	file := cmdtest.File(t, "f", "")
	out, _ := cmdtest.WantExit[commands](t, term.ExitFailure, "", append(slices.Clone(quiet), "--dir="+file)...)
	if !strings.Contains(out, "fail  ") || !strings.Contains(out, "is not a directory") ||
		!strings.Contains(out, "  -> another --dir") {
		t.Errorf("got %s", out)
	}
	end := out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:]
	if !strings.Contains(end, "problem") || !strings.Contains(end, "directory "+file) {
		t.Errorf("got the end %q", end)
	}
}

// TestBadFlags: faults of flags have exit code 2.
func TestBadFlags(t *testing.T) {
	for _, c := range []struct{ arg, want string }{
		{"--ram=20MiB", "is too little"}, {"--pages=0", "can't be 0"}, {"--deadline=1ms", "at least 1s"},
		{"--queries=1", "between 10"}, {"--disk-test=1TiB", "at most 64 GiB"}, {"--dir=", "is empty"},
		{"--seeds=/none", "--seeds: /none does not exist"}, {"--ip=5", "--ip"}, {"--connections=0", "connections"},
	} {
		code, out, errs := cmdtest.Run[commands](t, "", append(slices.Clone(quiet), c.arg)...)
		if code != term.ExitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%s: got %d, %s%s", c.arg, code, out, errs)
		}
	}
}

// TestNeedsFollowFlags: --rate and --dns-rate lower the needs; --out takes the WARC files.
func TestNeedsFollowFlags(t *testing.T) {
	needOf := func(change func(*Command)) *needs {
		t.Helper()
		var c commands
		parse(t, &c, "--disk=1TB", "--max-rate=2000", "--dir="+t.TempDir())
		change(&c.Doctor)
		n, err := c.Doctor.needs()
		must(t, err)
		return n
	}
	plain := needOf(func(*Command) {})
	slow := needOf(func(c *Command) {
		must(t, c.Rate.UnmarshalText([]byte("mon 10; else 20")))
	})
	if plain.Rate <= 20 || slow.Requests != 20 || slow.StateRate >= plain.StateRate {
		t.Errorf("got %+v, %+v", plain, slow)
	}
	if n := needOf(func(c *Command) { c.DNSRate = 1 }); n.Lookups != 1 || n.Rate != plain.Rate {
		t.Errorf("got %+v", n)
	}
	n := needOf(func(c *Command) { c.Out = []string{t.TempDir()} })
	state, _ := n.share(false)
	out, rate := n.share(true)
	if both, _ := plain.share(false); out != n.OutputBytes || rate != 6000*n.Rate || state+out != both {
		t.Errorf("got %d and %d, want the sum %d", state, out, both)
	}
	if direct := needOf(func(c *Command) { c.DirectIO, c.Geometry.Workers = true, 64 }); direct.Files <= plain.Files {
		t.Errorf("got %d files with direct I/O, %d without", direct.Files, plain.Files)
	}
}

// TestSeedHosts: each host once, in order, without addresses and faults.
func TestSeedHosts(t *testing.T) {
	file := cmdtest.File(t, "seeds",
		"# x\nhttp://a.test/x\nb.test\nhttps://A.test/y\nhttp://192.0.2.1/\n"+
			"http://[2001:db8::1]/\n::\n\nc.test\nd.test\n")
	got, err := seedHosts(file, 3)
	if err != nil || !slices.Equal(got, []string{"a.test", "b.test", "c.test"}) {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestDeadline: a check that hangs is unknown, and so are those after the deadline of all.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		hang := check{"hangs", short, func(context.Context, *env) []finding {
			<-release
			return nil
		}}
		fine := check{"fine", short, func(context.Context, *env) []finding { return []finding{{Check: "fine"}} }}
		ctx, cancel := context.WithTimeout(t.Context(), 2*short)
		defer cancel()
		got := run(ctx, nil, []check{hang, fine, hang, fine})
		want := []status{unknown, ok, unknown, unknown}
		for i, r := range got {
			if r.Status != want[i] {
				t.Errorf("check %d: got %+v", i, r)
			}
		}
		if len(got) != 4 || !strings.Contains(got[3].Now, "--deadline") {
			t.Errorf("got %+v", got)
		}
	})
}

// TestTable: columns are aligned, fixes stand below, and the last line sums up.
func TestTable(t *testing.T) {
	n := &needs{Pages: 1e9, Connections: 2000, RAMBytes: 4 << 30, StateBytes: 1e12, Rate: 1000, Requests: 1200}
	var out bytes.Buffer
	err := newReport(n, []finding{{Check: "a", Now: "1", Need: "2"},
		{Check: "bcd", Status: warn, Now: "333", Need: "4", Fix: []string{"sysctl -w x=1"}}, {Check: "e", Status: fail,
			Now: "5", Fix: []string{"f", "g"}}, {Check: "h", Status: unknown, Now: "why"}}).write(&out)
	want := `1e9 pages, 2,000 connections, 4.0 GiB of RAM, 931 GiB of disk: up to 1,000 pages/s, 1,200 requests/s

         check  now  needed
ok       a      1    2
warn     bcd    333  4
         -> sysctl -w x=1
fail     e      5
         -> f
         -> g
unknown  h      why

To keep a sysctl after a restart, write its NAME=VALUE to /etc/sysctl.d/90-drumbeat.conf.
1 problem, 1 warning, 1 unknown: e; bcd; h
`
	if err != nil || out.String() != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, out.String(), want)
	}
	if got := newReport(n, []finding{{Check: "a"}, {Check: "b"}}).line(); got != "All 2 checks are ok." {
		t.Errorf("got %q", got)
	}
}

// TestShellWord: paths in commands are quoted.
func TestShellWord(t *testing.T) {
	for in, want := range map[string]string{"/a/b-1.c": "/a/b-1.c", "/a b": "'/a b'", "/a'b": `'/a'\''b'`} {
		if got := shellWord(in); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// parse fills the flags.
func parse(t *testing.T, c *commands, args ...string) {
	t.Helper()
	cmdtest.Parse(t, c, append([]string{"doctor"}, args...)...)
}

// TestWritesNothingElse: a directory that exists holds the same files afterwards.
func TestWritesNothingElse(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "x"), []byte("y"), 0o600))
	cmdtest.Run[commands](t, "", append(slices.Clone(quiet), "--dir="+dir)...)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "x" {
		t.Errorf("got %v, %v", left, err)
	}
}
