package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/outlook"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
)

// simulated crawls for 15 minutes of virtual time and returns the crawl's two directories, on disk.
func simulated(t *testing.T) (dirs []string) {
	t.Helper()
	mem := memfs.New(*testworld.Seed)
	testworld.InBubble(t, func(t *testing.T) {
		web := testworld.SmallWeb(t, func(o *simweb.Options) { o.Pages, o.Hosts, o.PLDs = 1500, 60, 40 })
		opt := crawltest.SimOptions(t, web, mem)
		opt.Observe.HistoryBytes, opt.Disk.CheckpointEvery = 4<<20, 2*time.Minute
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = time.Minute, 40*time.Second
		ctx, stop := context.WithTimeout(t.Context(), 22*time.Minute)
		defer stop()
		crawltest.MustRun(t, ctx, opt)
	})
	root := t.TempDir()
	for _, d := range []string{"d0", "d1"} {
		copyTree(t, mem, d, filepath.Join(root, d))
		dirs = append(dirs, filepath.Join(root, d))
	}
	return dirs
}

// copyTree copies a directory from memory to the machine's file system.
func copyTree(t *testing.T, from disk.FS, dir, to string) {
	t.Helper()
	names, err := from.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := disk.ReadFile(from, dir+"/"+name)
		if err != nil {
			copyTree(t, from, dir+"/"+name, filepath.Join(to, name))
		} else if err := os.WriteFile(filepath.Join(to, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// planFrom runs plan with --from for dirs, and returns the exit code and both outputs.
func planFrom(dirs []string, more ...string) (int, string) {
	var out bytes.Buffer
	args := []string{"plan"}
	for _, d := range dirs {
		args = append(args, "--from="+d)
	}
	code := run(&term.App{Stdout: &out, Stderr: &out}, append(args, more...))
	return code, out.String()
}

// flat returns a text without its line ends and columns.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestFrom: plan --from says in words and as JSON what is ahead of a crawl; flags replace what was measured.
func TestFrom(t *testing.T) {
	dirs := simulated(t)
	code, text := planFrom(dirs)
	if testing.Verbose() {
		t.Log("\n" + text)
	}
	for _, want := range []string{"(stopped): ", "Disk enough until the end; ", "End at 1,", "more of crawling",
		"Speed The delays of hosts and servers: ", "More The overhead alpha is ", "The crawl is young: ",
		"Disk space part now at 1,", "WARC files, indexes, logs", "Figures measured last ", "links per page (l)",
		"Effect of more RAM and disks, at 1,", "twice the RAM 256 MiB 10 GiB"} {
		if !strings.Contains(flat(text), want) {
			t.Errorf("no %q", want)
		}
	}
	if code != 0 || t.Failed() {
		t.Fatalf("code %d, got\n%s", code, text)
	}
	var o outlook.Outlook
	code, text = planFrom(dirs, "--json", "--ram=2GiB", "--disk=1TB", "--pages=1e6", "--max-rate=100",
		"--disk-rate=50MB", "--links-per-page=20")
	if err := json.Unmarshal([]byte(text), &o); code != 0 || err != nil {
		t.Fatalf("code %d, %v, got\n%s", code, err, text)
	}
	want := outlook.Machine{RAMBytes: 2 << 30, DiskBytes: 1e12, Dirs: 2, DiskRate: 50e6}
	if got := o.Changes[0].Machine; got != want {
		t.Errorf("machine %+v, want %+v", got, want)
	}
	if o.Target != 1e6 || o.Ahead.PagesPerSecond != 100 || o.Ahead.LinksPerPage != 20 ||
		o.DiskRateBy != outlook.RateGiven || o.Figures.RAMBytes != 128<<20 ||
		o.Ahead.OutputBytes != o.Figures.Recent.OutputBytes {
		t.Errorf("got %+v", o)
	}
	code, text = planFrom(dirs, "--disk=1GB", "--pages=1e6")
	for _, want := range []string{"Pages 1,000,000 pages after ", ": more than the disk holds",
		"--disk 1GB is too little for 1,000,000 pages; about "} {
		if code != term.ExitUsage || !strings.Contains(flat(text), want) {
			t.Errorf("code %d, no %q in\n%s", code, want, text)
		}
	}
}

// TestFromRefused: exit codes and messages for directories and flags that do not go together.
func TestFromRefused(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct {
		dir  string
		args []string
		code int
		want string
	}{
		{empty, nil, term.ExitDirectory, empty + " holds no crawl: it is empty"},
		{empty + "/none", nil, term.ExitDirectory, "holds no crawl: it does not exist"},
		{empty, []string{"--nodes=2"}, term.ExitUsage, "leave out --nodes and --cluster"},
		{empty, []string{"--measure", "--disk-rate=1MB"}, term.ExitUsage, "exclude each other"},
		{empty, []string{"--unique=2"}, term.ExitUsage, "at most 1"},
	} {
		if code, text := planFrom([]string{c.dir}, c.args...); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s %q: got code %d and\n%s\nwant code %d and %q", c.dir, c.args, code, text, c.code, c.want)
		}
	}
}
