package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"drumbeat/cmd/term"
)

// TestAbout: the texts of a crawl are in the warcinfo record of each file and in its WACZ, whose own flags replace
// them. Without a title the seed names the crawl.
func TestAbout(t *testing.T) {
	readmeWeb(t)
	t.Chdir(t.TempDir())
	crawl := []string{"crawl", "https://example.org/", "--contact=a@example.org", "--scope=host",
		"--operator= Ada & Co ", `--description=Pages of "2026": a test`}
	wantExit(t, term.ExitUsage, "--title has a line break", append(crawl, "--title=a\r\nWARC-Type: response")...)
	wantExit(t, term.ExitDone, "", append(crawl, "--title=Über uns")...)
	files, err := filepath.Glob("drumbeat-crawl/warc/*.warc.gz")
	if must(t, err); len(files) == 0 {
		t.Fatal("no WARC file")
	}
	for _, name := range files {
		info := firstMember(t, name)
		for _, want := range []string{"\r\ntitle: Über uns\r\n", "\r\noperator: Ada & Co <a@example.org>\r\n",
			"\r\ndescription: Pages of \"2026\": a test\r\n"} {
			if !strings.Contains(info, want) {
				t.Errorf("warcinfo lacks %q:\n%s", want, info)
			}
		}
	}
	describe := func(args ...string) (d struct {
		Title, Description string
		Contributors       []struct{ Title, Role string }
	}) {
		t.Helper()
		wantExit(t, term.ExitDone, "", append([]string{"export", "wacz", "-o", "site.wacz"}, args...)...)
		unmarshal(t, membersOf(t, "site.wacz")["datapackage.json"], &d)
		return d
	}
	if d := describe(); d.Title != "Über uns" || d.Description != `Pages of "2026": a test` ||
		len(d.Contributors) != 1 || d.Contributors[0].Title != "Ada & Co" {
		t.Errorf("got %+v", d)
	}
	if d := describe("--title=For Bob"); d.Title != "For Bob" || d.Description != `Pages of "2026": a test` {
		t.Errorf("with a title of its own: %+v", d)
	}
	wantExit(t, term.ExitUsage, "only for wacz", "export", "pages", "-o", "pages", "--title=a")
	wantExit(t, term.ExitDone, "", "crawl", "https://example.org/", "--contact=a@example.org", "--scope=host",
		"--dir=untitled")
	if d := describe("--dir=untitled"); d.Title != "Crawl of https://example.org/" || d.Contributors != nil {
		t.Errorf("without texts: %+v", d)
	}
}

// firstMember returns the first record of a WARC file, which is warcinfo.
func firstMember(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	must(t, err)
	r, err := gzip.NewReader(bytes.NewReader(data))
	must(t, err)
	r.Multistream(false)
	var b bytes.Buffer
	_, err = b.ReadFrom(r)
	must(t, err)
	return b.String()
}
