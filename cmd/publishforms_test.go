package cmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/cputime"
	"drumbeat/internal/simweb"
	"drumbeat/state/publish"
	"drumbeat/warc"
)

// TestPublishForms: a crawl in Zstandard with a dictionary is published in gzip members, each with its record. Full
// files are followed by others: a request is in the file of its response, and texts and metadata have as many files.
func TestPublishForms(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, args := cmdtest.SmallWeb(t, func(o *simweb.Options) { o.Page.NonHTML, o.Page.Copies = 0.3, 0.8 })
	dict := t.TempDir() + "/dict"
	makeDict(t, dict)
	dir, _, pages := crawlIntoFour(t, web, args, "--warc=zst,dict="+dict)
	want := publishedRecords(t, globbed(t, dir+"/o*/warc/*.warc.zst"))
	out := t.TempDir() + "/public"
	const full = 100_000
	r, err := publish.Run(t.Context(), publish.Options{Dirs: []string{dir + "/d"}, Out: globbed(t, dir+"/o*"),
		Target: out, TempDir: out + ".tmp", RAMBytes: 64 << 20, FileBytes: full, Name: "CC-MAIN-2018-05"})
	must(t, err)

	segments := out + "/crawl-data/CC-MAIN-2018-05/segments/*"
	names := globbed(t, segments+"/*/*.warc.gz")
	got := publishedRecords(t, names)
	if subsets := samePublished(t, got, want); subsets["warc response"] < 100 ||
		subsets["crawldiagnostics revisit"] == 0 || subsets["robotstxt response"] == 0 {
		t.Errorf("%v", subsets)
	}
	files := map[string]int{}
	for _, name := range names {
		files[filepath.Base(filepath.Dir(name))]++
		data := readFile(t, name)
		last := int64(0)
		answers := map[string]bool{}
		var of []string
		must(t, warc.Read(strings.NewReader(data), 0, func(r *warc.Record) error {
			if !strings.HasPrefix(data[r.Offset:], "\x1f\x8b") {
				t.Errorf("%s: the record at %d is no gzip member", name, r.Offset)
			}
			if last = r.Offset; r.IsCapture() {
				answers[r.Get("WARC-Record-ID")] = true
			}
			if id := r.Get("WARC-Concurrent-To"); id != "" {
				of = append(of, id)
			}
			return nil
		}))
		for _, id := range of {
			if !answers[id] {
				t.Errorf("%s lacks the response %s of a request or of metadata", name, id)
			}
		}
		if last > full+100_000 {
			t.Errorf("%s has %d bytes, and the last record at %d", name, len(data), last)
		}
	}
	for _, made := range []string{"wet", "wat"} {
		if n := len(globbed(t, segments+"/"+made+"/*.gz")); n != files["warc"] || n <= r.Volumes {
			t.Errorf("%d files of %s, %v of records; %d of the crawl", n, made, files, r.Volumes)
		}
	}
	rows := publishedRows(t, out, got)
	checkPublishedLists(t, published(t, out), rows)
	checkPublishedTexts(t, globbed(t, segments+"/wet/*.warc.wet.gz"), got, pages)
	checkPublishedHosts(t, out, rows)
	checkPublishedMetadata(t, web, globbed(t, segments+"/wat/*.warc.wat.gz"), got, rows)

}

// TestPublishBounds: if one capture fills a file, each file has one, with its request and its metadata. Longer records
// than the indexes have are in no index, and counted.
func TestPublishBounds(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, args := cmdtest.SmallWeb(t, func(o *simweb.Options) { o.Pages = 150 })
	dir, _, _ := crawlIntoFour(t, web, args)
	out := t.TempDir() + "/public"
	const longest = 1500
	r, err := publish.Run(t.Context(), publish.Options{Dirs: []string{dir + "/d"}, Out: globbed(t, dir+"/o*"),
		Target: out, TempDir: out + ".tmp", FileBytes: 1, RecordBytes: longest, Name: "CC-MAIN-2018-05"})
	must(t, err)
	names := globbed(t, out+"/crawl-data/CC-MAIN-2018-05/segments/*/*/*.warc.gz")
	got := publishedRecords(t, names)
	samePublished(t, got, publishedRecords(t, globbed(t, dir+"/o*/warc/*.warc.gz")))
	long, without := int64(0), 0 // captures: longer than the bound, and without a request
	for _, name := range names {
		var captures, requests []string
		must(t, warc.Read(strings.NewReader(readFile(t, name)), 0, func(r *warc.Record) error {
			switch {
			case r.IsCapture():
				captures = append(captures, r.Get("WARC-Record-ID"))
				if r.Length > longest && strings.HasPrefix(r.Get("WARC-Target-URI"), "http") {
					long++
				}
			case r.Type() == "request":
				requests = append(requests, r.Get("WARC-Concurrent-To"))
			}
			return nil
		}))
		if len(requests) == 0 {
			without++
		}
		if len(captures) != 1 || len(requests) > 1 || len(requests) == 1 && requests[0] != captures[0] {
			t.Errorf("%s has captures %q and requests of %q", name, captures, requests)
		}
	}
	rows := publishedRows(t, out, got)
	for _, row := range rows {
		if row.Length > longest {
			t.Errorf("a record of %d bytes is in the table", row.Length)
		}
	}
	if long == 0 || r.Long != long || len(rows) < 50 || without == 0 || !strings.Contains(strings.Join(r.Notes, "\n"),
		fmt.Sprint(long, " records of more than 1.5 KiB: the indexes leave them out")) {
		t.Errorf("%d long records, %d without a request, %d rows: %+v", long, without, len(rows), r)
	}
}

// TestPublishMoved: what an interrupted run made of a WARC file that is moved away meanwhile is not published.
func TestPublishMoved(t *testing.T) {
	notShort(t)
	t.Parallel()
	_, dir, _, _ := crawlForTexts(t)
	out := t.TempDir() + "/public"
	opt := publish.Options{Dirs: []string{dir + "/d"}, Out: globbed(t, dir+"/o*"), Target: out, TempDir: out + ".tmp",
		NoTexts: true, Name: "CC-MAIN-2018-05"}
	opt.FS = memfs.NewFault(disk.OS(), func(op memfs.Op, name string) error {
		if op == memfs.OpCreate && strings.Contains(name, "cluster.idx") { // after all WARC files
			return syscall.EIO
		}
		return nil
	})
	if _, err := publish.Run(t.Context(), opt); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	opt.FS = nil
	names := globbed(t, dir+"/o*/warc/*.warc.gz")
	for _, name := range []string{names[0], strings.TrimSuffix(names[0], ".warc.gz") + ".cdxj"} {
		must(t, os.Rename(name, dir+"/"+filepath.Base(name)))
	}
	r, err := publish.Run(t.Context(), opt)
	must(t, err)
	if len(names) < 2 || r.Volumes != len(names)-1 || r.Replaced == "" {
		t.Errorf("%+v of %d WARC files", r, len(names))
	}
	got := publishedRecords(t, globbed(t, out+"/crawl-data/CC-MAIN-2018-05/segments/*/*/*.warc.gz"))
	samePublished(t, got, publishedRecords(t, names[1:]))
}

// BenchmarkPublish publishes a crawl of pages of 30 kB by one worker.
func BenchmarkPublish(b *testing.B) {
	web, args := cmdtest.SmallWeb(b, func(o *simweb.Options) { o.Pages, o.PageBytes = 3000, 30_000 })
	dir := b.TempDir() + "/d"
	args = append(args, "--seeds", cmdtest.SeedFile(b, web), "--dir="+dir)
	must(b, cmdtest.Child(b.Context(), args...).Run())
	for _, noTexts := range []bool{true, false} {
		b.Run(fmt.Sprintf("texts=%v", !noTexts), func(b *testing.B) {
			before := cputime.Process()
			read := int64(0)
			for b.Loop() {
				target := b.TempDir() + "/public"
				r, err := publish.Run(b.Context(), publish.Options{Dirs: []string{dir}, Target: target,
					TempDir: target + ".tmp", NoTexts: noTexts, RAMBytes: 64 << 20})
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(r.Read)
				read += r.Read
			}
			used := cputime.Process() - before
			b.ReportMetric(float64(read)/1e6/used.Seconds(), "MB/CPU-s")
		})
	}
}
