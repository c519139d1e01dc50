package export_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/revisit"
	"drumbeat/internal/tabular"
	"drumbeat/state/export"
)

// livingWeb is a site whose pages change, leave, return and move at fixed times after it was made. It notes what it
// answered: the truth about its pages.
type livingWeb struct {
	*testworld.Web
	served []servedPage
}

type servedPage struct {
	url  string
	at   time.Time // of the request
	code int
	body string
	to   string // of a redirect
}

func newLivingWeb() *livingWeb {
	w := &livingWeb{Web: &testworld.Web{}}
	began := time.Now()
	text := strings.Repeat("This sentence is text of a page. ", 20)
	const paths = "often seldom never tagged twin leaves returns moves redirects wanders absent fails blinks"
	var links strings.Builder
	for p := range strings.FieldsSeq(paths) {
		fmt.Fprintf(&links, "<a href=/%s>x</a>", p)
	}
	w.Reply = func(req *http.Request) (a testworld.Answer, ok bool) {
		if req.URL.Path == "/robots.txt" {
			return testworld.NoRobots, true
		}
		age := time.Since(began)
		version := func(every time.Duration) testworld.Answer {
			return testworld.Answer{Status: 200,
				Body: fmt.Sprintf("<html><title>%s</title><p>%s%d</p>", req.URL.Path, text, age/every)}
		}
		to := ""
		redirect := func(path string) testworld.Answer {
			to = "http://" + req.Host + path
			return testworld.Answer{Status: 301, Header: "Location: " + to + "\r\n"}
		}
		switch a = (testworld.Answer{Status: 404, Body: "none"}); req.URL.Path {
		case "/":
			a = testworld.Answer{Status: 200, Body: "<html>" + links.String()}
		case "/often":
			a = version(12 * time.Hour)
		case "/seldom":
			a = version(4 * day)
		case "/never", "/twin":
			a = testworld.Answer{Status: 200, Body: "<html><title>Both</title><p>" + text}
		case "/tagged", "/blinks":
			a = version(3 * day)
			a.Header = fmt.Sprintf("ETag: \"%d\"\r\n", age/(3*day))
			if gone := req.URL.Path == "/blinks" && age > 4*day && age < 5*day; gone {
				a = testworld.Answer{Status: 404, Body: "away"}
			} else if req.Header.Get("If-None-Match") == strings.TrimSpace(a.Header[6:]) {
				a = testworld.Answer{Status: 304, Header: a.Header}
			}
		case "/leaves":
			if age < 3*day {
				a = version(100 * day)
			}
		case "/returns":
			if age < 3*day || age > 5*day {
				a = version(100 * day)
			}
		case "/moves":
			if a = version(100 * day); age > 2*day {
				a = redirect("/never")
			}
		case "/redirects":
			a = redirect("/seldom")
		case "/wanders":
			if a = redirect("/never"); age > 3*day {
				a = redirect("/often")
			}
		case "/fails":
			if a = version(100 * day); age > 2*day && age < 4*day {
				a = testworld.Answer{Status: 500, Body: "fault"}
			}
		}
		w.served = append(w.served, servedPage{"http://" + req.Host + req.URL.Path, time.Now(), a.Status, a.Body, to})
		return a, true
	}
	return w
}

// change is what a row of the feed says, and what the truth does.
type change struct {
	at          int64 // Unix seconds
	url, change string
	to, body    string // of a redirect, and of a page
}

// changes are those that the answers to these requests mean, in the order of time. It is written from the
// description in docs/reference/tables.md, apart from the code.
func (w *livingWeb) changes() (list []change) {
	type last struct{ is, body, to string }
	pages := map[string]*last{}
	for _, s := range w.served {
		p := pages[s.url]
		if p == nil {
			p = &last{}
			pages[s.url] = p
		}
		was := *p
		c := change{at: s.at.Unix(), url: s.url, to: s.to}
		switch {
		case s.code >= 500:
			continue
		case s.code == 304:
			p.is = "page"
		case s.code == 301:
			p.is, p.to = "redirect", s.to
		case s.code == 200:
			p.is, p.body = "page", s.body
		default:
			p.is = ""
		}
		switch {
		case p.is == "" && was.is != "":
			c.change = "gone"
		case p.is == "":
			continue
		case p.is == "redirect" && *p != was:
			c.change = "moved"
		case p.is == "page" && was.is != "page":
			c.change = "new"
		case p.is == "page" && p.body != was.body:
			c.change = "changed"
		default:
			c.change = "unchanged"
		}
		if p.is == "page" {
			c.body = p.body
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	return list
}

// livingOptions are those of a crawl that visits all pages each 12 hours for a week.
func livingOptions(t *testing.T, w *livingWeb, fs disk.FS) crawl.Options {
	opt := crawltest.WebOptions(t, w.Web, fs, "http://a.test/")
	opt.Output.WARCFileBytes = 6000
	const each = 12 * time.Hour
	opt.Recrawl = &revisit.Policy{Kind: revisit.Uniform, Least: each, Longest: each, Default: each, Gone: 9}
	opt.Limits.MaxTime = 7 * day
	return opt
}

// TestExportState: there is one row for each URL, and it says what the site answered, and when the next visit is due.
func TestExportState(t *testing.T) {
	testworld.NotShort(t)
	testworld.InBubble(t, func(t *testing.T) {
		web, fs := newLivingWeb(), memfs.New(*testworld.Seed)
		opt := livingOptions(t, web, fs)
		crawltest.MustRun(t, t.Context(), opt)
		x := export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.URLs, Format: tabular.JSONL, Target: "state",
			TempDir: "tmp"}
		rep, err := export.Run(t.Context(), x)
		must(t, err)
		first, last := map[string]time.Time{}, map[string]servedPage{}
		visits, changes := map[string]int{}, map[string]int{}
		for _, s := range web.served {
			if visits[s.url]++; visits[s.url] == 1 {
				first[s.url] = s.at
			}
			last[s.url] = s
		}
		for _, c := range web.changes() {
			if c.change != "unchanged" && first[c.url].Unix() != c.at {
				changes[c.url]++
			}
		}
		got := map[string]bool{}
		for _, r := range testworld.ExportedRows(t, fs, x.Target) {
			url := r["url"].(string)
			s := last[url]
			want := map[string]any{"visits": float64(visits[url]), "changes": float64(changes[url]),
				"url_host_name": "a.test", "url_host_registered_domain": "a.test", "place": "deferred",
				"interval": (12 * time.Hour).Seconds(), "reason": "revisit", "pld_indegree": 0.0,
				"fetch_status": float64(s.code), "fetch_redirect": any(s.to),
				"last_visit": s.at.Truncate(time.Second).UTC().Format("2006-01-02T15:04:05.000Z"),
				"next_due":   s.at.Truncate(time.Second).Add(12 * time.Hour).UTC().Format("2006-01-02T15:04:05.000Z")}
			if s.to == "" {
				want["fetch_redirect"] = nil
			}
			switch {
			case strings.HasSuffix(url, "/absent"):
				want["place"], want["interval"], want["next_due"], want["reason"] = "fetched", nil, nil, nil
			case s.code == 500:
				t.Errorf("%s ended with %d", url, s.code)
			}
			for name, value := range want {
				if r[name] != value {
					t.Errorf("%s: %s is %v, want %v", url, name, r[name], value)
				}
			}
			if seen, err := time.Parse(time.RFC3339, r["first_seen"].(string)); err != nil || seen.After(first[url]) ||
				first[url].Sub(seen) > time.Hour {
				t.Errorf("%s: first seen %v, first visited %v", url, r["first_seen"], first[url])
			}
			if got[url] {
				t.Errorf("%s is there twice", url)
			}
			got[url] = true
		}
		urls := slices.Sorted(maps.Keys(visits))
		if found := slices.Sorted(maps.Keys(got)); !slices.Equal(found, urls) || len(urls) != 14 || len(rep.Notes) > 0 {
			t.Errorf("%d rows of %d URLs; notes %q", len(got), len(urls), rep.Notes)
		}
	})
}

// TestExportNothingStored: a note says that visits are missing if the crawl stores no pages.
func TestExportNothingStored(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		web, fs := newLivingWeb(), memfs.New(*testworld.Seed)
		opt := livingOptions(t, web, fs)
		opt.Output.Store, opt.Limits.MaxTime = false, time.Hour
		crawltest.MustRun(t, t.Context(), opt)
		for _, kind := range []export.Kind{export.URLs, export.Changes} {
			rep, err := export.Run(t.Context(), export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: kind,
				Format: tabular.JSONL, Target: string(kind), TempDir: "tmp"})
			must(t, err)
			if len(rep.Notes) != 1 || !strings.Contains(rep.Notes[0], "--store none") {
				t.Errorf("%s: notes %q", kind, rep.Notes)
			}
		}
	})
}
