package cmd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// makeDict writes a dictionary.
func makeDict(t *testing.T, dict string) {
	t.Helper()
	var pages [][]byte
	for i := range 50 {
		pages = append(pages,
			fmt.Appendf(nil, "WARC/1.1\r\nWARC-Type: response\r\nContent-Length: %d\r\n\r\n<p>%d</p>", i*i, i))
	}
	made, err := zstd.BuildDict(zstd.BuildDictOptions{ID: 40_000, Contents: pages,
		History: []byte(strings.Repeat("WARC/1.1 ", 20)), Offsets: [3]int{1, 4, 8}})
	must(t, err)
	must(t, os.WriteFile(dict, made, 0o600))
}

// TestWARCFormats: a crawl that changes the form and the dictionary of --warc with each run has files of all forms.
// audit, explain and repair read them all.
func TestWARCFormats(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	tmp := t.TempDir()
	dir, dict := filepath.Join(tmp, "crawl"), filepath.Join(tmp, "dict")
	makeDict(t, dict)
	flags = append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir", dir)
	for _, bad := range []struct{ args, want string }{
		{"--warc=dict=" + dict, "is for zst"},
		{"--warc=zst,dict=" + dict + "x", "does not exist"},
		{"--warc=zst,dict=" + cmdtest.SeedFile(t, web), "not a dictionary"},
		{"--warc=xz", `want gz or zst`},
	} {
		if _, errs := wantExit(t, term.ExitUsage, "",
			append(flags, strings.Fields(bad.args)...)...); !strings.Contains(errs, bad.want) {
			t.Errorf("%s: got %s, want %q", bad.args, errs, bad.want)
		}
	}
	files := func(suffix string) int {
		names, err := filepath.Glob(dir + "/warc/*" + suffix)
		must(t, err)
		return len(names)
	}
	wantExit(t, term.ExitPages, "", append(flags, "--max-pages=40")...)
	if gz, zst := files(".warc.gz"), files(".warc.zst"); gz == 0 || zst > 0 {
		t.Errorf("%d gz files and %d zst files, want only gz", gz, zst)
	}
	gz := files(".warc.gz")
	wantExit(t, term.ExitPages, "", append(flags, "--max-pages=80", "--warc=zst,dict="+dict)...)
	wantExit(t, term.ExitPages, "", append(flags, "--max-pages=120", "--warc=zst,level=9")...)
	if more, zst := files(".warc.gz"), files(".warc.zst"); more != gz || zst < 2 {
		t.Errorf("%d gz files and %d zst files, want %d and at least 2", more, zst, gz)
	}
	out, _ := wantExit(t, term.ExitDone, "", append(flags, "--warc=zst,dict="+dict)...)
	if !strings.Contains(out, "/warc/*.warc.zst") {
		t.Errorf("the summary does not name the files:\n%s", out)
	}
	if err := web.Log().Snapshot().CheckFetched(web.Expected("drumbeat"), 1); err != nil {
		t.Error(err)
	}
	if out, _ := wantExit(t, term.ExitDone, "", "audit", "--deep", dir); !strings.Contains(out,
		"keys: 0 not in URLseen") {
		t.Errorf("audit --deep: %s", out)
	}
	stored := checkExplained(t, dir)
	if stored < 3 {
		t.Errorf("%d zst files, want at least 3", stored)
	}
	for _, name := range glob(t, dir+"/state/urlseen/cache-*") { // repair knows their keys from the output
		must(t, os.Truncate(name, 4096))
	}
	if out, _ := wantExit(t, term.ExitDone, "", "repair", dir); !strings.Contains(out, "lost: 0 URLs") {
		t.Errorf("repair: %s", out)
	}
	wantExit(t, term.ExitDone, "", "audit", "--deep", dir)
	name := glob(t, dir+"/warc/*.warc.zst")[0]
	data, err := os.ReadFile(name)
	must(t, err)
	data[len(data)/2] ^= 1
	must(t, os.WriteFile(name, data, 0o600))
	if out, errs := wantExit(t, term.ExitDamage, "", "audit", "--deep", dir); !strings.Contains(out+errs,
		filepath.Base(name)) {
		t.Errorf("audit --deep of a damaged file does not name it: %s %s", out, errs)
	}
}

// checkExplained asks for a page of each zst file, and returns the number of files.
func checkExplained(t *testing.T, dir string) int {
	t.Helper()
	stored := 0
	for _, index := range glob(t, dir+"/warc/*.cdxj") {
		data, err := os.ReadFile(index)
		must(t, err)
		if _, err := os.Stat(strings.TrimSuffix(index, ".cdxj") + ".warc.zst"); err != nil {
			continue
		}
		url := ""
		for _, field := range strings.Split(string(data), `"url": "`)[1:] {
			if found, _, _ := strings.Cut(field, `"`); strings.HasPrefix(found, "http") &&
				!strings.HasSuffix(found, "/robots.txt") {
				url = found
				break
			}
		}
		if url == "" {
			continue // a crawl of few pages may have put none into this file
		}
		out, _ := wantExit(t, term.ExitDone, "", "explain", "url", "--dir", dir, url)
		if stored++; !strings.Contains(out, ".warc.zst") || !strings.Contains(out, "fetched") {
			t.Errorf("explain %s:\n%s", url, out)
		}
	}
	return stored
}

// glob returns the files of a pattern, at least one.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v, %v", pattern, names, err)
	}
	return names
}
