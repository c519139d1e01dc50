package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"testing"

	whatwg "github.com/nlnwa/whatwg-url/url"

	"drumbeat/parse"
	"drumbeat/weburl"
)

// refCases are references by kind; %d is a different number in each. Those from "dots" on aren't plain.
var refCases = []struct{ name, ref string }{
	{"absolute", "http://www.other%d.example/a/b.html"},
	{"same-host", "http://www.example.org/docs/b%d.html"},
	{"relative", "functions/b%d.html#part"},
	{"up", "../../tutorial/b%d.html"},
	{"rooted", "/docs/b%d.html"},
	{"query", "?page=%d&sort=name"},
	{"path-query", "view.php?id=%d&lang=en"},
	{"fragment", "#part-%d"},
	{"dots", "a/./b/../../c%d.html"},
	{"encode", "a b%d/\u00FCber/%%7Euser?q=\"x\""},
	{"upper", "HTTP://WWW.Example%d.ORG:80/A"},
	{"idn", "http://b\u00FCcher%d.example/a"},
}

// refGroup holds references with one base, in the forms that the methods need.
type refGroup struct {
	base    *weburl.Base
	stdBase *url.URL
	libBase *whatwg.Url
	refs    [][]byte
	texts   []string
}

func newRefGroup(tb testing.TB, base *weburl.Base, refs [][]byte) *refGroup {
	g := &refGroup{base: base, refs: refs}
	std, err1 := url.Parse(string(base.URL()))
	lib, err2 := whatwg.Parse(string(base.URL()))
	if err := errors.Join(err1, err2); err != nil {
		tb.Fatal(err)
	}
	g.stdBase, g.libBase = std, lib
	for _, ref := range refs {
		g.texts = append(g.texts, string(ref))
	}
	return g
}

// BenchmarkURL makes canonical URLs of references to a parsed base with package weburl, net/url and a
// library of the URL standard: for each kind, and for all references of the pages. Targets for plain ones:
// 100 ns, 4 times net/url, no allocation.
func BenchmarkURL(b *testing.B) {
	base, err := weburl.NewBase([]byte("http://www.example.org/docs/library/reference/page-12.html"))
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range refCases {
		var refs [][]byte
		for i := range 2000 { // too many for the CPU's branch predictor to learn
			refs = append(refs, fmt.Appendf(nil, c.ref, i*7919%1000))
		}
		benchmarkRefs(b, c.name, []*refGroup{newRefGroup(b, base, refs)})
	}
	var mix []*refGroup
	links := newLinkFinder()
	for _, p := range sample(b) {
		if g := links.find(b, p); g != nil {
			mix = append(mix, g)
		}
	}
	benchmarkRefs(b, "pages", mix)
}

// benchmarkRefs measures all methods alternately on the references. Invalid references count, too.
func benchmarkRefs(b *testing.B, name string, groups []*refGroup) {
	type ref struct {
		*refGroup
		i int
	}
	var refs []ref
	for _, g := range groups {
		for i := range g.refs {
			refs = append(refs, ref{g, i})
		}
	}
	r, buf := weburl.NewResolver(weburl.Options{}), make([]byte, 0, weburl.DefaultMaxBytes+1)
	for _, m := range []struct {
		name string
		do   func(ref)
	}{
		{"ours", func(g ref) { buf, _ = r.AppendResolve(buf[:0], g.base, g.refs[g.i]) }},
		{"net-url", func(g ref) { _ = stdCanonical(g.stdBase, g.texts[g.i]) }},
		{"whatwg-url", func(g ref) {
			if u, err := g.libBase.Parse(g.texts[g.i]); err == nil {
				_ = u.Href(true)
			}
		}},
	} {
		b.Run("refs="+name+"/by="+m.name, func(b *testing.B) {
			cpuTime(b, func(i int) error { m.do(refs[i%len(refs)]); return nil })
		})
	}
}

func stdCanonical(base *url.URL, ref string) string {
	u, err := base.Parse(ref)
	if err != nil {
		return ""
	}
	u.Fragment, u.RawFragment, u.User = "", "", nil
	return u.String()
}

// linkFinder finds the references of pages.
type linkFinder struct {
	p *parse.Parser
	r *weburl.Resolver
}

func newLinkFinder() *linkFinder {
	return &linkFinder{parse.NewParser(parse.Options{}), weburl.NewResolver(weburl.Options{MaxBytes: weburl.Unlimited})}
}

// find returns the references of a page, or nil if its base isn't a URL.
func (f *linkFinder) find(tb testing.TB, p page) *refGroup {
	tb.Helper()
	at, err := weburl.Canonical("http://www.corpus.test" + (&url.URL{Path: p.path}).EscapedPath())
	if err != nil {
		return nil // too long
	}
	base, err := weburl.NewBase([]byte(at))
	if err != nil {
		tb.Fatal(err)
	}
	var found parse.Page
	f.p.Parse(p.body, "", &found)
	base.Query = found.Encoding
	if found.Base != nil {
		if err := f.r.Rebase(base, found.Base); err != nil && len(base.URL()) == 0 {
			return nil
		}
	}
	var refs [][]byte
	for _, l := range found.Links {
		refs = append(refs, slices.Clone(l.Ref))
	}
	return newRefGroup(tb, base, refs)
}

// TestURLsAreTheStandards: every distinct reference of every page of the corpus becomes the URL that the
// standard prescribes. It skips queries in encodings other than UTF-8, which the library doesn't support.
func TestURLsAreTheStandards(t *testing.T) {
	n, read := corpus(t)
	links, compared, plain, stdOther := newLinkFinder(), 0, 0, 0
	for i := range n {
		g := links.find(t, read(i))
		if g == nil {
			continue
		}
		seen := map[string]bool{}
		for i, ref := range g.refs {
			text := g.texts[i]
			ascii := !slices.ContainsFunc(ref, func(c byte) bool { return c >= 0x80 })
			got, err := links.r.AppendResolve(nil, g.base, ref)
			if seen[text] || errors.Is(err, weburl.ErrTooLong) || g.base.Query != nil && !ascii {
				continue
			}
			seen[text] = true
			compared++
			if links.r.IsPlain(g.base, ref) {
				plain++
			}
			if stdCanonical(g.stdBase, text) != string(got) {
				stdOther++
			}
			want, wantErr := weburl.StandardCanonical(string(g.base.URL()), text)
			if string(got) != want || (err == nil) != (wantErr == nil) {
				t.Errorf("%.200q relative to %.200q: %.200q, by the standard %.200q", ref, g.base.URL(), got, want)
			}
		}
	}
	t.Logf("%d pages, %d different references, %d of them plain; net/url makes something else of %d", n, compared, plain, stdOther)
}
