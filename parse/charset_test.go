package parse

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/net/html/charset"
)

var charsetPieces = strings.Split("<meta charset=utf-8>|<meta charset=' Shift_JIS '>|<meta charset=nonsense>|<meta charset>|<META CHARSET='UTF-16'>|"+
	"<meta http-equiv=content-type content='text/html; charset=koi8-r'>|<meta content='charset = \"euc-kr\"; x' http-equiv=Content-Type>|"+
	"<meta content='charset=gbk'>|<meta content='x charset charset=big5;' http-equiv='content&#45;type'>|<meta charset=x content='charset=gbk' "+
	"http-equiv=content-type>|<meta content='charset=gbk' charset=x http-equiv=content-type>|<meta http-equiv=content-type content='charset=\"x'>|"+
	"<!--|-->|<!|<?|>|<title>|</title>|<script>|</script>|<noscript>|</noscript>|<plaintext>|<|</|</x>|</x |é|\xE9|\xC3|text|\xE2\x82|<style>|</style>|"+
	"\uFEFF|\xFE\xFF|\xFF\xFE|<meta |charset=utf-8|'|\"|<meta charset=utf-8 charset=gbk>|<metacharset=utf-8>|<meta/charset=iso-8859-2>", "|")

// checkCharset compares with x/net/html/charset, which reads tokens.
func checkCharset(t *testing.T, c *charsets, body []byte, contentType string) {
	t.Helper()
	_, want, _ := charset.DetermineEncoding(body, contentType)
	if got := c.find(body, contentType); got != want {
		t.Fatalf("%q, header %q: got %s, want %s", body, contentType, got, want)
	}
}

func TestCharsetAgainstLibrary(t *testing.T) {
	rnd := rand.New(rand.NewPCG(*seedFlag, 0))
	headers := []string{"", "text/html", "text/html; charset=UTF8", "text/html; charset=\"koi8-r\"", "text/html; charset=x", "charset=utf-8",
		"text/html; charset=utf-8; charset=gbk", ";;"}
	var c charsets
	for i := range 30_000 {
		var b bytes.Buffer
		for range 1 + rnd.IntN(8) {
			b.WriteString(charsetPieces[rnd.IntN(len(charsetPieces))])
		}
		if i%100 == 0 {
			b.WriteString(strings.Repeat("é", 600))
		}
		checkCharset(t, &c, b.Bytes(), headers[rnd.IntN(len(headers))])
	}
}

func TestCharsetAllocs(t *testing.T) {
	var c charsets
	for _, body := range []string{"<title>x</title><meta charset=utf-8>", "<p>plain", "<p>\u00E9", "<meta http-equiv=content-type content='text/html;charset=gbk'>"} {
		text := []byte(body)
		if n := testing.AllocsPerRun(100, func() { c.find(text, "text/html") }); n != 0 {
			t.Errorf("%s: allocations: got %v, want 0", body, n)
		}
	}
}

func FuzzCharset(f *testing.F) {
	for _, piece := range charsetPieces {
		f.Add([]byte(piece), "text/html")
	}
	var c charsets
	f.Fuzz(func(t *testing.T, body []byte, contentType string) { checkCharset(t, &c, body, contentType) })
}
