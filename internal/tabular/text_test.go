package tabular

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

// TestForms spells lines by hand.
func TestForms(t *testing.T) {
	cols := []Column{{Name: "s", Type: String, Nullable: true}, {Name: "f", Type: Float64, Nullable: true},
		{Name: "t", Type: Time}}
	at := At(time.Date(2026, 11, 21, 22, 43, 5, 678_999_999, time.UTC))
	rows := [][]Value{{Str("a \"b\",\n\\\x1f\xffé"), Float(math.Inf(1)), at}, {Null, Null, at},
		{Str(""), Float(1e21), at}}
	for format, want := range map[Format]string{
		CSV: "s,f,t\n" + "\"a \"\"b\"\",\n\\\x1f\uFFFDé\",+Inf,2026-11-21T22:43:05.678Z\n" +
			",,2026-11-21T22:43:05.678Z\n\"\",1e+21,2026-11-21T22:43:05.678Z\n",
		JSONL: `{"s":"a \"b\",\u000a\\\u001f` + "\uFFFD" + `é","f":null,"t":"2026-11-21T22:43:05.678Z"}` + "\n" +
			`{"s":null,"f":null,"t":"2026-11-21T22:43:05.678Z"}` + "\n" +
			`{"s":"","f":1e+21,"t":"2026-11-21T22:43:05.678Z"}` + "\n",
	} {
		var out bytes.Buffer
		w, err := NewStream(&out, Options{Format: format, Columns: cols})
		must(t, err)
		must(t, writeAll(w, rows))
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
	must(t, err)
	must(t, writeAll(w, [][]Value{{Int(1), Str("a \"b\xff")}, {Int(2), Null}}))
	if want := "1\ta \"b\uFFFD\n2\t\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	for _, bad := range []string{"a\tb", "a\n", "\r"} {
		if w, err := NewStream(&out, Options{Format: TSV, Columns: cols}); err != nil ||
			w.Write([]Value{Int(1), Str(bad)}) == nil {
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

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
