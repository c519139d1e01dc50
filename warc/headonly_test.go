package warc

import (
	"bytes"
	"strings"
	"testing"
)

// TestHeadOnly: a capture that waited as bytes loses its body. The records keep their ids and the other fields, the
// metadata have the new line, the index line says that the body is missing, and verification agrees.
func TestHeadOnly(t *testing.T) {
	const empty = "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ" // RFC 3548 base32 of the SHA-1 of no bytes
	for _, tt := range revisitCases {
		t.Run(tt.name, func(t *testing.T) {
			w, opt := openMem(t, tt.opt)
			x := testExchange(tt.mime, tt.body)
			x.Simhash = "0123456789abcdef"
			e := w.NewEncoder()
			var whole, p Prepared
			must(t, e.Prepare(&whole, x))
			must(t, p.UnmarshalBinary(whole.AppendBinary(nil)))
			line := Field{NearDuplicateOf, "http://a.test/"}
			must(t, w.NewEncoder().HeadOnly(&p, []Field{line}))
			for _, c := range []*Prepared{&whole, &p} {
				_, err := w.Append(c, x.Date)
				must(t, err)
			}
			must(t, w.Roll())
			_, st := uncommitted(t, w, opt)
			sum, err := VerifyFiles(opt, st, Verify{MaxBlock: 1 << 20, Capture: func(*Capture) error { return nil },
				Damaged: func(err error) error { t.Error(err); return nil }})
			if err != nil || sum.Captures != 2 || sum.Records != 7 {
				t.Errorf("%+v, %v", sum, err)
			}
			var got []*Record
			must(t, Walk(opt, st, 1<<20, func(_ string, r *Record) error {
				r.Block = bytes.Clone(r.Block)
				got = append(got, r)
				return nil
			}))
			before, after := got[1:4], got[4:7] // after warcinfo: request, response, metadata
			for i := range before {
				for _, name := range []string{"WARC-Type", "WARC-Record-ID", "WARC-Target-URI", "WARC-Date",
					"WARC-IP-Address", "WARC-Concurrent-To", "Content-Type"} {
					if a, b := before[i].Get(name), after[i].Get(name); a != b {
						t.Errorf("%s of record %d: %q, was %q", name, i, b, a)
					}
				}
			}
			if r := after[1]; !bytes.Equal(r.Block, x.Head) || r.Get("WARC-Truncated") != "unspecified" ||
				r.Get("WARC-Payload-Digest") != empty {
				t.Errorf("response %+v: %q", r.Fields, r.Block)
			}
			want := string(before[2].Block) + line.Name + ": " + line.Value + "\r\n"
			if string(after[2].Block) != want {
				t.Errorf("metadata %q, want %q", after[2].Block, want)
			}
			if s := string(p.index); !strings.Contains(s, `"digest": "`+empty+`"`) ||
				!strings.Contains(s, `"truncated": "unspecified"`) || strings.Contains(s, "simhash") {
				t.Errorf("index line %s", s)
			}
		})
	}
	var p Prepared
	w := &Writer{}
	w.opt.defaults()
	e := w.NewEncoder()
	x := testExchange("text/html", "no metadata")
	x.Meta = nil
	must(t, e.Prepare(&p, x))
	if err := e.HeadOnly(&p, nil); err == nil {
		t.Error("a capture without metadata is accepted")
	}
}
