package cmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/state/report"
	"drumbeat/state/sitereport"
)

// TestReport: a report of a stopped crawl must have its figures, as HTML and as JSON, and change nothing.
func TestReport(t *testing.T) {
	web, flags := cmdtest.SmallWeb(t, nil)
	tmp := t.TempDir()
	a, b, out := tmp+"/a", tmp+"/b", tmp+"/out"
	wantExit(t, term.ExitPages, "",
		append(flags, "--seeds", cmdtest.SeedFile(t, web), "--max-pages=40", "--dir="+a, "--dir="+b, "--out="+out)...)
	before := listing(t, a, b, out)
	text, _ := wantExit(t, term.ExitDone, "", "report", b, a, "-o", tmp+"/r.json")
	if !strings.HasPrefix(text, tmp+"/r.json: ") {
		t.Errorf("got %q", text)
	}
	data, err := os.ReadFile(tmp + "/r.json")
	must(t, err)
	var r report.Report
	must(t, json.Unmarshal(data, &r))
	values := map[string]float64{}
	for _, f := range r.Summary {
		values[f.Key] = f.Value
	}
	if values["pages"] < 40 || values["responses"] < values["pages"] || values["hosts"] <= 0 || values["unique"] == 0 ||
		len(r.Top) == 0 || len(r.Degrees) == 0 || len(r.Codes) == 0 || len(r.Events) < 2 || r.AsOf.State != "stopped" {
		t.Errorf("report %s", data)
	}
	page, _ := wantExit(t, term.ExitDone, "", "report", a, b, "-o", "-", "--fast", "--top=3")
	if !strings.HasPrefix(page, "<!doctype html>") || !strings.Contains(page, "--fast") ||
		!strings.HasSuffix(page, "</html>\n") {
		t.Errorf("page %s", page)
	}
	paper, _ := wantExit(t, term.ExitDone, "", "report", a, b, "-o", "-", "--paper")
	if strings.Contains(page, "section VIII") || !strings.Contains(paper, "section VIII") {
		t.Error("only --paper is to speak of the paper")
	}
	wantExit(t, term.ExitUsage, "", "report", a, b, "--site=a.test", "--paper")
	text, _ = wantExit(t, term.ExitDone, "", "report", a, b, "-o", "-", "--json", "--fast")
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Error(err)
	}
	if after := listing(t, a, b, out); after != before {
		t.Errorf("the report changed the crawl: before\n%safter\n%s", before, after)
	}
	wantExit(t, term.ExitDirectory, "", "report", tmp, "-o", "-")
	wantExit(t, term.ExitDirectory, "", "report", a, "-o", "-")
	wantExit(t, term.ExitUsage, "", "report", a, "--top=0")
	wantExit(t, term.ExitFailure, "", "report", a, b, "-o", tmp+"/nowhere/r.html")
}

// TestReportSite: report --site writes HTML, JSON and CSV; its broken links are those of the web.
func TestReportSite(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	dir := t.TempDir() + "/d"
	wantExit(t, term.ExitDone, "", append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir="+dir)...)
	before := listing(t, dir)
	site := web.PLD(hostOf(t, web.Seeds()[0]))
	tmp := t.TempDir()
	for _, name := range []string{"site.html", "site.json", "site.csv"} {
		out, _ := wantExit(t, term.ExitDone, "", "report", "--site", site, "--rows=10000", "-o", tmp+"/"+name, dir)
		if !strings.Contains(out, name+": ") {
			t.Errorf("printed %q", out)
		}
	}
	var rep sitereport.Report
	must(t, json.Unmarshal([]byte(readFile(t, tmp+"/site.json")), &rep))
	want, got := map[string]bool{}, map[string]bool{}
	truth, ours := web.Expected("drumbeat"), int64(0)
	for url := range truth.FetchedURLs() {
		page, _ := web.Page(url)
		if web.PLD(hostOf(t, url)) != site {
			continue
		}
		if ours++; page.Status >= 400 {
			want[url] = true
		}
	}
	for _, f := range rep.Findings {
		if f.Kind == "broken-link" {
			for _, r := range f.Rows {
				url := r.URL
				if _, end, found := strings.Cut(r.Detail, ", after a redirect to "); found {
					url = end
				}
				if web.PLD(hostOf(t, url)) == site && strings.HasPrefix(r.Detail, "status ") {
					got[url] = true
				}
				if len(r.From) == 0 || r.Count < int64(len(r.From)) {
					t.Errorf("%+v", r)
				}
			}
		}
	}
	differ(t, "broken links", got, want)
	sum := int64(0)
	for _, n := range rep.Statuses {
		sum += n
	}
	if sum != ours || len(want) == 0 || rep.Site != site {
		t.Errorf("%d responses, want %d; %d broken", sum, ours, len(want))
	}
	if html := readFile(t, tmp+"/site.html"); !strings.Contains(html, site+"</title>") {
		t.Errorf("HTML begins %.300s", html)
	}
	csv := readFile(t, tmp+"/site.csv")
	if out, _ := wantExit(t, term.ExitDone, "", "report", "--site", site, "--rows=10000", "--csv", "-o", "-",
		dir); out != csv {
		t.Errorf("standard output has %d bytes, the file %d", len(out), len(csv))
	}
	if after := listing(t, dir); after != before {
		t.Error("report changed the crawl")
	}
	checkReportFaults(t, dir, tmp)
}

// checkReportFaults: each fault of report --site is said, and leaves no file.
func checkReportFaults(t *testing.T, dir, tmp string) {
	t.Helper()
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{term.ExitUsage, "only with --site", []string{"--rows=5", dir}},
		{term.ExitUsage, "only with --site", []string{"--check-outside", dir}},
		{term.ExitUsage, "only with --check-outside", []string{"--site=a.test", "--outside-links=5", dir}},
		{term.ExitUsage, "want 1 to", []string{"--site=a.test", "--check-outside", "--outside-links=0", dir}},
		{term.ExitUsage, "only with --site", []string{"-o", tmp + "/x.csv", dir}},
		{term.ExitUsage, "it is empty", []string{"--site=", dir}},
		{term.ExitUsage, "want 1 to", []string{"--site=a.test", "--rows=0", dir}},
		{term.ExitUsage, "only with --site", []string{"--compare=" + tmp + "/site.json", dir}},
		{term.ExitUsage, "only a report in HTML", []string{"--site=a.test", "--compare=x", "--json", dir}},
		{term.ExitUsage, "give one of them", []string{"--site=a.test", "--csv", "--json", dir}},
		{term.ExitFailure, "no page of this site", []string{"--site=nosuch.test", "-o", tmp + "/x.html", dir}},
		{term.ExitDirectory, "holds no crawl", []string{"--site=a.test", "-o", tmp + "/x.html", t.TempDir()}},
	} {
		if _, said := wantExit(t, c.code, "",
			append([]string{"report"}, c.args...)...); !strings.Contains(said, c.want) {
			t.Errorf("%q says %q, want %q", c.args, said, c.want)
		}
	}
	if left, err := filepath.Glob(tmp + "/*x*"); err != nil || len(left) > 0 {
		t.Errorf("failed reports left %v", left)
	}
}
