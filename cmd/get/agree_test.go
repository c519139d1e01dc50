package get

import (
	"crypto/sha1"
	"errors"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/warc"
)

// TestAuditAgreesWithGet: audit --deep calls a record damaged if and only if get does, whatever the head says about
// the framing of the body. The digest of each record is that of the body as it is, or of the content of its chunks.
func TestAuditAgreesWithGet(t *testing.T) {
	const chunked, chunks = "Transfer-Encoding: chunked\r\n", "4\r\npage\r\n0\r\n\r\n"
	many := strings.Repeat("Set-Cookie: a=b\r\n", 300)
	for name, tt := range map[string]struct{ head, body, payload, get string }{
		"chunks":                        {chunked, chunks, "page", "page"},
		"chunks behind 300 fields":      {many + chunked, chunks, "page", "page"},
		"chunks that the digest covers": {many + chunked, chunks, chunks, ""},
		"chunks on a folded line":       {"Transfer-Encoding:\r\n chunked\r\n", chunks, "page", "page"},
		"a blank before the colon":      {"Transfer-Encoding : chunked\r\n", chunks, "page", "page"},
		"chunked before another coding": {"Transfer-Encoding: chunked, identity\r\n", chunks, "page", "page"},
		"an empty line with two CRs":    {"X: y\r\n\r\r\n4\r\npage\r\n0\r\n\r\n", "", chunks + "\r\n", chunks + "\r\n"},
		"no chunks but as if":           {"X: y\r\n", chunks, chunks, chunks},
		"the content of what as if":     {"X: y\r\n", chunks, "page", ""},
		"invalid chunks":                {chunked, "4\r\npagepage", "4\r\npagepage", "page"},
		"content of invalid chunks":     {chunked, "4\r\npagepage", "page", ""},
		"no chunk at all":               {chunked, "<html>\n", "<html>\n", "\x00"},
		"bytes behind the chunks":       {chunked, chunks + "more", "page", "page"},
		"chunks cut off":                {chunked, "8\r\npage", "page", "page"},
		"another head in the body":      {"X: y\r\n", "a\r\n\r\nb", "b", ""},
		"a name that is no token":       {"Transfer Encoding: chunked\r\n", chunks, chunks, chunks},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, warc.Gzip)
			sum := sha1.Sum([]byte(tt.payload))
			x := &warc.Exchange{URL: []byte("http://a.test/"), Date: fetched,
				Head: []byte("HTTP/1.1 200 OK\r\n" + tt.head + "\r\n"), Body: []byte(tt.body), Status: 200,
				MIME: "text/html", Digest: &sum}
			var p warc.Prepared
			w.must(w.e.Prepare(&p, x))
			_, err := w.w.Append(&p, fetched)
			w.must(err)
			w.save(true)
			_, err = warc.VerifyFiles(w.opt, w.state, warc.Verify{})
			var damage *disk.CorruptError
			if err != nil && !errors.As(err, &damage) {
				t.Fatal(err)
			}
			code := 0
			if damage != nil {
				code = term.ExitDamage
			}
			out, errs := wantExit(t, code, "get", "--dir="+w.dir, "http://a.test/")
			if want := strings.Trim(tt.get, "\x00"); code == 0 && out != want {
				t.Errorf("get prints %q, want %q", out, want)
			}
			if (tt.get == "") != (damage != nil) {
				t.Errorf("audit: %v, get: %s; want damage: %v", err, errs, tt.get == "")
			}
		})
	}
}
