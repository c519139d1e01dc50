package crawllog

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// same compares Fields with the entry that Unmarshal makes of the same line.
func same(t *testing.T, f *Fields, e *Entry) {
	t.Helper()
	for _, c := range []struct{ name, got, want string }{
		{"url", string(f.URL), e.URL}, {"reason", string(f.Reason), e.Reason}, {"mime", string(f.MIME), e.MIME},
		{"via", string(f.Via), e.Via},
		{"redirect", string(f.Redirect), e.Redirect},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, c.got, c.want)
		}
	}
	if !f.Time.Equal(e.Time) || f.Status != e.Status || f.Bytes != e.Bytes || f.Millis != e.Elapsed.Milliseconds() {
		t.Errorf("got %+v, want %+v", f, e)
	}
}

func TestFields(t *testing.T) {
	e := sample()
	e.Via = `http://x/"\` + "\u2028é"
	line := e.Append(nil)
	line = line[:len(line)-1]
	var f Fields
	if err := f.quick(line); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	same(t, &f, &e)
	if string(f.Line) != string(line) {
		t.Errorf("Line is %s", f.Line)
	}
	for _, text := range []string{
		`{"ts":"2026-11-21T22:43:05.678Z","url":"http://x/", "status":200}`, // spaces, nesting and exponents
		`{"new":{"a":[1,"}"]},"ts":"2026-11-21T22:43:05.678+02:00","url":"http://x/"}`,
		`{"ts":"2026-11-21T22:43:05Z","url":"http://x/","bytes":12345678901234567}`,
	} {
		var want Entry
		must(t, json.Unmarshal([]byte(text), &want))
		if err := f.Parse([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		same(t, &f, &want)
	}
	for _, text := range []string{"", "{", "{}", "null", `{"ts":1}`, `{"url":"http://x/"}`,
		`{"ts":"x","url":"http://x/"}`, `{"ts":"2026-11-21T22:43:05Z","status":"200"}`,
		`{"ts":"2026-11-21T22:43:05Z","url":"a\"}`, `{"ts":"2026-11-21T22:43:05Z","url":"a"`,
		`{"ts":"2026-11-21T22:43:05Z","status":1e999}`, "\x00"} {
		if err := f.Parse([]byte(text)); err == nil {
			t.Errorf("%q: no error, got %+v", text, f)
		}
	}
}

// FuzzFields: quick accepts each line of Append and reads what Unmarshal reads. Other text makes no panic.
func FuzzFields(f *testing.F) {
	f.Add("https://example.org/", "robots", "http://via/", 200, int64(5), []byte("{}"))
	f.Add("\xff\x00\"\\\u2028ü", "\n", "\\\\\"", -1, int64(-7), []byte(`{"ts":"2026-11-21T22:43:05Z","via":"\\\""}`))
	f.Add(strings.Repeat(`\`, 99), `"`, strings.Repeat("ü", 500), 0, int64(1)<<62,
		[]byte(`{"ts":"2026-11-21T22:43:05Z","status":-0}`))
	f.Fuzz(func(t *testing.T, url, reason, via string, status int, size int64, other []byte) {
		e := Entry{Time: when, URL: url, Reason: reason, Via: via, Status: status % 1e9, Bytes: size >> 6,
			Elapsed: time.Duration(size>>1) / time.Millisecond * time.Millisecond}
		line := e.Append(nil)
		line = line[:len(line)-1]
		var want Entry
		must(t, json.Unmarshal(line, &want))
		var got Fields
		if err := got.quick(line); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		same(t, &got, &want)
		if err := got.Parse(other); err == nil && got.Time.IsZero() {
			t.Errorf("%q: a line without time", other)
		}
	})
}

func BenchmarkFields(b *testing.B) {
	e := sample()
	line := e.Append(nil)
	line = line[:len(line)-1]
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	var f Fields
	for b.Loop() {
		must(b, f.Parse(line))
	}
}
