package cmd

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// storedPages returns the pages of a crawl, by URL, with status and digest.
func storedPages(t *testing.T, dir string) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, r := range exported(t, "pages", "--dir="+dir) {
		pages[r["url"].(string)] = fmt.Sprint(r["fetch_status"], r["content_digest"], r["fetch_redirect"])
	}
	return pages
}

// TestDemoStored: a stored crawl, crawled again, has the same pages, and robots.txt forbids the same URLs. The first
// crawl is only read.
func TestDemoStored(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	tmp := t.TempDir()
	first, second := tmp+"/first", tmp+"/second"
	wantExit(t, term.ExitDone, "", append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir="+first)...)
	before := listing(t, first)
	requests := filepath.Join(tmp, "requests")
	out := cmdtest.WantExitAlone(t, term.ExitDone, "demo", "--quiet", "--warc="+first, "--dir="+second,
		"--connections=64", "--ram=256MiB", "--host-delay=20ms", "--server-delay=2ms", "--server-log="+requests)
	if !strings.Contains(out, "\n  served ") || !strings.Contains(out, "URLs were requested") {
		t.Errorf("summary:\n%s", out)
	}
	if after := listing(t, first); after != before {
		t.Errorf("the stored crawl changed:\n%swas\n%s", after, before)
	}
	want, got := storedPages(t, first), storedPages(t, second)
	if !maps.Equal(want, got) {
		for url, is := range want {
			if got[url] != is {
				t.Errorf("%s: %q, was %q", url, got[url], is)
			}
		}
		t.Errorf("%d pages, want %d", len(got), len(want))
	}
	forbidden := func(dir string) map[string]bool {
		urls := map[string]bool{}
		for _, r := range exported(t, "refused", "--dir="+dir) {
			if r["reason"] == "robots" {
				urls[r["url"].(string)] = true
			}
		}
		return urls
	}
	differ(t, "forbidden URLs", forbidden(second), forbidden(first))
	if log := readFile(t, requests); strings.Count(log, "\n") < len(want) {
		t.Errorf("the server log has %d lines", strings.Count(log, "\n"))
	}
	wantExit(t, term.ExitDone, "", "audit", second)
	again := []string{"demo", "--quiet", "--warc=" + first, "--connections=64", "--ram=256MiB", "--host-delay=20ms",
		"--server-delay=2ms"}
	for _, flag := range []string{"--dir=x", "--resolver=127.0.0.1:1", "--config=x", "--no-such-flag", "http://x.test/",
		"--linger=-1s"} {
		if _, said := wantExit(t, term.ExitUsage, "", append(again, "--", flag)...); !strings.Contains(said, "--") {
			t.Errorf("demo -- %s says %q", flag, said)
		}
	}
	third := tmp + "/third"
	cmdtest.WantExitAlone(t, term.ExitDone,
		append(again, "--dir="+third, "--", "--max-depth=0", "--simhash", "--host-delay=30ms")...)
	seeds := storedPages(t, third)
	if len(seeds) == 0 || len(seeds) > len(want)/2 {
		t.Errorf("%d pages at depth 0, of %d", len(seeds), len(want))
	}
	files, err := filepath.Glob(third + "/warc/*.cdxj")
	if err != nil || len(files) == 0 || !strings.Contains(readFile(t, files[0]), "simhash") {
		t.Errorf("no index with simhashes in %q: %v", files, err)
	}
}

// TestDemoStoredFaults: what is no stored crawl, and flags that do not fit together, are said.
func TestDemoStoredFaults(t *testing.T) {
	stored := t.TempDir() + "/stored"
	must(t, errors.Join(os.MkdirAll(stored+"/warc", 0o755), os.Symlink("stored", stored+"-link")))
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{term.ExitUsage, "--hostile can't be used with --warc", []string{"--warc=x", "--hostile"}},
		{term.ExitUsage, "--seeds needs --warc", []string{"--seeds=x"}},
		{term.ExitUsage, "--stored-delays needs --warc", []string{"--stored-delays"}},
		{term.ExitUsage, "is negative", []string{"--max-time=-1s"}},
		{term.ExitUsage, "--serve can't be used with --dir", []string{"--serve=8053", "--dir=x"}},
		{term.ExitUsage, "--serve can't be used with --dir or with flags", []string{"--serve=8053", "--", "--simhash"}},
		{term.ExitUsage, "--dir cannot be given after --", []string{"--", "--dir=x"}},
		{term.ExitUsage, "flags of crawl, after --", []string{"--", "--no-such-flag"}},
		{term.ExitUsage, "the two ports after it", []string{"--serve=65534"}},
		{term.ExitUsage, "is the stored crawl", []string{"--warc=" + stored, "--dir=" + stored + "/"}},
		{term.ExitUsage, "is the stored crawl", []string{"--warc=" + stored, "--dir=" + stored + "-link"}},
		{term.ExitUsage, "is in the stored crawl",
			[]string{"--warc=other", "--warc=" + stored + "-link", "--dir=" + stored + "/new/one"}},
		{term.ExitUsage, "is in the stored crawl", []string{"--warc=" + stored, "--dir=" + stored + "-link/warc"}},
		{term.ExitUsage, "contains the stored crawl", []string{"--warc=" + stored + "/warc", "--dir=" + stored}},
		{term.ExitDirectory, "no WARC files", []string{"--warc=" + stored, "--dir=" + stored + "-2"}},
		{term.ExitDirectory, "no WARC files", []string{"--warc=" + t.TempDir()}},
		{term.ExitDirectory, "no such file or directory", []string{"--warc=" + t.TempDir() + "/none"}},
	} {
		if _, said := wantExit(t, c.code, "",
			append([]string{"demo", "--quiet"}, c.args...)...); !strings.Contains(said, c.want) {
			t.Errorf("demo %q says %q, want %q", c.args, said, c.want)
		}
	}
}

// TestDemoHostile: beside hosts of every kind that attacks crawlers, the crawl fetches no URL twice and ends in time,
// and it says how each kind ended.
func TestDemoHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("under the race detector the time does not suffice")
	}
	t.Parallel()
	out := cmdtest.WantExitAlone(t, term.ExitTime, "demo", "--quiet", "--hostile", "--pages=300", "--hosts=30",
		"--plds=10", "--connections=64", "--max-time=4s", "--host-delay=20ms", "--server-delay=2ms")
	for _, want := range []string{"Hostile hosts", "endless-body", "calendar", "dns-silent", "tls-stalls", "fetched ",
		"no URL fetched twice"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// TestDemoFailureAtTime: what fails in a demo decides its exit code, also if its time is up.
func TestDemoFailureAtTime(t *testing.T) {
	notShort(t)
	t.Parallel()
	_, said := wantExit(t, term.ExitDiskFull, "", "demo", "--quiet", "--hostile", "--pages=300", "--hosts=30",
		"--plds=10", "--connections=64", "--max-time=3s", "--host-delay=20ms", "--server-delay=2ms",
		"--server-log=/dev/full")
	if !strings.Contains(said, "--server-log: ") {
		t.Errorf("the demo says %q", said)
	}
}
