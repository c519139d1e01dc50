package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	whatwg "github.com/nlnwa/whatwg-url/url"

	"drumbeat/bench/report"
	"drumbeat/parse"
	"drumbeat/weburl"
)

// URL is what RunURL measures: how long it takes to make a canonical URL of a reference, beside net/url and a library of the
// URL standard, and the rest of a link's way to its tuple. Zero fields mean the default. A URL is a value.
type URL struct {
	// Corpus are directories of HTML files; their references, each with its page's URL as base, are one of the mixes. Without
	// one a made mix stands in for it.
	Corpus []string
	// Pages is how many pages are timed, spread over the corpus. 0: 400.
	Pages int
	// Compare is how many pages' references are compared with the standard. 0: all.
	Compare int
	// CacheBytes is the RAM cache that is probed when it is full. 0: 256 MiB.
	CacheBytes int64
	// Repeats is how often each case is measured. 0: 10.
	Repeats int
	// Seed is that of the made references.
	Seed uint64
	// Progress is told what goes on. May be nil.
	Progress func(what string)
}

// Limits of a corpus.
const (
	maxCorpusFiles = 1 << 20
	maxCorpusPage  = 8 << 20 // bytes; larger files are left out and counted
)

// Validate returns all faults, joined.
func (o URL) Validate() error { return o.complete() }

func (o *URL) complete() error {
	if o.Pages == 0 {
		o.Pages = 400
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 256 << 20
	}
	if o.Repeats == 0 {
		o.Repeats = 10
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	var faults []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("bench: url: "+format, args...))
		}
	}
	need(o.Pages >= 1 && o.Pages <= 10_000, "%d pages: want 1 to 10,000", o.Pages)
	need(o.Compare >= 0, "%d pages to compare", o.Compare)
	need(o.CacheBytes >= 1<<20 && o.CacheBytes <= 1<<36, "a cache of %d bytes: want 1 MiB to 64 GiB", o.CacheBytes)
	need(o.Repeats >= 1 && o.Repeats <= 100, "%d repeats: want 1 to 100", o.Repeats)
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

// corpusFiles lists the HTML files, sorted, with the directory that each belongs to.
func corpusFiles(dirs []string) (files []corpusFile, err error) {
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			ext := strings.ToLower(filepath.Ext(path))
			if !e.Type().IsRegular() || ext != ".html" && ext != ".htm" && ext != ".xhtml" {
				return nil
			}
			if len(files) == maxCorpusFiles {
				return fmt.Errorf("more than %d files", maxCorpusFiles)
			}
			rel, err := filepath.Rel(dir, path)
			files = append(files, corpusFile{path, rel})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("bench: url: read corpus: %w", err)
		}
	}
	if len(dirs) > 0 && len(files) == 0 {
		return nil, fmt.Errorf("bench: url: no HTML file in %s", strings.Join(dirs, ", "))
	}
	return files, nil
}

type corpusFile struct{ path, rel string }

// open reads a file and finds its references. ok is false if it is too large.
func (f corpusFile) open(p *parse.Parser, r *weburl.Resolver) (page urlPage, ok bool, err error) {
	info, err := os.Stat(f.path)
	if err == nil && info.Size() > maxCorpusPage {
		return page, false, nil
	}
	if err == nil {
		page.body, err = os.ReadFile(f.path)
	}
	if err != nil {
		return page, false, fmt.Errorf("bench: url: read corpus: %w", err)
	}
	at, err := weburl.Canonical("http://www.corpus.test/" + (&url.URL{Path: filepath.ToSlash(f.rel)}).EscapedPath())
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

// urlResult is what RunURL measured.
type urlResult struct {
	files   int
	skipped int // too large, or with a name that no URL has
	pages   []urlPage
	cases   []*urlCase
	lengths []*urlCase
	way     []*urlStage
	equal   urlComparison
	repeats float64 // share of references that are known again on their page
}

// RunURL measures.
func RunURL(ctx context.Context, o URL) (*report.Report, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	r := report.New("url", "canonical URLs of references, and a link's way to its tuple")
	res := &urlResult{}
	files, err := corpusFiles(o.Corpus)
	if err != nil {
		return nil, err
	}
	res.files = len(files)
	if err := res.compare(ctx, &o, files); err != nil {
		return nil, err
	}
	if err := res.load(ctx, &o, files); err != nil {
		return nil, err
	}
	if err := res.measure(ctx, &o); err != nil {
		return nil, err
	}
	if err := res.measureWay(ctx, &o); err != nil {
		return nil, err
	}
	res.report(&o, r)
	return r, nil
}

// load keeps the pages that are timed.
func (res *urlResult) load(ctx context.Context, o *URL, files []corpusFile) error {
	p, r := parse.NewParser(parse.Options{}), weburl.NewResolver(weburl.Options{})
	if len(files) == 0 {
		return res.makePages(o, p, r)
	}
	n := min(o.Pages, len(files))
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		page, ok, err := files[i*len(files)/n].open(p, r)
		if err != nil {
			return err
		}
		if ok && len(page.canonical) > 0 {
			res.pages = append(res.pages, page)
		}
	}
	if len(res.pages) == 0 {
		return fmt.Errorf("bench: url: no links in %d pages of %s", n, strings.Join(o.Corpus, ", "))
	}
	return nil
}

// makePages makes pages as documentation has them (makeRef).
func (res *urlResult) makePages(o *URL, p *parse.Parser, r *weburl.Resolver) error {
	rnd := rand.New(rand.NewPCG(o.Seed, 1))
	menu := make([]string, 12)
	for i := range menu {
		menu[i] = makeRef(rnd, "up")
	}
	for range o.Pages {
		page := urlPage{url: []byte(caseBase)}
		var recent []string
		for i := range paperLinksPerPage {
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
