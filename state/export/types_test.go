package export_test

import (
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"
	"unicode/utf16"

	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/internal/tabular"
	"drumbeat/state/export"
)

// wide returns a text in UTF-16.
func wide(big bool, s string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		lo, hi := byte(u), byte(u>>8)
		if big {
			lo, hi = hi, lo
		}
		b.Write([]byte{lo, hi})
	}
	return b.String()
}

const declared = `<?xml version="1.0"?><html><p>café</p><a href="/%s.to">x</a>`

func koi(name string) string {
	return fmt.Sprintf(`<!doctype html><p>caf`+"\xe9"+`</p><a href="/%s.to">x</a>`, name)
}

// typedPages are pages by name, with the type and the encoding that the crawl should find.
var typedPages = map[string]struct{ head, body, mime, charset string }{
	"twice":   {"Content-Type: text/html, text/html; charset=koi8-r", koi("twice"), "text/html", "koi8-r"},
	"inherit": {"Content-Type: text/html; charset=koi8-r, text/html", koi("inherit"), "text/html", "koi8-r"},
	"lines": {"Content-Type: text/plain\r\nX: y\r\nContent-Type: text/html;charset=koi8-r", koi("lines"),
		"text/html", "koi8-r"},
	"any":    {"Content-Type: text/html;charset=koi8-r, */*", koi("any"), "text/html", "koi8-r"},
	"quoted": {`Content-Type: text/html;x=",image/png";charset=koi8-r`, koi("quoted"), "text/html", "koi8-r"},
	"other":  {"Content-Type: text/html;charset=koi8-r, image/png", koi("other"), "image/png", ""},
	"bogus":  {"Content-Type: html", koi("bogus"), "", "windows-1252"},
	"folded": {"Content-Type:\r\n text/html;\r\n\tcharset=koi8-r", koi("folded"), "text/html", "koi8-r"},
	"le":     {"Content-Type: text/html", wide(false, fmt.Sprintf(declared, "le")), "text/html", "utf-16le"},
	"be":     {"Content-Type: text/html", wide(true, fmt.Sprintf(declared, "be")), "text/html", "utf-16be"},
	"ascii": {"Content-Type: text/html", `<?xml version="1.0" encoding="koi8-r"?>` + koi("ascii"), "text/html",
		"koi8-r"},
}

// TestCombinedTypes: the type of a response is that of all values of Content-Type, as browsers read them, for the links
// that the crawl follows, for the charset, and for the index. So are pages in UTF-16 without a byte order mark.
func TestCombinedTypes(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := testworld.Web{Serve: func(string, string) testworld.Answer { return testworld.NoRobots },
			Raw: func(c net.Conn, _, path string) bool {
				p, ok := typedPages[strings.TrimPrefix(path, "/")]
				if ok {
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", p.head,
						len(p.body), p.body)
				}
				return ok
			}}
		var seeds []string
		for name := range typedPages {
			seeds = append(seeds, "http://a.test/"+name)
		}
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, &w, fs, seeds...)
		opt.Output.Store = true
		crawltest.MustRun(t, t.Context(), opt)
		x := export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.Pages, Format: tabular.JSONL, Target: "pages",
			TempDir: "tmp"}
		if _, err := export.Run(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		got, want := map[string]string{}, map[string]string{}
		for _, r := range testworld.ExportedRows(t, fs, x.Target) {
			name := strings.TrimPrefix(r["url"].(string), "http://a.test/")
			if _, ok := typedPages[name]; ok {
				got[name] = fmt.Sprint(r["content_mime_type"], r["content_charset"],
					len(w.Got("a.test", "/"+name+".to")))
			}
		}
		null := map[string]any{"": nil}
		for name, p := range typedPages {
			links := 1
			if name == "other" {
				links = 0
			}
			mime, charset := any(p.mime), any(p.charset)
			if v, ok := null[p.mime]; ok {
				mime = v
			}
			if v, ok := null[p.charset]; ok {
				charset = v
			}
			want[name] = fmt.Sprint(mime, charset, links)
		}
		if !maps.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}
