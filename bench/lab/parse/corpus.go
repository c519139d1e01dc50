package parse

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drumbeat/bench/lab/corpus"
	"drumbeat/parse"
	"drumbeat/weburl"
)

// load lists a corpus, compares the links of all its files and keeps a sample of them.
func (p *Options) load(ctx context.Context, dir string, others []*parseCorpus, progress func(string)) (*parseCorpus, error) {
	c := &parseCorpus{name: parseName(dir, others), dir: dir}
	progress("comparing the links of " + dir + " with the reference")
	all, left, err := corpus.Files(ctx, []string{dir})
	if err != nil {
		return nil, fmt.Errorf("bench: parse: %w", err)
	}
	var files []corpus.File
	total := int64(0)
	for _, f := range all {
		if f.Size > mostParseFile || len(files) >= p.Files || total+f.Size > int64(p.Bytes) {
			left++
			continue
		}
		files = append(files, f)
		total += f.Size
	}
	c.compared.left = int64(left)
	// Every so manieth file, so that the sample is like the whole; the pages are in the order of the tree.
	step := max(1, int((total+int64(p.Sample)-1)/int64(p.Sample)))
	for i, file := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		body, err := os.ReadFile(file.Path)
		if err != nil {
			return nil, fmt.Errorf("bench: parse: read corpus: %w", err)
		}
		name := "/" + filepath.ToSlash(file.Rel)
		c.compared.page(name, body)
		if i%step == 0 && (len(c.pages) == 0 || c.bytes+int64(len(body)) <= int64(p.Sample)) {
			c.pages = append(c.pages, parsePage{url: parseURL(name), body: body})
			c.bytes += int64(len(body))
		}
	}
	return c, nil
}

// parseName is what a corpus is called in lines: the last two parts of its path.
func parseName(dir string, others []*parseCorpus) string {
	dir = filepath.Clean(dir)
	name := filepath.Base(dir)
	if parent := filepath.Base(filepath.Dir(dir)); parent != "/" && parent != "." {
		name = parent + "-" + name
	}
	name = strings.Map(func(c rune) rune {
		if strings.ContainsRune(" /=\t\n", c) {
			return '_'
		}
		return c
	}, name)
	for _, other := range others {
		if other.name == name {
			return parseName(dir+"_", others)
		}
	}
	return name
}

// parseURL is the canonical URL that a file is given.
func parseURL(name string) []byte {
	const site = "https://docs.example.org"
	url, err := weburl.Canonical(site + filepath.ToSlash(name))
	if err != nil {
		url = site + "/"
	}
	return []byte(url)
}

// parseCompared says how the scanner's links differ from the reference's.
type parseCompared struct {
	files, bytes int64
	left         int64 // files left out: no regular ones, too large, or beyond the bounds
	links        int64 // of the reference
	class        [numParseClasses]int64
	examples     []string
	heads        int64 // pages whose base, canonical or robots differ
	large        int64 // pages with more links than a crawl takes of one
}

// parseClass is why a link is only in one of them. All but the last are in the package comment of parse.
type parseClass int

const (
	parseBeyondLimit parseClass = iota
	parseDeep
	parseReopened
	parsePlace
	parseForeign
	parseUnexplained
	numParseClasses
)

var parseClasses = [numParseClasses]string{
	"longer than MaxRefBytes, or behind 4 MiB of decoded ones",
	"links of pages nested too deep for the reference",
	"the tree holds <a> again where HTML reopens it",
	"<frameset> or <col>: the tree drops for its place",
	"in or behind SVG or MathML",
	"unexplained",
}

// crawlMaxLinks is the default of parse.Options.MaxLinks, which the comparison goes beyond.
const crawlMaxLinks = 50_000

// mostParseExamples bounds what is listed of each run.
const mostParseExamples = 20

// page compares one page.
func (c *parseCompared) page(name string, body []byte) {
	c.files++
	c.bytes += int64(len(body))
	var got parse.Page
	parse.NewParser(parse.Options{MaxLinks: 1 << 30}).Parse(body, parseType, &got)
	if len(got.Links) > crawlMaxLinks {
		c.large++
	}
	want, err := parse.Reference(parse.Options{}, body, parseType)
	if err != nil {
		c.class[parseDeep] += int64(len(got.Links))
		return
	}
	if string(got.Base) != string(want.Base) || string(got.Canonical) != string(want.Canonical) || got.Robots != want.Robots {
		c.heads++
		c.example(parseUnexplained, name, "base, canonical or robots")
	}
	c.links += int64(len(want.Links))
	type key struct {
		ref      string
		tag      parse.Tag
		rel      parse.Rel
		nofollow bool
	}
	counts := make(map[key][2]int, len(want.Links))
	for i, links := range [2][]parse.Link{got.Links, want.Links} {
		for _, l := range links {
			k := key{string(l.Ref), l.Tag, l.Rel, l.NoFollow}
			n := counts[k]
			n[i]++
			counts[k] = n
		}
	}
	for k, n := range counts {
		if n[0] == n[1] {
			continue
		}
		class := classOf(&got, body, n)
		c.class[class] += int64(max(n[0]-n[1], n[1]-n[0]))
		c.example(class, name, fmt.Sprintf("<%s> %.100q: %d times by the scanner, %d by the reference", k.tag, k.ref, n[0], n[1]))
	}
}

// classOf says why a link is found n[0] times by the scanner and n[1] times by the reference.
func classOf(got *parse.Page, body []byte, n [2]int) parseClass {
	has := func(tag string) bool { return containsFold(body, tag) }
	switch {
	case n[0] < n[1] && got.Dropped+got.LongRefs > 0:
		return parseBeyondLimit
	case n[0] < n[1] && n[0] > 0:
		return parseReopened
	case n[0] > n[1] && (has("<frame") || has("<template") && has("<col")):
		return parsePlace
	case has("<svg") || has("<math"):
		return parseForeign
	}
	return parseUnexplained
}

// containsFold reports whether the page has s, which is in lower case, in any case.
func containsFold(body []byte, s string) bool {
	for i := 0; i+len(s) <= len(body); i++ {
		if body[i] == s[0] && strings.EqualFold(string(body[i:i+len(s)]), s) {
			return true
		}
	}
	return false
}

// example lists a difference, the unexplained ones first.
func (c *parseCompared) example(class parseClass, name, what string) {
	c.examples = append(c.examples, fmt.Sprintf("%d %s: %s: %s", numParseClasses-1-class, parseClasses[class], name, what))
	if len(c.examples) > 2*mostParseExamples {
		c.trim()
	}
}

// trim keeps the first examples of the most telling classes.
func (c *parseCompared) trim() {
	slices.SortStableFunc(c.examples, func(a, b string) int { return cmp.Compare(a[:1], b[:1]) })
	c.examples = c.examples[:min(len(c.examples), mostParseExamples)]
}

// differing is the number of links that one has and the other hasn't, of those that are comparable.
func (c *parseCompared) differing() (n int64) {
	for class, links := range c.class {
		if parseClass(class) != parseDeep {
			n += links
		}
	}
	return n
}
