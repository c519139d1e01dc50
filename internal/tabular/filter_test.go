package tabular

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
)

// filterRows writes a table with texts of all kinds.
func filterRows(t *testing.T, format Format, compression string, rows []int, via func(n int) Value) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewStream(&b, Options{Format: format, Compression: compression, GroupBytes: minGroupBytes,
		Columns: []Column{{Name: "url", Type: String}, {Name: "via", Type: String, Nullable: true},
			{Name: "warc_filename", Type: String, Few: true}, {Name: "n", Type: Int64, Nullable: true},
			{Name: "t", Type: Time}, {Name: "f", Type: Float64}, {Name: "b", Type: Bool}}})
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	for _, n := range rows {
		count := Int(int64(n))
		if n%7 == 0 {
			count = Null
		}
		url := fmt.Sprintf("http://a/%d\"a\",\n%s", n, strings.Repeat("x", n%90))
		must(w.Write([]Value{Str(url), via(n), Str(fmt.Sprint("file", n/100)), count, At(time.UnixMilli(int64(n))),
			Float(float64(n) / 3), Truth(n%2 == 0)}))
	}
	must(w.Close())
	return b.Bytes()
}

// TestFilter: what a filter leaves is what a writer writes without the rows and values that go.
func TestFilter(t *testing.T) {
	var all, left []int
	for n := range 3000 {
		if all = append(all, n); n%5 > 0 {
			left = append(left, n)
		}
	}
	via := func(n int) Value {
		if n%3 == 0 {
			return Null
		}
		return Str(fmt.Sprint("via \"", n%4))
	}
	cleared := func(n int) Value {
		if v := via(n); string(v.text) != `via "2` {
			return v
		}
		return Null
	}
	for _, c := range []struct {
		format      Format
		compression string
	}{{CSV, ""}, {JSONL, ""}, {Parquet, "zstd"}, {Parquet, "snappy"}, {Parquet, "uncompressed"}} {
		in := filterRows(t, c.format, c.compression, all, via)
		var out bytes.Buffer
		n := 0
		if err := Filter(c.format, bytes.NewReader(in), int64(len(in)), &out, func(columns []string) error {
			if got := strings.Join(columns, " "); got != "url via warc_filename n t f b" {
				t.Errorf("%s: columns %s", c.format, got)
			}
			return nil
		}, func(cells []Cell) (bool, error) {
			if !strings.HasPrefix(string(cells[0].Text), fmt.Sprintf("http://a/%d\"a\",\n", n)) {
				t.Fatalf("%s: row %d is %q", c.format, n, cells[0].Text)
			}
			if got, err := cells[3].Number(); n%7 > 0 && (err != nil || got != int64(n)) {
				t.Fatalf("%s: row %d has %d, %v", c.format, n, got, err)
			}
			if string(cells[1].Text) == `via "2` {
				cells[1].Set(Null)
			}
			n++
			return (n-1)%5 > 0, nil
		}); err != nil {
			t.Fatal(c.format, err)
		}
		want := filterRows(t, c.format, c.compression, left, cleared)
		if c.format != Parquet {
			if !bytes.Equal(out.Bytes(), want) {
				t.Errorf("%s: %d bytes, want %d", c.format, out.Len(), len(want))
			}
			continue
		}
		got := openParquet(t, out.Bytes())
		model := openParquet(t, want)
		if got.Schema().String() != model.Schema().String() || got.NumRows() != int64(len(left)) {
			t.Errorf("%d rows, %s", got.NumRows(), got.Schema())
		}
		for i, column := range got.Metadata().RowGroups[0].Columns {
			if want := model.Metadata().RowGroups[0].Columns[i]; column.MetaData.Codec != want.MetaData.Codec {
				t.Errorf("column %d: compression %v, want %v", i, column.MetaData.Codec, want.MetaData.Codec)
			}
		}
		if a, b := parquetText(t, got), parquetText(t, model); a != b {
			t.Errorf("%s: other rows: %.300s, want %.300s", c.compression, a, b)
		}
	}
}

func openParquet(t *testing.T, data []byte) *parquet.File {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func parquetText(t *testing.T, f *parquet.File) string {
	var b strings.Builder
	for _, g := range f.RowGroups() {
		rows := g.Rows()
		for {
			batch := make([]parquet.Row, 100)
			n, err := rows.ReadRows(batch)
			for _, row := range batch[:n] {
				fmt.Fprintf(&b, "%+q\n", row)
			}
			if err != nil || n == 0 {
				break
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// TestFilterFaults: what is no table is refused.
func TestFilterFaults(t *testing.T) {
	for name, c := range map[string]struct {
		format Format
		text   string
	}{"not all values": {CSV, "a,b\n1,2\n1\n"}, "open quotes": {CSV, "a\n\"b\n"},
		"other names": {JSONL, "{\"a\":1}\n{\"b\":1}\n"},
		"no object":   {JSONL, "[1]\n"}, "half an object": {JSONL, "{\"a\":"}, "no Parquet": {Parquet, "PAR1PAR1"},
		"a long row": {CSV, "a\n" + strings.Repeat("x", maxFilteredRow+1)}, "a graph": {TSV, "a\n"}} {
		begin := func([]string) error { return nil }
		if err := Filter(c.format, strings.NewReader(c.text), int64(len(c.text)), nil, begin,
			func([]Cell) (bool, error) { return true, nil }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
