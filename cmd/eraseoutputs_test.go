package cmd

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// outputsOf makes all outputs of a crawl in a directory, which an erasure can change.
func outputsOf(t *testing.T, dir, to string) {
	t.Helper()
	for _, kind := range []string{"plds", "pld-edges", "hosts", "pages", "links", "refused", "queue", "robots",
		"near-duplicates", "state", "changes"} {
		for _, format := range []string{"parquet", "csv", "jsonl"} {
			wantExit(t, term.ExitDone, "", "export", kind, "--format", format, "-o",
				filepath.Join(to, kind+"-"+format), dir)
		}
	}
	wantExit(t, term.ExitDone, "", "export", "texts", "--dedup=near", "--format=jsonl", "-o",
		filepath.Join(to, "corpus"), dir)
	for _, compression := range []string{"snappy", "uncompressed"} {
		wantExit(t, term.ExitDone, "", "export", "pages", "--compression", compression, "-o",
			filepath.Join(to, compression), dir)
	}
	wantExit(t, term.ExitDone, "", "export", "wacz", "-o", filepath.Join(to, "all.wacz"), dir)
	for _, format := range []string{"cdxj", "zipnum"} {
		wantExit(t, term.ExitDone, "", "index", "--format", format, "-o", filepath.Join(to, format), dir)
	}
	for _, format := range []string{"wet", "parquet", "csv", "jsonl"} {
		wantExit(t, term.ExitDone, "", "extract", "--format", format, "-o", filepath.Join(to, "texts-"+format), dir)
	}
}

// filesUnder returns the files of a directory by name.
func filesUnder(t *testing.T, dir string) map[string]os.FileInfo {
	all := map[string]os.FileInfo{}
	must(t, filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			all[strings.TrimPrefix(name, dir+"/")] = info
		}
		return err
	}))
	return all
}

// sortedLines returns the lines of files of text, sorted. Names of parts and their order may differ.
func sortedLines(t *testing.T, pattern string) (all []string) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	must(t, err)
	for _, name := range names {
		data, err := os.ReadFile(name)
		must(t, err)
		if bytes.HasPrefix(data, []byte("\x1f\x8b")) {
			z, err := gzip.NewReader(bytes.NewReader(data))
			must(t, err)
			data, err = io.ReadAll(z)
			must(t, err)
		}
		all = append(all, strings.Split(string(data), "\n")...)
	}
	if len(all) == 0 {
		t.Errorf("%s: nothing", pattern)
	}
	slices.Sort(all)
	return all
}

// TestEraseOutputs: an erasure changes the outputs that it is told of: they are those of the crawl afterwards. Files
// without a target keep their bytes, and an unknown file stops it before anything is changed.
func TestEraseOutputs(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	tmp := t.TempDir()
	dir, out, fresh := filepath.Join(tmp, "crawl"), filepath.Join(tmp, "out"), filepath.Join(tmp, "fresh")
	wantExit(t, term.ExitDone, "", append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir", dir)...)
	outputsOf(t, dir, out)
	u, err := url.Parse(web.Seeds()[0])
	must(t, err)
	host := u.Hostname()
	list := filepath.Join(tmp, "list")
	must(t, os.WriteFile(list, []byte("host:"+host+"\n"), 0o600))
	wantExit(t, term.ExitDamage, "", "audit", "--erased", list, "--also", out, dir)
	args := []string{"erase", "--list", list, "--reason", "a test", "--also", out, dir}
	unknown := filepath.Join(out, "notes.txt")
	must(t, os.WriteFile(unknown, []byte("see http://"+host+"/\n"), 0o600))
	before := filesUnder(t, tmp)
	if _, errs := wantExit(t, term.ExitUsage, "", args...); !strings.Contains(errs, "cannot erase from "+unknown+": ") {
		t.Errorf("an unknown file: %s", errs)
	}
	same := func(a, b os.FileInfo) bool { return a.ModTime().Equal(b.ModTime()) }
	if !maps.EqualFunc(before, filesUnder(t, tmp), same) {
		t.Error("files were changed before an unknown one was refused")
	}
	must(t, os.Remove(unknown))
	var dry, done struct {
		Erasure struct{ Erased struct{ Outputs, Rows int } }
	}
	text, _ := wantExit(t, term.ExitDone, "", append(args, "--json", "--dry-run")...)
	must(t, json.Unmarshal([]byte(text), &dry))
	text, _ = wantExit(t, term.ExitDone, "", append(args, "--json")...)
	must(t, json.Unmarshal([]byte(text), &done))
	if dry != done || done.Erasure.Erased.Outputs < 20 || done.Erasure.Erased.Rows < 100 {
		t.Errorf("a dry run: %+v; then %+v", dry, done)
	}
	wantExit(t, term.ExitDone, "", "audit", "--deep", dir)
	if text, _ := wantExit(t, term.ExitDone, "", "audit", "--erased", list, "--also", out, dir); !strings.Contains(text,
		"nothing is left") {
		t.Errorf("audit: %s", text)
	}
	outputsOf(t, dir, fresh)
	for _, pattern := range []string{"pages-csv/*.csv", "pages-jsonl/*.jsonl", "refused-csv/*.csv",
		"state-jsonl/*.jsonl", "queue-jsonl/*.jsonl", "cdxj/*.cdxj", "zipnum/*.gz", "texts-csv/*.csv",
		"texts-jsonl/*.jsonl"} {
		got, want := sortedLines(t, filepath.Join(out, pattern)), sortedLines(t, filepath.Join(fresh, pattern))
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d lines, want %d", pattern, len(got), len(want))
		}
	}
	after, want := filesUnder(t, out), filesUnder(t, fresh)
	if got, want := slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(want)); !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	var again struct {
		Erasure struct{ Erased struct{ Outputs, Rows int } }
	}
	text, _ = wantExit(t, term.ExitDone, "", append(args, "--json")...)
	must(t, json.Unmarshal([]byte(text), &again))
	if again.Erasure.Erased.Outputs > 0 {
		t.Errorf("a second time: %s", text)
	}
	if !maps.EqualFunc(after, filesUnder(t, out), same) {
		t.Error("files without a target were written")
	}
}
