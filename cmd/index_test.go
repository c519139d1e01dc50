package cmd

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// TestIndex: the index of a crawl has each line of the indexes of its files once, in order, in both formats; the
// summary of ZipNum names each block. A damaged index is an error, and leaves the earlier index as it was.
func TestIndex(t *testing.T) {
	web, flags := cmdtest.SmallWeb(t, nil)
	tmp := t.TempDir()
	a, b := tmp+"/a", tmp+"/b"
	wantExit(t, term.ExitDone, "", append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir="+a, "--dir="+b)...)
	before := listing(t, a, b)
	var want []string
	files, err := filepath.Glob(tmp + "/*/warc/*.cdxj")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		want = append(want, slices.Collect(strings.Lines(readFile(t, name)))...)
	}
	slices.Sort(want)

	args := []string{"index", "--dir=" + b, "--dir=" + a}
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

	for range 2 { // the second replaces the first
		wantExit(t, term.ExitDone, "", append(args, "--format=zipnum", "-o", tmp+"/zip")...)
	}
	if got := readFile(t, tmp+"/zip/index.loc"); got != "index.cdxj.gz\tindex.cdxj.gz\n" {
		t.Errorf("loc: %q", got)
	}
	zip, at, lines := readFile(t, tmp+"/zip/index.cdxj.gz"), 0, 0
	for i, line := range slices.Collect(strings.Lines(readFile(t, tmp+"/zip/index.idx"))) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		offset, err1 := strconv.Atoi(f[2])
		length, err2 := strconv.Atoi(f[3])
		if err1 != nil || err2 != nil || len(f) != 5 || f[1] != "index.cdxj.gz" || offset != at || f[4] != strconv.Itoa(i+1) {
			t.Fatalf("line %d of the summary: %q", i, line)
		}
		z, err := gzip.NewReader(strings.NewReader(zip[offset : offset+length]))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil || !bytes.HasPrefix(text, []byte(f[0]+" {")) {
			t.Fatalf("block %d: %v, begins with %.80q, want %q", i, err, text, f[0])
		}
		block := slices.Collect(strings.Lines(string(text)))
		if !slices.Equal(block, want[lines:lines+len(block)]) {
			t.Errorf("block %d differs", i)
		}
		at, lines = offset+length, lines+len(block)
	}
	if at != len(zip) || lines != len(want) {
		t.Errorf("the summary covers %d of %d bytes, %d of %d lines", at, len(zip), lines, len(want))
	}
	if after := listing(t, a, b); after != before {
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
