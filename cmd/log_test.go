package cmd

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/crawllog"
)

// TestLog: log has each URL that the crawl asked its web for; log --follow, begun between two runs, prints the
// lines of both runs once. Neither changes anything.
func TestLog(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	tmp := t.TempDir()
	a, b, out := tmp+"/a", tmp+"/b", tmp+"/out"
	crawl := append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir="+a, "--dir="+b, "--out="+out,
		"--checkpoint-every=1s")
	wantExit(t, term.ExitPages, "", append(crawl, "--max-pages=40")...)
	before := listing(t, a, b, out)
	text, _ := wantExit(t, term.ExitDone, "", "log", a, "--json", "--log=crawl,robots")
	got := map[string]int{}
	for line := range strings.Lines(text) {
		var e crawllog.Entry
		must(t, json.Unmarshal([]byte(line), &e))
		got[e.URL]++
	}
	missing, asked := 0, web.Log().Snapshot().Fetches
	for url := range asked {
		if got[url] == 0 {
			missing++ // an attempt that failed and is due again
		}
	}
	if len(asked) < 40 || missing > len(asked)/5 {
		t.Errorf("%d of %d URLs that the web was asked for are not in the log", missing, len(asked))
	}
	if after := listing(t, a, b, out); after != before {
		t.Errorf("log changed the crawl: before\n%safter\n%s", before, after)
	}

	follow := cmdtest.Child(t.Context(), "log", "--follow", "--since=1d", "--json", a)
	pipe, err := follow.StdoutPipe()
	must(t, err)
	must(t, follow.Start())
	lines := bufio.NewReader(pipe)
	next := func() string {
		line, err := lines.ReadString('\n')
		must(t, err)
		return line
	}
	seen := map[string]bool{next(): true}
	wantExit(t, term.ExitDone, "", crawl...)
	text, _ = wantExit(t, term.ExitDone, "", "log", a, "--json")
	all := strings.Count(text, "\n")
	for len(seen) < all {
		line := next()
		if seen[line] || !strings.Contains(text, line) {
			t.Fatalf("line %d came twice, or is not in the log: %s", len(seen), line)
		}
		seen[line] = true
	}
	must(t, follow.Process.Signal(os.Interrupt))
	if rest, err := lines.ReadString(0); rest != "" {
		t.Errorf("after all lines: %s, %v", rest, err)
	}
	if err := follow.Wait(); err != nil {
		t.Errorf("log --follow after Ctrl-C: %v", err)
	}
}
