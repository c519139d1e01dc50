package site

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// TestHostileSite: a site whose texts are markup, formulas, megabytes and turned around gets a report that is none of
// these.
func TestHostileSite(t *testing.T) {
	const bad = "=HYPERLINK(\"x\")\u202e&lt;script&gt;alert(1)&lt;/script&gt;"
	huge := bad + strings.Repeat(" long", 200_000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" && r.URL.Path != "/two" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<title>%s</title><meta name=description content='%[1]s'><h1>%[1]s</h1><a href=/gone>%[1]s</a>"+
			"<a href=/two>2</a><img src='%[1]s'><link rel=alternate hreflang='%[1]s' href=/gone2>"+
			"<script type=application/ld+json>%[1]s</script>", huge)
	}))
	t.Cleanup(s.Close)
	t.Chdir(t.TempDir())
	cmdtest.WantExit[commands](t, term.ExitDone, "",
		append([]string{"site", s.URL, "--report=r.html", "--max-body=20MiB"}, quick...)...)
	page, err := os.ReadFile("r.html")
	if err != nil || len(page) > 200<<10 || strings.Contains(string(page), "\u202e") {
		t.Fatalf("%v, %d bytes", err, len(page))
	}
	tree, err := html.Parse(strings.NewReader(string(page)))
	if err != nil {
		t.Fatal(err)
	}
	for n := range tree.Descendants() {
		if n.Type == html.ElementNode && n.Data == "script" {
			t.Error("the page has a script")
		}
	}
	cmdtest.WantExit[commands](t, term.ExitDone, "", "report", "--site=127.0.0.1", "-o", "r.csv", "drumbeat-crawl")
	table, err := os.ReadFile("r.csv")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(table))).ReadAll()
	if err != nil || len(rows) < 8 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows {
		for _, cell := range row {
			if strings.HasPrefix(cell, "=") || len(cell) > 4<<10 {
				t.Errorf("a cell of %d bytes: %.40q", len(cell), cell)
			}
		}
	}
}
