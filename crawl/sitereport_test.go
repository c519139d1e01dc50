package crawl

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/internal/revisit"
	"drumbeat/state"
	"drumbeat/state/export"
	"drumbeat/state/sitereport"
)

// faultySite is a site with one fault of each kind that the report of a site knows, and a site that links to it.
func faultySite() *tinyWeb {
	hills := strings.Repeat("a page about wind and water power in the far north of our country ", 6)
	text := strings.Repeat("the same words on two pages of this site ", 20)
	return &tinyWeb{Serve: func(host, path string) answer {
		page := func(title, body string) answer {
			return answer{200, "", "<html><title>" + title + "</title>" + body}
		}
		if host == "other.test" {
			if path == "/robots.txt" {
				return noRobots
			}
			return page("other", "<a href=http://www.a.test/gone>from afar</a><a href=http://www.a.test/linked>l</a>")
		}
		switch path {
		case "/robots.txt":
			return answer{200, "", "User-agent: *\nDisallow: /private\nSitemap: http://www.a.test/map.xml\n"}
		case "/":
			return page("home", "<a href=/gone>broken</a><a href=/gone>again</a><a href=/private>p</a><a "+
				"href=/r1>r</a><a href=/loop1>l</a>"+
				"<a href=/linked>k</a><a href=/one>1</a><a href=/two>2</a><a href=/three>3</a><a href=/slow>s</a><a "+
				"href=/large>g</a>"+
				"<a href=/near>n</a><a href=/hills>h</a><a href=/untitled>u</a><a href=/canonical>c</a><a "+
				"href=http://other.test/>o</a><a href=/reset>n</a>"+
				"<a href=/>self</a><a href=/once>301</a>")
		case "/gone":
			return answer{404, "", "gone"}
		case "/r1":
			return answer{301, "Location: /r2\r\n", ""}
		case "/r2":
			return answer{302, "Location: /r3\r\n", ""}
		case "/r3":
			return page("three", "")
		case "/once":
			return answer{301, "Location: /linked\r\n", ""}
		case "/loop1":
			return answer{302, "Location: /loop2\r\n", ""}
		case "/loop2":
			return answer{302, "Location: /loop1\r\n", ""}
		case "/linked", "/orphan":
			return page("title of "+path, path)
		case "/one", "/two":
			return page("equal", text)
		case "/three":
			return page("like <equal>", text+"2026")
		case "/near":
			return page("1", hills+"with high hills") // 3 bits of the simhash differ
		case "/hills":
			return page("2", hills)
		case "/slow":
			time.Sleep(1500 * time.Millisecond)
			return page("slow", "")
		case "/large":
			return page("large", strings.Repeat("large ", 250_000))
		case "/untitled":
			return answer{200, "", "<html><p>no title"}
		case "/canonical":
			return page("canonical", "<link rel=canonical href=/gone>")
		}
		return answer{404, "", ""}
	}, Raw: faultyRaw}
}

// faultyRaw answers what needs a type of its own, or is not answered.
func faultyRaw(c net.Conn, _, path string) bool {
	const sitemap = "<?xml version='1.0'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>" +
		"<url><loc>http://www.a.test/orphan</loc></url><url><loc>http://www.a.test/linked</loc></url></urlset>"
	switch path {
	case "/map.xml":
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: %d\r\nConnection: "+
			"close\r\n\r\n%s", len(sitemap), sitemap)
		return true
	case "/reset": // no answer
		return true
	}
	return false
}

// siteReportCases are the cases of TestSiteReport.
var siteReportCases = map[string][]string{
	"broken-link": {"/gone status 404 3; http://other.test/ from afar; / again; / broken",
		"/reset reset 1; / n"},
	"robots-blocked": {"/private robots 1; / p"},
	"redirected-link": {"/loop1 status 302, to /loop2 1; / l", "/once status 301, to /linked 1; / 301",
		"/r1 status 301, to /r2 1; / r"},
	"redirect-chain":      {"/r1 /r2 → /r3 2"},
	"redirect-loop":       {"/loop1 /loop2 → /loop1 2"},
	"canonical-elsewhere": {"/canonical the page says: /gone 0"},
	"canonical-broken":    {"/gone status 404 1; /canonical"},
	"duplicate":           {"/one 2; /two"},
	"near-duplicate":      {"/three 3; /one; /two", "/near 2; /hills"},
	"orphan":              {"/orphan  0"},
	"slow":                {"/slow 1.5 s 0"},
	"large":               {"/large 1.4 MiB 0"},
	"title-missing":       {"/untitled  0"},
	"title-repeated":      {"/one equal 2; /two"},
}

// TestSiteReport: the report of a site has each of its faults, and no other.
func TestSiteReport(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		fs := memfs.New(*seedFlag)
		opt := tinyOptions(t, faultySite(), fs, "http://www.a.test/")
		opt.Output.Store, opt.Output.Simhash, opt.Output.CrawlLog, opt.Links.Sitemaps, opt.Links.SitemapBytes,
			opt.Health.Retries = true, true, state.LogAll, true, 1<<20, 0
		mustRun(t, t.Context(), opt)
		report := func(site string, most int) (*sitereport.Report, map[string][]string) {
			rep, _, err := export.Site(t.Context(),
				export.Options{FS: fs, Dirs: opt.Disk.Dirs, TempDir: "tmp"}, site, export.SiteOptions{Rows: most})
			must(t, err)
			got := map[string][]string{}
			for _, f := range rep.Findings {
				if int64(len(f.Rows)) != min(f.Total, int64(most)) {
					t.Errorf("%s: %d rows of %d", f.Kind, len(f.Rows), f.Total)
				}
				for _, r := range f.Rows {
					line := strings.ReplaceAll(strings.TrimSpace(fmt.Sprint(r.URL, " ", r.Detail, " ", r.Count)),
						"http://www.a.test", "")
					for _, from := range r.From {
						line += "; " +
							strings.TrimSpace(strings.ReplaceAll(from.URL, "http://www.a.test", "")+" "+from.Text)
					}
					got[f.Kind] = append(got[f.Kind], line)
				}
			}
			return rep, got
		}
		rep, got := report("www.a.test", 100)
		want := siteReportCases
		for kind := range maps.Keys(want) {
			for i := range got[kind] {
				got[kind][i] = strings.Join(strings.Fields(got[kind][i]), " ")
			}
			for i := range want[kind] {
				want[kind][i] = strings.Join(strings.Fields(want[kind][i]), " ")
			}
			if !slices.Equal(got[kind], want[kind]) {
				t.Errorf("%s:\n got %q\nwant %q", kind, got[kind], want[kind])
			}
		}
		if rep.Statuses[404] != 1 || rep.Refused["robots"] != 1 ||
			len(rep.Notes) > 0 || rep.Pages < 10 {
			t.Errorf("%+v, notes %q", rep, rep.Notes)
		}
		pld, _ := report("a.test", 1)
		pld.Site = rep.Site
		for i, f := range pld.Findings {
			rep.Findings[i].Rows = rep.Findings[i].Rows[:min(1, len(rep.Findings[i].Rows))]
			if f.Total != rep.Findings[i].Total {
				t.Errorf("%s of the PLD: %d, of its host %d", f.Kind, f.Total, rep.Findings[i].Total)
			}
		}
		a, errA := json.Marshal(rep)
		b, errB := json.Marshal(pld)
		if errA != nil || errB != nil || string(a) != string(b) {
			t.Errorf("the PLD's report is\n%s\nthe host's\n%s", b, a)
		}
		if _, _, err := export.Site(t.Context(), export.Options{FS: fs, Dirs: opt.Disk.Dirs, TempDir: "tmp"},
			"nosuch.test", export.SiteOptions{Rows: 1}); !errors.Is(err, export.ErrNoSite) ||
			!strings.HasSuffix(err.Error(), "; it has www.a.test (13 pages), other.test (1 page)") {
			t.Errorf("an unknown site: %v", err)
		}
	})
}

// TestSiteReportWithoutLog: without lines of the log for pages, no page is taken for an orphan, since it may be a start
// page.
func TestSiteReportWithoutLog(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		fs := memfs.New(*seedFlag)
		w := &tinyWeb{Serve: func(_, path string) answer {
			return answer{200, "", "<html><title>t</title><a href=/2>"}
		}}
		opt := tinyOptions(t, w, fs, "http://www.a.test/")
		opt.Output.Store, opt.Output.CrawlLog = true, state.LogErrors
		mustRun(t, t.Context(), opt)
		rep, _, err := export.Site(t.Context(), export.Options{FS: fs, Dirs: opt.Disk.Dirs, TempDir: "tmp"},
			"a.test", export.SiteOptions{Rows: 9})
		must(t, err)
		for _, f := range rep.Findings {
			if f.Kind == "orphan" && f.Total > 0 {
				t.Errorf("%+v", f.Rows)
			}
		}
		want := []string{"sitemap-broken", "sitemap-missing", "orphan", "slow", "large", "near-duplicate"}
		if !slices.Equal(rep.Unchecked, want) {
			t.Errorf("unchecked are %q, want %q", rep.Unchecked, want)
		}
		if !slices.ContainsFunc(rep.Notes,
			func(n string) bool { return strings.Contains(n, "1 page without links to it may be a start page") }) {
			t.Errorf("notes %q", rep.Notes)
		}
	})
}

// TestSiteReportOfVisits: a page that was visited again is no duplicate of itself, in any version.
func TestSiteReportOfVisits(t *testing.T) {
	notShort(t)
	inBubble(t, func(t *testing.T) {
		fs := memfs.New(*seedFlag)
		opt := tinyOptions(t, newChangingWeb().tinyWeb, fs, "http://r.test/")
		opt.Output.Store, opt.Output.Simhash, opt.Output.CrawlLog = true, true, state.LogAll
		opt.Recrawl, opt.Limits.MaxTime = &revisit.Policy{Least: day, Longest: day, Default: day, Kind: revisit.Uniform,
			Gone: 2}, 6*day
		mustRun(t, t.Context(), opt)
		rep, _, err := export.Site(t.Context(), export.Options{FS: fs, Dirs: opt.Disk.Dirs, TempDir: "tmp"},
			"r.test", export.SiteOptions{Rows: 100})
		must(t, err)
		// 9 pages, a missing one and a gone one, each once.
		if n := rep.Statuses[200] + rep.Statuses[404]; len(rep.Statuses) != 2 ||
			rep.Statuses[200] != rep.Pages || n != 9 {
			t.Errorf("%d pages, statuses %v", rep.Pages, rep.Statuses)
		}
		duplicates := 0
		for _, f := range rep.Findings {
			for _, r := range f.Rows {
				switch f.Kind {
				case "duplicate", "near-duplicate", "title-repeated":
					if others := slices.ContainsFunc(r.From,
						func(s sitereport.Source) bool { return s.URL != r.URL }); !others {
						t.Errorf("%s: %+v", f.Kind, r)
					}
					if f.Kind == "duplicate" {
						if duplicates++; r.Count != 2 {
							t.Errorf("%s: %+v", f.Kind, r)
						}
					}
				}
			}
		}
		if duplicates != 1 { // /never and /twin
			t.Errorf("%d groups of pages with the same body, want 1", duplicates)
		}
	})
}
