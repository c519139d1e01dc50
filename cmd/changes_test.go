package cmd

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
)

// checkChanges compares the changes of a crawl that visits each page once with the web.
func checkChanges(t *testing.T, web *simweb.Web, rows []map[string]any) {
	t.Helper()
	want := map[string]bool{}
	for url := range web.Expected("drumbeat").FetchedURLs() {
		switch page, _ := web.Page(url); {
		case page.Status == 200:
			want["new "+url] = true
		case page.Status >= 300 && page.Status <= 399:
			want["moved "+url] = true
		}
	}
	got, texts, tokens := map[string]bool{}, 0, map[any]bool{}
	for _, r := range rows {
		got[fmt.Sprint(r["change"], " ", r["url"])] = true
		tokens[r["token"]] = true
		if r["text"] != nil {
			texts++
		}
	}
	differ(t, "changes", got, want)
	if len(rows) != len(got) || len(tokens) != len(rows) || texts < len(rows)/2 {
		t.Errorf("%d rows, %d changes, %d tokens, %d texts", len(rows), len(got), len(tokens), texts)
	}
}

// restlessSite serves pages that change at each second request, one that is gone from the third on, and one that moves
// then. Each received request is sent to asked.
func restlessSite(t *testing.T, asked chan<- struct{}) (url string) {
	t.Helper()
	var mu sync.Mutex // guards got
	got := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n := got[r.URL.Path]
		got[r.URL.Path]++
		mu.Unlock()
		select {
		case asked <- struct{}{}:
		default:
		}
		switch {
		case r.URL.Path == "/robots.txt", r.URL.Path == "/leaves" && n > 1:
			http.NotFound(w, r)
		case r.URL.Path == "/moves" && n > 1:
			http.Redirect(w, r, "/p0", http.StatusMovedPermanently)
		default:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<html><title>%s</title>%d <a href=/leaves>l</a><a href=/moves>m</a>", r.URL.Path, n/2)
			for i := range 10 {
				fmt.Fprintf(w, "<a href=/p%d>p</a>", i)
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// lockedBuffer is a buffer for two goroutines.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestFollowChangesKilled: beside a crawl that is killed again and again, "export changes --follow" writes each row of
// the whole feed once, and no other.
func TestFollowChangesKilled(t *testing.T) {
	notShort(t)
	t.Parallel()
	asked := make(chan struct{}, 1000)
	url := restlessSite(t, asked)
	dir := t.TempDir() + "/d"
	crawl := func(signal syscall.Signal) {
		t.Helper()
		child := cmdtest.Child(t.Context(), append(slices.Clone(cmdtest.OwnServer), "--allow-net=127.0.0.1", "--ports="+
			url[strings.LastIndex(url, ":")+1:], url+"/", "--dir="+dir, "--checkpoint-every=1s", "--recrawl",
			"--revisit=uniform,default=1s,min=1s,max=1s")...)
		must(t, child.Start())
		for range 60 {
			select {
			case <-asked:
			case <-time.After(time.Minute):
				t.Error("the crawl asks for nothing")
			}
		}
		must(t, child.Process.Signal(signal))
		_ = child.Wait() // its exit code is that of the signal
	}
	crawl(syscall.SIGINT)
	var out, said lockedBuffer
	follow := cmdtest.Child(t.Context(), "export", "changes", dir, "--follow", "--format=jsonl", "-o", "-")
	follow.Stdout, follow.Stderr = &out, &said
	must(t, follow.Start())
	for range 4 {
		crawl(syscall.SIGKILL)
	}
	crawl(syscall.SIGINT)
	names := func(text string) map[string]int {
		all := map[string]int{}
		for _, r := range answers[map[string]any](t, text) {
			all[fmt.Sprint(r["time"], r["change"], r["url"], r["content_digest"])]++
		}
		return all
	}
	whole, _ := wantExit(t, term.ExitDone, "", "export", "changes", dir, "--format=jsonl", "-o", "-")
	want := names(whole)
	for range 600 { // until it has read the last checkpoint
		if strings.Count(out.String(), "\n") >= strings.Count(whole, "\n") {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	must(t, follow.Process.Signal(syscall.SIGINT))
	if err := follow.Wait(); err != nil {
		t.Errorf("%v: %s", err, said.String())
	}
	if got := names(out.String()); !maps.Equal(got, want) || len(want) < 20 {
		t.Errorf("%d rows, want %d, or they differ: %v, want %v", len(got), len(want), got, want)
	}
	for name, n := range want {
		if n != 1 {
			t.Errorf("%s is there %d times", name, n)
		}
	}
	for _, change := range []string{"new", "changed", "gone", "moved"} {
		if !strings.Contains(whole, `{"change":"`+change+`"`) {
			t.Errorf("no page is %s", change)
		}
	}
}
