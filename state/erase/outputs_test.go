package erase_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/state/erase"
	"drumbeat/state/repair"
	"drumbeat/warc"
)

// addOutputs makes outputs of a crawl: a table and an index in directories of their own, and the texts that the crawl
// would extract.
func (w *world) addOutputs(t *testing.T) {
	must(t, w.fs.Mount("out"))
	r, m := w.open(t)
	defer func() { must(t, r.Unlock()) }()
	columns := []tabular.Column{{Name: "url", Type: tabular.String},
		{Name: "via", Type: tabular.String, Nullable: true},
		{Name: "warc_filename", Type: tabular.String}, {Name: "warc_record_offset", Type: tabular.Int64},
		{Name: "warc_record_length", Type: tabular.Int64}}
	tables := map[tabular.Format]*tabular.Writer{}
	for _, format := range []tabular.Format{tabular.Parquet, tabular.CSV, tabular.JSONL} {
		to, err := tabular.Create(tabular.Options{FS: w.fs, Dir: "out/" + string(format), Format: format,
			Columns: columns, Kind: "pages", Source: "x", PartBytes: 10_000})
		must(t, err)
		tables[format] = to
	}
	var lines [][]byte
	must(t, w.fs.MkdirAll("d0/texts"))
	st, err := state.Part[warc.State](m, state.NameWARC)
	must(t, err)
	last := ""
	must(t, warc.WalkIndexes(r.WARCFiles(), st, func(x *warc.Index) error {
		var texts bytes.Buffer
		part, err := tabular.NewStream(&texts, tabular.Options{Format: tabular.JSONL, Columns: columns})
		must(t, err)
		file := ""
		must(t, x.Lines(func(line []byte) error {
			one, err := x.Parse(line)
			must(t, err)
			lines, file = append(lines, bytes.Clone(line)), one.File
			row := []tabular.Value{tabular.Str(one.URL), tabular.StrOrNull(last), tabular.Str(one.File),
				tabular.Int(one.Offset), tabular.Int(one.Length)}
			last = one.URL
			must(t, part.Write(row))
			for _, to := range tables {
				must(t, to.Write(row))
			}
			return nil
		}))
		must(t, part.Close())
		about := map[string]any{"version": 1, "file": file, "file_bytes": 1, "part": x.Name + ".jsonl",
			"part_bytes": texts.Len(), "pages": 7}
		data, err := json.Marshal(about)
		must(t, err)
		must(t, disk.WriteFileAtomic(w.fs, "d0/texts/"+x.Name+".jsonl", texts.Bytes()))
		return disk.WriteFileAtomic(w.fs, "d0/texts/_"+x.Name+".json", data)
	}))
	must(t, disk.WriteFileAtomic(w.fs, "d0/texts/_extract.json", []byte(`{"version":1,"fields":[]}`)))
	for _, to := range tables {
		must(t, to.Close())
	}
	slices.SortFunc(lines, bytes.Compare)
	var blocks, idx bytes.Buffer
	to := warc.NewLineBlocks(&blocks, warc.ZipNumLine(&idx, "index.cdxj.gz"))
	for i, line := range lines {
		must(t, to.Add(line))
		if i%50 == 49 {
			must(t, to.Close())
		}
	}
	must(t, to.Close())
	must(t, errors.Join(w.fs.MkdirAll("out/index"), w.fs.SyncDir("out"), w.fs.SyncDir("."), w.fs.SyncDir("d0")))
	must(t, disk.WriteFileAtomic(w.fs, "out/index/index.cdxj.gz", blocks.Bytes()))
	must(t, disk.WriteFileAtomic(w.fs, "out/index/index.idx", idx.Bytes()))
	must(t, disk.WriteFileAtomic(w.fs, "out/index/index.loc", []byte("index.cdxj.gz\tindex.cdxj.gz\n")))
	must(t, disk.WriteFileAtomic(w.fs, "out/index/index.cdxj", bytes.Join(lines, nil)))
	must(t, disk.WriteFileAtomic(w.fs, "out/all.wacz", wacz(t, r.Out, lines)))
}

// wacz makes a WACZ of the final WARC files.
func wacz(t *testing.T, from disk.Set, lines [][]byte) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	var list []map[string]any
	add := func(name string, method uint16, data []byte) {
		to, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		must(t, err)
		_, err = to.Write(data)
		must(t, err)
		list = append(list, map[string]any{"path": name, "hash": fmt.Sprintf("sha256:%x", sha256.Sum256(data)),
			"bytes": len(data)})
	}
	in := map[string]bool{}
	for i := range from.Paths {
		files, err := repair.FilesIn(from.FS, from.Path(i, "warc"), false)
		must(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, ".warc.gz") {
				data, err := disk.ReadFile(from.FS, file)
				must(t, err)
				add("archive/"+path.Base(file), zip.Store, data)
				in[path.Base(file)] = true
			}
		}
	}
	var index, idx, pages bytes.Buffer
	to := warc.NewLineBlocks(&index, func(*warc.Block) error { return nil })
	pages.WriteString("{\"format\": \"json-pages-1.0\"}\n")
	for _, line := range lines {
		_, _, file, err := warc.EditLine(line, func(url string) bool {
			fmt.Fprintf(&pages, "{\"id\":\"p\",\"url\":%q}\n", url)
			return false
		})
		must(t, err)
		if in[file] {
			must(t, to.Add(line))
		}
	}
	must(t, to.Close())
	add("indexes/index.cdx.gz", zip.Store, index.Bytes())
	add("indexes/index.idx", zip.Deflate, idx.Bytes())
	add("pages/pages.jsonl", zip.Deflate, pages.Bytes())
	data, err := json.Marshal(map[string]any{"profile": "data-package", "resources": list})
	must(t, err)
	add("datapackage.json", zip.Deflate, data)
	add("datapackage-digest.json", zip.Deflate, []byte("{}"))
	must(t, z.Close())
	return b.Bytes()
}

// checkWACZ checks the hashes of a WACZ, and that each line of its index names a record in it, whose body it has.
func checkWACZ(t *testing.T, data []byte) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	must(t, err)
	members := map[string][]byte{}
	for _, m := range z.File {
		r, err := m.Open()
		must(t, err)
		members[m.Name], err = io.ReadAll(r)
		must(t, err)
	}
	var about struct {
		Resources []struct {
			Path, Hash string
			Bytes      int
		}
	}
	must(t, json.Unmarshal(members["datapackage.json"], &about))
	for _, r := range about.Resources {
		data := members[r.Path]
		if got := fmt.Sprintf("sha256:%x", sha256.Sum256(data)); got != r.Hash || len(data) != r.Bytes {
			t.Errorf("%s has %d bytes and the hash %s, want %d and %s", r.Path, len(data), got, r.Bytes, r.Hash)
		}
	}
	bodies, revisits := map[string]bool{}, map[string]string{}
	n := 0
	zip, err := gzip.NewReader(bytes.NewReader(members["indexes/index.cdx.gz"]))
	must(t, err)
	must(t, warc.ReadIndex(zip, func(x *warc.Indexed) error {
		n++
		file := members["archive/"+x.File]
		var r warc.RecordReader
		defer r.Close()
		rec, err := r.Open(bytes.NewReader(file), x.Offset+x.Length, x.Offset)
		if err != nil || rec.Get("WARC-Target-URI") != x.URL || (rec.Type() == "revisit") != x.IsRevisit() {
			t.Fatalf("%s is not at %d of %s: %v", x.URL, x.Offset, x.File, err)
		}
		if of := rec.Get("WARC-Refers-To-Target-URI"); x.IsRevisit() && of != "urn:drumbeat:erased" {
			revisits[x.Digest] = x.URL
		} else {
			bodies[x.Digest] = true
		}
		return nil
	}))
	for digest, url := range revisits {
		if !bodies[digest] {
			t.Errorf("the body of %s is not in the WACZ", url)
		}
	}
	if n == 0 {
		t.Error("a WACZ without an index")
	}
}

// checkOutputs reads all outputs: each row and line names a record that is there, and no target.
func (w *world) checkOutputs(t *testing.T, src erase.Source) {
	if len(w.also) == 0 {
		return
	}
	t.Helper()
	if rep := w.prove(t, src, "out", "d0/texts"); rep.Found > 0 {
		t.Errorf("outputs have %d leftovers: %+v", rep.Found, rep.Leftovers[0])
	}
	files, err := repair.FilesIn(w.fs, "out", true)
	must(t, err)
	more, err := repair.FilesIn(w.fs, "d0/texts", true)
	must(t, err)
	rows := map[string]int{}
	for _, file := range slices.Concat(files, more) {
		data, err := disk.ReadFile(w.fs, file)
		must(t, err)
		switch format := strings.TrimPrefix(path.Ext(file), "."); {
		case strings.HasSuffix(file, "tmp"):
			t.Errorf("%s is left", file)
		case format == "parquet" || format == "csv" || format == "jsonl":
			must(t, tabular.Filter(tabular.Format(format), bytes.NewReader(data), int64(len(data)), nil,
				func([]string) error { return nil }, func(cells []tabular.Cell) (bool, error) {
					rows[path.Dir(file)]++
					at, err := cells[3].Number()
					must(t, err)
					length, err := cells[4].Number()
					w.wantRecord(t, file, string(cells[2].Text), string(cells[0].Text), at, length)
					return true, err
				}))
		case format == "cdxj" || format == "gz":
			rows[file] = w.checkIndex(t, file, data)
		case format == "wacz":
			checkWACZ(t, data)
		case format == "idx":
			w.checkSummary(t, file, string(data))
		}
	}
	want := rows["d0/texts"]
	for name, n := range rows {
		if n != want || n == 0 {
			t.Errorf("%s has %d rows, d0/texts has %d", name, n, want)
		}
	}
}

func (w *world) checkIndex(t *testing.T, file string, data []byte) (n int) {
	r := io.Reader(bytes.NewReader(data))
	if strings.HasSuffix(file, ".gz") {
		z, err := gzip.NewReader(r)
		must(t, err)
		r = z
	}
	must(t, warc.ReadIndex(r, func(x *warc.Indexed) error {
		n++
		w.wantRecord(t, file, x.File, x.URL, x.Offset, x.Length)
		return nil
	}))
	return n
}

// checkSummary compares a summary with the blocks.
func (w *world) checkSummary(t *testing.T, file, text string) {
	blocks, err := disk.ReadFile(w.fs, path.Dir(file)+"/index.cdxj.gz")
	must(t, err)
	end := 0
	for line := range strings.Lines(text) {
		var key, stamp, name string
		var start, length, number int
		_, err := fmt.Sscan(line, &key, &stamp, &name, &start, &length, &number)
		must(t, err)
		if start != end || start+length > len(blocks) {
			t.Fatalf("%s: a block at %d of %d bytes follows %d, of %d", file, start, length, end, len(blocks))
		}
		end = start + length
		z, err := gzip.NewReader(bytes.NewReader(blocks[start:end]))
		must(t, err)
		first := make([]byte, len(key)+1+len(stamp))
		_, err = io.ReadFull(z, first)
		if must(t, err); string(first) != key+" "+stamp {
			t.Errorf("%s: the block at %d begins with %q", file, start, first)
		}
	}
	if end != len(blocks) {
		t.Errorf("%s: blocks of %d bytes, the file has %d", file, end, len(blocks))
	}
}

// wantRecord checks that a record is where a row says.
func (w *world) wantRecord(t *testing.T, where, file, url string, at, length int64) {
	t.Helper()
	f := w.warcFile(file)
	if f == nil {
		t.Errorf("%s: there is no %s", where, file)
		return
	}
	var r warc.RecordReader
	defer r.Close()
	rec, err := r.Open(io.NewSectionReader(f, 0, at+length), at+length, at)
	if err != nil || rec.Get("WARC-Target-URI") != url {
		t.Errorf("%s: %s is not at %d of %s: %v", where, url, at, file, err)
	} else if _, err := io.Copy(io.Discard, &r); err != nil {
		t.Errorf("%s: the record at %d of %s has not %d bytes: %v", where, at, file, length, err)
	}
}

// warcFile returns a WARC file, which is here or in the object store; nil if it is not there.
func (w *world) warcFile(name string) io.ReaderAt {
	for _, suffix := range []string{"", ".open"} {
		for _, dir := range w.opt.Disk.Dirs {
			if data, err := disk.ReadFile(w.fs, dir+"/warc/"+name+suffix); err == nil {
				return bytes.NewReader(data)
			}
		}
	}
	if b := w.bucket(); b != nil {
		for key, data := range b.Objects() {
			if path.Base(key) == name {
				return bytes.NewReader(data)
			}
		}
	}
	return nil
}

// TestOutputs: rows and lines of targets go from outputs of each format, and the others follow their records.
func TestOutputs(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		for _, make := range []func(t *testing.T) *world{stopped, mirrored} {
			w := make(t)
			w.addOutputs(t)
			for range 2 {
				before := w.read(t)
				src, gone := before.source()
				w.checkOutputs(t, erase.Source{URLs: []string{"http://unknown.test/"}})
				opt := w.options(src())
				opt.Also = []string{"out"}
				rep, err := erase.Run(opt)
				must(t, err)
				if c := rep.Record.Erased; c.Outputs < 5 || c.Rows < c.Outputs {
					t.Errorf("%+v", c)
				}
				w.check(t, before, gone)
				w.checkOutputs(t, src())
			}
		}
	})
}

// TestOutputsEmpty: all rows and lines of outputs go. A run that was killed after that ends, and so does another one.
func TestOutputsEmpty(t *testing.T) {
	testworld.NotShort(t)
	testworld.InBubble(t, func(t *testing.T) {
		w := mirrored(t)
		w.addOutputs(t)
		w.also = []string{"out"}
		hosts := w.read(t).hosts()
		src := func() erase.Source { return erase.Source{Hosts: hosts} }
		whole := w.fork(1)
		was := whole.fs.Ops()
		_, err := erase.Run(whole.options(src()))
		must(t, err)
		ops := whole.fs.Ops() - was
		if size, err := whole.fs.Size("out/index/index.cdxj.gz"); err != nil || size > 0 {
			t.Errorf("the index has %d bytes: %v", size, err)
		}
		for cut := 1; cut < ops; cut += testworld.LongOr(1, 13) {
			one := w.fork(uint64(cut))
			one.fs.CrashAfter(cut)
			if _, err := erase.Run(one.options(src())); !errors.Is(err, disk.ErrCrashed) {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			one.fs = one.fs.Kill()
			if _, err := erase.Run(one.options(src())); err != nil {
				t.Fatalf("after the cut at %d: %v", cut, err)
			}
			if rep := one.prove(t, src(), "out", "d0/texts"); rep.Found > 0 {
				t.Fatalf("cut at %d: %+v", cut, rep.Leftovers[0])
			}
		}
		_, err = erase.Run(whole.options(erase.Source{URLs: []string{"http://unknown.test/"}}))
		must(t, err)
	})
}

// TestOutputsDurable: a run is killed between the renaming of an output, on a disk of its own, and the sync of its
// directory. The next run makes that durable before it ends.
func TestOutputsDurable(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := mirrored(t)
		w.addOutputs(t)
		w.also = []string{"out"}
		src, _ := w.read(t).source()
		opt := w.options(src())
		opt.FS = memfs.NewFault(w.fs, func(op memfs.Op, name string) error {
			if op == memfs.OpSyncDir && name == "out/csv" {
				return disk.ErrCrashed
			}
			return nil
		})
		if _, err := erase.Run(opt); !errors.Is(err, disk.ErrCrashed) {
			t.Fatal(err)
		}
		w.fs = w.fs.Kill()
		_, err := erase.Run(w.options(src()))
		must(t, err)
		for seed := range uint64(10) {
			one := w.fork(seed)
			one.fs = one.fs.Crash()
			if one.checkOutputs(t, src()); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	})
}

// otherZip returns a ZIP file that is no WACZ.
func otherZip(t *testing.T) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	_, err := z.Create("a.txt")
	must(t, errors.Join(err, z.Close()))
	return b.String()
}

// TestOutputsRefused: a file that no erasure can change stops it before anything is changed.
func TestOutputsRefused(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := mirrored(t)
		host := w.read(t).hosts()[0]
		must(t, w.fs.MkdirAll("out"))
		for name, data := range map[string]string{"text": "http://" + host + "/", "zip": "PK\x03\x04abc",
			"x.wacz": otherZip(t),
			"gzip":   "\x1f\x8babc", "cdx": " CDX N b a m s k r M S V g\n", "half.parquet": "PAR1abc",
			"o.csv": "a,b\n1,2\n", "j.jsonl": "{\"a\":1}\n",
			"half.jsonl": "{\"url\":\"http", "l.idx": "a 20260101000000\tf.gz\t0\t1\t1\n"} {
			must(t, disk.WriteFileAtomic(w.fs, "out/"+name, []byte(data)))
			opt := w.options(erase.Source{Hosts: []string{host}})
			opt.Also = []string{"out"}
			var refused *erase.RequestError
			if _, err := erase.Run(opt); !errors.As(err, &refused) || !strings.Contains(err.Error(),
				"cannot erase from out/"+name+": ") {
				t.Errorf("%s: %v", name, err)
			}
			must(t, w.fs.Remove("out/"+name))
		}
		for _, name := range []string{"nowhere", "d0", "d0/warc"} {
			opt := w.options(erase.Source{Hosts: []string{host}})
			opt.Also = []string{name}
			if _, err := erase.Run(opt); err == nil {
				t.Errorf("--also %s: no error", name)
			}
		}
		if all, err := erase.Records(disk.Set{FS: w.fs, Paths: w.opt.Disk.Dirs}); err != nil || len(all) > 0 {
			t.Errorf("%d records, %v", len(all), err)
		}
	})
}
