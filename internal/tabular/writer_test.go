package tabular

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
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
			Str(fmt.Sprint(i, texts[r.IntN(len(texts))], strings.Repeat("x", r.IntN(50)))),
			or(Str(texts[r.IntN(len(texts))])), Int(r.Int64() - r.Int64()), or(Int(int64(i))),
			or(Float(r.NormFloat64())), or(Truth(r.IntN(2) == 0)), At(at), or(At(at))})
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
	must(t, err)
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
			must(t, err)
		}
		reader.Close()
	}
	return rows
}

// csvRows reads CSV. encoding/csv cannot tell null from empty text, and drops CR before LF.
func csvRows(t *testing.T, data []byte) (rows [][]string) {
	t.Helper()
	list, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	must(t, err)
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
		must(t, d.Decode(&m))
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
	must(t, err)
	want := []string{progressName}
	for _, p := range w.Parts() {
		want = append(want, p.Name)
		data, err := disk.ReadFile(fsys, dir+"/"+p.Name)
		must(t, err)
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
			must(t, err)
			must(t, writeAll(w, rows))
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
			must(t, err)
			if r := again.Resumed(); !r.Complete || r.Rows != int64(len(rows)) || r.Parts != len(w.Parts()) {
				t.Errorf("a complete table is %+v", r)
			}
			if err := writeAll(again, rows); err != nil || again.Rows() != 0 {
				t.Errorf("%v, %d rows", err, again.Rows())
			}
		}
	}
}

// TestDictionaryAcrossBuffers has a dictionary that crosses the ends of the buffer of a part: the library writes
// dictionaries at once, and other pages in short blocks.
func TestDictionaryAcrossBuffers(t *testing.T) {
	r := random(t)
	rows := makeRows(r, 400)
	for _, row := range rows {
		for i := range 2 {
			letters := make([]byte, 4000+r.IntN(1000))
			for i := range letters {
				letters[i] = byte('a' + r.IntN(26))
			}
			row[i] = Str(string(letters))
		}
	}
	fsys := memfs.New(1)
	w, err := Create(Options{FS: fsys, Dir: "t", Format: Parquet, Columns: columns})
	must(t, err)
	must(t, writeAll(w, rows))
	if size := w.Parts()[0].Bytes; len(w.Parts()) > 1 || size < 2*bufferBytes {
		t.Fatalf("%d parts, %d bytes", len(w.Parts()), size)
	}
	if !reflect.DeepEqual(tableRows(t, fsys, "t", w), wantRows(Parquet, rows)) {
		t.Error("other rows")
	}
}

func TestEmptyTable(t *testing.T) {
	for _, format := range formats {
		fsys := memfs.New(1)
		opt := Options{FS: fsys, Dir: "t", Format: format, Columns: columns}
		for range 2 {
			w, err := Create(opt)
			must(t, err)
			must(t, w.Close())
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
		must(t, err)
		must(t, writeAll(w, rows))
		if !reflect.DeepEqual(readRows(t, format, out.Bytes()), wantRows(format, rows)) {
			t.Errorf("%s: other rows", format)
		}
	}
	if _, err := NewStream(io.Discard, Options{Format: "xml", Columns: columns}); err == nil {
		t.Error("an unknown format is accepted")
	}
}

// TestBadUse refuses columns and rows that make no table.
func TestBadUse(t *testing.T) {
	for _, c := range [][]Column{nil, {{Name: "", Type: Int64}}, {{Name: "a,b", Type: Int64}},
		{{Name: "1", Type: Int64}}, {{Name: "a", Type: "date"}}, {{Name: "a", Type: Int64}, {Name: "a", Type: Int64}}} {
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
	for _, row := range [][]Value{{Int(1)}, {Null, Null}, {Int(1), Int(1)},
		{Int(1), Str(strings.Repeat("x", MaxRowBytes))}} {
		var out bytes.Buffer
		w, err := NewStream(&out, Options{Format: CSV, Columns: two})
		must(t, err)
		if w.Write(row) == nil || w.Write([]Value{Int(1), Null}) == nil || w.Close() == nil {
			t.Errorf("%v is accepted", row)
		}
		if out.Len() > 0 {
			t.Errorf("written: %q", out.Bytes())
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	rows := makeRows(rand.New(rand.NewPCG(1, 1)), 10_000)
	for _, format := range formats {
		b.Run("format="+string(format), func(b *testing.B) {
			b.ReportAllocs()
			w, err := Create(Options{FS: disk.OS(), Dir: b.TempDir() + "/t", Format: format, Columns: columns})
			must(b, err)
			i := 0
			for b.Loop() {
				must(b, w.Write(rows[i%len(rows)]))
				i++
			}
			must(b, w.Close())
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
