package cmd

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
	"drumbeat/state/publish"
	"drumbeat/warc"
)

// published returns the files below a directory by their paths in it.
func published(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[strings.TrimPrefix(path, dir+"/")] = readFile(t, path)
		}
		return err
	}))
	return files
}

// publishedRecord is a record of a published file.
type publishedRecord struct{ subset, kind, url, id, block, head string }

// publishedRecords returns the records of WARC files but warcinfo and conversions, by their ids.
func publishedRecords(t *testing.T, names []string) map[string]publishedRecord {
	t.Helper()
	records := map[string]publishedRecord{}
	for _, name := range names {
		n := 0
		must(t, warc.ReadFile(disk.OS(), name, 4<<20, func(r *warc.Record) error {
			if n++; n == 1 && (r.Type() != "warcinfo" || r.Get("WARC-Filename") != filepath.Base(name)) {
				t.Errorf("%s begins with %+v", name, r.Fields)
			}
			if r.Type() == "warcinfo" || r.Type() == "conversion" {
				return nil
			}
			id := r.Get("WARC-Record-ID")
			if records[id].id != "" {
				t.Errorf("%s: %s is there twice", name, id)
			}
			records[id] = publishedRecord{filepath.Base(filepath.Dir(name)), r.Type(), r.Get("WARC-Target-URI"), id,
				string(r.Block), fmt.Sprint(r.Fields)}
			return nil
		}))
	}
	return records
}

// samePublished checks that records are those of the crawl, and counts them by subset and type.
func samePublished(t *testing.T, got, want map[string]publishedRecord) map[string]int {
	t.Helper()
	subsets := map[string]int{}
	for id, r := range want {
		p := got[id]
		if r.subset = p.subset; p != r {
			t.Errorf("%+v, want %+v", p, r)
		}
		subsets[p.subset+" "+p.kind]++
	}
	if len(got) != len(want) {
		t.Errorf("%d records, want %d", len(got), len(want))
	}
	return subsets
}

// TestPublish: the records of all subsets are those of the crawl, each in its subset; the table has the pages of the
// web with their statuses, and its places lead to the records; the index has the same lines; checksums and lists are
// those of the files; the crawl is untouched.
func TestPublish(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, args := cmdtest.SmallWeb(t, func(o *simweb.Options) { o.Page.NonHTML, o.Page.Copies = 0.3, 0.8 })
	dir, at, pages := crawlIntoFour(t, web, args)
	before := listing(t, dir)
	out := t.TempDir() + "/public"
	printed, said := wantExit(t, term.ExitDone, "",
		append([]string{"publish", "-o", out, "--name=CC-MAIN-2018-05"}, at...)...)
	if !strings.HasPrefix(printed, "CC-MAIN-2018-05: 4 WARC files (0 kept), ") {
		t.Errorf("printed %q", printed)
	}
	if after := listing(t, dir); after != before {
		t.Error("publish changed the crawl")
	}
	if left := globbed(t, out+".*"); len(left) > 0 {
		t.Errorf("left %q", left)
	}

	want := publishedRecords(t, globbed(t, dir+"/o*/warc/*.warc.gz"))
	segments := out + "/crawl-data/CC-MAIN-2018-05/segments/*"
	got := publishedRecords(t, globbed(t, segments+"/*/*.warc.gz"))
	subsets := samePublished(t, got, want)
	others := subsets["crawldiagnostics response"] + subsets["crawldiagnostics revisit"] +
		subsets["crawldiagnostics resource"]
	if subsets["warc response"] == 0 || subsets["robotstxt response"] == 0 ||
		subsets["crawldiagnostics response"] == 0 || subsets["crawldiagnostics revisit"] == 0 ||
		subsets["warc revisit"] > 0 || subsets["warc metadata"] != subsets["warc response"] ||
		!strings.Contains(said, fmt.Sprint(", ", others, " other responses, revisits and DNS answers")) {
		t.Errorf("%d records: %v; said %q", len(got), subsets, said)
	}
	files := published(t, out)
	rows := publishedRows(t, out, got)
	fetched := map[string]bool{}
	for url, r := range rows {
		if r.subset == "robotstxt" {
			continue
		}
		fetched[url] = true
		page, _ := web.Page(url)
		if ok := r.subset == "warc" || r.MIME == "warc/revisit"; int(r.Status) != page.Status ||
			ok != (page.Status == 200) {
			t.Errorf("%s has status %d in %s, want %d", url, r.Status, r.subset, page.Status)
		}
		if pages[url] && r.subset == "warc" &&
			(r.Detected != "text/html" || r.Charset != "UTF-8" || r.Languages == "") {
			t.Errorf("%+v", r)
		}
	}
	differ(t, "rows", fetched, setOf(web.Expected("drumbeat").FetchedURLs()))
	checkPublishedLists(t, files, rows)
	checkPublishedTexts(t, globbed(t, segments+"/wet/*.warc.wet.gz"), got, pages)
	checkPublishedHosts(t, out, rows)
	checkPublishedMetadata(t, web, globbed(t, segments+"/wat/*.warc.wat.gz"), got, rows)

	plain := t.TempDir() + "/plain"
	wantExit(t, term.ExitDone, "", append([]string{"publish", "-o", plain, "--no-texts"}, at...)...)
	if texts := globbed(t, plain+"/crawl-data/DRUMBEAT-*/segments/*/w[ae]t"); len(texts) > 0 {
		t.Errorf("--no-texts made %q", texts)
	}
}

// publishedRow has some columns of the table.
type publishedRow struct {
	URL       string `parquet:"url"`
	Surt      string `parquet:"url_surtkey"`
	Host      string `parquet:"url_host_name"`
	Reversed  string `parquet:"url_host_name_reversed,optional"`
	Domain    string `parquet:"url_host_registered_domain,optional"`
	TLD       string `parquet:"url_host_tld,optional"`
	Path      string `parquet:"url_path"`
	Status    int16  `parquet:"fetch_status"`
	MIME      string `parquet:"content_mime_type,optional"`
	Detected  string `parquet:"content_mime_detected,optional"`
	Charset   string `parquet:"content_charset,optional"`
	Languages string `parquet:"content_languages,optional"`
	ID        []byte `parquet:"warc_record_id"`
	File      string `parquet:"warc_filename"`
	Offset    int32  `parquet:"warc_record_offset"`
	Length    int32  `parquet:"warc_record_length"`
	Segment   string `parquet:"warc_segment"`

	subset string
}

// publishedRows returns the rows of the table by URL. Each leads to its record, and those of a file are in order.
func publishedRows(t *testing.T, out string, records map[string]publishedRecord) map[string]publishedRow {
	t.Helper()
	rows := map[string]publishedRow{}
	for _, name := range globbed(t, out+"/cc-index/table/cc-main/warc/crawl=*/subset=*/*.parquet") {
		list, err := parquet.ReadFile[publishedRow](name)
		must(t, err)
		for i, r := range list {
			if i > 0 && r.Surt < list[i-1].Surt {
				t.Errorf("%s: %s follows %s", name, r.Surt, list[i-1].Surt)
			}
			r.subset = strings.TrimPrefix(filepath.Base(filepath.Dir(name)), "subset=")
			data := readFile(t, out+"/"+r.File)[r.Offset:][:r.Length]
			n := 0
			must(t, warc.Read(strings.NewReader(data), 1, func(rec *warc.Record) error {
				n++
				id := hex.EncodeToString(r.ID)
				full := strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
				full = "<urn:uuid:" + full + ">"
				if rec.Get("WARC-Target-URI") != r.URL || rec.Get("WARC-Record-ID") != full ||
					records[full].subset != r.subset || !strings.Contains(r.File, "/"+r.Segment+"/"+r.subset+"/") {
					t.Errorf("%+v leads to %v", r, rec.Fields)
				}
				return nil
			}))
			labels := strings.Split(r.Host, ".")
			slices.Reverse(labels)
			if n != 1 || rows[r.URL].URL != "" || r.Reversed != strings.Join(labels, ".") || r.TLD != labels[0] ||
				!strings.HasSuffix(r.Host, r.Domain) || !strings.Contains(r.URL, r.Host) || r.Path == "" {
				t.Errorf("%d records of %+v, and %+v", n, r, rows[r.URL])
			}
			rows[r.URL] = r
		}
	}
	return rows
}

// checkPublishedLists checks checksums, the lists of paths and the index.
func checkPublishedLists(t *testing.T, files map[string]string, rows map[string]publishedRow) {
	t.Helper()
	const base = "crawl-data/CC-MAIN-2018-05/"
	sums, listed := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(files[base+"SHA256SUMS"]) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if got := sha256.Sum256([]byte(files[name])); hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s has another checksum", name)
		}
		sums[name] = true
	}
	sums[base+"SHA256SUMS"] = true
	differ(t, "checksums", sums, setOf(maps.Keys(files)))
	unpack := func(data string) string {
		z, err := gzip.NewReader(strings.NewReader(data))
		must(t, err)
		text, err := io.ReadAll(z)
		must(t, err)
		return string(text)
	}
	for _, list := range []string{"warc", "wet", "wat", "robotstxt", "non200responses", "cc-index", "cc-index-table",
		"host-index"} {
		for line := range strings.Lines(unpack(files[base+list+".paths.gz"])) {
			listed[strings.TrimSuffix(line, "\n")] = true
		}
	}
	for name := range files {
		own := strings.HasPrefix(name, base) && strings.Count(name, "/") == 2
		if own == listed[name] {
			t.Errorf("%s is in a list: %v", name, listed[name])
		}
	}
	if segment := unpack(files[base+"segment.paths.gz"]); strings.Count(segment, "\n") != 1 ||
		!strings.HasPrefix(segment, base+"segments/") {
		t.Errorf("segments %q", segment)
	}
	indexes, lines, last := "cc-index/collections/CC-MAIN-2018-05/indexes/", 0, ""
	for line := range strings.Lines(files[indexes+"cluster.idx"]) {
		var name, key string
		var offset, length, number int
		fields := strings.Split(line, "\t")
		key, name = fields[0], fields[1]
		_, err := fmt.Sscan(strings.Join(fields[2:], " "), &offset, &length, &number)
		must(t, err)
		text := unpack(files[indexes+name][offset:][:length])
		if !strings.HasPrefix(text, key) {
			t.Errorf("%s begins with %.80s", line, text)
		}
		for line := range strings.Lines(text) {
			var c struct{ URL, Status, Filename, Offset, Length string }
			head := warc.LineKey([]byte(line))
			unmarshal(t, []byte(line)[len(head):], &c)
			r := rows[c.URL]
			if lines++; line < last || c.Filename != r.File || c.Offset != fmt.Sprint(r.Offset) ||
				c.Length != fmt.Sprint(r.Length) || c.Status != fmt.Sprint(r.Status) ||
				!strings.HasPrefix(line, r.Surt+" ") {
				t.Errorf("%s, want %+v", line, r)
			}
			last = line
		}
	}
	if lines != len(rows) {
		t.Errorf("%d lines, want %d", lines, len(rows))
	}
}

// checkPublishedTexts: each page that is stored with its body has a text.
func checkPublishedTexts(t *testing.T, names []string, records map[string]publishedRecord, pages map[string]bool) {
	t.Helper()
	got, want := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		must(t, warc.ReadFile(disk.OS(), name, 1<<20, func(r *warc.Record) error {
			if url := r.Get("WARC-Target-URI"); r.Type() == "conversion" {
				if of := records[r.Get("WARC-Refers-To")]; of.url != url || of.subset != "warc" || len(r.Block) == 0 {
					t.Errorf("%v refers to %+v", r.Fields, of)
				}
				got[url] = true
			}
			return nil
		}))
	}
	for _, r := range records {
		if r.subset == "warc" && r.kind == "response" && pages[r.url] {
			want[r.url] = true
		}
	}
	differ(t, "texts", got, want)
}

// publishedHost is a row of the host index.
type publishedHost struct {
	Surt      string `parquet:"surt_host_name"`
	Host      string `parquet:"url_host_name"`
	Domain    string `parquet:"url_host_registered_domain,optional"`
	F200      int32  `parquet:"fetch_200"`
	F4xx      int32  `parquet:"fetch_4xx"`
	F5xx      int32  `parquet:"fetch_5xx"`
	FGone     int32  `parquet:"fetch_gone"`
	FPerm     int32  `parquet:"fetch_redirPerm"`
	FTemp     int32  `parquet:"fetch_redirTemp"`
	R200      int32  `parquet:"robots_200"`
	R4xx      int32  `parquet:"robots_4xx"`
	R5xx      int32  `parquet:"robots_5xx"`
	RGone     int32  `parquet:"robots_gone"`
	RPerm     int32  `parquet:"robots_redirPerm"`
	RTemp     int32  `parquet:"robots_redirTemp"`
	Lote      int32  `parquet:"fetch_200_lote"`
	Top       string `parquet:"content_language_top,optional"`
	TopShare  int32  `parquet:"content_language_top_pct,optional"`
	Length    int32  `parquet:"warc_record_length_av,optional"`
	Median    int32  `parquet:"warc_record_length_median,optional"`
	Bytes     int64  `parquet:"warc_record_length_sum"`
	Millis    *int32 `parquet:"fetch_time_ms_av,optional"`
	MedMillis *int32 `parquet:"fetch_time_ms_median,optional"`
}

// checkPublishedHosts: the host index has a row for each host of the table, with its counts.
func checkPublishedHosts(t *testing.T, out string, rows map[string]publishedRow) {
	t.Helper()
	want := map[string]*publishedHost{}
	lengths, spoken := map[string][]int32{}, map[string]int32{}
	for _, r := range rows {
		h := want[r.Host]
		if h == nil {
			h = &publishedHost{Host: r.Host, Domain: r.Domain, Surt: strings.ReplaceAll(r.Reversed, ".", ",")}
			want[r.Host] = h
		}
		of := map[int16][2]*int32{200: {&h.F200, &h.R200}, 404: {&h.FGone, &h.RGone}, 403: {&h.F4xx, &h.R4xx},
			500: {&h.F5xx, &h.R5xx}, 503: {&h.F5xx, &h.R5xx}, 301: {&h.FPerm, &h.RPerm}, 308: {&h.FPerm, &h.RPerm},
			302: {&h.FTemp, &h.RTemp}, 303: {&h.FTemp, &h.RTemp}, 307: {&h.FTemp, &h.RTemp}}[r.Status]
		kind := 0
		if r.subset == "robotstxt" {
			kind = 1
		}
		*of[kind]++
		h.Bytes += int64(r.Length)
		if r.subset == "warc" {
			lengths[r.Host] = append(lengths[r.Host], r.Length)
		}
		if r.Languages != "" {
			spoken[r.Host]++
			if h.Top = r.Languages; r.Languages != "eng" {
				t.Fatalf("%s has the language %s", r.URL, r.Languages) // the test counts English alone
			}
			h.TopShare = 100
		}
	}
	last, timed := "", 0
	for _, name := range globbed(t, out+"/host-index/crawl=*/*.parquet") {
		list, err := parquet.ReadFile[publishedHost](name)
		must(t, err)
		for _, got := range list {
			w := want[got.Host]
			if w == nil || got.Surt <= last {
				t.Fatalf("%+v after %s", got, last)
			}
			last = got.Surt
			delete(want, got.Host)
			if list := lengths[got.Host]; len(list) > 0 {
				slices.Sort(list)
				sum := int64(0)
				for _, n := range list {
					sum += int64(n)
				}
				w.Length, w.Median = int32(sum/int64(len(list))), list[len(list)/2]
			}
			if got.Millis != nil && *got.Millis >= 0 && got.MedMillis != nil && *got.MedMillis >= 0 {
				timed++
			}
			w.Millis, w.MedMillis = got.Millis, got.MedMillis
			if got != *w {
				t.Errorf("%+v, want %+v", got, *w)
			}
		}
	}
	if len(want) > 0 || timed == 0 {
		t.Errorf("%d hosts are missing; %d have a latency", len(want), timed)
	}
}

// publishedWAT is the JSON of a WAT record.
type publishedWAT struct {
	Container struct{ Filename, Offset string }
	Envelope  struct {
		Header  map[string]any `json:"WARC-Header-Metadata"`
		Payload struct {
			Response struct {
				Message struct{ Version, Status, Reason string } `json:"Response-Message"`
				Headers map[string]any
				Page    *struct {
					Head  struct{ Title string }
					Links []struct{ Path, URL string }
				} `json:"HTML-Metadata"`
			} `json:"HTTP-Response-Metadata"`
		} `json:"Payload-Metadata"`
	}
}

// checkPublishedMetadata: WAT has each response of the subset warc: its place, the fields of its record and head, and
// the links of its page as an HTML parser finds them.
func checkPublishedMetadata(t *testing.T, web *simweb.Web, names []string, records map[string]publishedRecord,
	rows map[string]publishedRow) {
	t.Helper()
	got, want, links := map[string]bool{}, map[string]bool{}, 0
	for _, name := range names {
		must(t, warc.ReadFile(disk.OS(), name, 4<<20, func(r *warc.Record) error {
			if r.Type() != "metadata" {
				return nil
			}
			url, of := r.Get("WARC-Target-URI"), records[r.Get("WARC-Refers-To")]
			got[url] = true
			var w publishedWAT
			unmarshal(t, r.Block, &w)
			e, row := &w.Envelope, rows[url]
			resp := &e.Payload.Response
			if of.url != url || of.subset != "warc" || r.Get("Content-Type") != "application/json" ||
				e.Header["WARC-Record-ID"] != of.id || e.Header["WARC-Target-URI"] != url ||
				w.Container.Filename != filepath.Base(row.File) || w.Container.Offset != fmt.Sprint(row.Offset) ||
				resp.Message.Status != "200" || resp.Headers["Server"] != "simweb" ||
				(resp.Page != nil) != (row.Detected == "text/html") {
				t.Errorf("%.2000s of %+v", r.Block, row)
			}
			if resp.Page == nil {
				return nil
			}
			page, _ := web.Page(url)
			doc, err := html.Parse(bytes.NewReader(page.Body))
			must(t, err)
			hrefs, found := map[string]bool{}, map[string]bool{}
			for n := range doc.Descendants() {
				for _, a := range n.Attr {
					if n.DataAtom == atom.A && a.Key == "href" && strings.TrimSpace(a.Val) != "" {
						hrefs[strings.TrimSpace(a.Val)] = true
					}
				}
			}
			for _, l := range resp.Page.Links {
				if l.Path == "A@/href" {
					found[l.URL] = true
				}
			}
			links += len(found)
			differ(t, "links of "+url, found, hrefs)
			if resp.Page.Head.Title == "" {
				t.Errorf("%s has no title", url)
			}
			return nil
		}))
	}
	for _, r := range records {
		if r.subset == "warc" && r.kind == "response" {
			want[r.url] = true
		}
	}
	if differ(t, "metadata", got, want); links < 1000 {
		t.Errorf("%d links", links)
	}
}

// TestPublishResumes: a process that ends at any operation leaves no output, and the next one continues: the
// output is the same, byte by byte.
func TestPublishResumes(t *testing.T) {
	notShort(t)
	t.Parallel()
	_, dir, _, _ := crawlForTexts(t)
	run := func(target string, fsys disk.FS) (*publish.Report, error) {
		return publish.Run(t.Context(), publish.Options{FS: fsys, Dirs: []string{dir + "/d"},
			Out: globbed(t, dir+"/o*"), Target: target, TempDir: target + ".tmp", RAMBytes: 64 << 20})
	}
	first := t.TempDir() + "/public"
	_, err := run(first, disk.OS())
	must(t, err)
	want := published(t, first)
	kept, target := 0, ""
	for fail := int64(1); ; fail += 1 + fail/4 {
		target = t.TempDir() + "/public"
		var n atomic.Int64
		_, err := run(target, memfs.NewFault(disk.OS(), func(op memfs.Op, name string) error {
			if strings.HasPrefix(name, target) && op != memfs.OpClose && n.Add(1) >= fail {
				return syscall.EIO // from then on, so nothing is tidied up
			}
			return nil
		}))
		if n.Load() < fail {
			must(t, err)
			break
		}
		if err == nil {
			t.Fatalf("no error after %d operations", fail)
		}
		if _, err := os.Stat(target); err == nil {
			continue // the last operations come after the rename
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		// Half of a file, as after kill -9.
		for _, name := range globbed(t, target+".tmp/tree/crawl-data/*/segments/*/warc/.*.tmp") {
			must(t, os.WriteFile(name, []byte("half"), 0o600))
		}
		r, err := run(target, disk.OS())
		must(t, err)
		kept = max(kept, r.Kept)
		if got := published(t, target); !maps.Equal(got, want) {
			t.Fatalf("after %d operations: %d files, want %d, or they differ", fail, len(got), len(want))
		}
		if left := globbed(t, target+".*"); len(left) > 0 {
			t.Errorf("left %q", left)
		}
	}
	if kept < 3 {
		t.Errorf("%d WARC files were kept at most", kept)
	}
}

// TestPublishFaults: bad flags, directories and files are said clearly; nothing is published, and the crawl is
// untouched.
func TestPublishFaults(t *testing.T) {
	notShort(t)
	t.Parallel()
	_, dir, at, _ := crawlForTexts(t)
	out := t.TempDir() + "/public"
	fails := func(code int, want string, args ...string) {
		t.Helper()
		args = append([]string{"publish"}, args...)
		if _, said := wantExit(t, code, "", args...); !strings.Contains(said, want) {
			t.Errorf("%q says %q, want %q", args, said, want)
		}
		if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q made %s: %v", args, out, err)
		}
	}
	with := func(args ...string) []string { return append(at[:len(at):len(at)], args...) }
	fails(term.ExitUsage, "--name", with("-o", out, "--name=../x")...)
	fails(term.ExitUsage, "at least 64 MiB", with("-o", out, "--ram=1MiB")...)
	fails(term.ExitDirectory, "holds no crawl", "--dir="+t.TempDir(), "-o", out)
	fails(term.ExitDirectory, "a directory of the crawl", with("-o", dir+"/d/public")...)
	fails(term.ExitDirectory, "it exists", with("-o", t.TempDir())...)

	before := published(t, dir)
	file := globbed(t, dir+"/o*/warc/*.warc.gz")[1]
	data := []byte(before[strings.TrimPrefix(file, dir+"/")])
	for _, at := range []int{len(data) / 3, len(data) / 2, len(data) - 5} {
		bad := bytes.Clone(data)
		bad[at] ^= 0x10
		must(t, os.WriteFile(file, bad, 0o600))
		fails(term.ExitDamage, filepath.Base(file), with("-o", out)...)
	}
	must(t, os.WriteFile(file, data[:len(data)-100], 0o600))
	fails(term.ExitDamage, filepath.Base(file), with("-o", out)...)
	must(t, os.WriteFile(file, data, 0o600))
	if after := published(t, dir); !maps.Equal(after, before) {
		t.Error("publish changed the crawl")
	}
	back := movedAway(t, strings.TrimSuffix(file, ".warc.gz")+".cdxj")
	fails(term.ExitFailure, "without an index", with("-o", out)...)
	back()

	must(t, os.RemoveAll(out+".tmp"))
	must(t, os.MkdirAll(out+".tmp", 0o700))
	must(t, os.WriteFile(out+".tmp/mine", nil, 0o600))
	fails(term.ExitDirectory, "holds something else", with("-o", out)...)
	must(t, os.RemoveAll(out+".tmp"))
}
