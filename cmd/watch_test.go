package cmd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// TestWatchCommand: --watch fetches a list in the order of deadlines, and audit --known names the URLs that the summary
// counts as missed. A list without URLs is an error that names the flag.
func TestWatchCommand(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch asked = append(asked, r.URL.Path); {
		case r.URL.Path == "/robots.txt":
			fmt.Fprint(w, "User-agent: *\nDisallow: /no\n")
		default:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>"+r.URL.Path)
		}
	}))
	defer server.Close()
	base := t.TempDir()
	dir, list := filepath.Join(base, "d"), filepath.Join(base, "list")
	crawl := func(exit int, text string) string {
		if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		port := server.URL[strings.LastIndex(server.URL, ":")+1:]
		out, errs := wantExit(t, exit, "", slices.Concat(cmdtest.OwnServer, []string{"--dir", dir,
			"--allow-net=127.0.0.1", "--ports=" + port, "--watch", list, server.URL + "/"})...)
		return out + errs
	}
	for _, bad := range []string{"", "# nothing\n", "not a URL\n"} {
		if got := crawl(term.ExitUsage, bad); !strings.Contains(got, "--watch "+list+": it has no URL") {
			t.Errorf("%q: %s", bad, got)
		}
	}
	at := func(path, deadline string) string { return server.URL + path + " " + deadline + "\n" }
	out := crawl(term.ExitDone, at("/c", "2099-01-03T00:00:00+01:00")+at("/no", "2099-01-01T00:00:00Z")+
		at("/a", "2099-01-01T00:00:00Z")+at("/late", "2001-01-01T00:00:00Z")+server.URL+"/z\n"+server.URL+"/z\n"+
		at("/last", "9999-12-31T23:59:59-14:00"))
	for _, want := range []string{"6 URLs: 4 fetched in time, 2 missed, 0 waiting",
		"drumbeat audit --known " + filepath.Join(dir, "watch.txt")} {
		if !strings.Contains(out, want) {
			t.Errorf("%s, want %q", out, want)
		}
	}
	mu.Lock()
	order := slices.DeleteFunc(asked, func(path string) bool { return path == "/robots.txt" || path == "/" })
	mu.Unlock()
	slices.Sort(order)
	if !slices.Equal(order, []string{"/a", "/c", "/last", "/late", "/z"}) {
		t.Errorf("asked for %v", order)
	}
	copied, err := os.ReadFile(filepath.Join(dir, "watch.txt"))
	want := at("/late", "2001-01-01T00:00:00Z") + at("/a", "2099-01-01T00:00:00Z") + at("/no", "2099-01-01T00:00:00Z") +
		at("/c", "2099-01-02T23:00:00Z") + at("/last", "9999-12-31T23:59:59Z") + server.URL + "/z\n"
	if err != nil || string(copied) != want {
		t.Errorf("%v, the copy is %s, want %s", err, copied, want)
	}
	out, _ = wantExit(t, term.ExitFailure, "", "audit", "--known", filepath.Join(dir, "watch.txt"), dir)
	for _, want := range []string{"late: " + server.URL + "/late", server.URL + "/no: refused, forbidden by robots.txt",
		"4 answered in time, 1 late"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s, want %q", out, want)
		}
	}
	if out, _ = wantExit(t, term.ExitDone, "", "audit", "--deep", dir); !strings.Contains(out, "balanced") {
		t.Errorf("audit: %s", out)
	}
	eraseWatched(t, dir, list, server.URL+"/c")
}

// eraseWatched erases a URL: the crawl's copy of its list does not name it either.
func eraseWatched(t *testing.T, dir, list, url string) {
	if err := os.WriteFile(list, []byte(url+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantExit(t, term.ExitDone, "", "erase", "--list", list, "--reason", "x", dir)
	out, _ := wantExit(t, term.ExitDone, "", "audit", "--erased", list, dir)
	if !strings.Contains(out, "nothing is left") {
		t.Errorf("audit --erased: %s", out)
	}
}
