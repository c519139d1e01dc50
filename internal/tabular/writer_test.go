package tabular

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

var seed = flag.Uint64("seed", 0, "seed of random tests; 0: a new one")

func random(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-seed %d", s)
	return rand.New(rand.NewPCG(s, 1))
}

var columns = []Column{
	{Name: "url", Type: String},
	{Name: "mime", Type: String, Nullable: true, Few: true},
	{Name: "bytes", Type: Int64},
	{Name: "depth", Type: Int64, Nullable: true},
	{Name: "rank", Type: Float64, Nullable: true},
	{Name: "page", Type: Bool, Nullable: true},
	{Name: "at", Type: Time},
	{Name: "expires", Type: Time, Nullable: true},
}

// makeRows makes n rows, with nulls in nullable columns and text that needs quotes.
func makeRows(r *rand.Rand, n int) (rows [][]Value) {
	texts := []string{"", "a", "https://a.example/ä?q=\"1\",2", "two\nlines\r\n", " space", "tab\t\x01", "\\", "null"}
	for i := range n {
		or := func(v Value) Value {
			if r.IntN(3) == 0 {
				return Null
			}
			return v
		}
		at := time.UnixMilli(r.Int64N(4e12) - 1e12)
		rows = append(rows, []Value{
			Str(fmt.Sprint(i, texts[r.IntN(len(texts))], strings.Repeat("x", r.IntN(50)))), or(Str(texts[r.IntN(len(texts))])),
			Int(r.Int64() - r.Int64()), or(Int(int64(i))), or(Float(r.NormFloat64())), or(Truth(r.IntN(2) == 0)), At(at), or(At(at))})
	}
	return rows
}

// text is a value as all readers below return it.
func text(v Value) string {
	if v.kind == String {
		return "s:" + string(v.text)
	}
	if v.IsNull() {
		return "null"
	}
	return string(appendScalar(nil, v))
}

// parquetRows reads a file of Parquet by the schema in it, and checks its columns.
func parquetRows(t *testing.T, data []byte) (rows [][]string) {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for i, field := range f.Schema().Fields() {
		c := columns[i]
		if field.Name() != c.Name || field.Optional() != c.Nullable {
			t.Fatalf("column %d is %s, want %v", i, field, c)
		}
		want := map[Type]string{String: "STRING", Int64: "INT(64,true)", Float64: "DOUBLE", Bool: "BOOLEAN",
			Time: "TIMESTAMP(isAdjustedToUTC=true,unit=MILLIS)"}[c.Type]
		if got := field.Type().String(); got != want {
			t.Errorf("%s is %s, want %s", c.Name, got, want)
		}
	}
	for _, group := range f.RowGroups() {
		reader := group.Rows()
		buf := make([]parquet.Row, 100)
		for {
			n, err := reader.ReadRows(buf)
			for _, row := range buf[:n] {
				var out []string
				for i, v := range row {
					switch c := columns[i]; {
					case v.IsNull():
						out = append(out, "null")
					case c.Type == String:
						out = append(out, "s:"+string(v.ByteArray()))
					case c.Type == Time:
						out = append(out, text(At(time.UnixMilli(v.Int64()))))
					case c.Type == Int64:
						out = append(out, text(Int(v.Int64())))
					case c.Type == Float64:
						out = append(out, text(Float(v.Double())))
					case c.Type == Bool:
						out = append(out, text(Truth(v.Boolean())))
					}
				}
				rows = append(rows, out)
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		reader.Close()
	}
	return rows
}

// csvRows reads CSV. encoding/csv cannot tell null from empty text, and drops CR before LF.
func csvRows(t *testing.T, data []byte) (rows [][]string) {
	t.Helper()
	list, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range columns {
		if list[0][i] != c.Name {
			t.Fatalf("header %q", list[0])
		}
	}
	return list[1:]
}

func jsonRows(t *testing.T, data []byte) (rows [][]string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	for d.More() {
		var m map[string]any
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
		if len(m) != len(columns) {
			t.Fatalf("%d fields in %v", len(m), m)
		}
		var row []string
		for _, c := range columns {
			switch v := m[c.Name].(type) {
			case nil:
				row = append(row, "null")
			case json.Number:
				row = append(row, v.String())
			case bool:
				row = append(row, strconv.FormatBool(v))
			case string:
				if c.Type == String {
					v = "s:" + v
				}
				row = append(row, v)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func readRows(t *testing.T, format Format, data []byte) [][]string {
	t.Helper()
	switch format {
	case CSV:
		return csvRows(t, data)
	case JSONL:
		return jsonRows(t, data)
	}
	return parquetRows(t, data)
}

func wantRows(format Format, rows [][]Value) (want [][]string) {
	for _, row := range rows {
		var out []string
		for _, v := range row {
			s := text(v)
			if format == CSV {
				s = strings.ReplaceAll(strings.TrimPrefix(s, "s:"), "\r\n", "\n")
				if v.IsNull() {
					s = ""
				}
			}
			out = append(out, s)
		}
		want = append(want, out)
	}
	return want
}

var formats = []Format{Parquet, CSV, JSONL}

// tableRows reads all parts, and fails if the directory has anything else.
func tableRows(t *testing.T, fsys disk.FS, dir string, w *Writer) (rows [][]string) {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{progressName}
	for _, p := range w.Parts() {
		want = append(want, p.Name)
		data, err := disk.ReadFile(fsys, dir+"/"+p.Name)
		if err != nil {
			t.Fatal(err)
		}
		part := readRows(t, w.opt.Format, data)
		if int64(len(data)) != p.Bytes || int64(len(part)) != p.Rows {
			t.Fatalf("%v has %d bytes and %d rows", p, len(data), len(part))
		}
		rows = append(rows, part...)
	}
	if !reflect.DeepEqual(names, want) {
		t.Fatalf("the directory has %q, want %q", names, want)
	}
	return rows
}

func writeAll(w *Writer, rows [][]Value) error {
	for _, row := range rows {
		if err := w.Write(row); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	return w.Close()
}

// TestRoundTrip writes many parts on the real file system and reads the same rows from them.
func TestRoundTrip(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	rows := makeRows(random(t), 40_000)
	for _, format := range formats {
		for _, compression := range []string{"zstd", "snappy", "uncompressed"} {
			if format != Parquet && compression != "zstd" {
				continue
			}
			dir := filepath.Join(t.TempDir(), "new", "table")
			opt := Options{FS: disk.OS(), Dir: dir, Format: format, Columns: columns, Kind: "k", Source: "s",
				Compression: compression, PartBytes: 500_000, GroupBytes: 1}
			w, err := Create(opt)
			if err != nil {
				t.Fatal(err)
			}
			if err := writeAll(w, rows); err != nil {
				t.Fatal(err)
			}
			if got := tableRows(t, opt.FS, dir, w); !reflect.DeepEqual(got, wantRows(format, rows)) {
				t.Errorf("%s, %s: other rows", format, compression)
			}
			if len(w.Parts()) < 3 {
				t.Errorf("%s, %s: %d parts", format, compression, len(w.Parts()))
			}
			for _, p := range w.Parts() {
				if p.Bytes > 500_000 && format != Parquet || p.Bytes > 500_000+minGroupBytes {
					t.Errorf("%s, %s: %v is too large", format, compression, p)
				}
			}
			again, err := Create(opt)
			if err != nil {
				t.Fatal(err)
			}
			if r := again.Resumed(); !r.Complete || r.Rows != int64(len(rows)) || r.Parts != len(w.Parts()) {
				t.Errorf("a complete table is %+v", r)
			}
			if err := writeAll(again, rows); err != nil || again.Rows() != 0 {
				t.Errorf("%v, %d rows", err, again.Rows())
			}
		}
	}
}

func TestEmptyTable(t *testing.T) {
	for _, format := range formats {
		fsys := memfs.New(1)
		opt := Options{FS: fsys, Dir: "t", Format: format, Columns: columns}
		for range 2 {
			w, err := Create(opt)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if rows := tableRows(t, fsys, "t", w); len(rows) != 0 || len(w.Parts()) != 1 {
				t.Errorf("%s: %d rows, %d parts", format, len(rows), len(w.Parts()))
			}
		}
	}
}

func TestStream(t *testing.T) {
	rows := makeRows(random(t), 30_000)
	for _, format := range []Format{CSV, JSONL, Parquet} {
		var out bytes.Buffer
		w, err := NewStream(&out, Options{Format: format, Columns: columns, GroupBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if err := writeAll(w, rows); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(readRows(t, format, out.Bytes()), wantRows(format, rows)) {
			t.Errorf("%s: other rows", format)
		}
	}
	if _, err := NewStream(io.Discard, Options{Format: "xml", Columns: columns}); err == nil {
		t.Error("an unknown format is accepted")
	}
}

// TestEveryFailure lets each operation on the file system fail once, with a full disk, and then continues
// the table. After each failure each file with a final name is whole.
func TestEveryFailure(t *testing.T) {
	rows := makeRows(random(t), 3000)
	step := 1
	if testing.Short() {
		step = 7
	}
	for _, format := range formats {
		for failAt := 1; ; failAt += step {
			inner := memfs.New(1)
			ops, open := 0, 0
			fsys := disk.NewFault(inner, func(op disk.Op, name string) error {
				switch op {
				case disk.OpClose:
					open--
				case disk.OpCreate, disk.OpOpenRead:
					open++
				}
				if ops++; ops == failAt {
					if op == disk.OpCreate || op == disk.OpOpenRead {
						open--
					}
					return fmt.Errorf("%s %s: %w", op, name, syscall.ENOSPC)
				}
				return nil
			})
			opt := Options{FS: fsys, Dir: "t", Format: format, Columns: columns, PartBytes: 100_000, GroupBytes: 1}
			w, err := Create(opt)
			if err == nil {
				err = writeAll(w, rows)
			}
			if open != 0 {
				t.Fatalf("%s, operation %d: %d files stay open", format, failAt, open)
			}
			passed := ops < failAt
			if passed != (err == nil) || !passed && !errors.Is(err, syscall.ENOSPC) {
				// Only the removal of a name that the next Create deletes may fail silently.
				t.Fatalf("%s, operation %d of %d: %v", format, failAt, ops, err)
			}
			opt.FS = inner
			checkWhole(t, inner, opt)
			again, err := Create(opt)
			if err != nil {
				t.Fatal(err)
			}
			if err := writeAll(again, rows); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(tableRows(t, inner, "t", again), wantRows(format, rows)) {
				t.Fatalf("%s, operation %d: other rows after resuming", format, failAt)
			}
			if passed {
				break
			}
		}
	}
}

// checkWhole reads all files with final names.
func checkWhole(t *testing.T, fsys disk.FS, opt Options) {
	t.Helper()
	names, err := fsys.List(opt.Dir)
	if err != nil {
		return
	}
	for _, name := range names {
		if strings.HasPrefix(name, partPrefix) {
			data, err := disk.ReadFile(fsys, opt.Dir+"/"+name)
			if err != nil {
				t.Fatal(err)
			}
			if len(readRows(t, opt.Format, data)) == 0 {
				t.Fatalf("%s has no rows", name)
			}
		}
	}
}

// TestPowerCut stops the machine after each operation. Parts that the durable state names are whole.
func TestPowerCut(t *testing.T) {
	rows := makeRows(random(t), 3000)
	step := 1
	if testing.Short() {
		step = 3
	}
	for _, format := range formats {
		cuts := 0
		for after := 1; ; after += 3 * step {
			fsys := memfs.New(uint64(after))
			fsys.CrashAfter(after)
			opt := Options{FS: fsys, Dir: "t", Format: format, Columns: columns, PartBytes: 100_000, GroupBytes: 1}
			w, err := Create(opt)
			if err == nil {
				err = writeAll(w, rows)
			}
			if err == nil {
				break
			}
			cuts++
			left := fsys.Crash()
			opt.FS = left
			checkWhole(t, left, opt)
			again, err := Create(opt)
			if err != nil {
				t.Fatal(err)
			}
			if err := writeAll(again, rows); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(tableRows(t, left, "t", again), wantRows(format, rows)) {
				t.Fatalf("%s, cut after %d: other rows", format, after)
			}
		}
		if cuts < 5/step {
			t.Errorf("%s: %d cuts", format, cuts)
		}
	}
}

// TestFullDisk fills a disk of 200 KB.
func TestFullDisk(t *testing.T) {
	rows := makeRows(random(t), 3000)
	for _, format := range formats {
		fsys := memfs.New(1)
		fsys.SetCapacity(60_000)
		opt := Options{FS: fsys, Dir: "t", Format: format, Columns: columns, PartBytes: 20_000, GroupBytes: 1}
		w, err := Create(opt)
		if err != nil {
			t.Fatal(err)
		}
		if err := writeAll(w, rows); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("%s: %v", format, err)
		}
		if err := w.Write(rows[0]); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: after the failure: %v", format, err)
		}
		checkWhole(t, fsys, opt)
	}
}

// TestOtherContent refuses directories that hold something else, and leaves them as they are.
func TestOtherContent(t *testing.T) {
	fsys := memfs.New(1)
	opt := Options{FS: fsys, Dir: "t", Format: CSV, Columns: columns, Kind: "pages", Source: "1"}
	for _, name := range []string{"notes.txt", "part-00000.csv", "part-00000.parquet", ".hidden"} {
		if err := fsys.MkdirAll("t"); err != nil {
			t.Fatal(err)
		}
		if err := disk.WriteFileAtomic(fsys, "t/"+name, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := Create(opt); !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if names, _ := fsys.List("t"); !reflect.DeepEqual(names, []string{name}) {
			t.Errorf("left: %q", names)
		}
		if err := fsys.Remove("t/" + name); err != nil {
			t.Fatal(err)
		}
	}
	rows := makeRows(random(t), 1000)
	w, err := Create(opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeAll(w, rows); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(o *Options){
		func(o *Options) { o.Kind = "hosts" },
		func(o *Options) { o.Format = JSONL },
	} {
		other := opt
		change(&other)
		if _, err := Create(other); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("%+v: %v", other, err)
		}
	}
	if !reflect.DeepEqual(tableRows(t, fsys, "t", w), wantRows(CSV, rows)) {
		t.Error("other rows")
	}
}

// TestUnfinished: no pattern of finished parts matches a part that is being written, and the next Create deletes what a
// killed process has left, also under the names of earlier versions.
func TestUnfinished(t *testing.T) {
	for _, format := range []Format{Parquet, CSV, JSONL, TSV} {
		fsys := memfs.New(1)
		opt := Options{FS: fsys, Dir: "t", Format: format, Columns: []Column{{Name: "url", Type: String}}, Kind: "pages", Source: "1"}
		w, err := Create(opt)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write([]Value{Str("a")}); err != nil {
			t.Fatal(err)
		}
		names, err := fsys.List("t")
		if err != nil || len(names) != 2 {
			t.Fatalf("%q, %v: want a part and the progress", names, err)
		}
		for _, name := range names {
			if match, _ := filepath.Match("*."+string(format), name); match {
				t.Errorf("*.%s matches the unfinished %s", format, name)
			}
		}
		if err := disk.WriteFileAtomic(fsys, "t/.part-00000."+string(format), []byte("x")); err != nil {
			t.Fatal(err)
		}
		if w, err = Create(opt); err != nil { // as after kill -9
			t.Fatal(err)
		}
		if names, _ := fsys.List("t"); !reflect.DeepEqual(names, []string{progressName}) {
			t.Errorf("left: %q", names)
		}
		w.Abort()
	}
}

// TestOtherSource replaces the table of an older source.
func TestOtherSource(t *testing.T) {
	fsys := memfs.New(1)
	r := random(t)
	for i, source := range []string{"1", "2"} {
		rows := makeRows(r, 3000/(i+1))
		w, err := Create(Options{FS: fsys, Dir: "t", Format: JSONL, Columns: columns, Source: source, PartBytes: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Resumed(); i == 1 && (got.ReplacedSource != "1" || got.Replaced < 3 || got.Rows != 0) {
			t.Errorf("%+v", got)
		}
		if err := writeAll(w, rows); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(tableRows(t, fsys, "t", w), wantRows(JSONL, rows)) {
			t.Errorf("source %s: other rows", source)
		}
	}
}

// TestDamagedPart writes a part again that has another size, and those after it.
func TestDamagedPart(t *testing.T) {
	fsys := memfs.New(1)
	rows := makeRows(random(t), 3000)
	opt := Options{FS: fsys, Dir: "t", Format: JSONL, Columns: columns, PartBytes: 100_000}
	for _, lost := range []bool{false, true, false} {
		w, err := Create(opt)
		if err != nil {
			t.Fatal(err)
		}
		if lost && w.Resumed().Parts != 1 {
			t.Errorf("%+v", w.Resumed())
		}
		if err := writeAll(w, rows); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(tableRows(t, fsys, "t", w), wantRows(JSONL, rows)) {
			t.Error("other rows")
		}
		f, err := fsys.Open("t/part-00001.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Truncate(10), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	w, err := Create(opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeAll(w, rows[:10]); err == nil || !strings.Contains(err.Error(), "rows more than its source") {
		t.Errorf("a source with fewer rows: %v", err)
	}
}

func TestNoPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		fsys := disk.NewFault(disk.OS(), func(op disk.Op, name string) error {
			if op == disk.OpMkdirAll {
				return &os.PathError{Op: "mkdir", Path: name, Err: syscall.EACCES}
			}
			return nil
		})
		_, err := Create(Options{FS: fsys, Dir: t.TempDir() + "/x", Format: CSV, Columns: columns})
		if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "/x") {
			t.Error(err)
		}
		return
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	_, err := Create(Options{FS: disk.OS(), Dir: dir + "/x", Format: CSV, Columns: columns})
	if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), dir) {
		t.Error(err)
	}
}

// TestBadUse refuses columns and rows that make no table.
func TestBadUse(t *testing.T) {
	for _, c := range [][]Column{nil, {{Name: "", Type: Int64}}, {{Name: "a,b", Type: Int64}}, {{Name: "1", Type: Int64}},
		{{Name: "a", Type: "date"}}, {{Name: "a", Type: Int64}, {Name: "a", Type: Int64}}} {
		if _, err := NewStream(io.Discard, Options{Format: CSV, Columns: c}); err == nil {
			t.Errorf("%v is accepted", c)
		}
	}
	for _, opt := range []Options{{Format: "xls"}, {Format: Parquet, Compression: "lzo"}} {
		opt.FS, opt.Dir, opt.Columns = memfs.New(1), "t", columns
		if _, err := Create(opt); err == nil {
			t.Errorf("%+v is accepted", opt)
		}
	}
	two := []Column{{Name: "a", Type: Int64}, {Name: "b", Type: String, Nullable: true}}
	for _, row := range [][]Value{{Int(1)}, {Null, Null}, {Int(1), Int(1)}, {Int(1), Str(strings.Repeat("x", MaxRowBytes))}} {
		var out bytes.Buffer
		w, err := NewStream(&out, Options{Format: CSV, Columns: two})
		if err != nil {
			t.Fatal(err)
		}
		if w.Write(row) == nil || w.Write([]Value{Int(1), Null}) == nil || w.Close() == nil {
			t.Errorf("%v is accepted", row)
		}
		if out.Len() > 0 {
			t.Errorf("written: %q", out.Bytes())
		}
	}
}

// TestForms spells lines by hand.
func TestForms(t *testing.T) {
	cols := []Column{{Name: "s", Type: String, Nullable: true}, {Name: "f", Type: Float64, Nullable: true}, {Name: "t", Type: Time}}
	at := At(time.Date(2026, 11, 21, 22, 43, 5, 678_999_999, time.UTC))
	rows := [][]Value{{Str("a \"b\",\n\\\x1f\xffé"), Float(math.Inf(1)), at}, {Null, Null, at}, {Str(""), Float(1e21), at}}
	for format, want := range map[Format]string{
		CSV: "s,f,t\n" + "\"a \"\"b\"\",\n\\\x1f\uFFFDé\",+Inf,2026-11-21T22:43:05.678Z\n" +
			",,2026-11-21T22:43:05.678Z\n\"\",1e+21,2026-11-21T22:43:05.678Z\n",
		JSONL: `{"s":"a \"b\",\u000a\\\u001f` + "\uFFFD" + `é","f":null,"t":"2026-11-21T22:43:05.678Z"}` + "\n" +
			`{"s":null,"f":null,"t":"2026-11-21T22:43:05.678Z"}` + "\n" +
			`{"s":"","f":1e+21,"t":"2026-11-21T22:43:05.678Z"}` + "\n",
	} {
		var out bytes.Buffer
		w, err := NewStream(&out, Options{Format: format, Columns: cols})
		if err != nil {
			t.Fatal(err)
		}
		if err := writeAll(w, rows); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("%s:\n%s\nwant\n%s", format, out.String(), want)
		}
	}
}

// TestTSV spells lines by hand, and refuses text that would change the columns.
func TestTSV(t *testing.T) {
	cols := []Column{{Name: "id", Type: Int64}, {Name: "name", Type: String, Nullable: true}}
	var out bytes.Buffer
	w, err := NewStream(&out, Options{Format: TSV, Columns: cols})
	if err != nil {
		t.Fatal(err)
	}
	if err := writeAll(w, [][]Value{{Int(1), Str("a \"b\xff")}, {Int(2), Null}}); err != nil {
		t.Fatal(err)
	}
	if want := "1\ta \"b\uFFFD\n2\t\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	for _, bad := range []string{"a\tb", "a\n", "\r"} {
		if w, err := NewStream(&out, Options{Format: TSV, Columns: cols}); err != nil || w.Write([]Value{Int(1), Str(bad)}) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// FuzzText writes any text to all formats and reads it back.
func FuzzText(f *testing.F) {
	f.Add([]byte("a\"\r\n,\\\x00\xff"))
	cols := []Column{{Name: "s", Type: String}}
	f.Fuzz(func(t *testing.T, text []byte) {
		want := string(bytes.ToValidUTF8(text, []byte("\uFFFD")))
		row := []Value{Text(text)}
		var got map[string]string
		if err := json.Unmarshal(appendJSON(nil, cols, row), &got); err != nil || got["s"] != want {
			t.Fatalf("JSON: %q, %v", got, err)
		}
		records, err := csv.NewReader(bytes.NewReader(appendCSV(appendCSVHeader(nil, cols), row))).ReadAll()
		if err != nil || len(records) != 2 || records[1][0] != strings.ReplaceAll(want, "\r\n", "\n") {
			t.Fatalf("CSV: %q, %v", records, err)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	rows := makeRows(rand.New(rand.NewPCG(1, 1)), 10_000)
	for _, format := range formats {
		b.Run("format="+string(format), func(b *testing.B) {
			b.ReportAllocs()
			w, err := Create(Options{FS: disk.OS(), Dir: b.TempDir() + "/t", Format: format, Columns: columns})
			if err != nil {
				b.Fatal(err)
			}
			i := 0
			for b.Loop() {
				if err := w.Write(rows[i%len(rows)]); err != nil {
					b.Fatal(err)
				}
				i++
			}
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// TestCSVKeepsText: tables are data, so a cell that a spreadsheet takes for a formula is written as it is, and so are
// control characters.
func TestCSVKeepsText(t *testing.T) {
	cells := []string{"=1+1", "+1", "-1", "@x", "\t=1", "|x", "a;=1", "\x1b[2J", "\u009b", "'x"}
	var row []Value
	for _, c := range cells {
		row = append(row, Value{kind: String, text: []byte(c)})
	}
	if got, want := string(appendCSV(nil, row)), strings.Join(cells, ",")+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
