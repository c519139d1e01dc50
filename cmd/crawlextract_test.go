package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/cmdtest"
	"drumbeat/state/extract"
	"drumbeat/warc"
)

// TestCrawlExtract: what crawl --extract leaves is what extract leaves afterwards, byte for byte, and extract
// has nothing to do after it. A crawl that was stopped or that had no --extract makes the missing parts in
// its next run. Sites with extract = false are left out by both.
func TestCrawlExtract(t *testing.T) {
	notShort(t)
	t.Parallel()
	_, dir, at, pages := crawlForTexts(t, "--extract=text,lang,meta,jsonld", "--roll-every=10ms",
		"--checkpoint-every=20ms")
	made := dir + "/o0/texts"
	again := func(target string, more ...string) string {
		t.Helper()
		out, _ := wantExit(t, term.ExitDone, "",
			slices.Concat([]string{"extract"}, at, []string{"-o", target}, more)...)
		return out
	}
	files := globbed(t, dir+"/o*/warc/*.warc.gz")
	parts := globbed(t, made+"/*.parquet")
	if len(files) < 2 || len(parts) != len(files) {
		t.Fatalf("%d parts of %d WARC files", len(parts), len(files))
	}
	later := t.TempDir()
	again(later)
	if a, b := tableFiles(t, made), tableFiles(t, later); !maps.Equal(a, b) || len(a) != 2*len(files)+1 {
		t.Errorf("while crawling: %v\nafterwards: %v", slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
	}
	if out := again(made); !strings.Contains(out, fmt.Sprintf("%d parts (%d kept)", len(files), len(files))) {
		t.Errorf("extract after it said %s", out)
	}
	if len(pages) == 0 {
		t.Error("no pages")
	}
}

// TestCrawlExtractLater: a finished crawl gets the parts that it lacks, also after one was lost. A directory with other
// parts and a fault of the file system do not end a crawl, but its end says so.
func TestCrawlExtractLater(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, args := cmdtest.SmallWeb(t, nil)
	dir := t.TempDir()
	args = append(args, "--dir="+dir+"/d", "--ram=256MiB", "--seeds", cmdtest.SeedFile(t, web))
	wantExit(t, term.ExitDone, "", args...)
	checkLive(t, dir)
	wet := append(slices.Clone(args), "--extract=text", "--extract-format=wet", "--extract-workers=2",
		"--extract-dir="+dir+"/wet")
	out, _ := wantExit(t, term.ExitDone, "", wet...)
	parts := globbed(t, dir+"/wet/*.wet.gz")
	if len(parts) != len(globbed(t, dir+"/d/warc/*.warc.gz")) || !strings.Contains(out, " made in "+dir+"/wet") {
		t.Fatalf("%d parts; said %s", len(parts), out)
	}
	must(t, os.Remove(parts[0]))
	if out, _ = wantExit(t, term.ExitDone, "", wet...); !strings.Contains(out, "1 part made") ||
		len(globbed(t, dir+"/wet/*.wet.gz")) != len(parts) {
		t.Errorf("after a loss: %s", out)
	}
	other := append(slices.Clone(args), "--extract=lang", "--extract-dir="+dir+"/wet")
	if out, _ = wantExit(t, term.ExitDone, "", other...); !strings.Contains(out, "1 fault") {
		t.Errorf("other parts: %s", out)
	}
	wantExit(t, term.ExitUsage, "--extract x: want", append(args, "--extract=x")...)
	wantExit(t, term.ExitUsage, "wet needs text", append(args, "--extract=lang", "--extract-format=wet")...)
	wantExit(t, term.ExitUsage, "--store warc", append(args, "--extract=text", "--store=none")...)
	wantExit(t, term.ExitUsage, "--extract-workers", append(args, "--extract=text", "--extract-workers=0")...)
	wantExit(t, term.ExitUsage, "needs --extract", append(args, "--extract-dir=x")...)
}

// checkLive: a Pass without room makes nothing and says so; a WARC file whose index is damaged is tried three
// times, and holds up no other.
func checkLive(t *testing.T, dir string) {
	t.Helper()
	names := globbed(t, dir+"/d/warc/*.cdxj")
	good := readFile(t, names[0])
	must(t, os.WriteFile(names[0], []byte(strings.Replace(good, "offset", "offzet", 1)), 0o600))
	full := errors.New("full")
	failed := 0
	l, err := extract.OpenLive(extract.LiveOptions{Options: extract.Options{Format: extract.WET, Target: dir + "/live"},
		Files: warc.Options{Set: disk.Set{FS: disk.OS(), Paths: []string{dir + "/d"}}}, Crawl: "x",
		Room: func(int64) error { return full }, Failed: func(string, error) { failed++ }})
	must(t, err)
	if err := l.Pass(t.Context()); len(names) > 1 && !errors.Is(err, full) ||
		len(globbed(t, dir+"/live/*.wet.gz")) > 0 {
		t.Errorf("without room: %v", err)
	}
	full = nil
	for range 4 {
		if err := l.Pass(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if p := l.Progress(); failed != 3 || p.Faults != 3 || p.Waiting != 0 || p.Parts != int64(len(names)-1) {
		t.Errorf("told %d faults of %d files, progress %+v", failed, len(names), p)
	}
	if _, err := extract.OpenLive(extract.LiveOptions{Options: extract.Options{Format: extract.WET,
		Target: dir + "/live"}, Crawl: "x"}); err == nil {
		t.Error("its directory is not locked")
	}
	l.Close()
	must(t, os.WriteFile(names[0], []byte(good), 0o600))
}

// TestExtractSites: pages of sites with extract = false are left out, while the crawl runs and afterwards.
func TestExtractSites(t *testing.T) {
	notShort(t)
	t.Parallel()
	sites := filepath.Join(t.TempDir(), "sites.toml")
	web, args := cmdtest.SmallWeb(t, nil)
	dir := t.TempDir()
	host := web.Seeds()[0]
	host = strings.Split(strings.SplitN(host, "://", 2)[1], "/")[0]
	host, _, _ = strings.Cut(host, ":")
	must(t, os.WriteFile(sites, []byte("[[site]]\nhost = \""+host+"\"\nextract = false\n"), 0o600))
	wantExit(t, term.ExitDone, "",
		append(args, "--dir="+dir+"/d", "--seeds", cmdtest.SeedFile(t, web), "--sites="+sites,
			"--extract=text", "--extract-format=jsonl", "--extract-dir="+dir+"/a")...)
	run := func(more ...string) []byte {
		t.Helper()
		out, _ := wantExit(t, term.ExitDone, "",
			append([]string{"extract", "--dir=" + dir + "/d", "--fields=text", "--format=jsonl", "-o", "-"},
				more...)...)
		return []byte(out)
	}
	var live []byte
	for _, name := range globbed(t, dir+"/a/*.jsonl") {
		live = append(live, readFile(t, name)...)
	}
	without, all := run("--sites="+sites), run()
	of := []byte("://" + host)
	if !bytes.Equal(live, without) || bytes.Contains(live, of) || len(live) == 0 || !bytes.Contains(all, of) {
		t.Errorf("%d bytes while crawling, %d afterwards, %d of all; the site is in: %v", len(live), len(without),
			len(all), bytes.Contains(live, of))
	}
}
