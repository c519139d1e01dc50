package crawl

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// TestSeedsFromInput: seeds from standard input are kept in the directory; empty input resumes with them;
// new input adds.
func TestSeedsFromInput(t *testing.T) {
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	dir := filepath.Join(t.TempDir(), "crawl")
	flags = append(flags, "--seeds=-", "--dir", dir)
	seeds := web.Seeds()
	wantExit(t, term.ExitDone, seeds[0]+"\n", flags...)
	copied := filepath.Join(dir, SeedsCopy)
	same := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(copied); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	same(seeds[0] + "\n")
	if out, _ := wantExit(t, term.ExitDone, "", flags...); !strings.Contains(out, "finished") {
		t.Errorf("no input: %s", out)
	}
	wantExit(t, term.ExitDone, seeds[0]+"\n", flags...)
	same(seeds[0] + "\n")
	wantExit(t, term.ExitDirectory, seeds[0], append(flags, "--new")...)
	other := web.Root(web.Hosts()[len(web.Hosts())-1])
	wantExit(t, term.ExitDone, other+"\n", flags...)
	same(seeds[0] + "\n\n" + other + "\n")
}

// TestURLArguments: seeds on the command line are kept in the directory, like those from standard input.
func TestURLArguments(t *testing.T) {
	url, asked := cmdtest.TinySite(t, 3)
	port := url[strings.LastIndex(url, ":")+1:]
	flags := append(cmdtest.OwnServer, "--dir", filepath.Join(t.TempDir(), "c"), "--allow-net=127.0.0.1",
		"--ports="+port)
	wantExit(t, term.ExitDone, "", append(flags, url+"/")...)
	wantExit(t, term.ExitDone, "", append(flags, url+"/", url+"/more")...)
	if got := asked(); got["/"] != 1 || got["/p2.html"] != 1 || got["/more"] != 1 {
		t.Errorf("asked for %v, want each once", got)
	}
	seeds := filepath.Join(t.TempDir(), "seeds.txt")
	must(t, os.WriteFile(seeds, nil, 0o600))
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "there are no seeds"}, {[]string{url, "--seeds", seeds}, "not both"},
		{[]string{seeds}, "is a file: give --seeds "}, {[]string{"http://"}, `"http://" is neither a URL`},
		{[]string{"settings.go"}, "give --seeds settings.go"},
	} {
		if _, errs := wantExit(t, term.ExitUsage, "", append(flags, c.args...)...); !strings.Contains(errs, c.want) ||
			strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: got %q, want one line with %q", c.args, errs, c.want)
		}
	}
}

// TestBinarySeeds: a file that is neither text nor a list is refused before anything is created. Regression: its lines
// were failed seeds.
func TestBinarySeeds(t *testing.T) {
	for binary, want := range map[string]string{"\x7fEL\x00\n": "is not text (byte 3 is 0)",
		"\x1f\x8b\x08\x00\x00\x01\n": "damaged gzip data: unexpected EOF", "PAR1": "Parquet"} {
		seeds, dir := filepath.Join(t.TempDir(), "seeds.gz"), filepath.Join(t.TempDir(), "c")
		must(t, os.WriteFile(seeds, []byte(binary), 0o600))
		for _, in := range []string{seeds, "-"} {
			_, errs := wantExit(t, term.ExitUsage, binary, append(cmdtest.OwnServer, "--dir", dir, "--seeds", in)...)
			if !strings.Contains(errs, want) && !strings.Contains(errs, strings.ToLower(want)) {
				t.Errorf("%q: got %q", binary, errs)
			}
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s was made: %v", dir, err)
		}
	}
}

// TestSeedLists: --seeds takes each list that --known takes, and follows the links of its pages.
func TestSeedLists(t *testing.T) {
	url, asked := cmdtest.TinySite(t, 3)
	port := url[strings.LastIndex(url, ":")+1:]
	var table bytes.Buffer
	must(t, parquet.Write(&table, []struct {
		URL string `parquet:"url"`
	}{{url + "/"}}))
	lists := map[string]string{"index.parquet": table.String(),
		"index.cdxj": "key 20240102030405 {\"url\": \"" + url + "/\"}\n"}
	for name, text := range lists {
		file, dir := filepath.Join(t.TempDir(), name), filepath.Join(t.TempDir(), "c")
		must(t, os.WriteFile(file, []byte(text), 0o600))
		flags := append(cmdtest.OwnServer, "--allow-net=127.0.0.1", "--ports="+port, "--dir")
		before := asked()["/p2.html"]
		wantExit(t, term.ExitDone, "", append(flags, dir, "--seeds", file)...)
		if got := asked(); got["/p2.html"] != before+1 {
			t.Errorf("%s: asked for %v", name, got)
		}
		if got, err := os.ReadFile(filepath.Join(dir, SeedsCopy)); err != nil || string(got) != url+"/\n" {
			t.Errorf("%s: the copy has %q, %v", name, got, err)
		}
		wantExit(t, term.ExitDone, "", append(flags, dir+"-known", "--known", file)...)
		if got := asked(); got["/p2.html"] != before+1 {
			t.Errorf("%s: --known followed links: %v", name, got)
		}
	}
	if _, errs := wantExit(t, term.ExitUsage, table.String(), append(cmdtest.OwnServer, "--dir",
		filepath.Join(t.TempDir(), "p"), "--seeds=-")...); !strings.Contains(errs, "only from a file") {
		t.Errorf("Parquet from a pipe: %q", errs)
	}
}
