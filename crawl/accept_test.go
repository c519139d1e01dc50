package crawl

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"drumbeat/crawl/fetcher"
	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// typedFile is a response.
type typedFile struct {
	head, body  string
	least, most int // bytes of the body that the server sends
}

// typedFiles are responses with bodies of all kinds, by path.
func typedFiles() map[string]typedFile {
	const kib = 1 << 10
	text := strings.Repeat("just some words. ", 64*kib)
	page := "<!DOCTYPE html><html>" + strings.Repeat("<p>x", 2*kib) + "<a href='/behind"
	return map[string]typedFile{
		"/page":   {"200 OK\r\nContent-Type: text/html; charset=utf-8", page + "1'>", 8 * kib, 9 * kib},
		"/xhtml":  {"200 OK\r\nContent-Type: Application/XHTML+xml", page + "2'>", 8 * kib, 9 * kib},
		"/image":  {"200 OK\r\nContent-Type: image/png", text, 0, 0},
		"/pdf":    {"200 OK\r\nContent-Type: application/pdf", text, 96 * kib, 96*kib + 1},
		"/text":   {"200 OK\r\nContent-Type: text/plain", text, 1, 2*kib + 1},
		"/hidden": {"200 OK\r\nContent-Type: text/plain", page + "3'>", 8 * kib, 9 * kib},
		"/nosniff": {"200 OK\r\nX-Content-Type-Options: nosniff\r\nContent-Type: text/plain",
			page + "4'>", 1, 2*kib + 1},
		"/binary":   {"200 OK\r\nContent-Type: application/octet-stream", text, 1, 2*kib + 1},
		"/untyped":  {"200 OK", page + "5'>", 8 * kib, 9 * kib},
		"/unknown":  {"200 OK", text, 1, 2*kib + 1},
		"/feed":     {"200 OK\r\nContent-Type: application/rss+xml", text, 0, 0},
		"/xml":      {"200 OK\r\nContent-Type: text/xml", text, 1, 2*kib + 1},
		"/chunks":   {"200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: video/mp4", "10000\r\n" + text, 0, 0},
		"/gone":     {"404 N\r\nContent-Type: image/gif", text, 0, 0},
		"/gonepage": {"404 N\r\nContent-Type: text/html", page + "6'>", 8 * kib, 9 * kib},
		"/redirect": {"302 F\r\nLocation: /behind7\r\nContent-Type: text/plain", text, 0, 0},
	}
}

// TestBodiesByType: of a body whose type isn't accepted the server must get rid of nothing, or of two KiB
// if it may hide a page; of other bodies, of as much as their cap allows. The crawl must read pages with a
// wrong type and follow their links. The accounts must match the output.
func TestBodiesByType(t *testing.T) {
	const kib = 1 << 10
	files := typedFiles()
	inBubble(t, func(t *testing.T) {
		var mu sync.Mutex
		sent := map[string]int{}
		w := &tinyWeb{Serve: pagesOnly}
		w.Raw = func(c net.Conn, _, path string) bool {
			f, ok := files[path]
			if path == "/robots.txt" { // read despite its type
				f, ok = typedFile{head: "200 OK\r\nContent-Type: image/png",
					body: "User-agent: *\nDisallow: /private\n"}, true
			}
			if !ok {
				return false
			}
			head := f.head
			if !strings.Contains(head, "chunked") {
				head += fmt.Sprintf("\r\nContent-Length: %d", len(f.body))
			}
			_, _ = io.WriteString(c, "HTTP/1.1 "+head+"\r\n\r\n")
			n, _ := io.WriteString(c, f.body)
			mu.Lock()
			sent[path] += n
			mu.Unlock()
			return true
		}
		seeds := []string{"http://a.test/private"}
		for path := range files {
			seeds = append(seeds, "http://a.test"+path)
		}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), seeds...)
		atOnce(&opt)
		opt.Network.Accept = []string{fetcher.AcceptHTML, "application/pdf"}
		opt.Network.BodyCaps = []BodyCap{{Type: "*/*", Bytes: 1 << 20}, {Type: "application/*", Bytes: 32 * kib},
			{Type: "application/pdf", Bytes: 96 * kib}}
		res := mustRun(t, t.Context(), opt)
		mu.Lock() // a server goroutine may still be running
		defer mu.Unlock()
		for path, f := range files {
			if n := sent[path]; n < f.least || n > f.most {
				t.Errorf("%s: the server sent %d bytes of the body, want %d to %d", path, n, f.least, f.most)
			}
		}
		// The list above has the page that links to each.
		for i, want := range []int{0, 1, 1, 1, 0, 1, 0, 1} {
			if got := len(w.Got("a.test", fmt.Sprintf("/behind%d", i))); got != want {
				t.Errorf("/behind%d was requested %d times, want %d", i, got, want)
			}
		}
		if n := len(w.Got("a.test", "/private")); n != 0 {
			t.Error("robots.txt was not read because of its type")
		}
		s := &res.Snapshot
		if got := s.Count(state.CountBodiesRefused); got != 10 {
			t.Errorf("refused %d bodies, want 10", got)
		}
		if got := s.Count(state.CountTruncated); got != 1 {
			t.Errorf("cut %d bodies, want only that of the PDF", got)
		}
		checkTruncated(t, &opt)
		rep := deep(t, opt.Disk.FS.(*memfs.FS), &opt)
		if !rep.Balanced() || !rep.Output.StoredAll {
			t.Errorf("audit: %v %+v", rep.Bad, rep.Output)
		}
	})
}

// checkTruncated: records of bodies that were cut say so.
func checkTruncated(t *testing.T, opt *Options) {
	t.Helper()
	cut := map[string]string{}
	for _, rec := range storedRecords(t, opt.Disk.FS, opt.Disk.Dirs) {
		cut[rec.Get("WARC-Target-URI")] = rec.Get("WARC-Truncated")
	}
	for path, want := range map[string]string{"/page": "", "/image": "length", "/chunks": "length",
		"/text": "length", "/hidden": "", "/pdf": "length"} {
		if got, ok := cut["http://a.test"+path]; !ok || got != want {
			t.Errorf("%s: record present: %v, truncated by %q, want %q", path, ok, got, want)
		}
	}
}

// TestSitemapsAmongSeeds: a sitemap given as a seed must be read although XML isn't accepted.
func TestSitemapsAmongSeeds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: pagesOnly}
		w.Raw = func(c net.Conn, _, path string) bool {
			if path != "/map.xml" {
				return false
			}
			body := "<?xml version='1.0'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>" +
				strings.Repeat(" ", 10<<10) +
				"<url><loc>http://a.test/far</loc></url></urlset>"
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n%s",
				len(body), body)
			return true
		}
		for _, on := range []bool{true, false} {
			opt := tinyOptions(t, w, memfs.New(*seedFlag), "http://a.test/map.xml")
			atOnce(&opt)
			opt.Network.Accept, opt.Links.Sitemaps, opt.Links.SitemapBytes = []string{fetcher.AcceptHTML}, on, 1<<20
			mustRun(t, t.Context(), opt)
			if got := len(w.Got("a.test", "/far")); got != 1 {
				t.Errorf("with sitemaps %v: the URL in the sitemap was requested %d times, want 1", on, got)
			}
		}
	})
}

// TestAcceptorFaults: CheckBodies must refuse invalid types and caps.
func TestAcceptorFaults(t *testing.T) {
	for _, bad := range []string{"", "html5", "text", "text/", "/html", "*/html", "te xt/html", "text/html;q=1",
		"text/*x", "text/html,text/plain"} {
		if fetcher.CheckBodies([]string{bad}, nil) == nil ||
			fetcher.CheckBodies(nil, []BodyCap{{Type: bad, Bytes: 1}}) == nil {
			t.Errorf("type %q was accepted", bad)
		}
	}
	if fetcher.CheckBodies(nil, []BodyCap{{Type: "text/html"}}) == nil {
		t.Error("a cap of 0 was accepted")
	}
	if err := fetcher.CheckBodies([]string{"HTML", "text/*", "*/*", "application/vnd.ms-excel"}, nil); err != nil {
		t.Error(err)
	}
}

// TestAcceptHeader: the Accept header must name the accepted types.
func TestAcceptHeader(t *testing.T) {
	const pages = "text/html,application/xhtml+xml,*/*;q=0.8"
	for want, accept := range map[string][]string{
		pages: {"html"}, "text/html,application/xhtml+xml,application/pdf;q=0.9,image/*;q=0.9,*/*;q=0.8": {"html",
			"application/PDF", " image/*"},
	} {
		if got := fetcher.AcceptHeader(accept); got != want {
			t.Errorf("%q: got %s, want %s", accept, got, want)
		}
	}
	for _, accept := range [][]string{nil, {"*/*"}, {"text/html", "application/xhtml+xml"}} {
		if got := fetcher.AcceptHeader(accept); got != pages {
			t.Errorf("%q: got %s, want %s", accept, got, pages)
		}
	}
}
