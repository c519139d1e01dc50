package page

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// hostile would be markup, or leave an attribute, if it were not escaped.
const hostile = `"><script>alert('x')</script><b onload=x>&amp;{{.}}`

// whole is a page with each kind of block, all of whose texts are hostile.
func whole() *Page {
	badge := &Badge{Bad, hostile}
	table := &Table{Columns: []Column{{hostile, Words}, {"n", Number}, {"share", Share}}, Rows: [][]Cell{
		{{Text: hostile, URL: "http://a.test/?" + hostile, Badge: badge, Lead: hostile,
			Links: []Link{{"https://b.test/", hostile}, {"javascript:alert(1)", ""}}, More: hostile},
			{Text: "7"}, {Text: "30.0 %", Share: 0.3}},
		{{Text: "x", URL: "javascript:alert(2)"}, {}, {}, {Text: "a cell too many"}},
	}}
	chart := Chart{Title: hostile, X: hostile, Y: hostile, Lines: []Line{
		{hostile, [][2]float64{{0, 1}, {1, math.NaN()}, {2, 3}, {3, 4}}}, {"none", nil}}}
	return &Page{Kind: hostile, Title: hostile, Lines: []string{hostile}, Notes: []string{hostile}, By: hostile,
		Verdict: &Verdict{Warn, hostile, []string{hostile}, hostile}, Tiles: []Tile{{hostile, hostile, hostile, Bad}},
		Made: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Sections: []Section{{ID: "a", Title: hostile, Badge: badge, Count: hostile,
			Blocks: []Block{Text(hostile), Note(hostile), table, Charts{chart}}},
			{ID: "b", Title: "b", Sub: true, Blocks: []Block{&Details{hostile, []Block{table}}}}}}
}

// written returns a page as text and as a tree.
func written(t *testing.T, p *Page) (string, *html.Node) {
	t.Helper()
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	tree, err := html.Parse(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), tree
}

// TestEscapes: no text becomes markup, only http and https are followed, and nothing comes from elsewhere.
func TestEscapes(t *testing.T) {
	text, tree := written(t, whole())
	hrefs, shown := []string{}, 0
	elements := map[string]int{}
	for n := range tree.Descendants() {
		if n.Type == html.TextNode {
			shown += strings.Count(n.Data, hostile)
			continue
		}
		elements[n.Data]++
		for _, a := range n.Attr {
			switch {
			case a.Key == "href":
				hrefs = append(hrefs, a.Val)
			case strings.HasPrefix(a.Key, "on") || a.Key == "src":
				t.Errorf("<%s> has %s=%q", n.Data, a.Key, a.Val)
			}
		}
	}
	for _, bad := range []string{"script", "img", "link", "iframe", "b onload"} {
		if elements[bad] > 0 {
			t.Errorf("the page has a <%s>", bad)
		}
	}
	if elements["b"] != 1 { // the figure of the tile
		t.Errorf("%d <b>", elements["b"])
	}
	for _, href := range hrefs {
		if !strings.HasPrefix(href, "http://a.test/?") && href != "https://b.test/" && href != "#a" && href != "#b" {
			t.Errorf("a link to %q", href)
		}
	}
	if len(hrefs) != 6 || shown < 24 {
		t.Errorf("links %q; the text is shown %d times", hrefs, shown)
	}
	for _, bad := range []string{"NaN", "ZgotmplZ", "url(", "@import", "%!"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if !strings.Contains(text, "default-src 'none'") || !strings.Contains(text, "2026-01-02 03:04 UTC") {
		t.Errorf("the page lacks its policy or its time:\n%.600s", text)
	}
}

// TestColumns: heads and cells of a column have the same class, so they are aligned; a bar has its width.
func TestColumns(t *testing.T) {
	text, _ := written(t, whole())
	for _, want := range []string{`<th scope="col" class="number">n</th>`, `<td class="number">7</td>`,
		`<td class="share"><span class="track"><i style="width:30.0%">`, `<td>a cell too many</td>`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestEmpty: a page without parts has none of their frames.
func TestEmpty(t *testing.T) {
	text, _ := written(t, &Page{Title: "nothing"})
	for _, bad := range []string{`class="verdict`, `class="tiles`, "<nav", "<section", "<p class=\"note"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

// TestPaths: a point that an axis cannot show interrupts a line, and a lone point is a dot.
func TestPaths(t *testing.T) {
	c := Chart{Y: Bytes, Lines: []Line{{"a", [][2]float64{{0, 0}, {1, math.Inf(1)}, {2, 1 << 20}, {4, 3 << 20}}}}}
	v := c.view()
	if got := v.Lines[0].Path; got != "M0.0 1000.0h0M500.0 666.7L1000.0 0.0" {
		t.Errorf("path %q", got)
	}
	if v.Unit != "MiB" || v.Y[0].Pixel != size || v.Y[len(v.Y)-1].Text != "3" || v.Legend() {
		t.Errorf("%+v", v)
	}
}

// TestAxes: ticks must be round and within the axis, and each value must be within the chart.
func TestAxes(t *testing.T) {
	for _, c := range []struct {
		log    bool
		values []float64
		ticks  []string
	}{
		{false, []float64{0, 7}, []string{"0", "2", "4", "6", "8"}},
		{false, []float64{3, 1234}, []string{"0", "500", "1,000", "1,500"}},
		{false, []float64{0, 2.1e6}, []string{"0", "0.5M", "1M", "1.5M", "2M", "2.5M"}},
		{false, []float64{0}, []string{"0", "0.2", "0.4", "0.6", "0.8", "1"}},
		{false, nil, []string{"0", "0.2", "0.4", "0.6", "0.8", "1"}},
		{false, []float64{-1, 1}, []string{"-1", "-0.5", "0", "0.5", "1"}},
		{false, []float64{0, 24000}, []string{"0", "5k", "10k", "15k", "20k", "25k"}},
		{true, []float64{3, 40_000, 0}, []string{"1", "10", "100", "1,000", "10k", "100k"}},
		{true, []float64{1, 1e8}, []string{"1", "100", "10k", "1M", "100M"}},
		{true, []float64{100}, []string{"100", "1,000"}},
	} {
		a := newAxis(c.log, 1, func(f func(v float64)) {
			for _, v := range c.values {
				f(v)
			}
		})
		a.round()
		var got []string
		for _, tick := range a.ticks() {
			got = append(got, tick.Text)
			if tick.Pixel < 0 || tick.Pixel > size {
				t.Errorf("%v: tick %+v", c.values, tick)
			}
		}
		if !slices.Equal(got, c.ticks) {
			t.Errorf("%v: ticks %v, want %v", c.values, got, c.ticks)
		}
		for _, v := range c.values {
			if at, ok := a.at(v); ok && (at < 0 || at > size) || !ok && v > 0 {
				t.Errorf("%v is at %v", v, at)
			}
		}
	}
}
