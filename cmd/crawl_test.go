package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	crawlcmd "drumbeat/cmd/crawl"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
)

// TestCrawlCommand: a crawl fetches all reachable URLs; the same command then says that it is finished;
// audit balances; repair restores damaged files.
func TestCrawlCommand(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, func(o *simweb.Options) { o.LinksPerPage = 60 })
	dir := filepath.Join(t.TempDir(), "crawl")
	flags = append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir", dir)
	figures := filepath.Join(t.TempDir(), "figures.json")
	trace := filepath.Join(t.TempDir(), "links")
	out, _ := wantExit(t, term.ExitDone, "", append(flags, "--summary", figures, "--trace-links", trace)...)
	if err := web.Log().Snapshot().CheckFetched(web.Expected("drumbeat"), 1); err != nil {
		t.Error(err)
	}
	var sum crawlcmd.Figures
	data, err := os.ReadFile(figures)
	if err == nil {
		err = json.Unmarshal(data, &sum)
	}
	if m := &sum.Model; err != nil || sum.Pages == 0 || sum.Unique == 0 || sum.Places["fetched"] == 0 ||
		m.Links != sum.LinksChecked || m.Bytes < 0 || m.Predicted <= 0 || m.PredictedPageBytes <= 0 {
		t.Errorf("--summary: %v, %s", err, data)
	}
	for _, want := range []string{"pages per second by wall time", "unique URLs",
		dir + "/warc/*.warc.gz", "drumbeat audit " + dir, " files finished, ", dir + "/log/crawl-"} {
		if !strings.Contains(out, want) {
			t.Errorf("the summary lacks %q:\n%s", want, out)
		}
	}
	replay, _ := wantExit(t, term.ExitDone, "", "bench", "cache", "-q", "--trace", trace,
		"--entries=16384", "--repeat=1")
	if links := fmt.Sprintf("links: %d of a crawl's trace, in 1 generation:", sum.LinksChecked+sum.LinksCached-
		int64(len(web.Seeds()))); !strings.Contains(replay, links) ||
		!strings.Contains(replay, "policy=ours/entries=512") {
		t.Errorf("bench cache --trace: got\n%s\nwant %q and hit rates", replay, links)
	}
	host, _ := os.Hostname()
	if files, err := filepath.Glob(filepath.Join(dir, "warc", "*-"+host+".warc.gz")); err != nil || len(files) == 0 {
		t.Errorf("no WARC file of %s: %v", host, err)
	}
	if out, _ = wantExit(t, term.ExitDone, "", flags...); !strings.Contains(out, "This crawl is finished") {
		t.Errorf("the second run does not say that the crawl is finished:\n%s", out)
	}
	if out, _ = wantExit(t, term.ExitDone, "", "audit", dir); !strings.Contains(out, "balanced") {
		t.Errorf("audit: %s", out)
	}
	if out, _ = wantExit(t, term.ExitDone, "", "audit", "--deep", dir); !strings.Contains(out,
		"keys: 0 not in URLseen") ||
		!regexp.MustCompile(`\([1-9]\d* robots.txt files, [1-9]\d* DNS answers\)`).MatchString(out) {
		t.Errorf("audit --deep: %s", out)
	}
	var deep struct {
		Balanced bool
		Output   struct{ Responses int64 }
	}
	out, _ = wantExit(t, term.ExitDone, "", "audit", "--deep", "--json", "--ram", "1MiB", dir)
	if err := json.Unmarshal([]byte(out), &deep); err != nil || !deep.Balanced || deep.Output.Responses == 0 {
		t.Errorf("audit --deep --json: %v, %+v\n%s", err, deep, out)
	}
	if _, errs := wantExit(t, term.ExitDirectory, "", append(flags, "--new")...); !strings.Contains(errs, "exists") {
		t.Errorf("--new: %s", errs)
	}
	lock, err := disk.OS().Lock(dir)
	must(t, err)
	wantExit(t, term.ExitDirectory, "", flags...)
	wantExit(t, term.ExitDirectory, "", "audit", dir)
	must(t, lock.Close())
	wantExit(t, term.ExitDone, "", "repair", dir) // nothing to do
	checkRepairs(t, dir, flags)
}

// checkRepairs damages a crawl: repair restores the caches, and audit and the crawl refuse a damaged manifest.
func checkRepairs(t *testing.T, dir string, flags []string) {
	t.Helper()
	caches, err := filepath.Glob(filepath.Join(dir, "state", "urlseen", "cache-*"))
	if err != nil || len(caches) == 0 {
		t.Fatal(caches, err)
	}
	for _, name := range caches { // repair knows their keys from the output
		must(t, os.Truncate(name, 4096))
	}
	if _, errs := wantExit(t, term.ExitDamage, "", "audit", dir); !strings.Contains(errs, "drumbeat repair") {
		t.Errorf("audit of a damaged crawl does not name the repair: %s", errs)
	}
	wantExit(t, term.ExitDamage, "", "audit", "--deep", dir)
	if out, _ := wantExit(t, term.ExitFailure, "", "repair", "--dry-run", dir); !strings.Contains(out,
		"nothing was changed") {
		t.Errorf("repair --dry-run: %s", out)
	}
	if out, _ := wantExit(t, term.ExitDone, "", "repair", dir); !strings.Contains(out, "lost: 0 URLs") {
		t.Errorf("repair: %s", out)
	}
	wantExit(t, term.ExitDone, "", "audit", "--deep", dir)
	damageManifest(t, dir)
	wantExit(t, term.ExitDamage, "", flags...)
	wantExit(t, term.ExitDamage, "", "audit", dir)
}

// TestForeignDirectory: all commands refuse a directory that is not a crawl's.
func TestForeignDirectory(t *testing.T) {
	web, flags := cmdtest.SmallWeb(t, nil)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "thesis.tex"), []byte("x"), 0o600))
	wantExit(t, term.ExitDirectory, "", append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir", dir)...)
	wantExit(t, term.ExitDirectory, strings.Join(web.Seeds(), "\n"), append(flags, "--seeds=-", "--dir", dir)...)
	wantExit(t, term.ExitDirectory, "", "audit", dir)
}

// TestMoreMachine: a crawl resumed with another --ram and one more directory fetches the same set of URLs.
func TestMoreMachine(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	tmp := t.TempDir()
	flags = append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir="+tmp+"/a", "--out="+tmp+"/out")
	wantExit(t, term.ExitPages, "", append(flags, "--max-pages=40")...)
	flags = append(flags, "--add-dir="+tmp+"/b", "--ram=400MiB")
	wantExit(t, term.ExitPages, "", append(flags, "--max-pages=80")...)
	wantExit(t, term.ExitDone, "", append(flags, "--ram=160MiB")...)
	if err := web.Log().Snapshot().CheckFetched(web.Expected("drumbeat"), 1); err != nil {
		t.Error(err)
	}
	wantExit(t, term.ExitDone, "", "audit", tmp+"/b", tmp+"/a")
	wantExit(t, term.ExitDirectory, "", "audit", tmp+"/a")
	if files, _ := filepath.Glob(tmp + "/out/warc/*.warc.gz"); len(files) == 0 {
		t.Error("no WARC files under --out")
	}
	if files, _ := filepath.Glob(tmp + "/*/warc/*.open"); len(files) != 0 {
		t.Errorf("files left open: %v", files)
	}
}

// TestDepth: --max-depth=0 fetches only the seeds; --store robots=off,dns=off stores only pages.
func TestDepth(t *testing.T) {
	web, flags := cmdtest.SmallWeb(t, nil)
	dir := t.TempDir() + "/c"
	wantExit(t, term.ExitDone, "", append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir="+dir, "--max-depth=0",
		"--store=robots=off,dns=off")...)
	if out, _ := wantExit(t, term.ExitDone, "", "audit", "--deep", dir); !strings.Contains(out,
		"(0 robots.txt files, 0 DNS answers)") {
		t.Errorf("with nothing but pages to be stored, the audit says:\n%s", out)
	}
	seeds := web.Seeds()
	for url := range web.Log().Snapshot().Fetches {
		if !slices.Contains(seeds, url) {
			t.Errorf("fetched %s, which is no seed", url)
		}
	}
}

// TestDemo: the demo's own checks pass, over real sockets, its servers log the requests, and the audit balances.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "demo")
	requests := filepath.Join(t.TempDir(), "requests")
	// In its own process, since the demo checks the RAM of its process.
	out := cmdtest.WantExitAlone(t, term.ExitDone, "demo", "--quiet", "--pages=300", "--hosts=30", "--plds=10", "--dir",
		dir, "--connections=64", "--ram=256MiB", "--server-log", requests)
	for _, want := range []string{"least gap", "each once", "pages per second by wall time"} {
		if !strings.Contains(out, want) {
			t.Errorf("the summary lacks %q:\n%s", want, out)
		}
	}
	wantExit(t, term.ExitDone, "", "audit", dir)
	lines, err := os.ReadFile(requests)
	must(t, err)
	line := regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z 127\.[0-9.]+ https?://[^ /]+/[^ ]*$`)
	if all, sound := bytes.Count(lines, []byte("\n")), len(line.FindAll(lines, -1)); all < 240 || sound != all {
		t.Errorf("the server log has %d lines, %d of them sound", all, sound)
	}
}
