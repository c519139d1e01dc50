package cmd

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"drumbeat/cmd/term"
)

// codingSite serves pages in the codings that their path prefers, if the request asks for them, and keeps the
// values of Accept-Encoding.
type codingSite struct {
	*httptest.Server
	mu    sync.Mutex // guards asked
	asked map[string]int
}

func newCodingSite(t *testing.T) *codingSite {
	s := &codingSite{asked: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accept := r.Header.Get("Accept-Encoding")
		s.mu.Lock()
		s.asked[accept]++
		s.mu.Unlock()
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		var out io.WriteCloser
		switch accepts := strings.Split(accept, ", "); {
		case strings.HasPrefix(r.URL.Path, "/br") && slices.Contains(accepts, "br"):
			w.Header().Set("Content-Encoding", "br")
			out = brotli.NewWriterLevel(w, 11)
		case strings.HasPrefix(r.URL.Path, "/zstd") && slices.Contains(accepts, "zstd"):
			w.Header().Set("Content-Encoding", "zstd")
			out, _ = zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		case slices.Contains(accepts, "gzip"):
			w.Header().Set("Content-Encoding", "gzip")
			out = gzip.NewWriter(w)
		default:
			fmt.Fprint(w, codedPage)
			return
		}
		fmt.Fprint(out, codedPage)
		out.Close()
	}))
	t.Cleanup(s.Close)
	return s
}

// codedPage links to pages in each coding.
var codedPage = `<html><a href="/br/1">x</a><a href="/br/2">x</a><a href="/zstd/1">x</a><a href="/gzip/1">x</a>` +
	strings.Repeat("<p>words of a page</p>\n", 500)

// TestAcceptEncoding: requests carry the value of --accept-encoding, the summary and its file count bodies by
// coding, and the deep audit reads the WARC files with bodies in br and zstd.
func TestAcceptEncoding(t *testing.T) {
	for _, c := range []struct{ flag, header, summary string }{
		{"", "gzip", "gzip 5 ("}, {"auto", "gzip", "gzip 5 ("}, {"gzip,br,zstd", "gzip, br, zstd", "gzip 2 ("},
		{"identity", "identity", ""},
	} {
		t.Run("codings="+strings.ReplaceAll(c.flag, ",", "+"), func(t *testing.T) {
			t.Parallel()
			site := newCodingSite(t)
			dir := t.TempDir()
			args := []string{"crawl", site.URL + "/", "--contact=test@example.org", "--allow-net=127.0.0.0/8",
				"--scope=host", "--host-delay=0", "--server-delay=0", "--linger=0s", "--ram=192MiB", "--log-level=warn",
				"--ports=" + site.URL[strings.LastIndexByte(site.URL, ':')+1:], "--resolver=127.0.0.1",
				"--dir=" + filepath.Join(dir, "c"), "--summary=" + filepath.Join(dir, "s.json")}
			if c.flag != "" {
				args = append(args, "--accept-encoding="+c.flag)
			}
			out, _ := wantExit(t, term.ExitDone, "", args...)
			site.mu.Lock()
			if len(site.asked) != 1 || site.asked[c.header] != 6 {
				t.Errorf("requests by Accept-Encoding: %v, want 6 with %q", site.asked, c.header)
			}
			site.mu.Unlock()
			file, err := os.ReadFile(filepath.Join(dir, "s.json"))
			must(t, err)
			if !strings.Contains(out, c.summary) || (c.summary == "") == strings.Contains(out, "compressed  ") {
				t.Errorf("the summary lacks %q: %s", c.summary, out)
			}
			if wide := strings.Contains(c.flag, "zstd"); wide && !strings.Contains(out, "br 2 (") ||
				wide != strings.Contains(string(file), `"zstd": {`) {
				t.Errorf("codings are missing: %s%s", out, file)
			}
			wantExit(t, term.ExitDone, "", "audit", "--deep", filepath.Join(dir, "c"))
		})
	}
}
