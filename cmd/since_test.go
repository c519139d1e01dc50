package cmd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// TestSinceCommands: the commands that read a crawl take one whose revisit records refer to an earlier crawl, and get
// says which crawl has the body.
func TestSinceCommands(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<html><a href=/a>a</a><a href=/b>b</a>%s<p>%s", r.URL.Path,
			strings.Repeat("words of text. ", 40))
	}))
	defer server.Close()
	base := t.TempDir()
	crawl := func(exit int, dir string, more ...string) (errs string) {
		_, errs = wantExit(t, exit, "", slices.Concat(cmdtest.OwnServer, []string{"--dir", filepath.Join(base, dir),
			"--allow-net=127.0.0.1", "--ports=" + server.URL[strings.LastIndex(server.URL, ":")+1:], server.URL + "/"},
			more)...)
		return errs
	}
	crawl(term.ExitDone, "one")
	one, two, three, apart, files := base+"/one", base+"/two", base+"/three", base+"/apart", base+"/files"
	for _, bad := range [][]string{{"--content-seen=skip"}, {"--content-seen=off"}, {"--store=none"}} {
		errs := crawl(term.ExitUsage, "two", append(bad, "--since", one)...)
		if !strings.Contains(errs, "--since is for --store warc") {
			t.Errorf("%v: %q", bad, errs)
		}
	}
	<-time.After(1100 * time.Millisecond) // a page captured twice in a second, with one body, is stored twice
	crawl(term.ExitDone, "two", "--since", one)
	out, _ := wantExit(t, term.ExitDone, "", "audit", "--deep", two)
	if !strings.Contains(out, "balanced") {
		t.Errorf("audit: %s", out)
	}
	out, _ = wantExit(t, term.ExitDone, "", "get", "--record", "--dir", two, server.URL+"/a")
	if !strings.Contains(out, "WARC-Type: revisit\r\n") ||
		!strings.Contains(out, "WARC-Refers-To-Target-URI: "+server.URL+"/a\r\n") {
		t.Errorf("the record: %s", out)
	}
	if _, errs := wantExit(t, term.ExitFailure, "", "get", "--dir", two, server.URL+"/a"); !strings.Contains(errs,
		"its body belongs to "+server.URL+"/a at ") || !strings.Contains(errs, "the earlier crawl has it") {
		t.Errorf("get: %q", errs)
	}
	for _, table := range []string{"pages", "state", "near-duplicates"} {
		out, _ = wantExit(t, term.ExitDone, "", "export", table, "--format=jsonl", "-o-", two)
		if n := strings.Count(out, "\n"); table != "near-duplicates" && n != 3 {
			t.Errorf("%s: %d rows: %s", table, n, out)
		}
	}
	wantExit(t, term.ExitDone, "", "audit", "--known", filepath.Join(two, "seeds.txt"), two)

	if errs := crawl(term.ExitUsage, "three", "--since-known=skip"); !strings.Contains(errs, "needs --since") {
		t.Errorf("without --since: %q", errs)
	}
	crawl(term.ExitDone, "apart", "--out", files)
	crawl(term.ExitDone, "four", "--since", apart+","+files, "--since-known=skip")
	crawl(term.ExitDone, "three", "--since", two, "--since-known=skip")
	for _, want := range []struct {
		words string
		args  []string
	}{
		{"fetched by an earlier crawl (earlier-crawl); --since-known leaves it out\n            explain url --dir " +
			"has the answer for a crawl of --since: " + two,
			[]string{"explain", "url", "--dir", three, server.URL + "/a"}},
		{apart + " --out " + files, []string{"explain", "url", "--dir", base + "/four", server.URL + "/a"}},
		{"in a crawl of --since (" + one + ")", []string{"explain", "url", "--dir", two, server.URL + "/a"}},
		{"earlier-crawl", []string{"log", "--reason=earlier-crawl", three}},
		{`"left_out": 3`, []string{"report", "--json", "--output=-", three}},
		{"balanced", []string{"audit", "--deep", three}},
	} {
		if out, _ = wantExit(t, term.ExitDone, "", want.args...); !strings.Contains(out, want.words) {
			t.Errorf("%v: %s, want %q", want.args, out, want.words)
		}
	}
}
