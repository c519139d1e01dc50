package maintext

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/internal/pagetext"
)

var (
	featuresOf = flag.String("features-of", "", "write the features of the pages DIR/ID.html.gz of `DIR`")
	featuresTo = flag.String("features-to", "features.jsonl", "`file` to which they are written")
)

// blockFeatures is a line of the file that scripts/maintext.py reads.
type blockFeatures struct {
	Page     string  `json:"page"`
	Text     string  `json:"text"`
	Menu     bool    `json:"menu"` // isMenu
	Features *values `json:"features"`
	Marks    marks   `json:"marks"`
}

// TestFeatures: the features of blocks in a page are those that their comments promise.
func TestFeatures(t *testing.T) {
	prose := "It has more than nine words, so that it is a sentence of prose."
	p := passageOf(t, "<nav><a href=x>Home page</a></nav><main><div><p>"+prose+" 7 it</p><h2>Two words</h2><p>"+prose+
		" ends:</p></div></main><ul><li>a<li>b c<li>d e f</ul><footer>© 2026</footer><h4>b c</h4>")
	total := float64(2 + 16 + 2 + 15 + 6 + 1 + 2)
	log := math.Log1p
	want := []map[feature]float64{
		{words: log(2), density: 1, nextWords: log(16), position: 0, beforeBest: 1, aroundWords: log(44), item: 0,
			pageHasMain: 1, pageHasArticle: 0, groupSize: log(1), pageWords: log(total), pageDensity: 2 / total},
		{words: log(16), density: 0, stops: 2.0 / 16, sentence: 1, digits: 1.0 / 16, endsSentence: 0, paragraph: 1,
			inBest: 1, nearBest: 1, aroundShare: 33 / total, position: 2 / total, pageProse: 31 / total,
			pageProseWords: log(31), nextWords: log(2), heading: 0},
		{words: log(2), heading: 1, subheading: 0, endsColon: 0, inBest: 1, position: 18 / total},
		{endsColon: 1, endsSentence: 0, inBest: 1, aroundWords: log(33), aroundDensity: 0, farProse: 31 / total,
			farDensity: 2 / total},
		{item: 1, words: log(1), afterBest: 1, inBest: 0, groupSize: log(3), groupWords: log(6), groupDensity: 0},
		{item: 1, words: log(2), groupSize: log(3), again: 0},
		{item: 1, words: log(3), nextWords: log(1)},
		{copyright: 1, digits: 1, groupSize: log(1)},
		{subheading: 1, heading: 0, again: 1, nextWords: 0},
	}
	i := 0
	p.features(func(b *block, v *values) {
		for f, x := range want[i] {
			if math.Abs(v[f]-x) > 1e-9 {
				t.Errorf("block %d %q: feature %d is %g, want %g", i, p.trimmed(b), f, v[f], x)
			}
		}
		i++
	})
	if i != len(want) {
		t.Errorf("%d blocks", i)
	}
	if *featuresOf != "" {
		writeFeatures(t)
	}
}

func writeFeatures(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(*featuresOf, "*.html.gz"))
	if err != nil || len(names) == 0 {
		t.Fatal("no pages", err)
	}
	f, err := os.Create(*featuresTo)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := bufio.NewWriter(f)
	lines := json.NewEncoder(out)
	for _, name := range names {
		p := passageOf(t, unzipped(t, name))
		p.features(func(b *block, v *values) {
			err := lines.Encode(&blockFeatures{strings.TrimSuffix(filepath.Base(name), ".html.gz"),
				string(p.trimmed(b)), p.isMenu(b), v, p.of[b.first].marks})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
}

// unzipped returns a page in UTF-8.
func unzipped(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	decoded, _ := pagetext.NewReader(z, "text/html")
	text, err := io.ReadAll(decoded)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
