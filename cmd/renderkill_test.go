package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/render"
	"drumbeat/internal/render/rendertest"
	"drumbeat/warc"
)

// scripted is a site of pages whose links scripts make. Each page asks for /seen?N while it is rendered.
type scripted struct {
	url   string
	mu    sync.Mutex // guards asked
	asked map[string]int
	came  chan struct{} // of a request for /seen; never blocks
}

func newScripted(t *testing.T, pages int) *scripted {
	s := &scripted{asked: map[string]int{}, came: make(chan struct{}, 1)}
	var first sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked[r.URL.RequestURI()]++
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		if ext := filepath.Ext(r.URL.Path); ext == ".css" || ext == ".png" {
			w.Header().Set("Content-Type", mime.TypeByExtension(ext))
		}
		switch n := strings.TrimPrefix(r.URL.Path, "/r"); {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case r.URL.Path == "/":
			for i := range pages {
				fmt.Fprintf(w, `<a href="/r%d">r</a>`, i)
			}
		case r.URL.Path == "/seen":
			select {
			case s.came <- struct{}{}:
			default:
			}
			first.Do(func() { <-r.Context().Done() }) // its page is with the browser until the kill
		case n != r.URL.Path:
			fmt.Fprintf(w, `<!DOCTYPE html><p>page %s<script>fetch("/seen?%[1]s").then(() => {
const a = document.createElement("a"); a.href = "/made%[1]s"; document.body.append(a);
const l = document.createElement("link"); l.rel = "stylesheet"; l.href = "/own%[1]s.css"; document.head.append(l);
new Image().src = "/image.png?%[1]s" })</script>`, n)
		case strings.HasSuffix(r.URL.Path, ".css"):
			fmt.Fprintf(w, "p { background: url(/back%s.png) }",
				strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/own"), ".css"))
		default:
			fmt.Fprint(w, "<p>"+r.URL.Path)
		}
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// seen returns how many pages have been with the browser.
func (s *scripted) seen() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri := range s.asked {
		if strings.HasPrefix(uri, "/seen?") {
			n++
		}
	}
	return n
}

// tabs returns the addresses of the pages that the browser has, except its first one.
func tabs(t *testing.T, c *rendertest.Chromium) (open []string) {
	t.Helper()
	resp, err := http.Get("http" + strings.TrimPrefix(c.URL, "ws") + "/json/list")
	must(t, err)
	defer resp.Body.Close()
	var list []struct{ Type, URL string }
	must(t, json.NewDecoder(resp.Body).Decode(&list))
	for _, tab := range list {
		if tab.Type == "page" {
			open = append(open, tab.URL)
		}
	}
	return open
}

// TestRenderKill: kill -9 of a crawl while Chromium has its pages. The browser drops them. After the last run
// each page is stored as rendered once, its links are fetched, and the accounts balance.
func TestRenderKill(t *testing.T) {
	const pages = 6
	c := rendertest.Start(t, os.Getenv("CHROMIUM"), "0", render.Flags())
	first := len(tabs(t, c))
	s := newScripted(t, pages)
	dir := filepath.Join(t.TempDir(), "c")
	args := append(cmdtest.OwnServer, "--dir", dir, "--allow-net=127.0.0.1",
		"--ports="+s.url[strings.LastIndex(s.url, ":")+1:], "--checkpoint-every=1s", "--render="+c.URL,
		"--render-rules="+cmdtest.File(t, "rules", "+ regex /r[0-9]\n"), "--render-limits=bytes=1MiB,cache=1MiB",
		s.url+"/")
	limit := time.After(3 * time.Minute)
	for _, until := range []int{1, pages / 2} { // pages with the browser, in all runs, until the next kill
		cmd := cmdtest.Child(t.Context(), args...)
		var said bytes.Buffer
		cmd.Stderr = &said
		must(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for s.seen() < until {
			select {
			case <-s.came:
			case err := <-ended:
				t.Fatalf("the crawl ended with %d pages seen: %v: %s", s.seen(), err, said.String())
			case <-limit:
				t.Fatalf("%d pages seen: %s", s.seen(), said.String())
			}
		}
		if until == 1 && len(tabs(t, c)) <= first {
			t.Error("the browser has no page before the kill")
		}
		must(t, cmd.Process.Kill())
		<-ended
		for n := len(tabs(t, c)); n > first; n = len(tabs(t, c)) {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-limit:
				t.Fatalf("the browser keeps %q", tabs(t, c))
			}
		}
	}
	if out, err := cmdtest.Child(t.Context(), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if open := tabs(t, c); len(open) > first {
		t.Errorf("the browser keeps %q", open)
	}
	if out, _ := wantExit(t, term.ExitDone, "", "audit", "--deep", dir); !strings.Contains(out, "balanced") {
		t.Errorf("audit: %s", out)
	}
	stored, records := renderedPages(t, dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range pages {
		url, seen := fmt.Sprintf("%s/r%d", s.url, i), s.asked[fmt.Sprintf("/seen?%d", i)]
		made := s.asked[fmt.Sprintf("/made%d", i)]
		if stored[url] != 1 || made < 1 || made > 3 || seen < 1 || seen > 3 {
			t.Errorf("%s: stored as rendered %d times, rendered %d times in 3 runs, its link fetched %d times", url,
				stored[url], seen, made)
		}
		for _, path := range []string{"/seen?%d", "/own%d.css", "/image.png?%d", "/back%d.png", "/made%d"} {
			if path = fmt.Sprintf(path, i); records[s.url+path] != 1 {
				t.Errorf("%s is stored %d times", path, records[s.url+path])
			}
		}
	}
	if checkWACZPages(t, dir, 1+2*pages); len(stored) != pages { // no answers to scripts
		t.Errorf("rendered pages: %v", stored)
	}
	t.Logf("requests: %v", s.asked)
}

// renderedPages counts the rendered pages and the responses in a crawl's output by URL.
func renderedPages(t *testing.T, dir string) (stored, responses map[string]int) {
	t.Helper()
	stored, responses = map[string]int{}, map[string]int{}
	files, err := warc.Files(disk.Set{FS: disk.OS(), Paths: []string{dir}})
	must(t, err)
	for _, name := range files {
		if err := warc.ReadFile(disk.OS(), name, 1<<20, func(r *warc.Record) error {
			if r.Type() == "response" {
				responses[r.Get("WARC-Target-URI")]++
			}
			if url, ok := strings.CutPrefix(r.Get("WARC-Target-URI"), warc.RenderedPrefix); ok &&
				r.Type() == "resource" {
				stored[url]++
				if !strings.Contains(string(r.Block), `<a href="/made`) {
					t.Errorf("%s: %s", url, r.Block)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return stored, responses
}

// checkWACZPages checks that a WACZ of a crawl lists so many pages, each once.
func checkWACZPages(t *testing.T, dir string, want int) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.wacz")
	wantExit(t, term.ExitDone, "", "export", "wacz", "--dir="+dir, "-o", name)
	listed := map[string]int{}
	for line := range bytes.Lines(membersOf(t, name)["pages/pages.jsonl"]) {
		var p struct{ URL string }
		if unmarshal(t, line, &p); p.URL != "" {
			listed[p.URL]++
		}
	}
	if len(listed) != want {
		t.Errorf("the WACZ lists %v, want %d pages", listed, want)
	}
	for url, n := range listed {
		if n != 1 || strings.Contains(url, "/seen?") {
			t.Errorf("the WACZ lists %s %d times", url, n)
		}
	}
}
