package site

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/state/sitereport"
)

// faultyPage is a page of the web of faults. Without a change it has none.
type faultyPage struct {
	head, body string            // are added
	without    string            // a part of the page that is left out
	status     int               // 0: 200
	header     map[string]string // replaces fields; "" deletes one
	mapped     string            // its entry in the sitemap has this, too
	unlisted   bool              // the sitemap does not have it
	unlinked   bool              // the start page does not link to it
	same       string            // it has the page of this path instead
	start      string            // the text of the page begins so; the words of its path follow
}

// words returns n words that no other path has.
func words(path string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%d ", strings.Map(func(r rune) rune {
			if r < 'a' || r > 'z' {
				return -1
			}
			return r
		}, path), i)
	}
	return b.String()
}

const gif = "GIF89a\x01\x00\x01\x00\x00\xff\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x00;"

// faultyPages has each fault of the report on one page, or on as few as it takes.
func faultyPages() map[string]faultyPage {
	lang := func(code, to string) string {
		return fmt.Sprintf(`<link rel=alternate hreflang=%q href=%q>`, code, to)
	}
	long := strings.Repeat("long words ", 20)
	alike := words("shared", 600)
	const both = "two pages have this very text to describe them, alas"
	pages := map[string]faultyPage{
		"/":              {},
		"/clean":         {},
		"/link":          {body: `<a href=/gone1>to a lost page</a>`},
		"/image":         {body: `<img src=/lost.gif alt=lost>`},
		"/loop":          {body: `<a href=/loop1>l</a>`},
		"/loop1":         moved("/loop2"),
		"/loop2":         moved("/loop1"),
		"/chain":         {body: `<a href=/chain1>c</a>`},
		"/chain1":        moved("/chain2"),
		"/chain2":        moved("/clean"),
		"/canon-broken":  {head: `<link rel=canonical href=/gone2>`},
		"/canon-moved":   {head: `<link rel=canonical href=/moved>`},
		"/moved":         moved("/clean"),
		"/canon-chain":   {head: `<link rel=canonical href=/canon-other>`},
		"/canon-other":   {head: `<link rel=canonical href=/clean>`},
		"/canon-several": {head: `<link rel=canonical href=/canon-several><link rel=canonical href=/clean>`},
		"/canon-host":    {head: `<link rel=canonical href=https://192.0.2.1/>`},
		"/en":            {head: lang("en", "/en") + lang("de", "/de") + lang("x-default", "/en")},
		"/de":            {head: lang("en", "/en") + lang("de-AT", "/de")},
		"/fr":            {head: lang("en-GB", "/en")},
		"/code":          {head: lang("en-UK", "/code")},
		"/es":            {head: lang("es", "/gone3")},
		"/mixed":         {body: `<script src=http://192.0.2.1/x.js></script>`},
		"/json":          {body: "<script type=application/ld+json>{\"@type\": \"Thing\",}</script>"},
		"/json-good":     {body: `<script type=application/ld+json>{"a": "<b>&amp;"}</script>`},
		"/no-title":      {without: "title"},
		"/two-titles":    {head: `<title>the second title</title>`, body: "<svg><title>of a picture</title></svg>"},
		"/private-link":  {body: `<a href=/private/x>p</a>`},
		"/same-a":        {},
		"/same-b":        {same: "/same-a"},
		"/title-a":       {without: "title", head: "<title>A title of two pages</title>"},
		"/title-b":       {without: "title", head: "<title>A title of two pages</title>"},
		"/no-desc":       {without: "description"},
		"/desc-a":        {without: "description", head: describe(both)},
		"/desc-b":        {without: "description", head: describe(both)},
		"/desc-long":     {without: "description", head: describe(long)},
		"/desc-short":    {without: "description", head: describe("short")},
		"/no-h1":         {without: "h1"},
		"/h1-two":        {body: "<h1>another</h1>"},
		"/h1-a":          {without: "h1", body: "<h1>one heading</h1>"},
		"/h1-b":          {without: "h1", body: "<h1>one heading</h1>"},
		"/h1-long":       {without: "h1", body: "<h1>" + long + "</h1>"},
		"/title-long":    {without: "title", head: "<title>" + long + "</title>"},
		"/title-short":   {without: "title", head: "<title>Hi</title>"},
		"/no-alt":        {body: "<img src=/good.gif><img src=/good.gif alt=''>"},
		"/orphan":        {unlinked: true},
		"/large":         {body: strings.Repeat("<!-- nothing to read -->", 50_000)},
		"/no-referrer":   {header: map[string]string{"Referrer-Policy": ""}},
		"/noindex":       {head: "<meta name=robots content=noindex>"},
		"/noindex-tag":   {header: map[string]string{"X-Robots-Tag": "noindex"}},
		"/similar-a":     {start: alike},
		"/similar-b":     {start: alike + "more "},
		"/unlisted":      {unlisted: true},
		"/old":           {body: `<a href=/moved>once</a>`},
	}
	maps.Copy(pages, redirectPages())
	maps.Copy(pages, translatedPages())
	return pages
}

// mapLink is a translation in the sitemap.
func mapLink(code, to string) string {
	const tag = `<x:link xmlns:x='http://www.w3.org/1999/xhtml' rel='alternate' hreflang=%q href="URL%s"/>`
	return fmt.Sprintf(tag, code, to)
}

// translatedPages name their translations in the sitemap or in a header.
func translatedPages() map[string]faultyPage {
	header := func(value string) map[string]string { return map[string]string{"Link": value} }
	return map[string]faultyPage{
		"/map-en":     {mapped: mapLink("en", "/map-en") + mapLink("de", "/map-de")},
		"/map-de":     {header: header(`</map-en>; rel="alternate"; hreflang="en", </feed>; rel=alternate`)},
		"/map-fr":     {mapped: mapLink("en", "/map-en")},
		"/map-broken": {mapped: mapLink("en", "/gone3")},
		"/map-code":   {mapped: mapLink("xx", "/map-code")},
		"/header":     {header: header(`</gone3>; rel=alternate; hreflang=es`)},
		"/header-uk":  {header: header(`</header-uk>; hreflang=en-UK; rel=alternate`)},
	}
}

// moved redirects to a path.
func moved(to string) faultyPage {
	return faultyPage{status: 301, header: map[string]string{"Location": to}, unlisted: true, unlinked: true}
}

// redirectPages have links to redirects that end where no page is.
func redirectPages() map[string]faultyPage {
	return map[string]faultyPage{
		"/ends":          {body: `<a href=/ends1>to a redirect</a><a href=/ends1>again</a>`},
		"/ends-inner":    {body: `<a href=/ends2>to the second redirect</a>`},
		"/ends1":         moved("/ends2"),
		"/ends2":         moved("/gone5"),
		"/ends-image":    {body: `<img src=/ends.gif alt=lost>`},
		"/ends.gif":      moved("/gone6"),
		"/ends-private":  {body: `<a href=/ends-private1>p</a>`},
		"/ends-private1": moved("/private/y"),
		"/canon-ends":    {head: `<link rel=canonical href=/ends1>`},
	}
}

func describe(text string) string { return fmt.Sprintf("<meta name=description content=%q>", text) }

// text returns the HTML of a page.
func (p *faultyPage) text(path string) string {
	var head, body string
	if p.without != "title" {
		head = "<title>The page of " + path + " on this site</title>"
	}
	if p.without != "description" {
		head += describe("What the page " + path + " says, in a text that is neither long nor short for once.")
	}
	if p.without != "h1" {
		body = "<h1>Heading of " + path + "</h1>"
	}
	n := 90
	if p.start != "" {
		n = 0
	}
	return "<!doctype html><html lang=en><head>" + head + p.head + "</head><body>" + body + p.body +
		"<img src=/good.gif alt=good><p>" + p.start + words(path, n) + "</p>"
}

// faultySite serves the web of faults.
func faultySite(t *testing.T) string {
	pages := faultyPages()
	var s *httptest.Server
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		p, ok := pages[path]
		switch {
		case path == "/robots.txt":
			fmt.Fprintf(w, "User-agent: *\nDisallow: /private/\nSitemap: %s/map.xml\n", s.URL)
			return
		case path == "/map.xml":
			w.Header().Set("Content-Type", "application/xml")
			fmt.Fprint(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
			for _, path := range slices.Sorted(maps.Keys(pages)) {
				if p := pages[path]; !p.unlisted {
					mapped := strings.ReplaceAll(p.mapped, "URL", s.URL)
					fmt.Fprintf(w, "<url><loc>%s%s</loc>%s</url>", s.URL, path, mapped)
				}
			}
			fmt.Fprintf(w, "<url><loc>%s/gone4</loc>%s</url></urlset>", s.URL,
				strings.ReplaceAll(mapLink("de", "/gone3"), "URL", s.URL))
			return
		case path == "/good.gif":
			w.Header().Set("Content-Type", "image/gif")
			fmt.Fprint(w, gif)
			return
		case !ok:
			http.NotFound(w, r)
			return
		}
		for name, value := range map[string]string{"Content-Type": "text/html; charset=utf-8",
			"Strict-Transport-Security": "max-age=9", "Content-Security-Policy": "frame-ancestors 'none'",
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
			w.Header().Set(name, value)
		}
		for name, value := range p.header {
			if w.Header().Set(name, value); value == "" {
				w.Header().Del(name)
			}
		}
		if p.status > 0 {
			w.WriteHeader(p.status)
			return
		}
		if p.same != "" {
			path = p.same
			p = pages[path]
		}
		text := p.text(path)
		if path == "/" {
			for _, to := range slices.Sorted(maps.Keys(pages)) {
				if !pages[to].unlinked {
					text += fmt.Sprintf("<a href=%s>%[1]s</a> ", to)
				}
			}
		} else {
			text += "<a href=/>start</a>"
		}
		fmt.Fprint(w, text)
	}))
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// faultsWanted are the rows of each finding: the paths, and after a space those of the pages below it.
var faultsWanted = map[string][]string{
	"broken-link":        {"/ends1 /ends /ends", "/ends2 /ends-inner", "/gone1 /link"},
	"broken-image":       {"/ends.gif /ends-image", "/lost.gif /image"},
	"redirect-loop":      {"/loop1"},
	"redirect-chain":     {"/chain1", "/ends1"},
	"redirected-link":    {"/chain1 /chain", "/loop1 /loop", "/moved /old"},
	"canonical-broken":   {"/ends1 /canon-ends", "/gone2 /canon-broken"},
	"canonical-redirect": {"/moved /canon-moved"},
	"canonical-chain":    {"/canon-other /canon-chain"},
	"canonical-several":  {"/canon-several"},
	"canonical-host":     {"/canon-host"},
	"canonical-elsewhere": {"/canon-broken", "/canon-chain", "/canon-ends", "/canon-host", "/canon-moved",
		"/canon-other"},
	"hreflang-no-return":   {"/en /fr", "/map-en /map-fr"},
	"hreflang-code":        {"/code", "/header-uk", "/map-code"},
	"hreflang-broken":      {"/gone3 /es /gone4 /header /map-broken"},
	"sitemap-broken":       {"/gone4"},
	"sitemap-missing":      {"/unlisted"},
	"mixed-content":        {"/mixed"},
	"jsonld-broken":        {"/json"},
	"title-missing":        {"/no-title"},
	"title-several":        {"/two-titles"},
	"title-repeated":       {"/same-a /same-b", "/title-a /title-b"},
	"title-long":           {"/title-long"},
	"title-short":          {"/title-short"},
	"description-missing":  {"/no-desc"},
	"description-repeated": {"/desc-a /desc-b", "/same-a /same-b"},
	"description-long":     {"/desc-long"},
	"description-short":    {"/desc-short"},
	"h1-missing":           {"/no-h1"},
	"h1-several":           {"/h1-two"},
	"h1-repeated":          {"/h1-a /h1-b", "/same-a /same-b"},
	"h1-long":              {"/h1-long"},
	"alt-missing":          {"/no-alt"},
	"robots-blocked":       {"/ends-private1 /ends-private", "/private/x /private-link"},
	"duplicate":            {"/same-a /same-b"},
	"near-duplicate":       {"/similar-b /similar-a"},
	"orphan":               {"/orphan"},
	"large":                {"/large"},
	"security-headers":     {"/no-referrer /no-referrer"},
	"noindex":              {"/noindex", "/noindex-tag"},
}

// TestFaults: the report of a site has each of its faults, and nothing about pages without one.
func TestFaults(t *testing.T) {
	url := faultySite(t)
	t.Chdir(t.TempDir())
	_, errs := cmdtest.WantExit[commands](t, term.ExitDone, "",
		append([]string{"site", url, "--report=r.json", "--max-body=2MiB"}, quick...)...)
	if strings.Contains(errs, "report: ") {
		t.Errorf("the preset left something out: %s", errs)
	}
	data, err := os.ReadFile("r.json")
	if err != nil {
		t.Fatal(err)
	}
	var r sitereport.Report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	short := func(u string) string { return strings.TrimPrefix(u, url) }
	for _, f := range r.Findings {
		var got []string
		for _, row := range f.Rows {
			line := short(row.URL)
			for _, from := range row.From {
				line += " " + short(from.URL)
			}
			got = append(got, line)
		}
		slices.Sort(got)
		want := faultsWanted[f.Kind]
		if f.Kind == "slow" { // a busy machine may make some slow; crawl's TestSiteReport has its own clock
			continue
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q\n%+v", f.Kind, got, want, f.Rows)
		}
	}
	for _, row := range r.Finding("broken-link").Rows {
		want := map[string][2]string{"/gone1": {"status 404", "to a lost page"},
			"/ends1": {"status 404, after a redirect to " + url + "/gone5", "again"},
			"/ends2": {"status 404, after a redirect to " + url + "/gone5", "to the second redirect"}}[short(row.URL)]
		if row.Detail != want[0] || row.From[0].Text != want[1] {
			t.Errorf("%s: %+v, want %q", short(row.URL), row, want)
		}
	}
	pages := int64(0)
	for _, p := range faultyPages() {
		if p.status == 0 {
			pages++
		}
	}
	// Errors are on the pages of links (3), images (2), canonicals (2), translations
	// (3), mixed content, JSON-LD and title.
	if r.Version != sitereport.Version || r.Pages != pages || r.Score.CleanPages != pages-13 || r.Score.Errors != 13 {
		t.Errorf("version %d, %d pages of %d, score %+v", r.Version, r.Pages, pages, r.Score)
	}
	if r.Indexed[sitereport.NoIndexMeta] != 1 || r.Indexed[sitereport.NoIndexHeader] != 1 ||
		r.Indexed[sitereport.CanonicalOther] != 6 || r.Indexed[sitereport.Indexable] != pages-8 {
		t.Errorf("indexed %v", r.Indexed)
	}
	if len(r.Unchecked) > 0 {
		t.Errorf("the preset left out %q", r.Unchecked)
	}
	if r.Depths[0] != 1 || r.InLinks[0] != 1 || r.Refused["robots"] != 2 {
		t.Errorf("depths %v, links %v, refused %v", r.Depths, r.InLinks, r.Refused)
	}
	checkChanges(t, url)
}

// checkChanges: the same site, compared with its own report, has changed nothing; a report of another site or format is
// refused, and no text of the page speaks of flags.
func checkChanges(t *testing.T, url string) {
	t.Helper()
	host := strings.TrimPrefix(url, "https://")
	host = host[:strings.LastIndex(host, ":")]
	cmdtest.WantExit[commands](t, term.ExitDone, "", "report", "--site="+host, "--compare=r.json", "-o", "new.html",
		"drumbeat-crawl")
	page, err := os.ReadFile("new.html")
	if err != nil || !strings.Contains(string(page), "Changes since") || strings.Contains(string(page), ">unknown<") ||
		strings.Contains(string(page), "--") && strings.Contains(string(page), "--crawl-log") {
		t.Errorf("%v, %d bytes", err, len(page))
	}
	data, err := os.ReadFile("r.json")
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string][2]string{
		"it reports on other.test, not on " + host:    {`"site": "` + host, `"site": "other.test`},
		"it has format 999, and this program reads":   {`"version": 2`, `"version": 999`},
		"it is not a site report in JSON":             {"{", "x"},
		"it has format 1 of an older program":         {`"version": 2`, `"version": 1`},
		"its fields have other types than those of f": {`"pages": `, `"pages": "x", "p": `},
	} {
		bad := strings.Replace(string(data), change[0], change[1], 1)
		if err := os.WriteFile("bad.json", []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		_, errs := cmdtest.WantExit[commands](t, term.ExitFailure, "", "report", "--site="+host, "--compare=bad.json",
			"-o", "bad.html", "drumbeat-crawl")
		if !strings.Contains(errs, want) {
			t.Errorf("got %q, want %q", errs, want)
		}
	}
	if _, err := os.Stat("bad.html"); err == nil {
		t.Error("a refused comparison left a report")
	}
}
