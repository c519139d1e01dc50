package cmd

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
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

// TestIndex: the index of a crawl has each line of the indexes of its files once, in order, in both formats.
// A damaged index is an error, and leaves the earlier index as it was.
func TestIndex(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	tmp := t.TempDir()
	a, b := tmp+"/a", tmp+"/b" // the output
	wantExit(t, term.ExitDone, "",
		append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir="+tmp+"/d", "--out="+a, "--out="+b)...)
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
	must(t, err)
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
	must(t, os.WriteFile(files[0], []byte(strings.Replace(damaged, "offset", "offzet", 1)), 0o600))
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
	must(t, err)
	return string(b)
}

// TestIndexCDX: each line of the CDX is read as the source of OutbackCDX reads a posted line, and then says
// of the capture what the line of CDXJ says: pages, redirects, revisits, robots.txt exchanges and DNS
// answers. Lines are in the order of bytes, the header first.
func TestIndexCDX(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	tmp := t.TempDir()
	wantExit(t, term.ExitDone, "", append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir="+tmp+"/d")...)
	var want []string
	js, _ := wantExit(t, term.ExitDone, "", "index", "--dir="+tmp+"/d", "-o", "-")
	for line := range strings.Lines(js) {
		key, rest, _ := strings.Cut(line, " ")
		when, rest, _ := strings.Cut(rest, " ")
		var o struct{ URL, MIME, Status, Digest, Redirect, Length, Offset, Filename string }
		must(t, json.Unmarshal([]byte(rest), &o))
		want = append(want, fmt.Sprint(postedCapture{key, when, o.URL, o.MIME, o.Status,
			strings.TrimPrefix(o.Digest, "sha1:"), cmp.Or(o.Redirect, "-"), o.Length, o.Offset, o.Filename}))
	}
	wantExit(t, term.ExitDone, "", "index", "--dir="+tmp+"/d", "--format=cdx", "-o", tmp+"/index")
	text := readFile(t, tmp+"/index/index.cdx")
	lines := slices.Collect(strings.Lines(text))
	if lines[0] != " CDX N b a m s k r M S V g\n" || !slices.IsSorted(lines) {
		t.Errorf("the first line is %q; sorted: %v", lines[0], slices.IsSorted(lines))
	}
	var got []string
	kinds := map[string]int{}
	for _, line := range lines[1:] {
		c := readPosted(t, strings.TrimSuffix(line, "\n"))
		kinds[c.mime]++
		if c.redirect != "-" {
			kinds["redirect"]++
		}
		if strings.HasSuffix(c.url, "/robots.txt") {
			kinds["robots"]++
		}
		got = append(got, fmt.Sprint(c))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%d captures, want %d, or they differ", len(got), len(want))
	}
	for _, kind := range []string{"text/html", "text/dns", "redirect", "robots"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s among %v", kind, kinds)
		}
	}
	if out, _ := wantExit(t, term.ExitDone, "", "index", "--dir="+tmp+"/d", "--format=cdx", "-o", "-"); out != text {
		t.Errorf("standard output has %d bytes, want %d", len(out), len(text))
	}
}

// postedCapture is what OutbackCDX takes from a line.
type postedCapture struct{ key, time, url, mime, status, digest, redirect, length, offset, file string }

// readPosted reads a line as OutbackCDX does (Capture.fromCdxLine of 1.x): fields divided by single blanks, a
// time of at most 14 digits, whole numbers or "-" for status and length, a number for the offset. It takes a
// third field that begins with "{" for CDXJ, and of a digest with colons the second part.
func readPosted(t *testing.T, line string) postedCapture {
	t.Helper()
	f := strings.Split(line, " ")
	if len(f) != 11 || slices.Contains(f, "") || strings.HasPrefix(f[2], "{") || strings.HasPrefix(f[0], "@alias") {
		t.Fatalf("not a line of 11 fields: %q", line)
	}
	number := func(s string, none bool) {
		if _, err := strconv.ParseInt(s, 10, 64); err != nil && !(none && s == "-") {
			t.Fatalf("%q is no number in %q", s, line)
		}
	}
	number(f[1], false)
	number(f[4], true)
	number(f[8], true)
	number(f[9], false)
	if len(f[1]) != 14 || strings.Contains(f[5], ":") || len(f[5]) != 32 && f[5] != "-" {
		t.Fatalf("time or digest: %q", line)
	}
	return postedCapture{f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[8], f[9], f[10]}
}
