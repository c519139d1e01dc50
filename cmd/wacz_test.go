package cmd

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
)

// TestWACZ: the members of a WACZ have the hashes and sizes that it lists; WARC files and index are stored as they
// are; each line of the index leads to its record; the pages are the web's.
func TestWACZ(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	tmp := t.TempDir()
	dir, name := tmp+"/d", tmp+"/site.wacz"
	args := append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir="+dir)
	wantExit(t, term.ExitPages, "", append(args, "--max-pages=100")...)
	wantExit(t, term.ExitDone, "", args...) // another WARC file
	before := listing(t, dir)
	for range 2 { // the second replaces the first
		out, _ := wantExit(t, term.ExitDone, "", "export", "wacz", "--dir="+dir, "-o", name)
		if !strings.Contains(out, "wacz: ") || !strings.Contains(out, " pages") {
			t.Errorf("printed %q", out)
		}
	}
	if after := listing(t, dir); after != before {
		t.Error("export changed the crawl")
	}
	left, err := filepath.Glob(tmp + "/.*wacz*")
	if more, _ := filepath.Glob(name + ".*"); err != nil || len(left)+len(more) > 0 {
		t.Errorf("left: %v %v %v", left, more, err)
	}

	members := membersOf(t, name)
	main := checkPackage(t, members, dir)
	lines := checkIndex(t, members)
	truth, pages := web.Expected("drumbeat"), 0
	for line := range bytes.Lines(members["pages/pages.jsonl"]) {
		var p struct{ Format, URL, TS, Title string }
		if unmarshal(t, line, &p); p.Format != "" {
			continue
		}
		pages++
		if fetched, _, _ := truth.Has(p.URL); !fetched || p.TS == "" || p.Title == "" {
			t.Errorf("page %+v", p)
		}
	}
	want := 0
	for url := range truth.FetchedURLs() {
		if page, _ := web.Page(url); page.Status == 200 && strings.HasPrefix(page.Type, "text/html") {
			want++
		}
	}
	if pages != want || lines < truth.Fetched || main == "" {
		t.Errorf("%d pages, want %d; %d lines; main page %q", pages, want, lines, main)
	}

	checkNoWACZ(t, web, flags, dir, tmp)
}

// membersOf reads the members of a WACZ. Only those that are compressed by themselves are stored as they are.
func membersOf(t *testing.T, name string) map[string][]byte {
	t.Helper()
	z, err := zip.OpenReader(name)
	must(t, err)
	defer z.Close()
	members := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		must(t, err)
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		members[f.Name] = data
		if strings.HasSuffix(f.Name, ".gz") != (f.Method == zip.Store) {
			t.Errorf("%s has method %d", f.Name, f.Method)
		}
	}
	return members
}

func unmarshal(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
}

// checkPackage compares the members with their list, and WARC files with the crawl's. It returns the main page.
func checkPackage(t *testing.T, members map[string][]byte, dir string) (main string) {
	t.Helper()
	sum := func(name string) string {
		s := sha256.Sum256(members[name])
		return "sha256:" + hex.EncodeToString(s[:])
	}
	var about struct {
		Version   string `json:"wacz_version"`
		Main      string `json:"mainPageUrl"`
		Resources []struct {
			Path, Hash string
			Bytes      int
		}
	}
	unmarshal(t, members["datapackage.json"], &about)
	var digest struct{ Path, Hash string }
	unmarshal(t, members["datapackage-digest.json"], &digest)
	if digest.Path != "datapackage.json" || digest.Hash != sum("datapackage.json") || about.Version != "1.1.1" ||
		len(about.Resources) != len(members)-2 {
		t.Errorf("%+v, %+v, %d members", digest, about, len(members))
	}
	warcs := 0
	for _, r := range about.Resources {
		if r.Hash != sum(r.Path) || r.Bytes != len(members[r.Path]) {
			t.Errorf("%+v: has %s, %d bytes", r, sum(r.Path), len(members[r.Path]))
		}
		if file, ok := strings.CutPrefix(r.Path, "archive/"); ok {
			warcs++
			if data, err := os.ReadFile(dir + "/warc/" + file); err != nil || !bytes.Equal(data, members[r.Path]) {
				t.Errorf("%s differs from the crawl's: %v", file, err)
			}
		}
	}
	if warcs < 2 {
		t.Errorf("%d WARC files", warcs)
	}
	return about.Main
}

// checkIndex reads the records of all lines of the index, and returns their number.
func checkIndex(t *testing.T, members map[string][]byte) int {
	t.Helper()
	lines, blocks := 0, 0
	index := members["indexes/index.cdx.gz"]
	for line := range bytes.Lines(members["indexes/index.idx"]) {
		key, data, _ := bytes.Cut(line, []byte(" {"))
		var at struct{ Offset, Length int }
		unmarshal(t, append([]byte("{"), data...), &at)
		if blocks++; blocks == 1 {
			if string(key) != "!meta 0" || !bytes.Contains(data, []byte(`"cdxj-gzip-1.0"`)) {
				t.Errorf("the first line is %s", line)
			}
			continue
		}
		block := gunzip(t, index[at.Offset:at.Offset+at.Length])
		if !bytes.HasPrefix(block, append(key, ' ')) {
			t.Errorf("the block of %s begins with %.100s", key, block)
		}
		for line := range bytes.Lines(block) {
			lines++
			var c struct{ URL, Filename, Offset, Length string }
			unmarshal(t, line[bytes.IndexByte(line, '{'):], &c)
			var offset, length int
			unmarshal(t, []byte(c.Offset), &offset)
			unmarshal(t, []byte(c.Length), &length)
			record := gunzip(t, members["archive/"+c.Filename][offset:offset+length])
			if !bytes.Contains(record, []byte("\r\nWARC-Target-URI: "+c.URL+"\r\n")) {
				t.Errorf("%s: its record is %.200s", c.URL, record)
			}
		}
	}
	return lines
}

// checkNoWACZ: bad flags and a crawl without gzip are refused, and leave no file.
func checkNoWACZ(t *testing.T, web *simweb.Web, flags []string, dir, tmp string) {
	t.Helper()
	for want, args := range map[string][]string{
		"its own format": {"--format=csv", "-o", tmp + "/x.wacz"},
		"give -o FILE":   {"-o", "-"},
	} {
		if _, said := wantExit(t, term.ExitUsage, "",
			append([]string{"export", "wacz", "--dir=" + dir}, args...)...); !strings.Contains(said, want) {
			t.Errorf("%q says %q", args, said)
		}
	}
	zst := tmp + "/z"
	wantExit(t, term.ExitPages, "",
		append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir="+zst, "--max-pages=20", "--warc=zst")...)
	if _, said := wantExit(t, term.ExitFailure, "", "export", "wacz", "--dir="+zst, "-o",
		tmp+"/z.wacz"); !strings.Contains(said, "--warc gz") {
		t.Errorf("zst: %q", said)
	}
	if left, err := filepath.Glob(tmp + "/*z.wacz*"); err != nil || len(left) > 0 {
		t.Errorf("a failed export leaves %v %v", left, err)
	}
}

func gunzip(t *testing.T, data []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	must(t, err)
	text, err := io.ReadAll(z)
	must(t, err)
	return text
}
