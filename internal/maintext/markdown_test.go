package maintext

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"golang.org/x/net/html"
)

// TestMarkdown: each kind of structure has one form, and nothing in a text is taken for structure.
func TestMarkdown(t *testing.T) {
	const long = "This paragraph has enough words to be the main text of the page, whatever stands beside it."
	for page, want := range map[string]string{
		"<h1>A <i>b</i> #</h1><h3><b>C</b></h3>":                         "# A *b* \\#\n\n### C\n",
		"<p>a<br>b <p>c":                                                 "a b\n\nc\n",
		"<p>a <b> b </b>c<em>d</em>e <i>(f)</i>g <b>h:</b> i":            "a **b** c*d*e (f)g **h:** i\n",
		"<p><a href=/x?a=(1)> b </a>c <a href=mailto:x>d</a><a name=y>e": "[b](http://a.test/x?a=%281%29) c de\n",
		"<ul><li>a<ol><li>b<li><p>c<p>d</ol><li>e</ul>f":                 "- a\n  1. b\n  2. c\n\n     d\n- e\n\nf\n",
		"<blockquote><p>a<p>b<ul><li>c</ul></blockquote>d":               "> a\n>\n> b\n>\n> - c\n\nd\n",
		"<ol><li><blockquote>a<pre>b\n\nc": "1. > a\n   >\n   > ```\n   > b\n   >\n   > c\n" +
			"   > ```\n",
		"<pre><code class='x language-go'>\n a\n\n\tb`` \n</code></pre>": "```go\n a\n\n\tb``\n```\n",
		"<pre class=lang-c++>```</pre>":                                  "````c++\n```\n````\n",
		"<p>a <code>b `c`</code><code>d</code>":                          "a `` b `c` `` `d`\n",
		"<table><tr><th>a<th>b|c<tr><td>d<p>e<td><code>f|g</code><tr><td>h</table>": "| a | b\\|c |\n| --- | --- |\n" +
			"| d e | `f\\|g` |\n| h |  |\n",
		"<table><tr><td>a<td><ul><li>b</ul></table>":           "a\n\n- b\n",
		"<table><tr><th><h3>a</h3><th>b<tr><td>c<td>d</table>": "| a | b |\n| --- | --- |\n| c | d |\n",
		"<table><tr><td><h3>a</h3><td>b<tr><td>c<td>d</table>": "### a\n\nb\n\nc\n\nd\n",
		"<p>a<p><img src=x.png alt='b [c]'>":                   "a\n\n![b \\[c\\]](http://a.test/dir/x.png)\n",
		"<p>1. a<p>- b<p># c<p>+ d<p>&gt; e<p>=== <p>12) f<p>2026 g": "1\\. a\n\n\\- b\n\n\\# c\n\n\\+ d\n\n\\> e\n\n" +
			"\\===\n\n12\\) f\n\n2026 g\n",
		"<p>*a* _b_ c_d [e] &lt;f> &amp;lt; &amp; g `h` ~~i~~ \\ a&lt;b": "\\*a\\* \\_b\\_ " +
			"c_d \\[e\\] \\<f> \\&lt; & g \\`h\\` \\~\\~i\\~\\~ \\\\ a\\<b\n",
		"<table>\n<tr> <td>a</td> <td> b </td>\n</tr> <tr> <td> c</td> <td>d</td> </tr> </table>": "| a | b |\n" +
			"| --- | --- |\n| c | d |\n",
		"<table><tr><td rowspan=2>a<td colspan=2>b<tr><td>c<td>d<tr><td>e<td><td>f</table>": "| a | b |  |\n" +
			"| --- | --- | --- |\n|  | c | d |\n| e |  | f |\n",
		"<table><tr><td>a<td>b<td rowspan=3>c<tr><td>d<tr><td>e<tr><td>f<td>g<td>h</table>": "| a | b | c |\n" +
			"| --- | --- | --- |\n| d |  |  |\n| e |  |  |\n| f | g | h |\n",
		"<table><tr><td colspan=65>a<td>b<tr><td>c<td>d</table>":      "a\n\nb\n\nc\n\nd\n",
		"<table><tr><td colspan=0 rowspan=x>a<td>b<tr><td>c</table>x": "| a | b |\n| --- | --- |\n| c |  |\n\nx\n",
		"<p>a!<a href=x>b</a><b> </b>c!":                              "a\\![b](http://a.test/dir/x) c!\n",
		"<nav><a href=x>menu</a></nav><p>a":                           "a\n",
		"<dl><dt>a<dd>b</dl>":                                         "a\n\nb\n",
		"<h2>a <a href=#a>¶</a></h2><p>b <a href=#n>#1</a> <a>#</a>":  "## a\n\nb #1 #\n",
		"<p><a href=x#y>a</a> <a href='x#y z'>b</a> <a href=x#>c</a>": "[a](http://a.test/dir/x#y) " +
			"[b](http://a.test/dir/x) [c](http://a.test/dir/x)\n",
	} {
		d := doc(t, "<main>"+page+"</main>", "text/html; charset=utf-8")
		for i := range d.passage.blocks { // only the form matters here
			b := &d.passage.blocks[i]
			b.content = d.passage.of[b.first].marks&markNav == 0
		}
		if got := string(markdownOf(d)); got != want {
			t.Errorf("%s\ngot\n%s\nwant\n%s", page, got, want)
		}
	}
	d := doc(t, "<main><h1>Title</h1><p>"+long+"</main>", "")
	if got, want := string(markdownOf(d)), "# Title\n\n"+long+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if text, cut := (&Doc{}).Markdown(9); text != nil || cut {
		t.Error("Markdown of no page")
	}
}

func markdownOf(d *Doc) []byte {
	text, _ := d.Markdown(MaxMarkdown)
	return text
}

// TestMarkdownBounds: the marks of deep nesting do not make it many times as long as the page, and it is cut.
func TestMarkdownBounds(t *testing.T) {
	for name, page := range map[string]string{
		"quotes": strings.Repeat("<blockquote>", 200) + strings.Repeat("<p>word wörd.", 99),
		"lists":  strings.Repeat("<ul><li>", 100) + strings.Repeat("<p>word wörd.", 99),
		"code":   strings.Repeat("<ol><li>", 100) + "<pre>" + strings.Repeat("word wörd.\n", 99),
	} {
		d := doc(t, page, "text/html; charset=utf-8")
		whole := markdownOf(d)
		if n := bytes.Count(whole, []byte("word wörd.")); n != 99 {
			t.Errorf("%s: %d of 99 paragraphs or lines", name, n)
		}
		for line := range bytes.Lines(whole) {
			if len(line) > maxPrefix+len("word wörd.\n") {
				t.Errorf("%s: a line of %d bytes: %q", name, len(line), line)
				break
			}
		}
		for most := range len(whole) + 2 {
			text, cut := d.Markdown(most)
			if len(text) > most || cut != (most < len(whole)) || !bytes.HasPrefix(whole, text) || !utf8.Valid(text) ||
				len(text) < min(most, len(whole))-1 {
				t.Fatalf("%s: at most %d bytes: %d, %t", name, most, len(text), cut)
			}
		}
	}
}

// squeezed is a text without white space and control characters.
func squeezed(text []byte) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			return -1
		}
		return r
	}, string(text))
}

// parsed returns the text of Markdown as another parser reads it, and whether it has HTML or other kinds of blocks than
// we write.
func parsed(t *testing.T, source []byte) (out []byte, odd bool) {
	t.Helper()
	md := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough))
	root := md.Parser().Parse(text.NewReader(source))
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n.Kind() {
		case ast.KindRawHTML, ast.KindHTMLBlock, ast.KindAutoLink, ast.KindThematicBreak, ast.KindCodeBlock,
			extensionast.KindStrikethrough:
			odd = true
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := md.Convert(source, &page); err != nil {
		t.Fatal(err)
	}
	z := html.NewTokenizer(&page)
	for kind := z.Next(); kind != html.ErrorToken; kind = z.Next() {
		if kind == html.TextToken {
			out = append(out, z.Text()...)
		}
	}
	return out, odd
}

// FuzzMarkdown: another parser finds in the Markdown of any page the main text, and no HTML.
func FuzzMarkdown(f *testing.F) {
	for _, page := range []string{"<h1>a</h1><p>b <b>c</b>d", "<ul><li>a<ul><li>b</ul></ul><ol><li>c</ol>",
		"<table><tr><td>a<td>b<tr><td>c<td>d</table>", "<pre>a\n```\nb</pre><code>`</code>", "<blockquote><pre>\n x",
		"<p>&lt;b> &amp;amp; *a* _b_ 1. [x](y) ![z] \\", "<a href=x>a<img src=y alt=z></a>",
		"<p>- a<p>1) b<p>=<p>| c |",
		"<i>a</i><b>b</b><i><b>c</b></i>d", "<li>a<blockquote>b<ol><li>c<pre>d"} {
		f.Add(page)
	}
	f.Fuzz(func(t *testing.T, page string) {
		d := doc(t, page, "text/html; charset=utf-8")
		source := markdownOf(d)
		if !bytes.Equal(source, markdownOf(d)) {
			t.Fatal("two answers")
		}
		out, odd := parsed(t, source)
		if odd {
			t.Fatalf("%q: HTML or the like in\n%s", page, source)
		}
		if got, want := squeezed(out), squeezed(d.Main); got != want {
			t.Fatalf("%q: Markdown\n%s\nis read as\n%q\nwant\n%q", page, source, got, want)
		}
	})
}
