package extract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"drumbeat/internal/maintext"
	"drumbeat/internal/minhash"
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
		j := &job{opt: &Options{Format: format, Fields: append(Fields(format), onRequest...)}, report: &Report{}}
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

// TestRequestedColumns: the row of a page has the measures and the signature of its main text, and a page that is too
// short has none.
func TestRequestedColumns(t *testing.T) {
	for page, want := range map[string]string{
		"<article><p>Der Fluss ist im Winter nicht zu hoch und die Brücke ist offen.<p>Ende</article>": "" +
			`"words":14,"mean_word_length":3.9286,"alphabetic_words":1,` +
			`"symbols_per_word":0,"gopher_stop_words":0,"stop_words":0.5714,"lines":2,` +
			`"bullet_lines":0,"ellipsis_lines":0,"punctuated_lines":0.5,"short_lines":0.5,` +
			`"duplicate_lines":0,"duplicate_line_chars":0,"top_2gram":0,"top_3gram":0,"top_4gram":0,` +
			`"duplicate_5gram":0,"duplicate_6gram":0,"duplicate_7gram":0,"duplicate_8gram":0,"duplicate_9gram":0,` +
			`"duplicate_10gram":0,"curly_bracket":false,"lorem_ipsum":false,"minhash":"SIGNATURE"`,
		"<p>Ende": `"gopher_stop_words":0,"stop_words":null,"lines":1,`,
	} {
		doc, err := maintext.HTML(strings.NewReader(page), "text/html; charset=utf-8", "http://a.test/")
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		j := &job{opt: &Options{Format: tabular.JSONL, Fields: []Field{Quality, MinHash}}, report: &Report{}}
		s, err := j.newSink(&out, "")
		if err != nil {
			t.Fatal(err)
		}
		x := &warc.Indexed{Capture: warc.Capture{URL: "http://a.test/", Status: 200, Digest: "sha1:X"}}
		if _, err := s.add("x.warc.gz", x, nil, doc); err != nil {
			t.Fatal(err)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		sig, long := new(minhash.Sketch).Sum(doc.Main)
		if long {
			want = strings.Replace(want, "SIGNATURE", string(sig.AppendText(nil)), 1)
		} else {
			want = strings.TrimSuffix(want, ",")
		}
		if got := out.String(); !strings.Contains(got, want) || !long && !strings.Contains(got, `"minhash":null`) {
			t.Errorf("row %s\nwant %s", got, want)
		}
	}
}

// BenchmarkAdd extracts a page of 30 KB, two thirds of it text, with all fields: by the main text alone, and
// with each of the others beside it.
func BenchmarkAdd(b *testing.B) {
	var page []byte
	page = append(page, "<title>Bridges</title><nav><a href=/>Home</a></nav><article>"...)
	for i := 0; len(page) < 30_000; i++ {
		page = fmt.Appendf(page, `<p class="text">Engineers measured <a href="/b%d">bridge number %d</a> in the %s of `+
			`the year, and wrote down how high the river was, as they do in each season.</p>`, i, i,
			[]string{"spring", "summer", "autumn", "winter"}[i/7%4])
	}
	for _, fields := range [][]Field{{Text}, {Text, Lang}, {Text, Markdown}, {Text, Quality}, {Text, MinHash},
		append(Fields(tabular.Parquet), onRequest...)} {
		b.Run(fmt.Sprintf("fields=%d/%s", len(fields), fields[len(fields)-1]), func(b *testing.B) {
			j := &job{opt: &Options{Format: tabular.Parquet, Fields: fields}, report: &Report{}}
			s, err := j.newSink(io.Discard, "")
			if err != nil {
				b.Fatal(err)
			}
			x := &warc.Indexed{Capture: warc.Capture{URL: "http://a.test/", Status: 200, Digest: "sha1:X"}}
			b.SetBytes(int64(len(page)))
			for b.Loop() {
				doc, err := maintext.HTML(bytes.NewReader(page), "text/html; charset=utf-8", "http://a.test/")
				if err != nil {
					b.Fatal(err)
				}
				if _, err := s.add("x.warc.gz", x, nil, doc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
