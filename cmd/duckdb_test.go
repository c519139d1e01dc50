package cmd

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
)

var duckdb = flag.String("duckdb", "", "Python with the package duckdb, for TestDuckDB; scripts/duckdb.sh sets it")

// TestDuckDB: what DuckDB counts in Parquet files is what the web has, exactly, and the queries of the pages run
// as written.
func TestDuckDB(t *testing.T) {
	if *duckdb == "" {
		t.Skip("-duckdb is not set")
	}
	web, flags := cmdtest.SmallWeb(t, func(o *simweb.Options) {
		o.Page.NonHTML, o.Page.Copies, o.Signals = 0.3, 0.8, true
	})
	tmp := t.TempDir()
	wantExit(t, term.ExitDone, "",
		append(flags, "--simhash", "--usage=ai-train=mark", "--tdmrep", "--seeds", cmdtest.SeedFile(t, web),
			"--dir="+tmp+"/d")...)
	for _, kind := range []string{"pages --languages", "plds", "pld-edges", "hosts", "links", "near-duplicates",
		"robots", "host-ranks", "reputation"} {
		args := append([]string{"export"}, strings.Fields(kind)...)
		wantExit(t, term.ExitDone, "", append(args, "--dir="+tmp+"/d", "-o", tmp+"/"+args[1])...)
	}
	wantExit(t, term.ExitDone, "", "extract", "--dir="+tmp+"/d", "--fields=text,lang,meta,quality,minhash",
		"-o", tmp+"/texts")
	wantExit(t, term.ExitDone, "",
		append(flags, "--seeds", cmdtest.SeedFile(t, web), "--strategy=random-walk,urls=100", "--dir="+tmp+"/walk")...)
	wantExit(t, term.ExitDone, "", "export", "sample", "--dir="+tmp+"/walk", "-o", tmp+"/sample")
	truth := web.Expected("drumbeat")
	fetched, links, bodies, uses := 0, 0, map[string]int{}, map[simweb.Use]int{}
	for url := range truth.FetchedURLs() {
		fetched++
		uses[web.UseOf(url)]++
		page, _ := web.Page(url)
		if page.Status == 200 {
			bodies[string(page.Body)]++
			if strings.HasPrefix(page.Type, "text/html") {
				links += len(anchorsOf(t, url, &page))
			}
		}
	}
	duplicates := 0
	for _, n := range bodies {
		if n > 1 {
			duplicates += n
		}
	}
	if duplicates == 0 {
		t.Error("no pages share a body: their query tests nothing")
	}
	hosts, plds := truth.Names(), map[string]bool{}
	for _, pld := range hosts {
		plds[pld] = true
	}
	countUses(t, tmp, uses)
	for query, want := range map[string]int{
		"SELECT count(*) FROM 'pages/*.parquet'":            fetched,
		"SELECT count(DISTINCT url) FROM 'pages/*.parquet'": fetched,
		"SELECT count(*) FROM 'hosts/*.parquet'":            len(hosts),
		"SELECT count(*) FROM 'plds/*.parquet'":             len(plds),
		"SELECT count(*) FROM 'pld-edges/*.parquet'":        len(truth.PLDLinks()),
		"SELECT count(*) FROM 'links/*.parquet' l JOIN 'pages/*.parquet' p ON l.from_url = p.url " +
			"WHERE element = 'a' AND p.fetch_status = 200": links,
		"SELECT sum(n) FROM (SELECT count(*) n FROM 'pages/*.parquet' WHERE fetch_status = 200 " +
			"GROUP BY content_digest HAVING count(*) > 1)": duplicates,
	} {
		var rows [][]*int
		must(t, json.Unmarshal(queryDuckDB(t, tmp, query), &rows))
		if got := rows[0][0]; got == nil && want != 0 || got != nil && *got != want {
			t.Errorf("%s: %v, want %d", query, got, want)
		}
	}
	runPageQueries(t, tmp)
}

// countUses: the table has each combination of statements about the use of pages as often as the web.
func countUses(t *testing.T, tmp string, uses map[simweb.Use]int) {
	t.Helper()
	for use, want := range uses {
		var rows [][]int
		must(t, json.Unmarshal(queryDuckDB(t, tmp, fmt.Sprintf("SELECT count(*) FROM 'pages/*.parquet' WHERE "+
			"coalesce(content_signal, '') = '%s' AND coalesce(content_usage, '') = '%s' "+
			"AND coalesce(license, '') = '%s' AND coalesce(ai_disallowed, '') = '%s' "+
			"AND coalesce(robots_values, '') = '%s' AND coalesce(tdm_reservation, '') = '%s' "+
			"AND coalesce(tdm_policy, '') = '%s' AND coalesce(tdm_file, '') = '%s'", use.ContentSignal,
			use.ContentUsage, use.License, use.AIDisallowed, use.RobotsValues, use.TDMReservation, use.TDMPolicy,
			use.TDMFile)), &rows))
		if rows[0][0] != want {
			t.Errorf("%+v: %d pages, want %d", use, rows[0][0], want)
		}
	}
	if len(uses) < 12 {
		t.Errorf("pages have %d combinations of statements only", len(uses))
	}
}

// runPageQueries runs the queries of docs/howto and docs/tutorials as they are written.
func runPageQueries(t *testing.T, tmp string) {
	t.Helper()
	names, err := filepath.Glob("../docs/howto/*/*.md")
	must(t, err)
	tutorials, err := filepath.Glob("../docs/tutorials/*.md")
	must(t, err)
	var blocks []string
	for _, name := range append(names, tutorials...) {
		page, err := os.ReadFile(name)
		must(t, err)
		blocks = append(blocks, strings.Split(string(page), "```sql\n")[1:]...)
	}
	ran := 0
	for _, block := range blocks {
		block, _, ok := strings.Cut(block, "```")
		if !ok {
			t.Fatalf("a block without an end: %q", block)
		}
		for query := range strings.SplitSeq(block, ";") {
			if strings.TrimSpace(query) == "" {
				continue
			}
			ran++
			t.Logf("%s\n%s", query, queryDuckDB(t, tmp, query))
		}
	}
	if ran < 10 {
		t.Errorf("%d queries in docs/howto and docs/tutorials", ran)
	}
}

// queryDuckDB runs a query in a directory, and returns its rows as JSON.
func queryDuckDB(t *testing.T, dir, query string) []byte {
	t.Helper()
	const program = "import duckdb, json, sys; print(json.dumps(duckdb.execute(sys.argv[1]).fetchall(), default=float))"
	cmd := exec.CommandContext(t.Context(), *duckdb, "-c", program, query)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		text := ""
		if e, ok := err.(*exec.ExitError); ok {
			text = string(e.Stderr)
		}
		t.Fatalf("%s: %v: %s", query, err, text)
	}
	return out
}
