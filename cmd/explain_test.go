package cmd

import (
	"cmp"
	"encoding/json"
	"io/fs"
	"maps"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
	"drumbeat/state/explain"
)

// listing returns every file below the directories, with its time of change and mode.
func listing(t *testing.T, dirs ...string) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil {
				b.WriteString(path + " " + info.ModTime().String() + " " + info.Mode().String() + "\n")
			}
			return err
		})
		must(t, err)
	}
	return b.String()
}

// answers decodes JSON lines.
func answers[T any](t *testing.T, out string) (list []T) {
	t.Helper()
	for line := range strings.Lines(out) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		list = append(list, v)
	}
	return list
}

// queuedByPLD counts the URLs that wait, by PLD and place.
func queuedByPLD(t *testing.T, web *simweb.Web, at string) map[string]map[string]int64 {
	t.Helper()
	queued := map[string]map[string]int64{}
	for _, r := range exported(t, "queue", at) {
		u, err := url.Parse(r["url"].(string))
		must(t, err)
		pld := web.PLD(u.Hostname())
		if queued[pld] == nil {
			queued[pld] = map[string]int64{}
		}
		queued[pld][r["place"].(string)]++
	}
	return queued
}

// TestExplainPLD: explain pld --dir tells the web's truth of each PLD: who links to it, and how many of its URLs
// wait where.
func TestExplainPLD(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	dir := t.TempDir() + "/d"
	args := append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir="+dir)
	wantExit(t, term.ExitPages, "", append(args, "--max-pages=40")...)
	at := "--dir=" + dir
	ask := func(code int, input string, more ...string) (string, string) {
		t.Helper()
		return wantExit(t, code, input, append([]string{"explain", "pld", at}, more...)...)
	}
	queued := queuedByPLD(t, web, at)
	plds := slices.Sorted(maps.Keys(setOf(maps.Values(web.Expected("drumbeat").Names()))))
	input := strings.Join(plds, "\n") + "\n"
	got, _ := ask(term.ExitDone, input, "--json", "-")
	waiting := 0
	for i, r := range answers[explain.SiteReport](t, got) {
		hosts := int64(0)
		for host, n := range r.Hosts {
			hosts += n
			if web.PLD(host) != plds[i] {
				t.Errorf("%s: host %s", plds[i], host)
			}
		}
		if !maps.Equal(r.Places, queued[plds[i]]) {
			t.Errorf("%s: %v, want %v", plds[i], r.Places, queued[plds[i]])
		}
		for _, n := range r.Places {
			hosts -= n
		}
		if hosts != 0 {
			t.Errorf("%s: hosts %v do not add up to %v", plds[i], r.Hosts, r.Places)
		}
		waiting += len(r.Places)
	}
	if waiting == 0 {
		t.Error("no URL waits")
	}

	wantExit(t, term.ExitDone, "", args...)
	linked := map[string]map[string]bool{}
	for e := range web.Expected("drumbeat").PLDLinks() {
		if linked[e[1]] == nil {
			linked[e[1]] = map[string]bool{}
		}
		linked[e[1]][e[0]] = true
	}
	got, _ = ask(term.ExitDone, input, "--json", "-")
	for i, r := range answers[explain.SiteReport](t, got) {
		want := linked[plds[i]]
		if len(r.Linking) != min(len(want), explain.MaxLinking) || r.PLD != plds[i] || r.Error != "" {
			t.Errorf("%s: %d PLDs link to it, want %d", plds[i], len(r.Linking), len(want))
		}
		before := uint32(math.MaxUint32)
		for _, l := range r.Linking {
			if !want[l.PLD] || l.Indegree > before || int(l.Indegree) > len(linked[l.PLD]) {
				t.Errorf("%s: linked by %+v", plds[i], r.Linking)
			}
			before = l.Indegree
		}
	}
	best := slices.MaxFunc(plds, func(a, b string) int { return cmp.Compare(len(linked[a]), len(linked[b])) })
	checkPLDWords(t, at, best)
	ask(term.ExitUsage, "", "not a host")
}

// checkPLDWords asks for a PLD in words.
func checkPLDWords(t *testing.T, at, best string) {
	t.Helper()
	got, _ := wantExit(t, term.ExitDone, "", "explain", "pld", at, "www."+best, "unknown.example")
	for _, want := range []string{"www." + best + "\n  why       its PLD is " + best, "\n  linked by ", "top ranks",
		"none of its URLs wait", "unknown.example\n  why       no parsed page links to it"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if got, _ = wantExit(t, term.ExitDone, "", "explain", "pld", at, "--fast",
		best); !strings.Contains(got, "(--fast)") || strings.Contains(got, "linked by") {
		t.Errorf("--fast: %s", got)
	}
	if _, errs := wantExit(t, term.ExitUsage, "", "explain", "pld", "--fast", best); !strings.Contains(errs,
		"--fast needs --dir") {
		t.Errorf("without --dir: %s", errs)
	}
}

// TestExplainCrawl: explain answers questions about a crawl's directories, in words and as JSON, from
// arguments and lines, and changes nothing.
func TestExplainCrawl(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	tmp := t.TempDir()
	a, b, out := tmp+"/a", tmp+"/b", tmp+"/out"
	wantExit(t, term.ExitPages, "",
		append(flags, "--seeds", cmdtest.SeedFile(t, web), "--max-pages=40", "--dir="+a, "--dir="+b, "--out="+out)...)
	before := listing(t, a, b, out)
	dirs := []string{"--dir=" + b, "--dir=" + a, "--out=" + out}
	ask := func(code int, input string, args ...string) (string, string) {
		t.Helper()
		return wantExit(t, code, input, append([]string{"explain"}, args...)...)
	}
	snap := web.Log().Snapshot()
	urls, input := []string{}, ""
	for url := range snap.Fetches {
		urls = append(urls, url)
		input += url + "\n\n"
	}
	got, _ := ask(term.ExitDone, input, append([]string{"url", "--json", "-"}, dirs...)...)
	fetched := 0
	for i, r := range answers[explain.URLReport](t, got) {
		if r.URL != urls[i] || !r.Seen || r.AsOf.State != "stopped" || r.AsOf.BytesRead == 0 {
			t.Errorf("%s: %+v", urls[i], r)
		}
		if r.Place == "fetched" && r.Ended.File != "" {
			fetched++
		}
	}
	if fetched < 30 {
		t.Errorf("%d of %d URLs that the web was asked for are said to be fetched", fetched, len(urls))
	}
	checkWords(t, urls, dirs)
	if got, _ = ask(term.ExitUsage, "",
		append([]string{"url", "mailto:x"}, dirs...)...); !strings.Contains(got, "not a URL") {
		t.Errorf("no URL: %s", got)
	}
	lock, err := disk.OS().Lock(a)
	must(t, err)
	if got, _ = ask(term.ExitDone, "", append([]string{"url", urls[0]}, dirs...)...); !strings.Contains(got,
		"the crawl is running") {
		t.Errorf("while the directory is locked: %s", got)
	}
	must(t, lock.Close())
	if now := listing(t, a, b, out); now != before {
		t.Errorf("explain changed files:\n%s\nwere\n%s", now, before)
	}
	for dir, want := range map[string]string{a: "is missing", b: "is missing", tmp: "is not a drumbeat directory",
		out: "is a directory for output"} {
		if _, errs := ask(term.ExitDirectory, "", "url", urls[0], "--dir="+dir); !strings.Contains(errs, want) {
			t.Errorf("%s: %s, want %q", dir, errs, want)
		}
	}
	for _, dir := range []string{a, b} { // the manifest and its copy
		damageManifest(t, dir)
	}
	if _, errs := ask(term.ExitDamage, "",
		append([]string{"url", urls[0]}, dirs...)...); !strings.Contains(errs, "MANIFEST") {
		t.Errorf("damaged manifest: %s", errs)
	}
}

// checkWords asks for URLs, a host and rules of a stopped crawl.
func checkWords(t *testing.T, urls, dirs []string) {
	t.Helper()
	got, _ := wantExit(t, term.ExitDone, "",
		append([]string{"explain", "url", "http://never.test/", urls[0]}, dirs...)...)
	for _, want := range []string{"as of checkpoint ", "the crawl is stopped",
		"http://never.test/\n  place     unseen\n  why       never seen", "\n  stored    DRUMBEAT-",
		"\n  robots    http", "\n  delay "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	got, _ = wantExit(t, term.ExitDone, "", append([]string{"explain", "url", "--fast", "--json", urls[0]}, dirs...)...)
	if r := answers[explain.URLReport](t, got); len(r) != 1 || r[0].Place != "not-scanned" || !r[0].Seen {
		t.Errorf("--fast: %s", got)
	}
	host := answers[explain.URLReport](t, got)[0].Host
	got, _ = wantExit(t, term.ExitDone, "", append([]string{"explain", "host", "--json", host}, dirs...)...)
	if r := answers[explain.HostReport](t, got); len(r) != 1 || r[0].Host != host || len(r[0].Origins) == 0 ||
		*r[0].Stored == 0 {
		t.Errorf("host: %s", got)
	}
	got, _ = wantExit(t, term.ExitDone, "", append([]string{"explain", "host", host}, dirs...)...)
	if !strings.Contains(got, " in the indexes") {
		t.Errorf("host: %s", got)
	}
	got, _ = wantExit(t, term.ExitDone, "", append([]string{"explain", "robots", urls[0], urls[1]}, dirs...)...)
	if strings.Count(got, "verdict") != 2 {
		t.Errorf("robots: %s", got)
	}
}

// damageManifest changes a bit of the manifest of a directory.
func damageManifest(t *testing.T, dir string) {
	t.Helper()
	name := dir + "/state/MANIFEST"
	data, err := os.ReadFile(name)
	must(t, err)
	data[len(data)/2] ^= 1
	must(t, os.WriteFile(name, data, 0o600))
}

// TestExplainWithoutDir: environment variables of a crawl do not make explain read its directory.
func TestExplainWithoutDir(t *testing.T) {
	t.Setenv("DRUMBEAT_DIR", t.TempDir())
	t.Setenv("DRUMBEAT_OUT", t.TempDir())
	code, out, errs := runApp(t, `{"ref":"http://a.test/%7e"}`+"\n", "explain", "url")
	if code != 0 || errs != "" || !strings.HasPrefix(out, `{"href":"http://a.test/%7e","url":"`) {
		t.Errorf("%d, %s, %s", code, out, errs)
	}
	for _, args := range [][]string{{"url", "--json", "http://a.test/"}, {"url", "--fast"}, {"robots", "--out=x"},
		{"url", "--dir=x"}} {
		if code, _, errs := runApp(t, "", append([]string{"explain"}, args...)...); code != term.ExitUsage ||
			!strings.Contains(errs, "--dir") {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
}
