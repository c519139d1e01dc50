package parse

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/net/html/charset"

	"drumbeat/internal/mimetype"
)

var charsetPieces = strings.Split(
	"<meta charset=utf-8>|<meta charset=' Shift_JIS '>|<meta charset=nonsense>|<meta charset>|<META CHARSET='UTF-16'>|"+
		"<meta http-equiv=content-type content='text/html; charset=koi8-r'>|<meta content='charset = \"euc-kr\"; x' "+
		"http-equiv=Content-Type>|"+
		"<meta content='charset=gbk'>|<meta content='x charset charset=big5;' http-equiv='content&#45;type'>|<meta "+
		"charset=x content='charset=gbk' "+
		"http-equiv=content-type>|<meta content='charset=gbk' charset=x http-equiv=content-type>|<meta "+
		"http-equiv=content-type content='charset=\"x'>|"+
		"<!--|-->|<!|<?|>|<title>|</title>|<script>|</script>|<noscript>|</noscript>|<plaintext>|<|</|</x>|</x "+
		"|é|\xE9|\xC3|text|\xE2\x82|<style>|</style>|"+
		"\uFEFF|\xFE\xFF|\xFF\xFE|<meta |charset=utf-8|'|\"|<meta charset=utf-8 "+
		"charset=gbk>|<metacharset=utf-8>|<meta/charset=iso-8859-2>", "|")

// checkCharset compares with x/net/html/charset where that follows the standard. It reads tokens, so unlike
// the standard's prescan it knows raw text, character references in attributes and names that end at '/'. It
// also continues after an unclosed comment and uses package mime.
func checkCharset(t *testing.T, c *charsets, body []byte, contentType string) {
	t.Helper()
	got, _ := c.find(body, contentType)
	if mimetype.Extract(contentType).Charset() != "" {
		contentType = "text/html; charset=" + c.says
	} else {
		contentType = "text/html"
	}
	lower := bytes.ToLower(body)
	for _, s := range strings.Split("<title|<script|<noscript|<plaintext|<style|<iframe|<xmp|<noembed|<noframes|"+
		"<textarea|<!-|&|<!|<?|</|x-user|/charset|<meta/", "|") {
		if bytes.Contains(lower, []byte(s)) {
			return
		}
	}
	if bytes.Count(lower, []byte("charset")) > 1 && bytes.Contains(lower, []byte("content")) {
		// In the standard an invalid charset attribute disables content, whatever their order.
		return
	}
	if _, want, _ := charset.DetermineEncoding(body, contentType); got != want {
		t.Fatalf("%q, header %q: got %s, want %s", body, contentType, got, want)
	}
}

func TestCharsetAgainstLibrary(t *testing.T) {
	rnd := rand.New(rand.NewPCG(*seedFlag, 0))
	headers := []string{"", "text/html", "text/html; charset=UTF8", "text/html; charset=\"koi8-r\"",
		"text/html; charset=x", "charset=utf-8", "text/html; charset=utf-8; charset=gbk", ";;"}
	var c charsets
	for i := range 60_000 {
		var b bytes.Buffer
		for range 1 + rnd.IntN(5) {
			b.WriteString(charsetPieces[rnd.IntN(len(charsetPieces))])
		}
		if i%100 == 0 {
			b.WriteString(strings.Repeat("é", 600))
		}
		checkCharset(t, &c, b.Bytes(), headers[rnd.IntN(len(headers))])
	}
}

// TestPrescan has the cases of html5lib's encoding tests and of the standard's algorithm.
func TestPrescan(t *testing.T) {
	many := strings.Repeat("x", 1024)
	for _, test := range []struct{ body, want string }{
		{"<meta charset=iso8859-2>", "iso-8859-2"},
		{"<meta\ncharset=iso8859-2>", "iso-8859-2"},
		{"<meta/charset=iso8859-2>", "iso-8859-2"},
		{"<metacharset=iso8859-2>", "windows-1252"},
		{"<meta charset=' Shift_JIS '>", "shift_jis"},
		{"<meta charset=utf-16>", "utf-8"},
		{"<meta charset=x-user-defined>", "windows-1252"},
		{"<meta content='text/html; charset=koi8-r'>", "windows-1252"},
		{"<meta content='text/html; charset=koi8-r' http-equiv='Content-Type'>", "koi8-r"},
		{"<meta content='text/html; charset=koi8-r' http-equiv='Content-Type '>", "windows-1252"},
		{"<meta charset=utf-8 charset=gbk>", "utf-8"},
		{"<script><meta charset=koi8-r></script>", "koi8-r"},
		{"<title><meta charset=koi8-r></title>", "koi8-r"},
		{"<style type='text/plain'><meta charset=koi8-r></style>", "koi8-r"},
		{"<!-- <meta charset=gbk> --><meta charset=koi8-r>", "koi8-r"},
		{"<!--><meta charset=koi8-r>", "koi8-r"},
		{"<!-- <meta charset=koi8-r>", "windows-1252"},
		{"<p title=\"x>\n<meta charset=koi8-r>\n<p>\"</p>", "windows-1252"},
		{"</p title='<meta charset=gbk>'><?x <meta charset=gbk><meta charset=koi8-r>", "koi8-r"},
		{"<! x> </1> <meta charset=koi8-r", "windows-1252"},
		// After the prescan's bytes the tree builder finds it and changes the encoding.
		{"<!--" + many + "--><meta charset=koi8-r><meta charset=gbk>", "koi8-r"},
		// Not by the prescan.
		{"<meta charset=nonsense content='charset=koi8-r' http-equiv=Content-Type>", "koi8-r"},
		{"<meta content='charset=koi8-r' charset=nonsense http-equiv=Content-Type>", "koi8-r"}, // nor this
		{"<meta charset=k&#111;i8-r>", "koi8-r"},                                               // nor this
		{"<!--" + many + "--><meta charset=nonsense><meta charset=k&#111;i8-r>", "koi8-r"},
		{"<!--" + many + "--><meta content='charset=utf-16' http-equiv=content-type>", "utf-8"},
		{"<!--" + many + "--><script><meta charset=koi8-r></script>", "windows-1252"},
		{"<meta charset=utf-8><!--" + many + "--><meta charset=gbk>", "utf-8"},
	} {
		if got := parsePageAs("text/html", test.body).Charset; got != test.want {
			t.Errorf("%.80q: got %s, want %s", test.body, got, test.want)
		}
		if d := difference([]byte(test.body+"<a href='?\xe9'>"), "text/html"); d != "" {
			t.Errorf("%.80q: %s", test.body, d)
		}
	}
}

func parsePageAs(contentType, body string) *Page {
	page := new(Page)
	NewParser(Options{}).Parse([]byte(body), contentType, page)
	return page
}

func TestCharsetAllocs(t *testing.T) {
	var c charsets
	for _, body := range []string{"<title>x</title><meta charset=utf-8>", "<p>plain", "<p>\u00E9",
		"<meta http-equiv=content-type content='text/html;charset=gbk'>"} {
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
