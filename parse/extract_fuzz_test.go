package parse

import (
	"bytes"
	"testing"

	"drumbeat/internal/damage"
	"drumbeat/weburl"
)

// FuzzExtract: for any page and type, links are canonical URLs within the limit, everything else is counted,
// and memory and link text are bounded by the size of the page.
func FuzzExtract(f *testing.F) {
	for _, body := range []string{
		"<base href=//x.example/a/b><a href=c><a href='?\xfc'><link rel='next canonical' href=d>",
		"<meta http-equiv=refresh content='0; url=../x y'><meta name=robots content='noindex,nofollow'>",
		"<meta charset=shift_jis><a href='/\x83\x65?q=\x83\x65'><base href='data:,x'><base href=/second>",
		"<img src=a srcset='b, c'><style>@import 'd'</style><form action=e><p style='a:url(f)'>",
		"<svg><a xlink:href=x href=y></a></svg><area href=javascript:x><iframe src='http://[::1]:80/'>",
		"\xff\xfe<\x00a\x00 \x00h\x00r\x00e\x00f\x00=\x00x\x00>\x00", "<a href=http://user:pw@h:99999/%zz#frag>",
	} {
		f.Add([]byte(body), "text/html; charset=windows-1251", "http://example.org:81/d/page?x#y")
		f.Add([]byte(body), "", "https://xn--bcher-kva.example/")
	}
	const maxLinks = 50
	opt := Options{Rels: DefaultRels | RelAlternate | RelOther, Agent: "drumbeat", MaxLinks: maxLinks}
	plain := NewExtractor(opt, weburl.Options{})
	opt.Assets, opt.Forms = true, true
	all := NewExtractor(opt, weburl.Options{})
	f.Fuzz(func(t *testing.T, body []byte, contentType, page string) {
		x := plain
		if len(body)%2 == 0 {
			x = all
		}
		canonical, err := weburl.Canonical(page)
		if err != nil || len(body) > 1<<16 {
			return
		}
		var emitted int64
		var counts Counts
		n := damage.Allocated(func() {
			counts, err = x.Extract([]byte(canonical), body, contentType, func(url []byte, l *Link) {
				emitted++
				if again, err := weburl.Canonical(string(url)); err != nil || again != string(url) {
					t.Fatalf("%q on %q: link %q is no canonical URL: %q, %v", body, canonical, url, again, err)
				}
				if len(l.Ref) > 3*len(body)+8 {
					t.Fatalf("reference of %d bytes on a page of %d", len(l.Ref), len(body))
				}
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		if emitted != counts.Links || counts.Links+counts.Invalid+counts.OtherScheme > maxLinks {
			t.Fatalf("%d links, %+v", emitted, counts)
		}
		if sum := counts.Links + counts.Invalid + counts.OtherScheme + counts.TooLong +
			counts.Dropped; sum > int64(bytes.Count(body, []byte("<")))+
			int64(bytes.Count(body, []byte{0x3c, 0})) && x == plain && len(x.Page().Charset) > 0 &&
			x.Page().Charset == "utf-8" {
			t.Fatalf("%d links of %q", sum, body)
		}
		if n > 16<<20 {
			t.Fatalf("%d bytes allocated for a page of %d", n, len(body))
		}
	})
}
