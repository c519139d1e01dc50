package cmd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/pagetext"
	"drumbeat/internal/simweb"
	"drumbeat/state/extract"
	"drumbeat/warc"
)

// extracted runs extract as JSON lines and returns the rows by URL.
func extracted(t *testing.T, args ...string) map[string]map[string]any {
	t.Helper()
	out, _ := wantExit(t, term.ExitDone, "", append([]string{"extract", "--format=jsonl", "-o", "-"}, args...)...)
	rows := map[string]map[string]any{}
	for _, r := range answers[map[string]any](t, out) {
		url := r["url"].(string)
		if rows[url] != nil {
			t.Errorf("%s is there twice", url)
		}
		rows[url] = r
	}
	return rows
}

// crawlForTexts crawls a small web into several WARC files, in DIR/o*, and returns DIR, the flags that name the crawl,
// and the HTML pages of the truth.
func crawlForTexts(t *testing.T, more ...string) (web *simweb.Web, dir string, at []string, pages map[string]bool) {
	t.Helper()
	web, args := cmdtest.SmallWeb(t, nil)
	dir, at, pages = crawlIntoFour(t, web, args, more...)
	return web, dir, at, pages
}

// crawlIntoFour is crawlForTexts for a web and the flags of its crawl.
func crawlIntoFour(t *testing.T, web *simweb.Web, args []string,
	more ...string) (dir string, at []string, pages map[string]bool) {
	t.Helper()
	dir = t.TempDir()
	at = []string{"--dir=" + dir + "/d"}
	for i := range 4 {
		at = append(at, fmt.Sprintf("--out=%s/o%d", dir, i))
	}
	wantExit(t, term.ExitDone, "", slices.Concat(args, at, []string{"--seeds", cmdtest.SeedFile(t, web)}, more)...)
	pages = map[string]bool{}
	for url := range web.Expected("drumbeat").FetchedURLs() {
		if p, _ := web.Page(url); p.Status == 200 && p.Type != "" && pagetext.IsHTML(p.Type) {
			pages[url] = true
		}
	}
	return dir, at, pages
}

// TestExtractTruth: the rows are exactly the HTML pages of the web, their full text is that of the page, and their
// places lead to it. Revisits are left out and counted.
func TestExtractTruth(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, dir, at, pages := crawlForTexts(t, "--content-seen=off")
	before := listing(t, dir)
	rows := extracted(t, append(at, "--full-text")...)
	differ(t, "texts", setOf(maps.Keys(rows)), pages)
	index := map[string]map[string]any{}
	for _, r := range exported(t, "pages", append(at, "--languages")...) {
		url := r["url"].(string)
		if index[url] = r; rows[url] == nil && r["content_languages"] != nil {
			t.Errorf("%s is no page, and has the language %v", url, r["content_languages"])
		}
	}
	main := extracted(t, append(at, "--fields=text,markdown")...)
	titles := 0
	for url, r := range rows {
		p, _ := web.Page(url)
		var want strings.Builder
		w := bufio.NewWriter(&want)
		must(t, errors.Join(pagetext.Write(w, bytes.NewReader(p.Body), p.Type), w.Flush()))
		if r["text"] != want.String() {
			t.Errorf("%s: text %q, want %q", url, r["text"], want.String())
		}
		if text := main[url]["text"].(string); text == "" || len(text) > want.Len() || main[url]["title"] != nil ||
			main[url]["markdown"] == nil || main[url]["markdown"] == "" {
			t.Errorf("%s: main text %q of %q", url, text, want.String())
		}
		if r["title"] != nil {
			titles++
		}
		for _, column := range []string{"warc_filename", "warc_record_offset", "warc_record_length", "content_digest",
			"content_languages"} {
			if r[column] != index[url][column] {
				t.Errorf("%s: %s is %v, of pages %v", url, column, r[column], index[url][column])
			}
		}
	}
	if titles == 0 || len(main) != len(rows) {
		t.Errorf("%d titles, %d main texts of %d", titles, len(main), len(rows))
	}
	if after := listing(t, dir); after != before {
		t.Errorf("extract changed the crawl:\n%s\nwas\n%s", after, before)
	}
}

// TestExtractParts: parts are one for each WARC file; those that are complete are kept, WET reads back with the same
// texts, and other options are refused.
func TestExtractParts(t *testing.T) {
	notShort(t)
	t.Parallel()
	_, dir, at, pages := crawlForTexts(t)
	files := globbed(t, dir+"/o*/warc/*.warc.gz")
	if len(files) < 3 {
		t.Fatalf("%d WARC files", len(files))
	}
	rows := extracted(t, at...)
	target := t.TempDir() + "/wet"
	run := func(code int, args ...string) (string, string) {
		t.Helper()
		return wantExit(t, code, "",
			slices.Concat([]string{"extract"}, at, []string{"-o", target, "--format=wet"}, args)...)
	}
	out, _ := run(term.ExitDone)
	if !strings.Contains(out, "(0 kept)") {
		t.Errorf("said %s", out)
	}
	checkWET(t, files, target, rows, pages)
	whole := tableFiles(t, target)
	// As after kill -9: one part and its summary are missing, one has no summary, and one is half written.
	names := globbed(t, target+"/*.wet.gz")
	summary := func(name string) string {
		return target + "/_" + strings.TrimSuffix(filepath.Base(name), ".warc.wet.gz") + ".json"
	}
	for _, name := range []string{names[0], summary(names[0]), summary(names[1])} {
		must(t, os.Remove(name))
	}
	must(t, os.WriteFile(target+"/."+filepath.Base(names[0]), []byte("half"), 0o600))
	kept, err := os.Stat(names[2])
	must(t, err)
	if out, _ = run(term.ExitDone); !strings.Contains(out, fmt.Sprintf("parts (%d kept)", len(files)-2)) {
		t.Errorf("said %s", out)
	}
	again := tableFiles(t, target)
	differ(t, "files", setOf(maps.Keys(again)), setOf(maps.Keys(whole)))
	if now, err := os.Stat(names[2]); err != nil || !os.SameFile(kept, now) {
		t.Errorf("a complete part was made again: %v", err)
	}
	checkWET(t, files, target, rows, pages)
	for _, other := range []string{"--full-text", "--format=csv", "--fields=text"} {
		if _, said := run(term.ExitDirectory, other); !strings.Contains(said, "name another directory") {
			t.Errorf("%s: %s", other, said)
		}
	}
	table := readFile(t, target+"/_extract.json")
	for _, bad := range []string{strings.Replace(table, `"version": 1`, `"version": 2`, 1),
		strings.Replace(table, `"crawl": "`, `"crawl": "x`, 1), "{"} {
		must(t, os.WriteFile(target+"/_extract.json", []byte(bad), 0o600))
		if _, said := run(term.ExitDirectory); !strings.Contains(said, "has other parts") {
			t.Errorf("%s: %s", bad, said)
		}
	}
	if _, said := wantExit(t, term.ExitDirectory, "",
		append([]string{"extract", "-o", dir}, at...)...); !strings.Contains(said, "it contains") {
		t.Errorf("a directory of something else: %s", said)
	}
}

// checkWET reads all parts, and compares them with rows and with the WARC files.
func checkWET(t *testing.T, files []string, target string, rows map[string]map[string]any, pages map[string]bool) {
	t.Helper()
	urls := map[string]bool{} // of responses with a body, by their record
	ids := map[string]string{}
	for _, name := range files {
		err := warc.ReadFile(disk.OS(), name, 1<<20, func(r *warc.Record) error {
			if r.Type() == "response" {
				ids[r.Get("WARC-Record-ID")] = r.Get("WARC-Target-URI")
			}
			if url := r.Get("WARC-Target-URI"); r.Type() == "response" &&
				r.Get("WARC-Resource-Type") == "" && pages[url] {
				urls[url] = true
			}
			return nil
		})
		must(t, err)
	}
	differ(t, "rows", setOf(maps.Keys(rows)), urls)
	got := map[string]bool{}
	for _, name := range globbed(t, target+"/*.warc.wet.gz") {
		n := 0
		err := warc.ReadFile(disk.OS(), name, 1<<20, func(r *warc.Record) error {
			if n++; n == 1 {
				if r.Type() != "warcinfo" || r.Get("WARC-Filename") != filepath.Base(name) {
					t.Errorf("%s begins with %+v", name, r.Fields)
				}
				return nil
			}
			url := r.Get("WARC-Target-URI")
			row := rows[url]
			want := row["text"].(string)
			if row["title"] != nil {
				want = row["title"].(string) + "\n" + want
			}
			language := r.Get("WARC-Identified-Content-Language")
			if language == "" {
				language = "und"
			}
			if r.Type() != "conversion" || got[url] || ids[r.Get("WARC-Refers-To")] != url || string(r.Block) != want ||
				language != row["content_languages"] {
				t.Errorf("%s: %+v %q, want %q", url, r.Fields, r.Block, want)
			}
			got[url] = true
			return nil
		})
		must(t, err)
	}
	differ(t, "records", got, urls)
}

// TestExtractGrows: the part of a WARC file that was open is made again when the crawl has gone on.
func TestExtractGrows(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, args := cmdtest.SmallWeb(t, nil)
	tmp := t.TempDir()
	crawl := append(args, "--seeds", cmdtest.SeedFile(t, web), "--dir="+tmp+"/d", "--content-seen=off")
	run := func() string {
		t.Helper()
		out, _ := wantExit(t, term.ExitDone, "", "extract", "--dir="+tmp+"/d", "-o", tmp+"/t", "--format=parquet")
		return out
	}
	wantExit(t, term.ExitPages, "", append(crawl, "--max-pages=60")...)
	first := run()
	if second := run(); !strings.Contains(second, "(1 kept)") {
		t.Errorf("said %s after %s", second, first)
	}
	wantExit(t, term.ExitDone, "", crawl...)
	last := run()
	pages := 0
	for url := range web.Expected("drumbeat").FetchedURLs() {
		if p, _ := web.Page(url); p.Status == 200 && p.Type != "" && pagetext.IsHTML(p.Type) {
			pages++
		}
	}
	if want := fmt.Sprintf("texts: %d pages", pages); !strings.HasPrefix(last, want) {
		t.Errorf("said %s, want %s", last, want)
	}
}

// TestExtractFaults: damaged records are left out and tried again; bad flags and directories are said clearly; a
// signal keeps complete parts.
func TestExtractFaults(t *testing.T) {
	notShort(t)
	t.Parallel()
	_, dir, at, _ := crawlForTexts(t)
	tmp := t.TempDir()
	all := extracted(t, at...)
	with := func(args ...string) []string { return append(at[:len(at):len(at)], args...) }
	fails := func(code int, want string, args ...string) {
		t.Helper()
		if _, said := wantExit(t, code, "", append([]string{"extract"}, args...)...); !strings.Contains(said, want) {
			t.Errorf("extract %q says %q, want %q", args, said, want)
		}
	}
	fails(term.ExitUsage, "want text, lang", with("--fields=words", "-o", tmp+"/x")...)
	fails(term.ExitUsage, "only for --format csv and jsonl", with("-o", "-")...)
	fails(term.ExitUsage, "which has only text and lang", with("--format=wet", "--fields=text,meta", "-o", tmp+"/x")...)
	fails(term.ExitUsage, "needs text", with("--fields=lang", "--full-text", "-o", tmp+"/x")...)
	fails(term.ExitUsage, "at least 64 MiB", with("--ram=1MiB", "-o", tmp+"/x")...)
	fails(term.ExitDirectory, "holds no crawl", "--dir="+t.TempDir(), "-o", tmp+"/x")
	fails(term.ExitDirectory, "holds no crawl", "--dir="+tmp+"/none", "-o", tmp+"/x")

	// The lock of a running crawl is no obstacle; that of another extract is.
	lock, err := disk.OS().Lock(dir + "/d")
	must(t, err)
	if _, said := wantExit(t, term.ExitDone, "",
		append([]string{"extract"}, with("-o", tmp+"/t")...)...); !strings.Contains(said, "the crawl is running") {
		t.Errorf("said %s", said)
	}
	must(t, lock.Close())
	if lock, err = disk.OS().Lock(tmp + "/t"); err != nil {
		t.Fatal(err)
	}
	fails(term.ExitDirectory, "another extraction", with("-o", tmp+"/t")...)
	must(t, lock.Close())

	// A damaged record.
	var row map[string]any
	for _, row = range all {
		break
	}
	name := globbed(t, dir+"/o*/warc/"+row["warc_filename"].(string))[0]
	data := readFile(t, name)
	bad := []byte(data)
	bad[int(row["warc_record_offset"].(float64))+int(row["warc_record_length"].(float64))-6] ^= 1 // its checksum
	must(t, os.WriteFile(name, bad, 0o600))
	out, said := wantExit(t, term.ExitDamage, "", append([]string{"extract"}, with("--format=jsonl", "-o", "-")...)...)
	if rows := answers[map[string]any](t, out); len(rows) != len(all)-1 ||
		!strings.Contains(said, filepath.Base(name)) {
		t.Errorf("%d rows of %d, said %s", len(rows), len(all), said)
	}
	fails(term.ExitDamage, "1 damaged record", with("-o", tmp+"/damaged")...)
	must(t, os.WriteFile(name, []byte(data), 0o600))
	files := globbed(t, dir+"/o*/warc/*.warc.gz")
	if out, _ := wantExit(t, term.ExitDone, "", append([]string{"extract"},
		with("-o", tmp+"/damaged")...)...); !strings.Contains(out, fmt.Sprintf("(%d kept)", len(files)-1)) {
		t.Errorf("said %s", out)
	}

	checkMovedFiles(t, at, tmp, name, len(files))

	checkSignal(t, with, tmp+"/signal")
}

// checkSignal: a signal leaves no part that is not complete.
func checkSignal(t *testing.T, with func(...string) []string, out string) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(term.ErrSignal)
	var errs bytes.Buffer
	app := &term.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &errs,
		StopOnSignal: func(context.Context) (context.Context, func()) { return ctx, func() {} }}
	if code := flags.Run(app, new(commands),
		append([]string{"extract"}, with("-o", out)...)); code != term.ExitSignal {
		t.Errorf("exit code %d: %s", code, &errs)
	}
	if left := globbed(t, out+"/*"); len(left) != 1 {
		t.Errorf("left %q", left)
	}
}

// checkMovedFiles moves a WARC file away, its index, and both.
func checkMovedFiles(t *testing.T, at []string, tmp, name string, files int) {
	t.Helper()
	extractTo := func(out string) []string { return slices.Concat([]string{"extract"}, at, []string{"-o", out}) }
	moved := movedAway(t, name)
	if _, said := wantExit(t, term.ExitDone, "",
		extractTo(tmp+"/moved")...); !strings.Contains(said, "was moved away") {
		t.Errorf("said %s", said)
	}
	moved()
	moved = movedAway(t, strings.TrimSuffix(name, ".warc.gz")+".cdxj")
	if _, said := wantExit(t, term.ExitFailure, "",
		extractTo(tmp+"/moved")...); !strings.Contains(said, "1 WARC file is without an index") {
		t.Errorf("said %s", said)
	}
	both := movedAway(t, name)
	if _, said := wantExit(t, term.ExitDone, "",
		extractTo(tmp+"/both")...); !strings.Contains(said,
		fmt.Sprintf("the indexes of 1 of the crawl's %d WARC files are missing", files)) {
		t.Errorf("said %s", said)
	}
	both()
	moved()
}

// TestExtractEveryFailure lets every fifth operation on the parts fail once with a full disk. Each part with
// a final name is then whole, and the next run completes them.
func TestExtractEveryFailure(t *testing.T) {
	notShort(t)
	t.Parallel()
	_, dir, _, _ := crawlForTexts(t)
	run := func(target string, fsys disk.FS) (*extract.Report, error) {
		return extract.Run(t.Context(), extract.Options{FS: fsys, Dirs: []string{dir + "/d"},
			Out: globbed(t, dir+"/o*"), Format: extract.WET, Target: target, RAMBytes: 64 << 20})
	}
	whole := t.TempDir()
	total, err := run(whole, disk.OS())
	must(t, err)
	sizes := func(target string) map[string]int64 {
		m := map[string]int64{}
		for _, name := range globbed(t, target+"/*.wet.gz") {
			var n int64
			must(t, warc.ReadFile(disk.OS(), name, 0, func(*warc.Record) error { n++; return nil }))
			m[filepath.Base(name)] = n
		}
		return m
	}
	want := sizes(whole)
	for fail := 0; ; fail += 5 {
		target := t.TempDir()
		var n atomic.Int64
		var failed atomic.Bool
		_, err := run(target, memfs.NewFault(disk.OS(), func(op memfs.Op, name string) error {
			if !strings.HasPrefix(name, target) || op == memfs.OpRemove {
				return nil
			}
			if n.Add(1) != int64(fail)+1 {
				return nil
			}
			failed.Store(true)
			return syscall.ENOSPC
		}))
		if !failed.Load() {
			if err != nil || fail < 20 {
				t.Fatal(fail, err)
			}
			break
		}
		for name, records := range sizes(target) {
			if records != want[name] {
				t.Errorf("failure %d: %s has %d records, want %d", fail, name, records, want[name])
			}
		}
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("failure %d: %v", fail, err)
		}
		r, err := run(target, disk.OS())
		if err != nil || r.Counts != total.Counts || !maps.Equal(sizes(target), want) {
			t.Errorf("failure %d: the next run: %+v, %v", fail, r, err)
		}
		if left := globbed(t, target+"/.*.gz"); len(left) > 0 {
			t.Errorf("failure %d: left %q", fail, left)
		}
	}
}
