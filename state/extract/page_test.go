package extract

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"drumbeat/internal/maintext"
	"drumbeat/internal/tabular"
	"drumbeat/warc"
)

// TestLargestRow: a page with everything at its bound makes a row, whose text is cut between two characters.
func TestLargestRow(t *testing.T) {
	value := strings.Repeat("v", maintext.MaxValue)
	page := "<p>" + strings.Repeat("語", maintext.MaxPage/3-9)
	doc, err := maintext.HTML(strings.NewReader(page), "text/html; charset=utf-8", "http://a.test/")
	if err != nil {
		t.Fatal(err)
	}
	doc.Title, doc.Description, doc.Canonical, doc.Author, doc.Published, doc.Declared = value, value, value, value,
		value, value
	for range maintext.MaxJSONLD {
		doc.JSONLD = append(doc.JSONLD,
			json.RawMessage(`"`+strings.Repeat("j", maintext.MaxJSONLDBytes/maintext.MaxJSONLD-2)+`"`))
	}
	for _, format := range []tabular.Format{tabular.JSONL, tabular.Parquet, tabular.CSV} {
		var out bytes.Buffer
		j := &job{opt: &Options{Format: format, Fields: append(Fields(format), Markdown)}, report: &Report{}}
		s, err := j.newSink(&out, "")
		if err != nil {
			t.Fatal(err)
		}
		x := &warc.Indexed{Capture: warc.Capture{URL: "http://a.test/" + value, Status: 200, Digest: "sha1:X"}}
		truncated, err := s.add("x.warc.gz", x, nil, doc)
		if err != nil || !truncated {
			t.Fatalf("%s: truncated %t, %v", format, truncated, err)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		if format != tabular.JSONL {
			continue
		}
		var row struct {
			Text, Title, Markdown string
			LD                    string `json:"json_ld"`
		}
		if err := json.Unmarshal(out.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		var items []string
		if err := json.Unmarshal([]byte(row.LD), &items); err != nil || len(items) != maintext.MaxJSONLD {
			t.Errorf("%d items of JSON-LD, %v", len(items), err)
		}
		for _, text := range []string{row.Text, row.Markdown} {
			if n := len(text); n > maxRowText/2 || n <= maxRowText/2-utf8.UTFMax || strings.Trim(text, "語") != "" ||
				row.Title != value {
				t.Errorf("a text of %d bytes", n)
			}
		}
	}
	if !slices.Equal(Fields(WET), []Field{Text, Lang}) {
		t.Error(Fields(WET))
	}
}
