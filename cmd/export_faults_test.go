package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/cmdtest"
)

// TestExportFaults: bad flags, directories in use, damage and missing files are said clearly.
func TestExportFaults(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	tmp := t.TempDir()
	dir := tmp + "/d"
	wantExit(t, term.ExitPages, "",
		append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir="+dir, "--max-pages=60")...)
	fails := func(code int, want string, args ...string) {
		t.Helper()
		if _, said := wantExit(t, code, "", append([]string{"export"}, args...)...); !strings.Contains(said, want) {
			t.Errorf("export %q says %q, want %q", args, said, want)
		}
	}
	at := "--dir=" + dir
	fails(term.ExitUsage, "only for --format csv and jsonl", "plds", at, "-o", "-")
	fails(term.ExitUsage, "only for pld-edges, host-edges and links", "plds", at, "--format=arc", "-o", tmp+"/x")
	fails(term.ExitUsage, "only for plds", "hosts", at, "--queued", "-o", tmp+"/x")
	fails(term.ExitUsage, "only for changes", "pages", at, "--since=1d", "-o", tmp+"/x")
	fails(term.ExitUsage, "nor a whole token", "changes", at, "--since=1.abc", "-o", tmp+"/x")
	fails(term.ExitUsage, "at least 32 MiB", "hosts", at, "--ram=1MiB", "-o", tmp+"/x")
	fails(term.ExitDirectory, "drumbeat-crawl holds no crawl", "hosts", "-o", tmp+"/x") // the default
	fails(term.ExitDirectory, "holds no crawl", "hosts", "--dir="+t.TempDir(), "-o", tmp+"/x")

	// The lock of a running crawl is no obstacle; that of another export is.
	lock, err := disk.OS().Lock(dir)
	must(t, err)
	_, said := wantExit(t, term.ExitDone, "", "export", "hosts", at, "-o", tmp+"/running")
	if !strings.Contains(said, "the crawl is running") {
		t.Errorf("said %s", said)
	}
	must(t, lock.Close())
	must(t, os.Mkdir(tmp+"/used.tmp", 0o700))
	if lock, err = disk.OS().Lock(tmp + "/used.tmp"); err != nil {
		t.Fatal(err)
	}
	fails(term.ExitDirectory, "another export uses", "hosts", at, "-o", tmp+"/used")
	must(t, lock.Close())

	checkRowsWithout(t, dir)

	// Damage has its exit code, and no part is left under a final name.
	for _, c := range []struct{ kind, files string }{{"pages", "/log/crawl-*"}, {"pages", "/warc/*.cdxj"},
		{"changes", "/log/crawl-*"},
		{"changes", "/warc/*.cdxj"}, {"state", "/log/crawl-*"}, {"state", "/warc/*.cdxj"}} {
		name := globbed(t, dir+c.files)[0]
		data, err := os.ReadFile(name)
		must(t, err)
		bad := bytes.Clone(data)
		middle := len(bad) / 2
		if c.files == "/warc/*.cdxj" { // an index has no checksums: only JSON, not a key, can be seen to be damaged
			middle = bytes.LastIndexByte(bad[:middle], '{')
		}
		for i := range 20 {
			bad[middle+i] = '"'
		}
		must(t, os.WriteFile(name, bad, 0o600))
		target := tmp + "/damaged-" + c.kind
		fails(term.ExitDamage, name[strings.LastIndex(name, "/")+1:], c.kind, at, "-o", target)
		if parts := globbed(t, target+"/part-*"); len(parts) > 0 {
			t.Errorf("parts %q", parts)
		}
		must(t, os.WriteFile(name, data, 0o600))
	}
}

// checkRowsWithout: without indexes or without the log the rows are still all there.
func checkRowsWithout(t *testing.T, dir string) {
	t.Helper()
	at := "--dir=" + dir
	all := exported(t, "pages", at)
	for _, c := range []struct{ files, gone, there, note string }{
		{"/warc/*.cdxj*", "warc_record_length", "via", "have no line in an index"},
		{"/log/crawl-*", "ip", "content_digest", "have no line in the crawl log"},
	} {
		moved := movedAway(t, dir+c.files)
		out, said := wantExit(t, term.ExitDone, "", "export", "pages", "--format=jsonl", "-o", "-", at)
		rows := answers[map[string]any](t, out)
		if len(rows) != len(all) || !strings.Contains(said, c.note) {
			t.Errorf("without %s: %d rows of %d, said %s", c.files, len(rows), len(all), said)
		}
		there := 0
		for _, r := range rows {
			if r[c.gone] != nil {
				t.Fatalf("without %s: %v", c.files, r)
			}
			if r[c.there] != nil {
				there++
			}
		}
		if there == 0 {
			t.Errorf("without %s no row has %s", c.files, c.there)
		}
		moved()
	}
}

func globbed(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	must(t, err)
	return names
}

// movedAway renames files until the returned function is called.
func movedAway(t *testing.T, pattern string) (back func()) {
	t.Helper()
	names := globbed(t, pattern)
	if len(names) == 0 {
		t.Fatalf("no file %s", pattern)
	}
	away := t.TempDir()
	for _, name := range names {
		must(t, os.Rename(name, filepath.Join(away, filepath.Base(name))))
	}
	return func() {
		for _, name := range names {
			must(t, os.Rename(filepath.Join(away, filepath.Base(name)), name))
		}
	}
}
