package warc

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestConversions: a file of conversions reads back, with its digests, whatever its values contain.
func TestConversions(t *testing.T) {
	date := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	in := []Conversion{
		{URL: "http://a.test/", Date: date, RefersTo: "<urn:uuid:1>", Languages: "eng,deu", Text: []byte("short\n")},
		{URL: "http://a.test/ü\r\nX: y", Date: date, RefersTo: "<urn:uuid:2>\r\nX: y", Text: nil},
		{URL: "http://a.test/long", Date: date.Add(time.Hour), RefersTo: "<urn:uuid:3>", Languages: "zho",
			Text: bytes.Repeat([]byte("长文本 "), 20000)},
	}
	var out bytes.Buffer
	c, err := NewConversions(&out, "x.warc.wet.gz", []Field{{"software", "test"}}, date, nil)
	must(t, err)
	for i := range in {
		must(t, c.Write(&in[i]))
	}
	if c.Bytes() != int64(out.Len()) {
		t.Errorf("%d bytes, want %d", c.Bytes(), out.Len())
	}
	var got []*Record
	if err := Read(bytes.NewReader(out.Bytes()), 1<<20,
		func(r *Record) error { got = append(got, r); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1+len(in) {
		t.Fatalf("%d records", len(got))
	}
	if info := got[0]; info.Type() != "warcinfo" || info.Get("WARC-Filename") != "x.warc.wet.gz" ||
		!strings.Contains(string(info.Block), "software: test\r\n") {
		t.Errorf("warcinfo: %+v %s", info.Fields, info.Block)
	}
	for i, want := range in {
		r := got[i+1]
		if r.Type() != "conversion" || r.Get("Content-Type") != "text/plain" ||
			r.Get("WARC-Date") != want.Date.Format(dateFormat) ||
			r.Get("WARC-Identified-Content-Language") != want.Languages || r.Get("X") != "" ||
			!bytes.Equal(r.Block, want.Text) || r.Get("WARC-Block-Digest") != sha1Of(want.Text) ||
			!strings.HasPrefix(r.Get("WARC-Refers-To"), want.RefersTo[:12]) {
			t.Errorf("record %d: %+v, block of %d bytes", i, r.Fields, len(r.Block))
		}
	}
	if got[2].Get("WARC-Target-URI") != "http://a.test/%C3%BC%0D%0AX:%20y" {
		t.Errorf("URL %q", got[2].Get("WARC-Target-URI"))
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
