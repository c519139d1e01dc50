package sitemap

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/text/encoding/unicode"
)

const ns = ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"`

func packed(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

func wide(s string, order unicode.Endianness, bom unicode.BOMPolicy) string {
	out, err := unicode.UTF16(order, bom).NewEncoder().String(s)
	if err != nil {
		panic(err)
	}
	return out
}

// urlset returns a urlset with locs.
func urlset(locs ...string) string {
	s := `<?xml version="1.0" encoding="UTF-8"?><urlset` + ns + ">"
	for _, l := range locs {
		s += "<url><loc>" + l + "</loc><lastmod>2026-01-01</lastmod></url>\n"
	}
	return s + "</urlset>"
}

// rss returns a feed whose items have these contents.
func rss(items ...string) string {
	return "<rss><channel><item>" + strings.Join(items, "</item><item>") + "</item></channel></rss>"
}

// readAll returns the URLs of a sitemap, separated by blanks.
func readAll(body []byte, opt Options) (string, Summary, error) {
	var urls []string
	sum, err := Read(body, opt, func(e Entry) error {
		urls = append(urls, string(bytes.Join(append(slices.Clone(e.Bases), e.URL), []byte("|")))) // with its bases
		return nil
	})
	return strings.Join(urls, " "), sum, err
}

const latinSet = `<?xml version='1.0' encoding='ISO-8859-1'?><urlset><url><loc>http://h/` + "\xe9" +
	`</loc></url></urlset>`

// readCases are the cases of TestRead.
var readCases = []struct {
	name, body string
	form       Form
	urls       string
	faults     int
	err        error
}{
	{name: "urlset", body: urlset("http://h/1", " \n http://h/2\t"), form: URLSet, urls: "http://h/1 http://h/2"},
	{name: "no declaration", body: "<urlset><url><loc>http://h/1</loc></url></urlset>", form: URLSet,
		urls: "http://h/1"},
	{name: "prefixes", body: `<s:urlset xmlns:s="x"><s:url><s:loc>http://h/1</s:loc></s:url></s:urlset>`,
		form: URLSet, urls: "http://h/1"},
	{name: "images and videos",
		body: urlset("http://h/1</loc><image:image><image:loc>http://i/1</image:loc></image:image><loc>http://h/2"),
		form: URLSet, urls: "http://h/1 http://h/2"},
	{name: "sitemap in a urlset", body: "<urlset><sitemap><loc>http://h/1</loc></sitemap><url><loc>http://h/2</" +
		"loc></url></urlset>", form: URLSet, urls: "http://h/2"},
	{name: "index", body: "<sitemapindex><sitemap><loc>http://h/1.xml</loc></sitemap><sitemap><loc>http://h/" +
		"2.xml.gz</loc></sitemap></sitemapindex>",
		form: Index, urls: "http://h/1.xml http://h/2.xml.gz"},
	{name: "references", body: urlset("http://h/?a=1&amp;b=2&#38;c&#x3d;3&apos;&quot;&lt;&gt;"), form: URLSet,
		urls: `http://h/?a=1&b=2&c=3'"<>`},
	{name: "unknown reference", body: urlset("http://h/&nbsp;", "http://h/&", "http://h/&#0;",
		"http://h/&#x110000;", "http://h/2"), form: URLSet, urls: "http://h/2", faults: 4},
	{name: "CDATA and comments", body: urlset("<![CDATA[http://h/?a&amp;b]]>", "http://h/<!-- x -->2",
		"<![CDATA[http://h/]]]>3"), form: URLSet,
		urls: "http://h/?a&amp;b http://h/2 http://h/]3"},
	{name: "comments anywhere", body: "<!-- a --><?x y?><!-- - -- > -->" + urlset("http://h/1") + "<!-- b -->",
		form: URLSet, urls: "http://h/1"},
	{name: "empty ones", body: urlset("", " ", "http://h/1") + "<url/>", form: URLSet, urls: "http://h/1"},
	{name: "empty root", body: "<urlset/>", form: URLSet},
	{name: "tags that don't match",
		body: "<urlset><url><loc>http://h/1</url></loc><url><loc>http://h/2</loc></url></urlset>", form: URLSet,
		urls: "http://h/1 http://h/2"},
	{name: "quotes with >", body: `<urlset a=">" b='>"'><url x="<loc>"><loc>http://h/1</loc></url></urlset>`,
		form: URLSet, urls: "http://h/1"},
	{name: "broken off", body: "<urlset><url><loc>http://h/1</loc></url><url><loc>http://h/2</l", form: URLSet,
		urls: "http://h/1", err: ErrBroken},
	{name: "broken off in a comment", body: "<urlset><!-- ", form: URLSet, err: ErrBroken},
	{name: "too long a loc", body: urlset("http://h/"+strings.Repeat("a", MaxLoc), "http://h/1"), form: URLSet,
		urls: "http://h/1", faults: 1},
	{name: "too long a tag", body: `<urlset><url x="` + strings.Repeat("a", maxTag) + `">`, form: URLSet,
		err: ErrTag},
	{name: "too deep", body: "<urlset>" + strings.Repeat("<a>", 1000), form: URLSet, err: ErrDeep},
	{name: "entities", body: `<!DOCTYPE urlset [<!ENTITY a "b">]>` + urlset("http://h/&a;"), err: ErrDTD},
	{name: "late entities", body: "<urlset><!DOCTYPE urlset [<!ENTITY a 'b'>]><url><loc>&a;</loc></url></urlset>",
		form: URLSet, err: ErrDTD},
	{name: "document type without declarations",
		body: `<!DOCTYPE urlset SYSTEM "http://h/x.dtd">` + urlset("http://h/1"), form: URLSet, urls: "http://h/1"},
	{name: "HTML", body: "<!DOCTYPE html><html><body><urlset><url><loc>http://h/1</loc></url></urlset>",
		err: ErrForm},
	{name: "nothing", body: "", err: ErrForm},
	{name: "text", body: "hello, world\n", err: ErrForm},
	{name: "list", body: "http://h/1\r\n\n  HTTPS://h/2 \rhttp://h/3\nno URL\nhttp://h/ 4\nftp://h/5\nhttp://h/6",
		form: List, urls: "http://h/1 HTTPS://h/2 http://h/3 http://h/6", faults: 3},
	{name: "list with BOM", body: "\xef\xbb\xbfhttp://h/ü\n", form: List, urls: "http://h/ü"},
	{name: "list with a long line",
		body: "http://h/1\nhttp://h/" + strings.Repeat("x", 100_000) + "\nhttp://h/2\n", form: List,
		urls: "http://h/1 http://h/2", faults: 1},
	{name: "RSS 2.0",
		body: "<rss version='2.0'><channel><link>http://h/</link><image><link>http://h/i</link></image>" +
			"<item><link>http://h/1</link><guid>http://h/g</guid></item>" +
			"<item><atom:link href='http://h/x'/><link><![CDATA[http://h/?a&b]]></link></item></channel></rss>",
		form: RSS, urls: "http://h/1 http://h/?a&b"},
	{name: "RSS 1.0", body: "<rdf:RDF><channel><link>http://h/</link></channel><item " +
		"rdf:about='x'><link>http://h/1</link></item></rdf:RDF>", form: RSS, urls: "http://h/1"},
	{name: "Atom",
		body: `<feed><link href="http://h/"/><entry><link href="http://h/1"/><link rel='self' href='http://h/s'/>` +
			`<link rel="alternate" href="http://h/2?a&amp;b" />` +
			`</entry><entry><link href='http://h/3' rel='enclosure'></link><link/></entry></feed>`, form: Atom,
		urls: "http://h/1 http://h/2?a&b"},
	{name: "RSS guid", body: rss("<guid>http://h/1</guid>", "<guid isPermaLink='true'>http://h/2</guid>",
		"<guid isPermaLink=\"false\">http://h/3</guid>", "<guid isPermaLink='FALSE'>http://h/3</guid>",
		"<guid>a name</guid>", "<guid>http://h/4</guid><link></link>",
		"<guid>http://h/g</guid><link>http://h/5</link>", "<link>http://h/6</link><guid>http://h/g</guid>",
		"<title>none</title>", "<guid><![CDATA[ HTTP://h/7?a&b ]]></guid>",
		"<guid isPermaLink=''>http://h/8</guid>", "<guid>http://h/9</guid><source><link>http://h/s</link></source>",
		"<guid/>", "<guid>http://h/&nbsp;</guid>"),
		form: RSS,
		urls: "http://h/1 http://h/2 http://h/4 http://h/5 http://h/6 HTTP://h/7?a&b http://h/8 http://h/9"},
	{name: "guid outside of an item", body: "<rss><channel><guid>http://h/1</guid></channel></rss>", form: RSS},
	{name: "relative links", body: rss("<link>/1</link>", "<link>2?a&amp;b</link>"), form: RSS, urls: "/1 2?a&b"},
	{name: "xml:base",
		body: `<feed xml:base="http://h/a/"><entry><link href="1"/></entry><entry xml:base='b/&#x63;/'><link ` +
			`href="2"/><link xml:base="d/" href="3"/>` +
			`<link xml:base="d/" href="4"></link><link href="5"/></entry><entry xml:base='x/'/><entry><link ` +
			`href="6"/></entry></feed>`, form: Atom,
		urls: "http://h/a/|1 http://h/a/|b/c/|2 http://h/a/|b/c/|d/|3 http://h/a/|b/c/|d/|4 " +
			"http://h/a/|b/c/|5 http://h/a/|6"},
	{name: "xml:base in RSS",
		body: `<rss xml:base="http://h/"><channel xml:base="a/"><item><link>1</link></item></channel></rss>`,
		form: RSS, urls: "http://h/|a/|1"},
	{name: "xml:base in a sitemap", body: `<urlset xml:base="http://h/"><url><loc>http://h/1</loc></url></urlset>`,
		form: URLSet, urls: "http://h/1"},
	{name: "UTF-8 BOM", body: "\xef\xbb\xbf" + urlset("http://h/ü"), form: URLSet, urls: "http://h/ü"},
	{name: "UTF-16LE", body: wide(urlset("http://h/ü"), unicode.LittleEndian, unicode.UseBOM), form: URLSet,
		urls: "http://h/ü"},
	{name: "UTF-16BE", body: wide(urlset("http://h/ü"), unicode.BigEndian, unicode.UseBOM), form: URLSet,
		urls: "http://h/ü"},
	{name: "UTF-16 without BOM", body: wide(urlset("http://h/ü"), unicode.LittleEndian, unicode.IgnoreBOM),
		form: URLSet, urls: "http://h/ü"},
	{name: "Latin-1", body: latinSet, form: URLSet, urls: "http://h/é"},
	{name: "said to be UTF-16, but isn't", body: strings.Replace(urlset("http://h/1"), "UTF-8", "UTF-16", 1),
		form: URLSet, urls: "http://h/1"},
	{name: "unknown encoding", body: strings.Replace(urlset("http://h/1"), "UTF-8", "x-klingon", 1),
		form: URLSet, urls: "http://h/1"},
	{name: "not UTF-8", body: urlset("http://h/\xff"), form: URLSet, urls: "http://h/\xff"},
}

func TestRead(t *testing.T) {
	for _, c := range readCases {
		for layers, body := 0, []byte(c.body); layers <= 3; layers, body = layers+1, packed(body) {
			urls, sum, err := readAll(body, Options{})
			if layers > maxLayers {
				if !errors.Is(err, ErrLayers) || urls != "" {
					t.Errorf("%s packed %d times: got %q, %v", c.name, layers, urls, err)
				}
				continue
			}
			if !errors.Is(err, c.err) || urls != c.urls || sum.Form != c.form || sum.Faults != c.faults {
				t.Errorf("%s packed %d times: got %v %q, %d faults, %v; want %v %q, %d, %v", c.name, layers,
					sum.Form, urls, sum.Faults, err, c.form, c.urls, c.faults, c.err)
			}
			if f := Sniff(body); layers > 0 && f != Packed || layers == 0 && f != c.form {
				t.Errorf("%s packed %d times: Sniff says %v", c.name, layers, f)
			}
		}
	}
	if urls, _, err := readAll([]byte(strings.Replace(latinSet, "encoding='ISO-8859-1'", "", 1)),
		Options{ContentType: "text/xml; charset=windows-1252"}); urls != "http://h/é" {
		t.Errorf("charset of the header: got %q, %v", urls, err)
	}
}

// TestTranslations: the alternate links of a url are read, in any order with its loc, and within bounds.
func TestTranslations(t *testing.T) {
	const de, fr = `<x:link rel="alternate" hreflang="de" href=" http://a.test/?a&amp;b "/>`,
		`<link hreflang='fr' href='/fr' rel='alternate'></link>`
	const loc, other = "<loc>http://a.test/</loc>", "<url><loc>http://b.test/</loc></url>"
	const readDE, readFR = " de=http://a.test/?a&b", " fr=/fr"
	long := strings.ReplaceAll(fr, "/fr", strings.Repeat("l", MaxLoc))
	for body, want := range map[string]string{
		"<url>" + de + loc + fr + "</url>" + other:   "http://a.test/" + readDE + readFR + "; http://b.test/",
		"<url>" + loc + de + fr + de + de + "</url>": "http://a.test/" + readDE + readFR + readDE,

		"<url>" + loc + "</url>" + fr:                   "http://a.test/",
		"<url>" + loc + "<x>" + fr + "</x></url>":       "http://a.test/",
		"<url>" + loc + "<link href='/x' /></url>":      "http://a.test/",
		"<url>" + loc + "<link rel='alternate'/></url>": "http://a.test/",

		"<url>" + loc + strings.Replace(fr, "/fr", "&no;", 1) + fr + "</url>":       "http://a.test/" + readFR,
		"<url>" + loc + strings.Replace(fr, "alternate", "amphtml", 1) + "</url>":   "http://a.test/",
		"<url>" + loc + strings.Replace(fr, "hreflang='fr'", "", 1) + de + "</url>": "http://a.test/" + readDE,
		"<url>" + loc + strings.Replace(long, "lll", "llll", 1) + fr + "</url>":     "http://a.test/" + readFR,
	} {
		var got []string
		_, _ = Read([]byte("<urlset>"+body+"</urlset>"), Options{Translations: 3}, func(e Entry) error {
			s := string(e.URL)
			for _, t := range e.Translations {
				s += fmt.Sprintf(" %s=%s", t.Code, t.URL)
			}
			got = append(got, s)
			return nil
		})
		if got := strings.Join(got, "; "); got != want {
			t.Errorf("%.200s\n got %s\nwant %s", body, got, want)
		}
	}
	n := 0
	body := "<urlset><url>" + loc + strings.Repeat(long, 20) + "</url></urlset>"
	_, err := Read([]byte(body), Options{Translations: 100}, func(e Entry) error {
		n = len(e.Translations)
		return nil
	})
	if err != nil || n != maxTranslationBytes/MaxLoc-1 {
		t.Errorf("%d long translations, error %v", n, err)
	}
}

func TestDates(t *testing.T) {
	entry := func(inner string) string { return "<url>" + inner + "</url>" }
	loc := func(n int) string { return fmt.Sprintf("<loc>http://h/%d</loc>", n) }
	dates := []string{"2024-05-06T07:08:09Z", " 2024-05-06T09:08:09.5+02:00\n", "2024-05-06", "2024-05-06T07:08Z",
		"2024-05", "2024", "yesterday", "", strings.Repeat("2", 10_000)}
	body := "<urlset>"
	for i, d := range dates {
		body += entry(loc(2*i)+"<lastmod>"+d+"</lastmod>") + entry("<lastmod>"+d+"</lastmod>"+loc(2*i+1))
	}
	body += entry("<loc>no\x26such;</loc><lastmod>2024</lastmod>") + entry("<lastmod>2023</lastmod>") + entry(loc(99)) +
		"<lastmod>2022</lastmod>" + entry(loc(100)+"<lastmod>2021</lastmod><lastmod>2020</lastmod>") + "</urlset>"
	got := map[string]int64{}
	sum, err := Read([]byte(body), Options{}, func(e Entry) error {
		if !e.Modified.IsZero() {
			got[string(e.URL)] = e.Modified.Unix()
		}
		return nil
	})
	if err != nil || sum.URLs != 2*len(dates)+2 || sum.Faults != 1 {
		t.Fatal(sum, err)
	}
	want := map[string]int64{"http://h/100": time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC).Unix()}
	for i, at := range []time.Time{time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC),
		time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC), time.Date(2024, 5, 6, 0, 0, 0, 0, time.UTC),
		time.Date(2024, 5, 6, 7, 8, 0, 0, time.UTC), time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)} {
		want[fmt.Sprintf("http://h/%d", 2*i)], want[fmt.Sprintf("http://h/%d", 2*i+1)] = at.Unix(), at.Unix()
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestLimits(t *testing.T) {
	var many strings.Builder
	many.WriteString("<urlset>")
	for i := range MaxURLs + 10 {
		fmt.Fprintf(&many, "<url><loc>http://h/%d</loc></url>", i)
	}
	many.WriteString("</urlset>")
	if _, sum, err := readAll([]byte(many.String()), Options{}); sum.URLs != MaxURLs || err != ErrMany {
		t.Errorf("got %d URLs, %v", sum.URLs, err)
	}
	if _, sum, err := readAll([]byte(many.String()), Options{MaxURLs: 7}); sum.URLs != 7 || err != ErrMany {
		t.Errorf("got %d URLs, %v", sum.URLs, err)
	}
	two := urlset("http://h/1", "http://h/2")
	cut := int64(strings.Index(two, "h/2"))
	if urls, sum, err := readAll([]byte(two), Options{MaxBytes: cut}); sum.Bytes != cut ||
		!errors.Is(err, ErrLong) || urls != "http://h/1" {
		t.Errorf("got %q, %d bytes, %v", urls, sum.Bytes, err)
	}
	exact := urlset("http://h/1")
	if urls, _, err := readAll([]byte(exact), Options{MaxBytes: int64(len(exact))}); urls != "http://h/1" ||
		err != nil {
		t.Errorf("as long as allowed: got %q, %v", urls, err)
	}
	stop := errors.New("stop")
	if sum, err := Read([]byte(exact), Options{}, func(Entry) error { return stop }); err != stop || sum.URLs != 1 {
		t.Errorf("got %+v, %v", sum, err)
	}
}

// zeros is a reader of a number of blanks; it counts the bytes read.
type zeros struct{ left int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left <= 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.left)
	for i := range p[:n] {
		p[i] = ' '
	}
	z.left -= n
	return int(n), nil
}

// TestBomb: a bomb of a gigabyte is read up to the limit, in a few hundred KB of memory.
func TestBomb(t *testing.T) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write([]byte("<urlset><url><loc>http://h/1</loc></url>"))
	if _, err := io.Copy(z, &zeros{left: 60 << 20}); err != nil {
		t.Fatal(err)
	}
	_ = z.Close()
	plain := append([]byte("<urlset><url><loc>http://h/1</loc></url>"), make([]byte, MaxBytes)...)
	for _, test := range []struct {
		body []byte
		want int64
	}{{plain, MaxBytes}, {out.Bytes(), maxRatio * int64(out.Len())}, {packed(out.Bytes()), freeRatio}} {
		urls, sum, err := readAll(test.body, Options{})
		if urls != "http://h/1" || !errors.Is(err, ErrLong) || sum.Bytes != test.want {
			t.Errorf("got %q, %d bytes of %d, %v; want %d", urls, sum.Bytes, len(test.body), err, test.want)
		}
	}
	broken := packed([]byte(urlset("http://h/1")))
	for _, body := range [][]byte{broken[:len(broken)/2], broken[:12], {0x1f, 0x8b, 9}} {
		if _, _, err := readAll(body, Options{}); !errors.Is(err, ErrBroken) {
			t.Errorf("broken gzip: got %v", err)
		}
	}
}

// FuzzRead: Read ends within the limits. A urlset that encoding/xml accepts gives the same URLs.
func FuzzRead(f *testing.F) {
	f.Add([]byte(urlset("http://h/1", "http://h/<![CDATA[&]]>&#65;<!-- x -->")), "text/xml")
	f.Add([]byte("<sitemapindex><sitemap><loc>http://h/1.xml</loc></sitemap></sitemapindex>"), "")
	f.Add(packed([]byte("http://h/1\nhttp://h/2\n")), "text/plain; charset=latin1")
	f.Add([]byte("<rss><channel><item><link>http://h/</link></item></channel></rss>"), "")
	f.Add([]byte("<feed><entry><link href='http://h/1'/></entry></feed>"), "")
	f.Add([]byte(wide(urlset("http://h/ü"), unicode.BigEndian, unicode.UseBOM)), "")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		var got []string
		sum, err := Read(body, Options{ContentType: contentType, MaxBytes: 1 << 20, MaxURLs: 1000},
			func(e Entry) error {
				got = append(got, string(e.URL))
				return nil
			})
		if sum.URLs != len(got) || len(got) > 1000 || sum.Bytes > 1<<20 {
			t.Fatalf("%+v, %d URLs", sum, len(got))
		}
		for _, u := range got {
			if len(u) > MaxLoc || len(u) == 0 {
				t.Fatalf("URL of %d bytes", len(u))
			}
		}
		if err != nil || sum.Form != URLSet || sum.Faults > 0 || contentType != "" || bytes.HasPrefix(body, gzipMagic) {
			return
		}
		if want, ok := byXML(body); ok && strings.Join(want, "\n") != strings.Join(got, "\n") {
			t.Fatalf("%q: got %q, encoding/xml %q", body, got, want)
		}
	})
}

// byXML reads a urlset with encoding/xml. ok is false for input that encoding/xml rejects or reads in
// another way.
func byXML(body []byte) (urls []string, ok bool) {
	d := xml.NewDecoder(bytes.NewReader(body))
	var path []string
	var text strings.Builder
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return urls, true
		}
		if err != nil {
			return nil, false
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			path = append(path, tok.Name.Local)
			if strings.Contains(tok.Name.Local, ":") || len(path) == 1 && tok.Name.Local != "urlset" {
				return nil, false
			}
			if strings.HasSuffix(strings.Join(path, "/"), "url/loc") {
				text.Reset()
			}
		case xml.EndElement:
			if strings.HasSuffix(strings.Join(path, "/"), "url/loc") {
				if u := strings.Trim(text.String(), " \t\r\n"); strings.TrimSpace(u) != u ||
					strings.ContainsAny(u, "\r") {
					return nil, false
				} else if u != "" {
					urls = append(urls, u)
				}
			}
			path = path[:len(path)-1]
			if len(path) == 0 {
				return urls, true
			}
		case xml.CharData:
			text.Write(tok)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	var s strings.Builder
	s.WriteString("<urlset" + ns + ">")
	for i := range 5000 {
		fmt.Fprintf(&s, "<url>\n  <loc>http://www.example.org/section/article-%d.html?a=1&amp;b=2</loc>\n  "+
			"<lastmod>2026-01-01T00:00:00Z</lastmod>\n  <changefreq>daily</changefreq>\n</url>\n", i)
	}
	s.WriteString("</urlset>")
	body := []byte(s.String())
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if sum, err := Read(body, Options{}, func(Entry) error { return nil }); err != nil || sum.URLs != 5000 {
				b.Fatal(sum, err)
			}
		}
	})
	b.Run("encoding-xml", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if urls, ok := byXML(body); !ok || len(urls) != 5000 {
				b.Fatal(ok)
			}
		}
	})
}

// TestPriority: a URL has the priority of its url element, wherever that stands, and 0.5 without a valid one.
func TestPriority(t *testing.T) {
	body := `<urlset><url><loc>http://h/1</loc><priority> 0.8 </priority></url>
<url><priority>0.1</priority><loc>http://h/2</loc></url><url><loc>http://h/3</loc></url>
<url><loc>http://h/4</loc><priority>7</priority></url><url><loc>http://h/5</loc><priority>x</priority></url>
<url><loc>http://h/6</loc><image><priority>0.9</priority></image></url><priority>0.3</priority>
<url><priority>1.0</priority><loc>http://h/7</loc><loc>http://h/8</loc></url><url><loc>http://h/9</loc><priority>0</priority>`
	want := "1:0.8 2:0.1 3:0.5 4:0.5 5:0.5 6:0.5 7:1 8:1 9:0 "
	got := ""
	sum, err := Read([]byte(body), Options{}, func(e Entry) error {
		got += fmt.Sprintf("%s:%v ", e.URL[len("http://h/"):], e.Priority)
		return nil
	})
	if got != want || sum.URLs != 9 || !errors.Is(err, ErrBroken) {
		t.Errorf("%s, %+v, %v; want %s and ErrBroken", got, sum, err, want)
	}
}
