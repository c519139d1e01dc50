package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// smallWeb makes a web of two hosts with the same small directory, and the hub.
func smallWeb(t *testing.T) *walk {
	t.Helper()
	docs := filepath.Join(t.TempDir(), "docs")
	for name, text := range map[string]string{
		"index.html": `<a href=a.html>a</a> <a href=pics>pics</a> <a href=/aaa/>x</a> <a ` +
			`href="http://out.invalid/">out</a>`,
		"a.html": `<a href="index.html#top">up</a> <a href="notes.txt">notes</a> <a rel=nofollow ` +
			`href=b.html>b</a>`,
		"b.html":       `<a href=c.html>c</a>`,
		"notes.txt":    `<a href=c.html>c</a>`,
		"pics/one.txt": "no index here\n",
	} {
		name = filepath.Join(docs, name)
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, []byte(text), 0o644))
	}
	w, err := newWeb(webFlags{Work: t.TempDir(), Hosts: 3, Packages: []string{docs}})
	must(t, err)
	k, err := newWalk(w)
	must(t, err)
	return k
}

func TestWalkOfAHost(t *testing.T) {
	k := smallWeb(t)
	for _, h := range k.web.hosts[1:] {
		want := map[string]int{"/": 200, "/a.html": 200, "/index.html": 200, "/notes.txt": 200, "/pics": 301,
			"/pics/": 403, "/aaa/": 404}
		if h.disallow == "/pics/" {
			delete(want, "/pics/")
		}
		got := map[string]int{}
		for u, a := range k.fetched {
			if rest, ours := strings.CutPrefix(u, h.origin()+"/"); ours && !strings.Contains(rest, "such") {
				got["/"+rest] = a.status
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", h.origin(), got, want)
		}
	}
	for u, want := range map[string]class{"http://out.invalid/": notServed, "http://www.quince.test/b.html": noFollow,
		"http://www.sorb.test/pics/": byRobots, "http://hub.rowan.test/private/x.html": byRobots} {
		if got := k.left[u]; got != want {
			t.Errorf("%s: got class %q, want %q", u, got, want)
		}
	}
}

// TestWalkOfTheHub: the walk finds the set of URLs that is written here by hand.
func TestWalkOfTheHub(t *testing.T) {
	k := smallWeb(t)
	want := strings.Fields(
		`/200 /corners.html200 /base.html200 /noscript.html404 /template.html404 /sub/page.html200 /sub301
		/sub/200 /sub?q=1&r=%20&copy=2301 /sub/?q=1&r=%20&copy=2200 /sub/a%20b301 /sub/a%20b/200 /end.html200
		/sub//page.html200 /end.html?from=page200 /Private.html404 /corners.html?200 /caf%C3%A9.html?q=caf%C3%A9404
		/plain.txt200 /meta-nofollow.html200 /refresh.html200 /frames.html200 /area.html404 /frame-in.html404
		/svg-old.html404 /svg-new.html404 /in-table.html404 /upper.html404 /unclosed.html404
		/sub/deep/based-before.html404 /sub/deep/based.html404 /sub/deep/?q404 /sub/page.html?refreshed200
		/frame-1.html404 /end.html?frame200 /sub/end.html?from=page404`)
	slices.Sort(want)
	want = slices.Compact(want)
	var got []string
	for u, a := range k.fetched {
		if rest, ours := strings.CutPrefix(u, k.web.hosts[0].origin()); ours {
			got = append(got, rest+map[int]string{200: "200", 301: "301", 403: "403", 404: "404"}[a.status])
		}
	}
	slices.Sort(got)
	for _, u := range got {
		if !slices.Contains(want, u) {
			t.Errorf("walk has %s", u)
		}
	}
	for _, u := range want {
		if !slices.Contains(got, u) {
			t.Errorf("walk lacks %s", u)
		}
	}
}

func TestRefreshTarget(t *testing.T) {
	for content, want := range map[string]string{
		"0;url=a": "a", " 5 ; URL = 'a b' x": "a b", "1,a": "a", "1 a": "a", ".5;a": "a", "3.2; url=\"a": "a",
		"0;url": "url", "0": "-", "a": "-", "": "-", "5x;url=a": "-", "0;": "-", "0;url=": "",
	} {
		got, ok := refreshTarget(content)
		if !ok {
			got = "-"
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", content, got, want)
		}
	}
}

// flawless is the output of a crawl without faults.
func flawless(k *walk) ([]capture, *requests) {
	var list []capture
	log := &requests{byURL: map[string]int{}, hosts: map[string]visits{}}
	for u, a := range k.fetched {
		mime := a.mime
		if a.status != 200 {
			mime = mimes[".html"]
		}
		list = append(list, capture{URL: u, MIME: mime,
			Status: map[int]string{200: "200", 301: "301", 403: "403", 404: "404"}[a.status]})
		log.byURL[u] = 1
	}
	slices.SortFunc(list, func(a, b capture) int { return strings.Compare(a.URL, b.URL) })
	return list, log
}

// TestComparisonFinds: the comparison finds every kind of fault, and nothing else.
func TestComparisonFinds(t *testing.T) {
	k := smallWeb(t)
	const page = "http://www.quince.test/a.html"
	for name, c := range map[string]struct {
		spoil func(list []capture, log *requests) []capture
		want  int
	}{
		"nothing":   {func(l []capture, _ *requests) []capture { return l }, 0},
		"lost":      {func(l []capture, _ *requests) []capture { return l[1:] }, 1},
		"twice":     {func(l []capture, _ *requests) []capture { return append(l, l[0]) }, 1},
		"status":    {func(l []capture, _ *requests) []capture { l[0].Status = "500"; return l }, 1},
		"not asked": {func(l []capture, log *requests) []capture { delete(log.byURL, page); return l }, 1},
		"asked twice": {func(l []capture, log *requests) []capture {
			log.byURL[page]++
			return l
		}, 1},
		"nofollow": {func(l []capture, log *requests) []capture {
			log.byURL["http://www.quince.test/b.html"] = 1
			return append(l, capture{URL: "http://www.quince.test/b.html", Status: "200", MIME: "text/html"})
		}, 1},
		"asked for, forbidden": {func(l []capture, log *requests) []capture {
			log.byURL["http://hub.rowan.test/private/x.html"] = 1
			return l
		}, 1},
		"at once": {func(l []capture, log *requests) []capture {
			log.hosts["www.quince.test"] = visits{{1 * time.Second, 3 * time.Second},
				{2 * time.Second, 4 * time.Second}}
			return l
		}, 1},
		"robots.txt": {func(l []capture, log *requests) []capture {
			log.byURL["http://hub.rowan.test/robots.txt"] = 3
			return l
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			list, log := flawless(k)
			found := &comparison{walk: k, captured: map[string]capture{}}
			list = c.spoil(list, log)
			found.captures(list)
			found.requests(log)
			n := 0
			for _, d := range found.list {
				if d.class == noneFound {
					n++
				}
			}
			if n != c.want {
				t.Errorf("got %d unexplained differences, want %d: %v", n, c.want, found.list)
			}
		})
	}
}

func TestGaps(t *testing.T) {
	v := visits{{30, 40}, {10, 20}, {41, 50}}
	if least, overlaps := v.gaps(); least != 1 || overlaps != 0 {
		t.Errorf("got least gap %d and %d overlaps, want 1 and 0", least, overlaps)
	}
}

func TestRequestsOfALog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "access.log")
	text := `10.500 0.001 http a.test 200 100 GET text/html /b.html
10.400 0.000 http a.test 200 100 GET text/html /
10.600 0.000 http a.test 200 100 GET text/html /b.html
10.700 0.000 http a.test 404 100 GET text/html /c.html
10.800 0.000 http a.test 200 100 GET text/plain /robots.txt
10.900 0.000 http a.test 301 100 GET - /with space
`
	must(t, os.WriteFile(name, []byte(text), 0o644))
	r, err := readRequests(name)
	must(t, err)
	if r.byURL["http://a.test/b.html"] != 2 || r.byURL["http://a.test/with space"] != 1 {
		t.Errorf("got requests %v", r.byURL)
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
