package export_test

import (
	"fmt"
	"maps"
	"net"
	"testing"

	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/internal/tabular"
	"drumbeat/state/export"
)

// TestCharsets: the export of pages has the encoding of each body that was parsed, by the name that the Encoding
// standard gives it, also of a page whose body was stored before. Other responses have none.
func TestCharsets(t *testing.T) {
	const guess = "<html><p>caf\xe9</p>"
	pages := map[string]struct{ head, body, want string }{
		"/": {"200 OK\r\nContent-Type: text/html; charset=UTF8",
			"<a href=/header><a href=/meta><a href=/guess><a href=/twin><a href=/mark>" +
				"<a href=/late><a href=/bogus><a href=/text><a href=/moved><a href=/gone>", "utf-8"},
		"/header": {"200 OK\r\nContent-Type: text/html; charset=iso-8859-1", "<meta charset=utf-8>", "windows-1252"},
		"/meta": {"200 OK\r\nContent-Type: text/html",
			"<meta http-equiv=content-type content='text/html; charset=x-sjis'>", "shift_jis"},
		"/guess": {"200 OK\r\nContent-Type: text/html", guess, "windows-1252"},
		"/twin":  {"200 OK\r\nContent-Type: text/html", guess, "windows-1252"},
		"/mark":  {"200 OK\r\nContent-Type: text/html; charset=koi8-r", "\xff\xfe<\x00b\x00>\x00", "utf-16le"},
		"/late":  {"200 OK\r\nContent-Type: text/html", fmt.Sprintf("<!--%2000d--><meta charset=euc-kr>", 0), "euc-kr"},
		"/bogus": {"200 OK\r\nContent-Type: text/html; charset=no-such", "<p>caf\xc3\xa9</p>", "utf-8"},
		"/text":  {"200 OK\r\nContent-Type: text/plain; charset=utf-8", "text", ""},
		"/moved": {"302 Found\r\nContent-Type: text/html; charset=utf-8\r\nLocation: /text", "<p>moved", ""},
		"/gone":  {"410 Gone\r\nContent-Type: text/html; charset=utf-8", "<p>gone", ""},
	}
	want := map[string]string{}
	for path, p := range pages {
		want["http://a.test"+path] = p.want
	}
	testworld.InBubble(t, func(t *testing.T) {
		w := testworld.Web{Serve: func(string, string) testworld.Answer { return testworld.NoRobots },
			Raw: func(c net.Conn, _, path string) bool {
				p, ok := pages[path]
				if ok {
					fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", p.head,
						len(p.body), p.body)
				}
				return ok
			}}
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, &w, fs, "http://a.test/")
		opt.Output.Store = true
		crawltest.MustRun(t, t.Context(), opt)
		x := export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.Pages, Format: tabular.JSONL, Target: "pages",
			TempDir: "tmp"}
		if _, err := export.Run(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, r := range testworld.ExportedRows(t, fs, x.Target) {
			charset, _ := r["content_charset"].(string)
			got[r["url"].(string)] = charset
		}
		if !maps.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}
