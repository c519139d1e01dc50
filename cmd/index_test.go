package cmd

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// TestIndex: the index of a crawl has each line of the indexes of its files once, in order, in both formats. A damaged index is an error, and leaves the earlier index as it was.
func TestIndex(t *testing.T) {
	web, flags := cmdtest.SmallWeb(t, nil)
	tmp := t.TempDir()
	a, b := tmp+"/a", tmp+"/b" // the output
	wantExit(t, term.ExitDone, "", append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir="+tmp+"/d", "--out="+a, "--out="+b)...)
	before := listing(t, tmp+"/d", a, b)
	var want []string
	files, err := filepath.Glob(tmp + "/*/warc/*.cdxj")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		want = append(want, slices.Collect(strings.Lines(readFile(t, name)))...)
	}
	slices.Sort(want)

	args := []string{"index", "--dir=" + tmp + "/d", "--out=" + b, "--out=" + a}
	out, _ := wantExit(t, term.ExitDone, "", append(args, "-o", tmp+"/index")...)
	if !strings.Contains(out, "index: ") {
		t.Errorf("printed %q", out)
	}
	plain := readFile(t, tmp+"/index/index.cdxj")
	if got := slices.Collect(strings.Lines(plain)); !slices.Equal(got, want) {
		t.Errorf("%d lines, want %d, or they differ", len(got), len(want))
	}
	if out, _ = wantExit(t, term.ExitDone, "", append(args, "-o", "-")...); out != plain {
		t.Errorf("standard output has %d bytes, want %d", len(out), len(plain))
	}

	wantExit(t, term.ExitDone, "", append(args, "--format=zipnum", "-o", tmp+"/zip")...)
	z, err := gzip.NewReader(strings.NewReader(readFile(t, tmp+"/zip/index.cdxj.gz")))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || string(text) != plain {
		t.Errorf("ZipNum: %d bytes, want %d, %v", len(text), len(plain), err)
	}
	if got := readFile(t, tmp+"/zip/index.loc"); got != "index.cdxj.gz\tindex.cdxj.gz\n" {
		t.Errorf("loc: %q", got)
	}
	if after := listing(t, tmp+"/d", a, b); after != before {
		t.Errorf("index changed the crawl:\n%s\nwas\n%s", after, before)
	}

	damaged := readFile(t, files[0])
	if err := os.WriteFile(files[0], []byte(strings.Replace(damaged, "offset", "offzet", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	wantExit(t, term.ExitDamage, filepath.Base(files[0]), append(args, "-o", tmp+"/index")...)
	if readFile(t, tmp+"/index/index.cdxj") != plain {
		t.Error("a failed run changed the index")
	}
	wantExit(t, term.ExitUsage, "zipnum", append(args, "--format=zipnum", "-o", "-")...)
	wantExit(t, term.ExitUsage, "32MiB", append(args, "--ram=1MiB", "-o", tmp+"/x")...)
	wantExit(t, term.ExitDirectory, "", "index", "--dir="+tmp+"/index", "-o", tmp+"/x")
	wantExit(t, term.ExitDirectory, "--out", "index", "--dir="+tmp+"/d", "-o", tmp+"/x")
	wantExit(t, term.ExitDirectory, "--out", "export", "near-duplicates", "--dir="+tmp+"/d", "-o", tmp+"/x")
	left, err := filepath.Glob(tmp + "/*.tmp")
	if hidden, _ := filepath.Glob(tmp + "/*/.*"); err != nil || len(left)+len(hidden) > 0 {
		t.Errorf("left over: %v %v, %v", left, hidden, err)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
