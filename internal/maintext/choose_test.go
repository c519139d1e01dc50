package maintext

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// sentences returns n sentences of prose that differ.
func sentences(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<p>In year %d the miller bought another stone for the mill, had it dressed by the mason, and "+
			"ground the corn of the whole valley with it until the river froze.</p>", 1700+i)
	}
	return b.String()
}

const menu = "<nav><a href=a>Home</a> <a href=b>Mills</a> <a href=c>Rivers</a></nav>"

// TestCopies: a longer text that a page has twice, such as for small screens, is main text once.
func TestCopies(t *testing.T) {
	p := "<p>The teapot holds a litre, is turned by hand from white clay and fired at a heat that no other " +
		"potter of the town dares to use.</p>"
	d := doc(t, menu+"<main><div>"+p+sentences(3)+"</div><div>"+p+"</div></main>", "text/html")
	if n := strings.Count(string(d.Main), "The teapot"); n != 1 {
		t.Errorf("%d times in\n%s", n, d.Main)
	}
}

// TestDataTable: a table of data is main text although its cells are short.
func TestDataTable(t *testing.T) {
	table := "<table><tr><th>Length<td>12 cm<tr><th>Weight<td>1 kg<tr><th>Colour<td>blue</table>"
	d := doc(t, menu+"<main><div>"+sentences(6)+table+"</div></main>", "text/html")
	if !strings.Contains(string(d.Main), "Weight 1 kg") {
		t.Errorf("no table in\n%s", d.Main)
	}
}

// TestDataTables: which tables have data.
func TestDataTables(t *testing.T) {
	for table, want := range map[string]bool{
		"<tr><th>a<td>b<tr><th>c<td>d":                       true,
		"<tr><th>a<th>b<tr><td>c<td>d":                       true,
		"<tr><td>a<td>b<tr><td>c<td>d":                       false,
		"<tr><th>a<td>b":                                     false,
		"<tr><th>a<tr><td>b":                                 false,
		"<tr><th>a<td><input><tr><th>c<td>d":                 false,
		"<tr><th>a<td><table><tr><td>b</table><tr><td>c":     false,
		"<tr><th><a href=x>a</a><td>b<tr><th>c<td>d<td>":     true,
		"<tr><th><a href=x>a b<td><a href=y>c<tr><th>d<td>e": false, // most of it is links
	} {
		p := passageOf(t, "<table>"+table+"</table>"+sentences(4))
		if got := p.of[p.blocks[0].first].data; got != want {
			t.Errorf("%s: %v", table, got)
		}
	}
	if p := passageOf(t, "<table><tr><th>a<td>b<tr><th>c<td>d</table>"); p.of[p.blocks[0].first].data {
		t.Error("a table that is the page")
	}
}

// TestOneText: on a page with one text, teasers of other pages are none of it, as on a page of many they are.
func TestOneText(t *testing.T) {
	teasers := "<div class=related>" + strings.Repeat("<div class=card><h3>A mill by the sea</h3><p>Its wings turn in "+
		"the wind of the coast, %d feet long.</div>", 4) + "</div>"
	teasers = fmt.Sprintf(teasers, 40, 41, 42, 43)
	d := doc(t, menu+"<article><h1>The mill</h1>"+sentences(12)+"</article>"+teasers, "text/html")
	if text := string(d.Main); strings.Contains(text, "feet") || !strings.Contains(text, "1711") {
		t.Errorf("main text\n%s", text)
	}
	if d = doc(t, menu+teasers, "text/html"); !strings.Contains(string(d.Main), "42 feet") {
		t.Errorf("main text of teasers\n%s", d.Main)
	}
}

// TestCodeInText: code in a text belongs to it.
func TestCodeInText(t *testing.T) {
	d := doc(t, menu+"<article>"+sentences(5)+"<pre>x = 1\n\ny = 2\n</pre>"+sentences(1)+"</article>", "text/html")
	if !strings.Contains(string(d.Main), "y = 2") {
		t.Errorf("main text\n%s", d.Main)
	}
}

// TestHeadings: a heading belongs to the main text behind it, also a doubtful one.
func TestHeadings(t *testing.T) {
	p := passageOf(t, menu+"<div class=share><h2>A mill</h2></div>"+sentences(12))
	p.choose()
	for i := range p.blocks {
		if b := &p.blocks[i]; string(p.trimmed(b)) == "A mill" && (!b.content || b.score > 0.4) {
			t.Errorf("%v, score %.2f", b.content, b.score)
		}
	}
}

// TestAdjust: how the place of a block changes its odds, on a page with one text, on one of many and between.
func TestAdjust(t *testing.T) {
	table := "<table><tr><th>a<td>b<tr><th>c<td>d</table>"
	p := passageOf(t, "<div>"+sentences(9)+table+"<pre>e</pre><p>f</div>"+table+
		"<pre>g</pre><p>h<p class=related>i</p>")
	p.judge()
	want := map[string][3]float64{"a b": {2, 2, 3}, "e": {1, 1, 2}, "f": {0, 0, 1}, "a b again": {1, 1, 0},
		"g": {0, 0, -1}, "h": {0, 0, -1}, "i": {0, -0.3, -1.6}}
	for i := range p.blocks {
		b := &p.blocks[i]
		name := string(p.trimmed(b))
		if b.again {
			name += " again"
		}
		place, ok := want[name]
		if !ok {
			continue
		}
		for k, odds := range place {
			b.odds = 0
			if p.adjust(b, float64(k)/2); math.Abs(b.score-probability(odds)) > 1e-9 {
				t.Errorf("%s, %d of 2: odds of %.3f, want %g", name, k, math.Log(b.score/(1-b.score)), odds)
			}
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("no %v", want)
	}
}
