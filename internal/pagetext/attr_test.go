package pagetext

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// FuzzAttr: attributes are those of the tokenizer, which leaves out repeated names, also after some have been read
// before.
func FuzzAttr(f *testing.F) {
	for _, page := range []string{`<a href=x class='a b' id="c">`, `<A HREF = "?a&amp;b&copy=1" x y=>z`,
		`<p =x==y a/b='c'/d>`,
		"<p a\x00b=1 c='\r\n'\fd=\x00 e>",
		`<p a="x>y" b='`, `<br/ a/>`, `<p a= >`, `<p a = 'b'c=d / = e>`, "<p a b=c\n=d>",
		`<!-- <p a=b> --><script a=b><p c=d></script e=f><p A=B a=C>`} {
		f.Add(page)
	}
	f.Fuzz(func(t *testing.T, page string) {
		type attr struct{ name, value string }
		var want, got []attr
		z := html.NewTokenizer(strings.NewReader(page))
		for kind := z.Next(); kind != html.ErrorToken; kind = z.Next() {
			if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
				continue
			}
			_, more := z.TagName()
			for more {
				var name, value []byte
				name, value, more = z.TagAttr()
				want = append(want, attr{string(name), string(value)})
			}
		}
		_, err := Walk(bytes.NewReader([]byte(page)), "text/html; charset=utf-8", func(tag *Token) error {
			for range len(page) % 4 {
				tag.Attr()
			}
			tag.Rewind()
			seen := map[string]bool{}
			for {
				name, value, ok := tag.Attr()
				if !ok {
					return nil
				}
				if seen[string(name)] {
					continue
				}
				seen[string(name)] = true
				got = append(got, attr{string(name), string(value)})
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("%q: got %q, want %q", page, got, want)
			}
		}
	})
}
