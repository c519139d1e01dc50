// Package url measures canonical URLs of references by package weburl, beside net/url and a library of the URL standard.
//
//	go run ./bench/lab url
//
// References are made ones by kind, and those of real pages with their pages' URLs as bases, which are parsed before. The methods take
// turns; what the garbage collector takes is theirs. The results are compared with those of the standard's library for every different
// reference of every page of the corpus.
//
// # Checks
//
// Time and allocations of plain references, time beside net/url's, and no difference from the standard.
//
// # Concurrency and memory
//
// Nothing here starts goroutines: CPU is that of the process, in which nothing else runs. The pages that are timed are held in RAM,
// others one at a time.
package url

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	whatwg "github.com/nlnwa/whatwg-url/url"

	"drumbeat/bench/lab/corpus"
	"drumbeat/bench/measure"
	"drumbeat/bench/report"
	"drumbeat/parse"
	"drumbeat/weburl"
)

// Options are what is measured, and flags of command lab.
type Options struct {
	Corpus  []string `placeholder:"DIR" help:"Directory of HTML files, whose links are timed as a mix and compared with the standard. Repeatable. Default: made pages."`
	Pages   int      `placeholder:"N" help:"Pages that are timed, spread over the corpus. Default: 400, or 100 with --quick."`
	Compare int      `placeholder:"N" help:"Pages whose references are compared with the standard. Default: all, or 500 with --quick."`
	Repeat  int      `placeholder:"N" help:"How often each case is measured. Default: 10, or 3 with --quick."`
	Seed    uint64   `placeholder:"N" default:"1" help:"Seed of the made references."`
	Quick   bool     `help:"End within 30 s: fewer repeats and pages."`
}

const (
	// maxCorpusPage is the most bytes of a page; larger files are left out and counted.
	maxCorpusPage = 8 << 20
	// linksPerPage are those of a made page, as in the paper's crawl.
	linksPerPage = 59
)

// Validate fills in defaults and returns all faults, joined.
func (o *Options) Validate() error {
	measure.Default(&o.Pages, measure.Quick(o.Quick, 100, 400))
	measure.Default(&o.Compare, measure.Quick(o.Quick, 500, 0))
	measure.Default(&o.Repeat, measure.Quick(o.Quick, 3, 10))
	var faults []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("bench: url: "+format, args...))
		}
	}
	need(o.Pages >= 1 && o.Pages <= 10_000, "%d pages: want 1 to 10,000", o.Pages)
	need(o.Compare >= 0, "%d pages to compare", o.Compare)
	need(o.Repeat >= 1 && o.Repeat <= 100, "%d repeats: want 1 to 100", o.Repeat)
	return errors.Join(faults...)
}

// urlPage is a page that is timed.
type urlPage struct {
	url, body []byte
	group     urlGroup
	canonical [][]byte // of the references that are URLs, repeats included
}

// urlGroup is references with one base, in the forms that the methods take; what makes a base isn't timed.
type urlGroup struct {
	base     *weburl.Base
	stdBase  *url.URL
	libBase  *whatwg.Url
	refs     [][]byte
	refTexts []string
}

func newURLGroup(base *weburl.Base, refs [][]byte) (urlGroup, error) {
	g := urlGroup{base: base, refs: refs}
	text := string(base.URL())
	var err error
	if g.stdBase, err = url.Parse(text); err != nil {
		return g, fmt.Errorf("bench: url: base: %w", err)
	}
	if g.libBase, err = whatwg.Parse(text); err != nil {
		return g, fmt.Errorf("bench: url: base %s: %w", text, err)
	}
	for _, ref := range refs {
		g.refTexts = append(g.refTexts, string(ref))
	}
	return g, nil
}

// openPage reads a file and finds its references. ok is false if it is too large.
func openPage(f corpus.File, p *parse.Parser, r *weburl.Resolver) (page urlPage, ok bool, err error) {
	if f.Size > maxCorpusPage {
		return page, false, nil
	}
	if page.body, err = os.ReadFile(f.Path); err != nil {
		return page, false, fmt.Errorf("bench: url: read corpus: %w", err)
	}
	at, err := weburl.Canonical("http://www.corpus.test/" + (&url.URL{Path: filepath.ToSlash(f.Rel)}).EscapedPath())
	if err != nil {
		return page, false, nil // a name that is too long for a URL
	}
	page.url = []byte(at)
	err = page.parse(p, r)
	return page, err == nil, err
}

// parse fills in the references of the page's body.
func (page *urlPage) parse(p *parse.Parser, r *weburl.Resolver) error {
	var found parse.Page
	p.Parse(page.body, "", &found)
	base, err := weburl.NewBase(page.url)
	if err != nil {
		return fmt.Errorf("bench: url: %s: %w", page.url, err)
	}
	base.Query = found.Encoding
	if found.Base != nil {
		if err := r.Rebase(base, found.Base); err != nil && len(base.URL()) == 0 {
			return nil // nothing on it is relative to a URL of ours
		}
	}
	refs := make([][]byte, 0, len(found.Links))
	for _, l := range found.Links {
		refs = append(refs, slices.Clone(l.Ref))
	}
	if page.group, err = newURLGroup(base, refs); err != nil {
		return err
	}
	for _, ref := range refs {
		if out, err := r.AppendResolve(nil, base, ref); err == nil {
			page.canonical = append(page.canonical, out)
		}
	}
	return nil
}

// urlResult is what Measure measured.
type urlResult struct {
	progress func(string)
	files    int
	skipped  int // too large, or with a name that no URL has
	pages    []urlPage
	cases    []*urlCase
	lengths  []*urlCase
	equal    urlComparison
}

// Measure measures.
func (o *Options) Measure(ctx context.Context, progress func(string)) (*report.Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := report.New("url", "canonical URLs of references")
	res := &urlResult{progress: progress}
	files, _, err := corpus.Files(ctx, o.Corpus)
	if err != nil {
		return nil, err
	}
	res.files = len(files)
	if err := res.compare(ctx, o, files); err != nil {
		return nil, err
	}
	if err := res.load(ctx, o, files); err != nil {
		return nil, err
	}
	if err := res.measure(ctx, o); err != nil {
		return nil, err
	}
	res.report(o, r)
	return r, nil
}

// load keeps the pages that are timed.
func (res *urlResult) load(ctx context.Context, o *Options, files []corpus.File) error {
	p, r := parse.NewParser(parse.Options{}), weburl.NewResolver(weburl.Options{})
	if len(files) == 0 {
		return res.makePages(o, p, r)
	}
	for _, file := range corpus.Spread(files, o.Pages) {
		if err := ctx.Err(); err != nil {
			return err
		}
		page, ok, err := openPage(file, p, r)
		if err != nil {
			return err
		}
		if ok && len(page.canonical) > 0 {
			res.pages = append(res.pages, page)
		}
	}
	if len(res.pages) == 0 {
		return fmt.Errorf("bench: url: no links in %d pages of %s", o.Pages, strings.Join(o.Corpus, ", "))
	}
	return nil
}

// makePages makes pages as documentation has them (makeRef).
func (res *urlResult) makePages(o *Options, p *parse.Parser, r *weburl.Resolver) error {
	rnd := rand.New(rand.NewPCG(o.Seed, 1))
	menu := make([]string, 12)
	for i := range menu {
		menu[i] = makeRef(rnd, "up")
	}
	for range o.Pages {
		page := urlPage{url: []byte(caseBase)}
		var recent []string
		for i := range linksPerPage {
			ref := ""
			switch n := rnd.IntN(100); {
			case n < 20:
				ref = makeRef(rnd, "fragment")
			case n < 40:
				ref = menu[i%len(menu)]
			case n < 60 && len(recent) > 0:
				ref = recent[rnd.IntN(len(recent))]
			default:
				ref = makeRef(rnd, mixKinds[rnd.IntN(len(mixKinds))])
				recent = append(recent, ref)
			}
			page.body = fmt.Appendf(page.body, "<p class=x><a title=\"a\" href=\"%s\">link</a> and some text\n",
				strings.NewReplacer("&", "&amp;", `"`, "&quot;").Replace(ref))
		}
		if err := page.parse(p, r); err != nil {
			return err
		}
		res.pages = append(res.pages, page)
	}
	return nil
}
