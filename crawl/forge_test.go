package crawl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/crawllog"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// forgeries are texts that could end a line, a field or a string, start a record, or control a terminal or
// a path.
var forgeries = []string{
	"\r\n\r\nWARC/1.1\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n\r\n\r\n", "\r\nX: y", "\nX: y", "\rX: y",
	"\x00", "\x00\r\n", "\t", " ", "a b", "\x0b\x0c", "\x1b[2J\x1b[1;1H", "\x1b]0;title\x07", "\x9b31m", "\u009b31m",
	"\u2028", "\u2029", "\u0085", "\u202e", "\ufeff", "\xff\xfe", "\xc0\x80", "\xed\xa0\x80", `"`, `\`, `\"`,
	`"}` + "\n", "{\"url\":\"http://forged.test/\"}", "\n{\"ts\":\"2020-01-01T00:00:00.000Z\",\"url\":\"x\"}\n",
	"/../../../../etc/passwd", "..%2f..%2f", `..\..\`, "%00", "%0d%0a", "%u000a", "|sh", "$(id)", "`id`", "-rf", "~",
	"com,forged)/ 20200101000000 {}", strings.Repeat("A", 3000), strings.Repeat("\u2028", 500),
	strings.Repeat("%", 500), "\x7f", "DRUMBEAT-20200101000000-00000-x.warc.gz",
}

// forgeWeb has one host per forgery. Every text of the host contains it: reason phrase, header names and
// values, body, links, robots.txt and redirects.
func forgeWeb() (*tinyWeb, []string) {
	w := &tinyWeb{Serve: pagesOnly}
	w.Raw = func(c net.Conn, host, path string) bool {
		var i int
		if n, _ := fmt.Sscanf(host, "f%d.test", &i); n != 1 {
			return false
		}
		f := forgeries[i]
		reply := func(form string, args ...any) { _, _ = fmt.Fprintf(c, form, args...) }
		body := fmt.Sprintf(
			`<html><base href="/d%s/"><a href="x%s"></a><a href='/q?%s'></a><a href="http://h%s.test/"></a>`+
				`<a href="http://f%d.test%s"></a><a href="http://x%s@f%d.test/u"></a>`, f, f, f, f, i, f, f, i)
		switch path {
		case "/robots.txt":
			reply("HTTP/1.1 200 OK\r\nContent-Type: text/plain%s\r\n\r\nUser-agent: *\nDisallow: /no%s\nSitemap: "+
				"%s\nCrawl-delay: %s\n%s: %s\n", f, f, f, f, f, f)
		case "/moved":
			reply("HTTP/1.1 302 %s\r\nLocation: /to%s\r\nContent-Length: 0\r\n\r\n", f, f)
		case "/elsewhere":
			reply("HTTP/1.1 302 Found\r\nLocation: http://h%s.test/%s\r\nContent-Length: 0\r\n\r\n", f, f)
		case "/refused":
			reply("%s %s\r\n\r\n", f, f)
		default:
			reply("HTTP/1.1 200 %s\r\nContent-Type: text/html%s\r\nServer: %s\r\nX%s: %s\r\nContent-Encoding: "+
				"%s\r\nDate: %s\r\nSet-Cookie: %s\r\n"+
				"Content-Length: %d\r\n\r\n%s", f, f, f, f, f, f, f, f, len(body), body)
		}
		return true
	}
	var seeds []string
	for i := range forgeries {
		for _, p := range []string{"/", "/moved", "/elsewhere", "/refused"} {
			seeds = append(seeds, fmt.Sprintf("http://f%d.test%s", i, p))
		}
		seeds = append(seeds, "http://f0.test/seed"+forgeries[i], "bad host"+forgeries[i], "ftp://x/"+forgeries[i])
	}
	return w, seeds
}

// TestNothingIsForged: whatever text sites send, each output file must parse to exactly the records that
// were written, one line must stay one line, and file names must be the crawl's own.
func TestNothingIsForged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w, seeds := forgeWeb()
		fs := memfs.New(*seedFlag)
		opt := tinyOptions(t, w, fs, seeds...)
		atOnce(&opt)
		opt.Health.Retries, opt.Limits.MaxDepth, opt.Output.WARCFileBytes = 0, 4, 200_000
		opt.Limits.Linger = 0
		res := mustRun(t, t.Context(), opt)
		s := &res.Snapshot
		if s.Place(state.PlaceFetched) < int64(3*len(forgeries)) || s.Refused["bad-response"] == 0 {
			t.Fatalf("fetched %d, refused %v: want pages from most hosts", s.Place(state.PlaceFetched), s.Refused)
		}
		urls := checkWARCs(t, fs, opt.Disk.Dirs)
		if int64(len(urls)) != s.Place(state.PlaceFetched) {
			t.Errorf("the WARC files have %d URLs, the crawl fetched %d", len(urls), s.Place(state.PlaceFetched))
		}
		for url := range urls {
			if c, err := weburl.Canonical(url); err != nil || c != url {
				t.Errorf("URL %q in a WARC file is not canonical: %q, %v", url, c, err)
			}
			if p := weburl.Split([]byte(url)); len(w.Got(string(p.Host), string(p.Path))) != 1 {
				t.Errorf("WARC files have %q, which was requested %d times", url,
					len(w.Got(string(p.Host), string(p.Path))))
			}
		}
		ended := 0
		for _, e := range checkLog(t, fs, opt.Disk.Dirs, "crawl") {
			if e.Reason == "" && urls[e.URL] == 0 {
				t.Errorf("the log has %q as fetched, the WARC files lack it", e.URL)
			}
			ended++
		}
		if want := s.Place(state.PlaceFetched) + s.Place(state.PlaceRefused); int64(ended) != want {
			t.Errorf("the crawl log has %d entries, want %d", ended, want)
		}
		checkLog(t, fs, opt.Disk.Dirs, "seeds")
		checkNames(t, fs, "d0")
		checkNames(t, fs, "d1")
		checkBalanced(t, fs, opt.Disk.Dirs)
	})
}

var cdxLine = regexp.MustCompile(`^(\S+) (\d{14}) (\{.*\})$`)

// checkWARCs reads all WARC files and indexes. The index lines and the response records must match one to
// one. It returns the number of responses by URL.
func checkWARCs(t *testing.T, fs disk.FS, dirs []string) map[string]int {
	t.Helper()
	files, err := warc.Files(disk.Set{FS: fs, Paths: dirs})
	must(t, err)
	urls := map[string]int{}
	for _, name := range files {
		at := map[string]string{} // "offset length" of each response -> URL
		requests, answers := 0, 0 // HTTP requests; DNS answers
		err := warc.ReadFile(fs, name, 1<<30, func(r *warc.Record) error {
			for _, f := range r.Fields {
				if strings.ContainsFunc(f.Name+f.Value, func(c rune) bool { return c < ' ' || c == 0x7f }) {
					t.Errorf("%s at %d: field %q: %q", name, r.Offset, f.Name, f.Value)
				}
			}
			switch r.Type() {
			case "response", "revisit":
				if r.Get("Content-Type") == "text/dns" {
					answers++
				}
				at[fmt.Sprint(r.Offset, " ", r.Length)] = r.Get("WARC-Target-URI")
				urls[r.Get("WARC-Target-URI")]++
			case "request":
				requests++
				if n := bytes.Count(r.Block, []byte("\r\n\r\n")); n != 1 ||
					!bytes.HasSuffix(r.Block, []byte("\r\n\r\n")) {
					t.Errorf("%s at %d: request %q", name, r.Offset, r.Block)
				}
			case "warcinfo", "metadata":
			default:
				t.Errorf("%s at %d: record of type %q", name, r.Offset, r.Type())
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if requests != len(at)-answers {
			t.Errorf("%s: %d requests, %d responses", name, requests, len(at))
		}
		index := contentOf(t, fs, strings.TrimSuffix(name, ".warc.gz")+".cdxj")
		lines := strings.Split(strings.TrimSuffix(string(index), "\n"), "\n")
		if len(lines) != len(at) {
			t.Errorf("%s: %d index lines, %d responses", name, len(lines), len(at))
		}
		for _, line := range lines {
			checkPrintable(t, name, line)
			m := cdxLine.FindStringSubmatch(line)
			var v map[string]string
			if m == nil || json.Unmarshal([]byte(m[3]), &v) != nil {
				t.Errorf("%s: index line %q", name, line)
				continue
			}
			if at[v["offset"]+" "+v["length"]] != v["url"] || !strings.HasSuffix(name, "/"+v["filename"]) {
				t.Errorf("%s: index line %q leads to %q", name, line, at[v["offset"]+" "+v["length"]])
			}
			if _, err := strconv.Atoi(v["status"]); err != nil {
				t.Errorf("%s: status %q", name, v["status"])
			}
		}
	}
	return urls
}

// checkLog reads a log line by line and with its reader. Both must find the same entries.
func checkLog(t *testing.T, fs disk.FS, dirs []string, prefix string) (es []crawllog.Entry) {
	t.Helper()
	files, err := crawllog.Files(disk.Set{FS: fs, Paths: dirs}, prefix)
	must(t, err)
	lines := 0
	for _, f := range files {
		if err := crawllog.ReadFile(fs, f,
			func(e *crawllog.Entry) error { es = append(es, *e); return nil }); err != nil {
			t.Error(err)
		}
		dec, err := zstd.NewReader(bytes.NewReader(contentOf(t, fs, f)), zstd.WithDecoderConcurrency(1))
		must(t, err)
		sc := bufio.NewScanner(dec)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			lines++
			checkPrintable(t, f, sc.Text())
		}
		dec.Close()
	}
	if lines != len(es) || lines == 0 {
		t.Errorf("log %s: %d lines, %d entries", prefix, lines, len(es))
	}
	return es
}

func checkPrintable(t *testing.T, name, line string) {
	t.Helper()
	if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%s: line %q has unprintable characters", name, line)
	}
}

// ownNames matches all names that a crawl gives to files and directories below its own.
var ownNames = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// checkNames walks a directory. No file may have a name that a site chose.
func checkNames(t *testing.T, fs disk.FS, dir string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		return // a file
	}
	for _, n := range names {
		if !ownNames.MatchString(n) || len(n) > 100 || strings.Contains(n, "test") || strings.Contains(n, "passwd") {
			t.Errorf("%s holds %q", dir, n)
		}
		checkNames(t, fs, dir+"/"+n)
	}
}

func contentOf(t *testing.T, fs disk.FS, name string) []byte {
	t.Helper()
	b, err := disk.ReadFile(fs, name)
	must(t, err)
	return b
}
