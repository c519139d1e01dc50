package cmd

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// TestNearNotes: a copy that is stored as a note is no page with an empty text: get says why, and extract, WACZ and
// publish leave it out of their texts and pages, and count it.
func TestNearNotes(t *testing.T) {
	t.Parallel()
	const copies = 5
	var text strings.Builder
	for i := range 600 {
		fmt.Fprintf(&text, "w%cx%cy ", 'a'+i%26, 'a'+i/26)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch {
		case r.URL.Path == "/":
			for i := range copies + 1 {
				fmt.Fprintf(w, "<a href=/p%d>page</a> ", i)
			}
		case strings.HasPrefix(r.URL.Path, "/p"):
			fmt.Fprintf(w, "<html><title>A page</title><p>%s%s", text.String(), r.URL.Path[2:])
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	dir := filepath.Join(t.TempDir(), "d")
	wantExit(t, term.ExitDone, "", slices.Concat(cmdtest.OwnServer, []string{"--dir", dir, "--allow-net=127.0.0.1",
		"--ports=" + server.URL[strings.LastIndex(server.URL, ":")+1:], "--near-duplicates=keep-one",
		"--crawl-log=all", server.URL + "/"})...)

	notes := 0
	for i := range copies + 1 {
		out, errs := wantExit(t, term.ExitDone, "", "get", fmt.Sprintf("%s/p%d", server.URL, i), dir, "--text")
		if out != "" {
			continue
		}
		if notes++; !strings.Contains(errs, "only the head") || !strings.Contains(errs, "--near-duplicates") {
			t.Errorf("get of a note says %q", errs)
		}
	}
	if notes != copies {
		t.Fatalf("%d notes, want %d", notes, copies)
	}
	left := fmt.Sprintf("left out: %d pages without body", copies)
	out, errs := wantExit(t, term.ExitDone, "", "extract", dir, "--format=jsonl", "-o", dir+"-texts")
	if !strings.Contains(out+errs, left) || !strings.Contains(out, "texts: 2 pages") {
		t.Errorf("extract says %s%s, want %q and 2 pages", out, errs, left)
	}
	out, errs = wantExit(t, term.ExitDone, "", "export", "wacz", dir, "-o", dir+".wacz")
	if want := fmt.Sprintf("%d pages are stored without body", copies); !strings.Contains(out+errs, want) {
		t.Errorf("export wacz says %s%s, want %q", out, errs, want)
	}
	if pages := bytes.Count(membersOf(t, dir+".wacz")["pages/pages.jsonl"], []byte(server.URL)); pages != 2 {
		t.Errorf("the list of pages has %d, want 2", pages)
	}
	out, errs = wantExit(t, term.ExitDone, "", "publish", dir, "-o", dir+"-public")
	if want := fmt.Sprintf("%d responses with status 200", copies+2); !strings.Contains(out+errs, want) ||
		!strings.Contains(out+errs, "2 texts") {
		t.Errorf("publish says %s%s, want %q and 2 texts", out, errs, want)
	}
}
