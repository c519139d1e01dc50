package storedweb

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"drumbeat/disk"
)

// record is a record of a handmade WARC file.
type record struct {
	kind, url, date string
	block           string
	fields          string // further fields, whole lines
}

func (r record) text(n int) string {
	return fmt.Sprintf("WARC/1.1\r\nWARC-Type: %s\r\nWARC-Target-URI: %s\r\nWARC-Date: %s\r\nWARC-Record-ID: "+
		"<urn:uuid:%032d>\r\n%sContent-Length: %d\r\n\r\n%s\r\n\r\n",
		r.kind, r.url, r.date, n, r.fields, len(r.block), r.block)
}

func sum(body string) string {
	h := sha1.Sum([]byte(body))
	return "WARC-Payload-Digest: sha1:" + base32.StdEncoding.EncodeToString(h[:]) + "\r\n"
}

const (
	older = "2026-11-20T10:00:00Z"
	newer = "2026-11-21T10:00:00Z"
	large = 700_000 // more than a slot holds
)

// stored is a small stored crawl.
func stored() []record {
	return []record{
		{"response", "http://a.test/", older,
			"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Own: 1\r\nContent-Length: 3\r\n\r\nold", ""},
		{"response", "http://a.test/", newer, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Own: " +
			"2\r\nContent-Length: 4\r\n\r\nhome", sum("home") + "WARC-IP-Address: 192.0.2.7\r\n"},
		{"metadata", "http://a.test/", newer, "depth: 0\r\nfetchTimeMs: 7\r\n", ""},
		{"response", "http://a.test/robots.txt", newer, "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nUser-agent: *",
			"WARC-Resource-Type: robots\r\n"},
		{"response", "http://a.test/chunked", newer,
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", ""},
		{"metadata", "http://a.test/chunked", newer, "via: http://a.test/\r\ndepth: 1\r\n", ""},
		{"response", "http://a.test/unframed", newer,
			"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nto the end", ""},
		{"response", "http://a.test/cut", newer, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nthe begin",
			"WARC-Truncated: length\r\n"},
		{"response", "http://a.test/moved", newer,
			"HTTP/1.1 301 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", ""},
		{"response", "http://a.test/gone", newer, "HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\ngone", ""},
		{"response", "http://a.test/large", newer, "HTTP/1.1 200 OK\r\nContent-Length: " + fmt.Sprint(large) +
			"\r\n\r\n" + strings.Repeat("0123456789", large/10), ""},
		{"revisit", "http://b.test/copy", newer, "HTTP/1.1 203 Copy\r\nX-Own: 3\r\n\r\n", sum("home") +
			"WARC-IP-Address: 192.0.2.7\r\nWARC-Refers-To-Target-URI: http://a.test/\r\nWARC-Refers-To-Date: " +
			newer + "\r\n"},
		{"revisit", "http://b.test/lost", newer, "HTTP/1.1 200 OK\r\n\r\n", sum("lost") +
			"WARC-IP-Address: 192.0.2.7\r\nWARC-Refers-To-Target-URI: http://a.test/lost\r\n"},
		{"response", "https://b.test:8443/s?q=%7e", newer, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret",
			"WARC-IP-Address: 192.0.2.7\r\n"},
		{"response", "dns:a.test", newer, "20261121100000\na.test. 60 IN A 192.0.2.7\na.test. 90 IN A 192.0.2.8\n", ""},
	}
}

// write writes a WARC file, and returns where its records begin.
func write(t *testing.T, name string, records []record) (offsets []int64) {
	t.Helper()
	var b bytes.Buffer
	for i, r := range records {
		offsets = append(offsets, int64(b.Len()))
		if strings.HasSuffix(name, zstSuffix) {
			e, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(true), zstd.WithSingleSegment(true))
			must(t, err)
			b.Write(e.EncodeAll([]byte(r.text(i)), nil))
			continue
		}
		z := gzip.NewWriter(&b)
		if _, err := io.WriteString(z, r.text(i)); err != nil {
			t.Fatal(err)
		}
		must(t, z.Close())
	}
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, b.Bytes(), 0o600))
	return append(offsets, int64(b.Len()))
}

// index writes the CDXJ index of a WARC file.
func index(t *testing.T, name string, records []record, offsets []int64) {
	t.Helper()
	var lines []string
	for i, r := range records {
		if r.kind == "metadata" {
			continue
		}
		mime, kind := "text/html", ""
		if r.kind == "revisit" {
			mime = "warc/revisit"
		}
		if strings.HasSuffix(r.url, "/robots.txt") {
			kind = `, "type": "robots"`
		} else if strings.HasPrefix(r.url, "dns:") {
			kind = `, "type": "dns"`
		}
		status := "200"
		if f := strings.Fields(r.block); len(f) > 1 && strings.HasPrefix(r.block, "HTTP") {
			status = f[1]
		}
		stamp := strings.Map(func(c rune) rune {
			if c < '0' || c > '9' {
				return -1
			}
			return c
		}, r.date)
		lines = append(lines,
			fmt.Sprintf(`%s %s {"url": "%s", "mime": "%s", "status": "%s", "digest": "sha1:AAAA", "length": "%d", `+
				`"offset": "%d", "filename": "%s"%s}`+"\n",
				r.url, stamp, r.url, mime, status, offsets[i+1]-offsets[i], offsets[i], filepath.Base(name), kind))
	}
	slices.Sort(lines)
	stem := strings.TrimSuffix(strings.TrimSuffix(name, gzSuffix), zstSuffix)
	must(t, os.WriteFile(stem+indexSuffix, []byte(strings.Join(lines, "")), 0o600))
}

// served opens and starts the web of a directory.
func served(t *testing.T, o Options) (*Web, *http.Client) {
	t.Helper()
	o.FS, o.Scratch, o.RAMBytes = disk.OS(), t.TempDir(), 4<<20
	w, err := Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	must(t, w.Start(t.Context()))
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DisableCompression: true,
			TLSClientConfig: &tls.Config{RootCAs: w.Authority().Pool()},
			DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
				host, _, err := net.SplitHostPort(addr)
				if err != nil {
					return nil, err
				}
				addrs, _ := w.resolve(host)
				if len(addrs) == 0 {
					return nil, errors.New("no such host")
				}
				return w.Dial(ctx, netip.AddrPortFrom(addrs[0], 1))
			}}}
	t.Cleanup(client.CloseIdleConnections)
	return w, client
}

// get returns status, the field X-Own and the body of a URL.
func get(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		return "no answer"
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	text := fmt.Sprintf("%d [%s] %s", resp.StatusCode, resp.Header.Get("X-Own"), body)
	if err != nil {
		text += " " + err.Error()
	}
	return text
}

// serveCases are the cases of TestServe.
var serveCases = map[string]string{
	"http://a.test/":                 "200 [2] home",
	"http://a.test/robots.txt":       "200 [] User-agent: *",
	"http://a.test/chunked":          "200 [] abcde",
	"http://a.test/unframed":         "200 [] to the end",
	"http://a.test/cut":              "200 [] the begin unexpected EOF",
	"http://a.test/moved":            "301 [] ",
	"http://a.test/gone":             "410 [] gone",
	"http://a.test/large":            "200 [] " + strings.Repeat("0123456789", large/10),
	"http://b.test/copy":             "203 [3] home",
	"http://b.test/lost":             "502 [] Bad Gateway\n",
	"https://b.test:8443/s?q=~":      "200 [] secret",
	"http://a.test/not-stored":       "404 [] Not Found\n",
	"https://a.test/":                "404 [] Not Found\n",
	"http://b.test/robots.txt":       "404 [] Not Found\n",
	"http://c.test/":                 "no answer",
	"http://a.test/../../etc/passwd": "404 [] Not Found\n",
}

// TestServe: each URL has the answer that was stored last, in gz and zst files, with and without an index.
func TestServe(t *testing.T) {
	for _, suffix := range []string{gzSuffix, zstSuffix} {
		for _, indexed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s index %t", suffix, indexed), func(t *testing.T) {
				dir := t.TempDir()
				name := dir + "/warc/x" + suffix
				if offsets := write(t, name, stored()); indexed {
					index(t, name, stored(), offsets)
				}
				var log bytes.Buffer
				w, client := served(t, Options{Dirs: []string{dir}, Seeds: true, Requests: &log})
				for url, want := range serveCases {
					if got := get(t, client, url); got != want {
						t.Errorf("%s: got %.80q, want %.80q", url, got, want)
					}
				}
				resp, err := client.Head("http://a.test/large")
				if err != nil || resp.ContentLength != large {
					t.Errorf("HEAD: %v, %d bytes", err, resp.ContentLength)
				}
				resp.Body.Close()
				if resp, err = client.Post("http://a.test/", "text/plain", strings.NewReader("x")); err != nil ||
					resp.StatusCode != http.StatusMethodNotAllowed {
					t.Errorf("POST: %v, %v", resp, err)
				} else {
					resp.Body.Close()
				}
				f, c := w.Found(), new(Counts)
				if c, err = w.Counts(); err != nil {
					t.Fatal(err)
				}
				if f.Files != 1 || f.Read != map[bool]int{true: 0, false: 1}[indexed] || f.URLs != 10 ||
					f.Robots != 1 || f.Hosts != 2 || f.Seeds != 1 || f.DamagedCount != 0 {
					t.Errorf("found %+v", f)
				}
				if c.Served != 11 || c.Revisits != 1 || c.NotStored != 3 || c.NoRobots != 1 || c.Damaged != 1 ||
					c.NoName != 1 || c.Unused != 0 {
					t.Errorf("%+v", c)
				}
				if seeds, err := os.ReadFile(w.SeedFile()); err != nil || string(seeds) != "http://a.test/\n" {
					t.Errorf("seeds %q, %v", seeds, err)
				}
				if !strings.Contains(log.String(), " https://b.test:8443/s?q=~\n") {
					t.Errorf("log %.300q", log.String())
				}
				// Hosts that shared a server share one; the TTL is the stored one.
				a, ttl := w.resolve("a.test")
				b, _ := w.resolve("b.test")
				if len(a) != 2 || ttl.Seconds() != 60 || len(b) != 1 || a[0] != b[0] || a[0] == a[1] ||
					!a[0].IsLoopback() || !a[1].IsLoopback() {
					t.Errorf("a.test %v for %v, b.test %v", a, ttl, b)
				}
			})
		}
	}
}

// TestDamaged: a damaged record gets 502, a damaged index is replaced by the file, and a file that ends early is
// served up to there. All are named.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	name := dir + "/x" + gzSuffix
	offsets := write(t, name, stored())
	index(t, name, stored(), offsets)
	data, err := os.ReadFile(name)
	must(t, err)
	data[offsets[10]-6] ^= 0xff // of the checksum of /gone
	must(t, os.WriteFile(name, data, 0o600))
	write(t, dir+"/y"+gzSuffix,
		[]record{{"response", "http://y.test/", newer, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ny", ""}})
	must(t, os.WriteFile(dir+"/y"+indexSuffix, []byte("no index\n"), 0o600))
	early := write(t, dir+"/z"+gzSuffix+openSuffix,
		[]record{{"response", "http://z.test/", newer, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nz", ""},
			{"response", "http://z.test/2", newer, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nz", ""}})
	must(t, os.Truncate(dir+"/z"+gzSuffix+openSuffix, early[1]+20))
	must(t, os.WriteFile(dir+"/plain"+plainSuffix, nil, 0o600))
	w, client := served(t, Options{Dirs: []string{dir}})
	for url, want := range map[string]string{"http://a.test/gone": "502 [] Bad Gateway\n",
		"http://a.test/": "200 [2] home", "http://y.test/": "200 [] y",
		"http://z.test/": "200 [] z", "http://z.test/2": "404 [] Not Found\n"} {
		if got := get(t, client, url); got != want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
	}
	f := w.Found()
	for _, want := range []string{"y.cdxj: ", "not closed by its crawl", "plain.warc: it is not compressed"} {
		if !slices.ContainsFunc(f.Damaged, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("%q is not in %q", want, f.Damaged)
		}
	}
	if c, err := w.Counts(); err != nil || c.Damaged != 1 || len(c.DamagedList) != 1 || c.Unused == 0 ||
		len(c.UnusedList) == 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestOpenErrors: what is no stored crawl is said.
func TestOpenErrors(t *testing.T) {
	open := func(dir string) error {
		w, err := Open(t.Context(),
			Options{FS: disk.OS(), Dirs: []string{dir}, Scratch: t.TempDir(), RAMBytes: 4 << 20})
		if err == nil {
			err = w.Close()
		}
		return err
	}
	if err := open(t.TempDir()); !errors.Is(err, ErrNoFiles) {
		t.Errorf("an empty directory: %v", err)
	}
	if err := open(t.TempDir() + "/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	dir := t.TempDir()
	write(t, dir+"/x"+gzSuffix, stored())
	lock, err := disk.OS().Lock(dir)
	must(t, err)
	if err := open(dir); !errors.Is(err, ErrRunning) {
		t.Errorf("a locked directory: %v", err)
	}
	must(t, lock.Close())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, Options{FS: disk.OS(), Dirs: []string{dir}, Scratch: t.TempDir(),
		RAMBytes: 4 << 20}); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled Open: %v", err)
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
