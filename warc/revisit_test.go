package warc

import (
	"bytes"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// revisitCases are the cases of TestRevisit.
var revisitCases = []struct {
	name string
	opt  Options
	body string
	mime string
}{
	{"plain", Options{}, strings.Repeat("<p>text</p>", 300), "text/html"},
	{"short", Options{Level: 6}, "short", `odd"\type`},
	{"encoded", Options{}, "\x1f\x8b" + strings.Repeat("z", 3000), "text/html"},
	{"zstd", Options{Format: Zstd}, strings.Repeat("<p>text</p>", 300), "text/html"},
	{"odd head", Options{}, strings.Repeat("x", 2000), "text/html; \xff"},
}

func testExchange(mime, text string) *Exchange {
	date := time.Date(2026, 11, 24, 1, 2, 3, 0, time.UTC)
	return &Exchange{URL: []byte("http://b.test/é?mime"), Date: date, IP: netip.MustParseAddr("192.0.2.1"),
		Request: []byte("GET / HTTP/1.1\r\nHost: b.test\r\n\r\n"),
		Head:    []byte("HTTP/1.1 200 OK\r\nContent-Type: " + mime + "\r\n\r\n"), Body: []byte(text),
		Encoded: strings.HasPrefix(text, "\x1f"), Protocols: []string{"http/1.1"},
		Status: 200, MIME: mime, Meta: []Field{{"depth", "1"}}}
}

// checkRevisit compares a revisit record with its exchange.
func checkRevisit(t *testing.T, r *Record, x *Exchange, digest string) {
	t.Helper()
	if !bytes.Equal(r.Block, x.Head) {
		t.Errorf("the block is %q, want %q", r.Block, x.Head)
	}
	for name, want := range map[string]string{"WARC-Profile": profileIdentical,
		"WARC-Refers-To-Target-URI": "http://a.test/%C3%B6", "WARC-Refers-To-Date": "2026-11-24T01:02:03Z",
		"WARC-Target-URI": "http://b.test/%C3%A9?mime", "WARC-Payload-Digest": digest,
		"WARC-IP-Address": "192.0.2.1", "Content-Type": "application/http; msgtype=response"} {
		if r.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, r.Get(name), want)
		}
	}
}

// openMem opens a Writer in RAM.
func openMem(t *testing.T, opt Options) (*Writer, Options) {
	t.Helper()
	fs := memfs.New(1)
	opt.Set = disk.Set{FS: fs, Paths: []string{"out"}}
	opt.State = disk.Set{FS: fs, Paths: []string{"state"}}
	w, err := Open(opt, nil)
	must(t, err)
	return w, opt
}

// TestRevisit: a capture that waited as bytes becomes a revisit record with the HTTP head and without the body.
// Request and metadata stay, the index line has the type warc/revisit, and verification agrees.
func TestRevisit(t *testing.T) {
	for _, tt := range revisitCases {
		t.Run(tt.name, func(t *testing.T) {
			w, opt := openMem(t, tt.opt)
			x := testExchange(tt.mime, tt.body)
			var p, q Prepared
			must(t, w.NewEncoder().Prepare(&p, x))
			if digest, err := p.Digest(); err != nil || len(digest) == 0 {
				t.Fatal(digest, err)
			}
			data := p.AppendBinary([]byte("before"))[len("before"):]
			must(t, q.UnmarshalBinary(data))
			for _, c := range []*Prepared{&p, &q} { // the second as a revisit
				if c == &q {
					if err := w.NewEncoder().Revisit(c,
						Original{URL: []byte("http://a.test/ö"), Date: x.Date}); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := w.Append(c, x.Date); err != nil {
					t.Fatal(err)
				}
			}
			must(t, w.Roll())
			_, st := uncommitted(t, w, opt)
			var got []string
			var captures []Capture
			sum, err := VerifyFiles(opt, st, Verify{MaxBlock: 1 << 20,
				Capture: func(c *Capture) error { captures = append(captures, *c); return nil },
				Damaged: func(err error) error { t.Error(err); return nil }})
			must(t, err)
			if sum.Captures != 2 || sum.Records != 7 || len(captures) != 2 || captures[0].Revisit ||
				!captures[1].Revisit || captures[0].Digest != captures[1].Digest || captures[1].Status != 200 {
				t.Errorf("%+v, %+v", sum, captures)
			}
			err = Walk(opt, st, 1<<20, func(_ string, r *Record) error {
				got = append(got, r.Type())
				if r.Type() != "revisit" {
					return nil
				}
				checkRevisit(t, r, x, captures[0].Digest)
				return nil
			})
			if want := "warcinfo request response metadata request revisit metadata"; err != nil ||
				strings.Join(got, " ") != want {
				t.Errorf("got %v, %v, want %s", got, err, want)
			}
			if !strings.Contains(string(q.index), `"mime": "warc/revisit", "status": "200", "digest": "`+
				captures[0].Digest) {
				t.Errorf("index line %s", q.index)
			}
		})
	}
}

// FuzzPrepared: damaged bytes give an error, or a Prepared that can be used without a panic.
func FuzzPrepared(f *testing.F) {
	w := &Writer{}
	w.opt.defaults()
	var p Prepared
	e := w.NewEncoder()
	if err := e.Prepare(&p, &Exchange{URL: []byte("http://a.test/"), Head: []byte("HTTP/1.1 200 OK\r\n\r\n"),
		Body: []byte("body"), Status: 200}); err != nil {
		f.Fatal(err)
	}
	f.Add(p.AppendBinary(nil))
	f.Fuzz(func(_ *testing.T, b []byte) {
		var p Prepared
		if p.UnmarshalBinary(b) != nil {
			return
		}
		p.Digest()
		w.NewEncoder().Revisit(&p, Original{URL: []byte("http://b.test/"), Date: time.Unix(0, 0)})
		if p.UnmarshalBinary(b) == nil {
			w.NewEncoder().HeadOnly(&p, []Field{{"name", "value"}})
		}
	})
}

// TestPrepareRevisit: a capture that is prepared as a revisit has the same records as one that becomes one later,
// except the record ids.
func TestPrepareRevisit(t *testing.T) {
	w := &Writer{}
	w.opt.defaults()
	x := &Exchange{URL: []byte("http://b.test/"), Date: time.Unix(1e9, 0), Head: []byte("HTTP/1.1 200 OK\r\n\r\n"),
		Status: 200, MIME: "text/html", Body: []byte(strings.Repeat("body", 100)), Meta: []Field{{"depth", "1"}},
		Request: []byte("GET / HTTP/1.1\r\n\r\n")}
	of := Original{URL: []byte("http://a.test/"), Date: time.Unix(9e8, 0)}
	var late, early Prepared
	e := w.NewEncoder()
	must(t, e.Prepare(&late, x))
	digest, err := late.Digest()
	must(t, err)
	must(t, e.Revisit(&late, of))
	if same, err := e.PrepareRevisit(&early, x, of, [digestRaw]byte{}); same || err != nil || early.Bytes() > 0 {
		t.Errorf("another digest: %v, %v, %d bytes", same, err, early.Bytes())
	}
	if same, err := e.PrepareRevisit(&early, x, of, digest); !same || err != nil {
		t.Errorf("the same digest: %v, %v", same, err)
	}
	known := *x
	known.Digest, known.Body = &digest, nil // the body is not read
	var third Prepared
	if same, err := e.PrepareRevisit(&third, &known, of, digest); !same || err != nil {
		t.Errorf("a known digest: %v, %v", same, err)
	}
	if a, b := string(late.index[:late.indexHead]), string(early.index[:early.indexHead]); a != b {
		t.Errorf("index lines\n%s\n%s", a, b)
	}
	ids := regexp.MustCompile(`[0-9a-f-]{36}|sha1:\w{32}`) // digests of blocks are checked by TestRevisit
	text := func(p *Prepared) (s []string) {
		if err := Read(bytes.NewReader(p.buf), 1<<20, func(r *Record) error {
			lines := []string{r.Type(), string(r.Block)}
			for _, f := range r.Fields {
				lines = append(lines, f.Name+": "+ids.ReplaceAllString(f.Value, "X"))
			}
			slices.Sort(lines)
			s = append(s, strings.Join(lines, "\n"))
			return nil
		}); err != nil {
			t.Error(err)
		}
		return s
	}
	for _, p := range []*Prepared{&early, &third} {
		if a, b := text(&late), text(p); !slices.Equal(a, b) {
			t.Errorf("records\n%s\n\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
		}
	}
}
