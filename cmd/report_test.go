package cmd

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/report"
)

// TestReport: a report of a stopped crawl must have its figures, as HTML and as JSON, and change nothing.
func TestReport(t *testing.T) {
	web, flags := cmdtest.SmallWeb(t, nil)
	tmp := t.TempDir()
	a, b, out := tmp+"/a", tmp+"/b", tmp+"/out"
	wantExit(t, term.ExitPages, "", append(flags, "--seeds", cmdtest.SeedFile(t, web), "--max-pages=40", "--dir="+a, "--dir="+b, "--out="+out)...)
	before := listing(t, a, b, out)
	text, _ := wantExit(t, term.ExitDone, "", "report", b, a, "-o", tmp+"/r.json")
	if !strings.HasPrefix(text, tmp+"/r.json: ") {
		t.Errorf("got %q", text)
	}
	data, err := os.ReadFile(tmp + "/r.json")
	if err != nil {
		t.Fatal(err)
	}
	var r report.Report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range r.Summary {
		values[f.Key] = f.Value
	}
	if values["pages"] < 40 || values["responses"] < values["pages"] || values["hosts"] <= 0 || values["unique"] == 0 || len(r.Top) == 0 ||
		len(r.Degrees) == 0 || len(r.Codes) == 0 || len(r.Events) < 2 || r.AsOf.State != "stopped" {
		t.Errorf("report %s", data)
	}
	page, _ := wantExit(t, term.ExitDone, "", "report", a, b, "-o", "-", "--fast", "--top=3")
	if !strings.HasPrefix(page, "<!doctype html>") || !strings.Contains(page, "--fast") || !strings.HasSuffix(page, "</html>\n") {
		t.Errorf("page %s", page)
	}
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
