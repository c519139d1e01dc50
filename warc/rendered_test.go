package warc

import (
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestRendered: a rendered page is a capture of its own beside its response, in both formats and with bodies of any
// size. The index line of the response stays the only one of its URL.
func TestRendered(t *testing.T) {
	for _, format := range []Format{Gzip, Zstd} {
		set := disk.Set{FS: memfs.New(1), Paths: []string{"d0"}}
		opt := Options{Set: set, State: set, Format: format}
		w, err := Open(opt, nil)
		must(t, err)
		e := w.NewEncoder()
		var p Prepared
		const url = "http://a.test/Page?B"
		want := map[string]string{}
		at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
		for _, size := range []int{0, 100, smallBody + 1, 100_000} {
			html := strings.Repeat("<p>é\x00x", size/6)
			target := []byte(url + strings.Repeat("x", len(want)))
			if err := e.Prepare(&p, &Exchange{URL: target, Date: at, Head: []byte("HTTP/1.1 200 OK\r\n\r\n"),
				Body: []byte("body"), Status: 200}); err != nil {
				t.Fatal(err)
			}
			of := e.ResponseID()
			if _, err := w.Append(&p, at); err != nil {
				t.Fatal(err)
			}
			if err := e.PrepareRendered(&p, &Rendered{URL: target, Date: at.Add(time.Second), Of: of,
				HTML: []byte(html), Truncated: "time"}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Append(&p, at); err != nil {
				t.Fatal(err)
			}
			want[string(target)] = html
		}
		if e.PrepareRendered(&p, &Rendered{URL: []byte(url)}) == nil {
			t.Error("no error without a response")
		}
		st := checkpointOf(t, w, opt)
		kinds := map[string]int{}
		if _, err := VerifyFiles(opt, st,
			Verify{Capture: func(c *Capture) error { kinds[c.Kind]++; return nil }}); err != nil {
			t.Error(err)
		}
		if kinds[KindPage] != 4 || kinds[KindRendered] != 4 {
			t.Errorf("captures by kind: %v", kinds)
		}
		ids := map[string]string{}
		if err := Walk(opt, st, 1<<20, func(_ string, r *Record) error {
			target := r.Get("WARC-Target-URI")
			switch r.Type() {
			case "response":
				ids[target] = r.Get("WARC-Record-ID")
			case "resource":
				target = strings.TrimPrefix(target, RenderedPrefix)
				if string(r.Block) != want[target] || r.Get("WARC-Concurrent-To") != ids[target] ||
					r.Get("WARC-Truncated") != "time" {
					t.Errorf("%s: %d bytes, of %s", target, len(r.Block), r.Get("WARC-Concurrent-To"))
				}
				delete(want, target)
			}
			return nil
		}); err != nil || len(want) > 0 {
			t.Errorf("%d rendered pages are missing, %v", len(want), err)
		}
		lines := 0
		if err := FindAll(opt, st, url, func(*Stored) error { lines++; return nil }, func(string) {},
			func(err error) error { return err }); err != nil || lines != 1 {
			t.Errorf("%d captures of the URL, %v", lines, err)
		}
	}
}
