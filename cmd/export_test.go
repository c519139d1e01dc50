package cmd

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dustin/go-humanize"
	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
	"drumbeat/parse"
	"drumbeat/weburl"
)

// exported runs export as JSON lines and returns the rows.
func exported(t *testing.T, kind string, args ...string) (rows []map[string]any) {
	t.Helper()
	out, _ := wantExit(t, term.ExitDone, "", append([]string{"export", kind, "--format=jsonl", "-o", "-"}, args...)...)
	return answers[map[string]any](t, out)
}

// column returns the texts of a column; it fails if one is there twice.
func column(t *testing.T, rows []map[string]any, name string) map[string]bool {
	t.Helper()
	set := map[string]bool{}
	for _, r := range rows {
		text := fmt.Sprint(r[name])
		if set[text] {
			t.Errorf("%s %s is there twice", name, text)
		}
		set[text] = true
	}
	return set
}

// differ reports what only one of two sets has.
func differ(t *testing.T, what string, got, want map[string]bool) {
	t.Helper()
	n := 0
	for _, pair := range [][2]map[string]bool{{got, want}, {want, got}} {
		for x := range pair[0] {
			if n++; !pair[1][x] && n < 20 {
				t.Errorf("%s: %s is in one set of %d and %d only", what, x, len(pair[0]), len(pair[1]))
			}
		}
	}
}

func setOf(seqs ...func(func(string) bool)) map[string]bool {
	set := map[string]bool{}
	for _, seq := range seqs {
		for x := range seq {
			set[x] = true
		}
	}
	return set
}

// TestExportTruth: the rows of all exports of a finished crawl are exactly the pages, names and edges of the
// web, and the positions of pages lead to their records.
func TestExportTruth(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, func(o *simweb.Options) { o.Signals = true })
	dir := t.TempDir() + "/d"
	wantExit(t, term.ExitDone, "", append(flags, "--seeds", cmdtest.SeedFile(t, web), "--usage=ai-train=mark",
		"--tdmrep", "--dir="+dir)...)
	before := listing(t, dir)
	truth := web.Expected("drumbeat")
	at := "--dir=" + dir
	pages := exported(t, "pages", at)
	differ(t, "pages", column(t, pages, "url"), setOf(truth.FetchedURLs()))
	checkPages(t, web, dir, pages)
	checkUse(t, web, pages, at)

	ended := column(t, exported(t, "refused", at), "url")
	waiting := column(t, exported(t, "queue", at), "url")
	for url := range ended {
		if waiting[url] {
			t.Errorf("%s is refused and waits", url)
		}
	}
	both := maps.Clone(ended)
	maps.Copy(both, waiting)
	differ(t, "refused and waiting", both, setOf(truth.RefusedURLs(), truth.DeadURLs()))

	hosts := map[string]string{}
	rows := exported(t, "hosts", at)
	for _, r := range rows {
		hosts[r["host"].(string)] = r["pld"].(string)
	}
	checkHostUse(t, pages, rows)
	if want := truth.Names(); !maps.Equal(hosts, want) {
		t.Errorf("hosts: %v, want %v", hosts, want)
	}
	state := exported(t, "state", at)
	differ(t, "state", column(t, state, "url"), setOf(truth.FetchedURLs(), truth.RefusedURLs(), truth.DeadURLs()))
	for _, r := range state {
		if url := r["url"].(string); ended[url] != (r["place"] == "refused") || waiting[url] != (r["reason"] != nil &&
			r["place"] != "refused") || r["visits"] != float64(1) && !ended[url] && !waiting[url] {
			t.Errorf("refused %v, waits %v: %v", ended[url], waiting[url], r)
		}
	}
	checkChanges(t, web, exported(t, "changes", "--texts", at))
	checkEdges(t, web, truth, at)
	checkLinks(t, web, truth, exported(t, "links", at))
	checkRobots(t, web, exported(t, "robots", at), hosts)
	if after := listing(t, dir); after != before {
		t.Errorf("export changed the crawl:\n%s\nwas\n%s", after, before)
	}
}

// checkUse compares what rows say about the use of pages with what the web says.
func checkUse(t *testing.T, web *simweb.Web, pages []map[string]any, at string) {
	t.Helper()
	files := map[[2]string]string{}
	statements := map[string]int{}
	for _, r := range pages {
		url := r["url"].(string)
		use := web.UseOf(url)
		refused := ""
		if strings.Contains(use.ContentSignal, "ai-train=no") || strings.Contains(use.ContentUsage, "train-ai=n") ||
			use.RobotsValues != "" || use.TDMReservation == "1" {
			refused = "ai-train=no"
		}
		for name, want := range map[string]string{"content_signal": use.ContentSignal,
			"content_usage": use.ContentUsage, "license": use.License, "ai_disallowed": use.AIDisallowed,
			"robots_values": use.RobotsValues, "tdm_reservation": use.TDMReservation, "usage": refused,
			"tdm_policy": use.TDMPolicy, "tdm_file": use.TDMFile} {
			if got, _ := r[name].(string); got != want {
				t.Errorf("%s: %s %q, want %q", url, name, got, want)
			}
			if want != "" {
				statements[name]++
			}
		}
		if use.TDMFile != "" {
			files[[2]string{use.TDMFile, use.TDMPolicy}] = url
		}
		variant := web.RobotsVariant(r["url_host_name"].(string))
		_, has := r["robots_digest"].(string)
		if none := variant == "404" || variant == "403"; has == none || has != (r["robots_fetched"] != nil) {
			t.Errorf("%s: robots.txt %s, digest %v, fetched %v", url, variant, r["robots_digest"], r["robots_fetched"])
		}
	}
	for said, url := range files {
		want := "tdmrep.json does not reserve the right to mine this URL"
		if said[0] == "1" {
			want = strings.Replace(want, "does not reserve", "reserves", 1)
		}
		if said[1] != "" {
			want += "; the terms are at " + said[1]
		}
		if out, _ := wantExit(t, term.ExitDone, "", "explain", "url", url, at); !strings.Contains(out, want+"\n") {
			t.Errorf("explain of %s does not say %q:\n%s", url, want, out)
		}
	}
	if len(statements) < 9 {
		t.Errorf("only %v are stated", statements)
	}
}

// checkHostUse compares what rows of hosts say about the use of pages with what those of their pages say.
func checkHostUse(t *testing.T, pages, hosts []map[string]any) {
	t.Helper()
	byHost := map[any]map[string]any{}
	for _, r := range hosts {
		byHost[r["host"]] = r
	}
	signals := 0
	for _, r := range pages {
		h := byHost[r["url_host_name"]]
		for _, name := range []string{"robots_digest", "robots_group", "content_signal", "license",
			"robots_crawl_delay"} {
			if port := strings.Contains(r["url"].(string), ":8080/"); h == nil || h[name] != r[name] && !port {
				t.Errorf("%s: %s %v, of its host %v", r["url"], name, r[name], h[name])
			}
		}
		if ai, _ := r["ai_disallowed"].(string); ai != "" && h["ai_groups"] != ai {
			t.Errorf("%s: disallows %s, its host %v", r["url"], ai, h["ai_groups"])
		}
		if usage, _ := h["content_usage"].(string); usage != "" {
			signals++
			if want := "/docs/ search=y, train-ai=y; train-ai=n"; usage != want {
				t.Errorf("%s: content_usage %q, want %q", h["host"], usage, want)
			}
		}
	}
	if signals == 0 {
		t.Error("no host has a Content-Usage line")
	}
}

// checkPages compares rows with the web and with the records at their positions.
func checkPages(t *testing.T, web *simweb.Web, dir string, pages []map[string]any) {
	t.Helper()
	depths := 0
	for _, r := range pages {
		url := r["url"].(string)
		page, ok := web.Page(url)
		if !ok || float64(page.Status) != r["fetch_status"] {
			t.Errorf("%s: status %v, want %d", url, r["fetch_status"], page.Status)
		}
		mime, _, _ := strings.Cut(page.Type, ";")
		if got, _ := r["content_mime_type"].(string); got != strings.TrimSpace(mime) {
			t.Errorf("%s: type %q, want %q", url, got, mime)
		}
		var charset any // the pages of the web are UTF-8
		if page.Status == 200 && strings.HasPrefix(page.Type, "text/html") {
			charset = "utf-8"
		}
		if r["content_charset"] != charset {
			t.Errorf("%s (%s): charset %v, want %v", url, page.Type, r["content_charset"], charset)
		}
		if (page.Location != "") != (r["fetch_redirect"] != nil) {
			t.Errorf("%s: redirect %v, want %q", url, r["fetch_redirect"], page.Location)
		}
		if r["depth"].(float64) > 0 {
			depths++
			if r["via"] == nil {
				t.Errorf("%s has no referrer", url)
			}
		}
		f, err := os.Open(filepath.Join(dir, "warc", r["warc_filename"].(string)))
		must(t, err)
		record := io.NewSectionReader(f, int64(r["warc_record_offset"].(float64)),
			int64(r["warc_record_length"].(float64)))
		z, err := gzip.NewReader(record)
		must(t, err)
		text, err := io.ReadAll(z)
		f.Close()
		if err != nil || !bytes.Contains(text, []byte("\r\nWARC-Target-URI: "+url+"\r\n")) ||
			!bytes.Contains(text, []byte(r["content_digest"].(string))) {
			t.Fatalf("%s: %v, its record is %.300q", url, err, text)
		}
	}
	if depths == 0 {
		t.Error("no page is found by a link")
	}
}

// checkLinks compares links with the web's edges, and those of <a> with what the tree builder of x/net/html finds in
// the pages.
func checkLinks(t *testing.T, web *simweb.Web, truth *simweb.Expected, links []map[string]any) {
	t.Helper()
	names, edges := truth.Names(), map[[2]string]bool{}
	got := map[string][]string{} // by page
	for _, r := range links {
		from, to := r["from_url"].(string), r["to_url"].(string)
		ends := [2]string{names[hostOf(t, from)], names[hostOf(t, to)]}
		if ends[0] != ends[1] {
			edges[ends] = true
		}
		if r["element"] == "a" {
			rel, _ := r["rel"].(string)
			text, _ := r["anchor_text"].(string)
			got[from] = append(got[from], to+" ["+rel+"] "+text)
		}
	}
	for e := range truth.PLDLinks() {
		if !edges[e] {
			t.Errorf("no link for edge %v", e)
		}
	}
	texts, pages := 0, 0
	for url := range truth.FetchedURLs() {
		page, _ := web.Page(url)
		if page.Status != 200 || !strings.HasPrefix(page.Type, "text/html") {
			continue
		}
		pages++
		want := anchorsOf(t, url, &page)
		if !slices.Equal(got[url], want) {
			t.Errorf("%s: links\n%q, want\n%q", url, got[url], want)
		}
		for _, l := range want {
			texts += len(strings.TrimSpace(l[strings.Index(l, "]")+1:]))
		}
	}
	if pages < 100 || texts < 1000 {
		t.Errorf("%d pages with %d bytes of anchor text", pages, texts)
	}
}

func hostOf(t *testing.T, ref string) string {
	t.Helper()
	u, err := url.Parse(ref)
	must(t, err)
	return u.Hostname()
}

// anchorsOf returns the <a> of a page as checkLinks spells them.
func anchorsOf(t *testing.T, pageURL string, page *simweb.Page) (list []string) {
	t.Helper()
	text, err := charset.NewReader(bytes.NewReader(page.Body), page.Type)
	must(t, err)
	tree, err := html.ParseWithOptions(text, html.ParseOptionEnableScripting(false))
	must(t, err)
	var x parse.Counts
	e := parse.NewExtractor(parse.Options{}, weburl.Options{Fold: true})
	if err := e.Parse([]byte(pageURL), page.Body, page.Type); err != nil { // for <base> and the encoding of queries
		t.Fatal(err)
	}
	for n := range tree.Descendants() {
		if n.Type != html.ElementNode || n.Data != "a" {
			continue
		}
		href, has := attribute(n, "href")
		if to := e.Resolve([]byte(href), &x); has && to != nil {
			var b strings.Builder
			for c := range n.Descendants() {
				if c.Type == html.TextNode {
					b.WriteString(c.Data)
				}
			}
			rel, _ := attribute(n, "rel")
			list = append(list, fmt.Sprintf("%s [%s] %s", to, rel, strings.Join(strings.Fields(b.String()), " ")))
		}
	}
	return list
}

func attribute(n *html.Node, name string) (value string, ok bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

// checkEdges compares the graph of PLDs in its three forms.
func checkEdges(t *testing.T, web *simweb.Web, truth *simweb.Expected, at string) {
	t.Helper()
	edges := map[[2]string]bool{}
	indegree := map[string]float64{}
	counts := truth.PLDLinkCounts()
	for _, r := range exported(t, "pld-edges", at, "--count-links") {
		e := [2]string{r["from_pld"].(string), r["to_pld"].(string)}
		if edges[e] {
			t.Errorf("edge %v is there twice", e)
		}
		if r["links"] != float64(counts[e]) {
			t.Errorf("edge %v has %v links, want %d", e, r["links"], counts[e])
		}
		edges[e] = true
		indegree[e[1]]++
	}
	if want := truth.PLDLinks(); !maps.Equal(edges, want) {
		t.Errorf("%d edges, want %d", len(edges), len(want))
	}
	pages, seen := map[string]float64{}, setOf(maps.Values(truth.Names()))
	for pld, n := range truth.ByPLD {
		pages[pld] = float64(n)
	}
	plds := exported(t, "plds", at, "--queued")
	for _, r := range plds {
		pld := r["pld"].(string)
		if r["indegree"].(float64) > indegree[pld] || r["pages"] != pages[pld] {
			t.Errorf("%v, want in-degree %v, pages %v", r, indegree[pld], pages[pld])
		}
	}
	differ(t, "PLDs", column(t, plds, "pld"), seen)

	out := t.TempDir() + "/arcs"
	wantExit(t, term.ExitDone, "", "export", "pld-edges", "--format=arc", at, "-o", out)
	read := func(sub string) []string {
		data, err := os.ReadFile(out + "/" + sub + "/part-00000.tsv")
		must(t, err)
		return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	}
	var nodes []string
	for i, line := range read("vertices") {
		id, name, _ := strings.Cut(line, "\t")
		if id != strconv.Itoa(i) {
			t.Errorf("vertex %d is %q", i, line)
		}
		labels := strings.Split(name, ".")
		slices.Reverse(labels)
		nodes = append(nodes, strings.Join(labels, "."))
	}
	arcs, last := map[[2]string]bool{}, [2]int{-1, -1}
	for _, line := range read("edges") {
		var from, to int
		if _, err := fmt.Sscanf(line, "%d\t%d", &from, &to); err != nil {
			t.Fatal(line, err)
		}
		if now := [2]int{from, to}; slices.Compare(last[:], now[:]) >= 0 {
			t.Errorf("arc %v comes after %v", now, last)
		} else {
			last = now
		}
		arcs[[2]string{nodes[from], nodes[to]}] = true
	}
	if !maps.Equal(arcs, edges) {
		t.Errorf("%d arcs, %d edges, or they differ", len(arcs), len(edges))
	}
}

// checkRobots compares the rows of robots with the hosts.
func checkRobots(t *testing.T, web *simweb.Web, rows []map[string]any, hosts map[string]string) {
	t.Helper()
	want := map[string]bool{}
	for host := range hosts {
		want[strings.TrimSuffix(web.Root(host), "/")] = true
	}
	differ(t, "origins", column(t, rows, "origin"), want)
	states := map[string]int{}
	for _, r := range rows {
		states[r["state"].(string)]++
		if s := r["state"]; (s == "rules" || s == "no file") && (r["fetched"] == nil || r["expires"] == nil) {
			t.Errorf("%v has no times", r)
		}
	}
	if states["rules"] == 0 || states["no file"] == 0 {
		t.Errorf("states %v", states)
	}
}

// TestExportParts: an interrupted export continues, one of another checkpoint starts over, and both say so.
func TestExportParts(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	tmp := t.TempDir()
	dir, out, target := tmp+"/d", tmp+"/o", tmp+"/t"
	crawl := append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir="+dir, "--out="+out)
	wantExit(t, term.ExitPages, "", append(crawl, "--max-pages=150")...)
	export := func(code int, args ...string) (string, string) {
		t.Helper()
		return wantExit(t, code, "",
			append([]string{"export", "pages", "--dir=" + dir, "--out=" + out, "--part-size=20KB",
				"--format=csv", "-o", target}, args...)...)
	}
	_, said := export(term.ExitDone)
	if !strings.Contains(said, "the crawl is stopped") {
		t.Errorf("said %s", said)
	}
	whole := tableFiles(t, target)
	if len(whole) < 4 {
		t.Fatalf("files %v", slices.Collect(maps.Keys(whole)))
	}
	if _, said = export(term.ExitDone); !strings.Contains(said, "is complete") {
		t.Errorf("a complete table: %s", said)
	}
	// As after kill -9: later parts are missing, one is half written.
	must(t, os.Remove(target+"/part-00002.csv"))
	must(t, os.WriteFile(target+"/.part-00002.csv.tmp", []byte("half"), 0o600))
	if _, said = export(term.ExitDone); !strings.Contains(said, "continues after 2 finished parts") {
		t.Errorf("an interrupted table: %s", said)
	}
	if again := tableFiles(t, target); !maps.Equal(again, whole) {
		t.Error("other files after resuming")
	}
	wantExit(t, term.ExitPages, "", append(crawl, "--max-pages=200")...)
	if _, said = export(term.ExitDone); !strings.Contains(said, "the export starts over") ||
		!strings.Contains(said, "parts of checkpoint ") {
		t.Errorf("another checkpoint: %s", said)
	}
	if again := tableFiles(t, target); maps.Equal(again, whole) {
		t.Error("the old table is still there")
	}
	if _, said = export(term.ExitDirectory, "--format=jsonl"); !strings.Contains(said, "not pages as jsonl") {
		t.Errorf("another format: %s", said)
	}
	must(t, os.WriteFile(tmp+"/x.txt", nil, 0o600))
	if _, said = export(term.ExitDirectory, "-o", tmp); !strings.Contains(said, "does not belong to this table") {
		t.Errorf("a directory of something else: %s", said)
	}
	if _, err := os.Stat(target + ".tmp"); err == nil {
		t.Error("the directory for sorting is left")
	}
}

// TestExportSignal: a signal ends an export with its exit code and keeps the finished parts.
func TestExportSignal(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, args := cmdtest.SmallWeb(t, func(o *simweb.Options) { o.Pages = 2000 })
	dir, target := t.TempDir()+"/d", t.TempDir()+"/t"
	wantExit(t, term.ExitDone, "", append(args, "--seeds", cmdtest.SeedFile(t, web), "--dir="+dir)...)
	export := []string{"export", "pages", "--dir=" + dir, "-o", target, "--format=csv", "--part-size=20KB"}
	ctx, cancel := context.WithCancelCause(t.Context())
	var said bytes.Buffer
	app := &term.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &said,
		StopOnSignal: func(context.Context) (context.Context, func()) {
			cancel(term.ErrSignal)
			return ctx, func() {}
		}}
	if code := flags.Run(app, new(commands), export); code != term.ExitSignal ||
		!strings.Contains(said.String(), "continues after") {
		t.Errorf("exit code %d: %s", code, &said)
	}
	out, _ := wantExit(t, term.ExitDone, "", export...)
	if want := fmt.Sprintf("pages: %s rows",
		humanize.Comma(int64(web.Expected("drumbeat").Fetched))); !strings.HasPrefix(out, want) {
		t.Errorf("%s, want %s", out, want)
	}
}

// tableFiles returns the files of a directory.
func tableFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	list, err := os.ReadDir(dir)
	must(t, err)
	for _, f := range list {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		must(t, err)
		files[f.Name()] = string(data)
	}
	return files
}

// TestExportBeside: exports beside a crawl that makes many checkpoints are consistent: no URL is in two
// tables of one checkpoint, and all pages are of the web.
func TestExportBeside(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, func(o *simweb.Options) { o.Pages = 2000 })
	dir := t.TempDir() + "/d"
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		code, _, stderr := runApp(t, "",
			append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir="+dir, "--checkpoint-every=1s")...)
		if code != term.ExitDone {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	}()
	truth := web.Expected("drumbeat")
	exports, rows := 0, 0
	for running := true; running; {
		select {
		case <-ended:
			running = false
		default:
		}
		for _, kind := range []string{"pages", "queue", "pld-edges", "plds", "robots", "refused", "hosts", "links",
			"state", "changes"} {
			code, out, said := runApp(t, "", "export", kind, "--format=jsonl", "-o", "-", "--dir="+dir)
			if code != term.ExitDone {
				if strings.Contains(said, "without a checkpoint") || strings.Contains(said, "holds no crawl") {
					continue // it has just begun
				}
				t.Fatalf("%s: exit code %d: %s", kind, code, said)
			}
			exports++
			list := answers[map[string]any](t, out)
			if kind != "pages" {
				continue
			}
			rows += len(list)
			for url := range column(t, list, "url") {
				if fetched, _, _ := truth.Has(url); !fetched {
					t.Errorf("%s is a page", url)
				}
			}
			for _, r := range list {
				if r["content_digest"] == nil || r["ip"] == nil {
					t.Errorf("half a row: %v", r)
				}
			}
		}
	}
	if exports < 7 || rows < truth.Fetched {
		t.Errorf("%d exports, %d rows of pages", exports, rows)
	}
	t.Logf("%d exports", exports)
}
