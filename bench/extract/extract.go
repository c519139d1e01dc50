package extract

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"drumbeat/bench/measure"
	"drumbeat/bench/result"
	"drumbeat/internal/cputime"
	"drumbeat/internal/maintext"
)

// Options are the parameters of the measurement. The fields are flags of command bench.
type Options struct {
	Corpus  string `required:"" placeholder:"DIR"`
	Worst   int    `type:"count" placeholder:"N" default:"0"`
	Repeats int    `name:"repeat" type:"count" placeholder:"N" default:"3"`
}

// Complete fills in defaults and returns all faults, joined.
func (o *Options) Complete() error {
	measure.Default(&o.Repeats, 3)
	need, faults := measure.Faults("extract")
	need(o.Corpus != "", "no --corpus")
	need(o.Worst >= 0 && o.Worst <= maxPages, "%d worst pages: want 0 to %d", o.Worst, maxPages)
	need(o.Repeats >= 1 && o.Repeats <= 1000, "%d repeats: want 1 to 1000", o.Repeats)
	return faults()
}

// outcome is what became of a page.
type outcome struct {
	*page
	score
	structure map[string]score // of each kind that the truth has
	half      int              // 0 or 1
	empty     bool             // no text was found
	bytes     int
	took      time.Duration // CPU time, the median of the repeats
}

// pageURL is the URL of all pages: a corpus has none.
const pageURL = "http://example.org/"

// Measure extracts each page and compares.
func (o *Options) Measure(ctx context.Context, progress func(what string)) (*result.Report, error) {
	if err := o.Complete(); err != nil {
		return nil, err
	}
	c, err := openCorpus(o.Corpus)
	if err != nil {
		return nil, err
	}
	r := result.New("extract", "main text of HTML pages compared with a corpus")
	r.Set("corpus", "%s, pages: %d", o.Corpus, len(c.pages))
	progress(fmt.Sprintf("extracting %d pages", len(c.pages)))
	all := make([]outcome, len(c.pages))
	for i := range c.pages {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if all[i], err = c.measure(&c.pages[i], o.Repeats); err != nil {
			return nil, err
		}
	}
	c.report(r, all, o.Worst)
	return r, nil
}

// measure extracts a page.
func (c *corpus) measure(p *page, repeats int) (outcome, error) {
	out := outcome{page: p}
	html, err := c.html(p)
	if err != nil {
		return out, err
	}
	var doc *maintext.Doc
	var took result.Sample
	for range repeats {
		began := cputime.Process()
		doc, err = maintext.HTML(bytes.NewReader(html), "text/html", pageURL)
		took = append(took, float64(cputime.Process()-began))
		if err != nil {
			return out, fmt.Errorf("bench: extract: page %s: %w", p.ID, err)
		}
	}
	out.bytes, out.took = len(html), time.Duration(took.Median())
	h := fnv.New32a()
	h.Write([]byte(p.ID))
	out.half = int(h.Sum32() % 2)
	out.empty = len(wordsOf(string(doc.Main))) == 0
	out.score = c.judge(p, string(doc.Main))
	markdown, _ := doc.Markdown(maintext.MaxMarkdown)
	out.structure = judgeStructure(p, string(markdown))
	return out, nil
}
