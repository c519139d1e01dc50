package crawl

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// TestFetchKinds: --fetch stands for values of other flags. Those that are given have precedence.
func TestFetchKinds(t *testing.T) {
	parsed := func(args ...string) *Command {
		c := parseCrawl(t, args...)
		c.Fetching.Apply(&c.Bodies, &c.URLRules, &c.Links)
		if err := c.Bodies.Check(); err != nil {
			t.Errorf("%v: %v", args, err)
		}
		return c
	}
	skips := func(c *Command, name string) bool {
		return c.SkipExtensions == "default" || slices.Contains(strings.Split(c.SkipExtensions, ","), name)
	}
	c := parsed()
	if c.SkipExtensions != "default" || !slices.Equal(c.Accept, []string{"html"}) || c.MaxBody.String() != "2MiB" {
		t.Errorf("without --fetch: %+v", c.Bodies)
	}
	c = parsed("--fetch=pdf")
	if skips(c, "pdf") || !skips(c, "png") || !skips(c, "doc") || !slices.Equal(c.Accept, []string{"html",
		"application/pdf"}) || c.MaxBody.String() != "2MiB,application/pdf=20MiB" || c.Follow.Assets {
		t.Errorf("pdf: %+v, skips %s", c.Bodies, c.SkipExtensions)
	}
	c = parsed("--fetch=documents,images")
	if skips(c, "pdf") || skips(c, "png") || skips(c, "odt") || !skips(c, "mp3") || !skips(c, "zip") ||
		!c.Follow.Assets || !slices.Contains(c.Accept, "image/*") ||
		!strings.Contains(c.MaxBody.String(), "image/*=10MiB") {
		t.Errorf("documents,images: %+v, skips %s", c.Bodies, c.SkipExtensions)
	}
	c = parsed("--fetch=media")
	if skips(c, "mp3") || skips(c, "mp4") || !skips(c, "png") || c.MaxBody.Most() != 100<<20 {
		t.Errorf("media: %+v, skips %s", c.Bodies, c.SkipExtensions)
	}
	for _, kinds := range []string{"all", "all,pdf", "pdf,all"} {
		c = parsed("--fetch=" + kinds)
		if c.SkipExtensions != "none" || !slices.Contains(c.Accept, "*/*") || c.MaxBody.Most() != 20<<20 {
			t.Errorf("%s: %+v, skips %s", kinds, c.Bodies, c.SkipExtensions)
		}
	}
	c = parsed("--fetch=pdf,all", "--skip-extensions=zip", "--max-body=1MiB", "--accept=text/*")
	if c.SkipExtensions != "zip" || c.MaxBody.String() != "1MiB" {
		t.Errorf("with other flags: %+v, skips %s", c.Bodies, c.SkipExtensions)
	}
	if c = parsed("--fetch=pdf", "--accept=text/*"); !slices.Equal(c.Accept, []string{"text/*", "application/pdf"}) {
		t.Errorf("--accept: %q", c.Accept)
	}
	wantExit(t, term.ExitUsage, "", "crawl", "--fetch=pdfs")
}

// TestFetchPDF: --fetch pdf fetches a linked PDF file, and no image.
func TestFetchPDF(t *testing.T) {
	var mu sync.Mutex // guards asked
	asked := map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.URL.Path] = true
		mu.Unlock()
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<a href="/a.pdf">a</a><a href="/b.png">b</a><img src="/c.png">`)
		case "/a.pdf":
			w.Header().Set("Content-Type", "application/pdf")
			fmt.Fprint(w, "%PDF-1.7 and more")
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	for _, kind := range []string{"pages", "pdf"} {
		clear(asked)
		args := append(slices.Clone(cmdtest.OwnServer), "--allow-net=127.0.0.1", "--fetch="+kind,
			"--ports="+s.URL[strings.LastIndex(s.URL, ":")+1:], "--dir", filepath.Join(t.TempDir(), "c"), s.URL+"/")
		wantExit(t, term.ExitDone, "", args...)
		mu.Lock()
		if asked["/a.pdf"] != (kind == "pdf") || asked["/b.png"] || asked["/c.png"] {
			t.Errorf("--fetch %s: asked for %v", kind, asked)
		}
		mu.Unlock()
	}
}
