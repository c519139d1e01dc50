package visit

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/contents"
	"drumbeat/crawl/hook"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/options"
	"drumbeat/crawl/output"
	"drumbeat/crawl/reader"
	"drumbeat/crawl/render"
	"drumbeat/crawl/sitemaps"
	"drumbeat/crawl/strategy"
	"drumbeat/fetch"
	"drumbeat/internal/bug"
	"drumbeat/internal/revisit"
	"drumbeat/internal/simhash"
	"drumbeat/parse"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// Pages reads pages. It is safe for concurrent use.
type Pages struct {
	run     *account.Run
	saved   *state.Saved
	opt     Options
	others  Others
	content *contents.Store
	output  *output.Writer

	// NewStage sets these.
	sitemaps *sitemaps.Reader
	render   *render.Stage
}

// Options are the options of Pages and of a Stage.
type Options struct {
	Agent  string // of robots directives
	Links  *options.Links
	Output *options.Output
	Policy *admit.Policy   // decides which links become URLs
	Hook   hook.Asker      // nil: none
	Margin *revisit.Margin // what a visit must gain
	Sites  *inforce.Sites

	Retries     int           // attempts of a URL after a failure
	ServerDelay time.Duration // of politeness
	OurFault    time.Duration // the wait of a URL after a fault of this machine (OurFaultPause)
	Asked       int           // how many pages can be with the hook at once
	// Reading is called before a page is read. Tests let it panic; nil: it is not.
	Reading func(what string, url []byte)
}

// New returns Pages. NewStage takes it, and gives it the other stages.
func New(run *account.Run, saved *state.Saved, opt Options, content *contents.Store, o *output.Writer) *Pages {
	return &Pages{run: run, saved: saved, opt: opt, content: content, output: o}
}

// Worker has the buffers and the state of reading one page. One goroutine at a time owns it.
type Worker struct {
	reader.Reader
	Body     contents.Body
	meta     pageMeta // of the current response
	sketch   simhash.Sketch
	exchange warc.Exchange
	streamed *warc.Streamed // instead of Prepared for a spooled body; nil: none, or it is stored
	Visit    Visit
	file     string        // that holds the last record
	stores   state.Archive // what is stored of the response
}

// NewWorker returns a Worker.
func (p *Pages) NewWorker() *Worker {
	l := p.opt.Links
	opt := parse.Options{Agent: p.opt.Agent, Rels: l.Rels, Assets: l.Assets, Forms: l.Forms}
	return &Worker{Reader: reader.Reader{Links: admit.NewBatch(p.opt.Policy), Encoder: p.output.NewEncoder(),
		Parser: parse.NewExtractor(opt, p.opt.Policy.URLOptions())}}
}

// Release empties the worker for the next page.
func (w *Worker) Release() {
	w.Prepared.Release()
	w.Body.Release()
	if w.streamed != nil {
		_ = w.streamed.Discard() // the next Open deletes what is left
		w.streamed = nil
	}
}

// Streamed reports whether the record of the page is in its file already, and waits to be stored.
func (w *Worker) Streamed() bool { return w.streamed != nil }

// Redirect returns the URL to which the page redirects; empty if there is none.
func (w *Worker) Redirect() []byte { return w.meta.redirect }

// ForBrowser returns which record a rendered form of the page belongs to, "" for none, and whether its links are
// held.
func (p *Pages) ForBrowser(w *Worker) (of string, held bool) {
	if p.opt.Output.Store && w.stores == state.ArchiveKeep {
		of = w.Encoder.ResponseID()
	}
	return of, w.meta.Unfollowed || w.meta.robots.NoFollow && !p.opt.Links.IgnoreNofollow
}

// Found describes the content of a response.
type Found struct {
	Body          Content
	Page, Sitemap bool
	Mislaid       bool // no sitemap, although it was named as one
	Rendered      bool // a browser is to render it
}

// Read fills w with what a response contains: links, metadata, the visit and the records to store. An error may be a
// contained panic (package bug).
func (p *Pages) Read(ctx context.Context, w *Worker, rec *weburl.Record, resp *fetch.Response,
	now time.Time) (is Found, _ error) {
	w.Visit = Visit{}
	err := bug.Contained(func() (err error) {
		if is, err = p.Find(w, rec, resp, now); err != nil {
			return err
		}
		if err = p.judge(ctx, w, rec, resp, is); err != nil {
			return err
		}
		w.Visit, err = p.noteVisit(w, rec, resp)
		is.Mislaid = !is.Sitemap && !output.IsRedirect(resp) && !w.Visit.Same && p.sitemaps.Flags(rec) != 0
		is.Rendered = is.Page && !w.Visit.Unchanged && p.render.Wants(rec) && !w.Links.OnlyPart(rec.URL)
		return err
	})
	return is, err
}

// Find fills w with the links and the metadata of the response.
func (p *Pages) Find(w *Worker, rec *weburl.Record, resp *fetch.Response, now time.Time) (is Found, _ error) {
	if p.opt.Reading != nil {
		p.opt.Reading("page", rec.URL)
	}
	body, sniffed := p.bodyOf(resp)
	if is.Sitemap = p.sitemaps.Is(rec, resp); is.Sitemap {
		body, sniffed = Other, false
	}
	is.Body = body
	is.Page = body == HTML && resp.Status == http.StatusOK && resp.Flaws&fetch.FlawNotChunked == 0
	if is.Sitemap {
		if err := w.meta.start(rec, resp, p.opt.Agent); err != nil {
			return is, err
		}
		p.sitemaps.Read(w.Links, rec, resp, now)
	} else if err := p.findLinks(w, rec, resp, body, now); err != nil {
		return is, err
	}
	p.score(w.Links, rec, resp)
	if sniffed {
		w.Links.Counts[state.CountSniffed] += 1
	}
	if is.Page && w.meta.robots.NoIndex {
		w.Links.Counts[state.CountNoIndex] += 1
	}
	return is, nil
}

// score sets the score of the links of a page, before the hook is asked.
func (p *Pages) score(b *admit.Batch, rec *weburl.Record, resp *fetch.Response) {
	switch s := p.others.Strategy(); {
	case s.Scores == strategy.NoScore:
	case output.IsRedirect(resp):
		b.Rec.Score = rec.Score
	case s.Scores == strategy.IndegreeBudget:
		normal, largest := p.others.BudgetRange()
		b.Rec.Score = strategy.ScoreOfBudget(rec.Budget, normal, largest)
	}
}

// judge asks the hook about the response, decides how much of it is stored, and prepares its records.
func (p *Pages) judge(ctx context.Context, w *Worker, rec *weburl.Record, resp *fetch.Response,
	is Found) error {
	if p.opt.Hook != nil && !is.Sitemap && !output.IsRedirect(resp) {
		kind, _ := p.kindOf(resp) // is.Body is set only for a status of 200 to 299
		var err error
		if w.meta.Said, err = hook.Ask(ctx, p.opt.Hook, &w.Reader, &hook.Page{Rec: rec, Resp: resp,
			Robots: w.meta.directives(), HTML: kind == HTML, Strategy: p.others.Strategy()}); err != nil {
			return err
		}
	}
	p.askArchive(w)
	whole := w.stores == state.ArchiveKeep && !is.Sitemap && resp.Flaws&reader.DecodeCut == 0
	if err := p.content.Look(&w.Body, rec, resp, whole, &w.meta.text); err != nil || !p.opt.Output.Store {
		return err
	}
	return p.prepare(ctx, w, rec, resp)
}

// findLinks adds the links of a response to w.Links: those of the page and its headers, or the target of a
// redirect. It stores the metadata of the response in w.meta.
func (p *Pages) findLinks(w *Worker, rec *weburl.Record, resp *fetch.Response, body Content,
	now time.Time) error {
	meta := &w.meta
	if err := meta.start(rec, resp, p.opt.Agent); err != nil {
		return err
	}
	if output.IsRedirect(resp) {
		return p.redirectLink(w, rec, resp, now)
	}
	w.Links.Start(rec.URL, rec.URL, admit.Deeper(rec.Depth), 0, now)
	// The links of an error page are the same on all error pages of a site, or a trap.
	if resp.Status < 200 || resp.Status > 299 {
		return nil
	}
	traps := p.others.Traps()
	var counts parse.Counts
	if body != Other {
		read := w.Parser.Parse
		if body == CSS {
			read = w.Parser.ParseCSS
			w.Links.PartsAnywhere()
			w.Links.Rec.Redirects = min(rec.Redirects, math.MaxUint8-1) + 1
		}
		if err := read(rec.URL, resp.Body, string(resp.Header("Content-Type"))); err != nil {
			return fmt.Errorf("crawl: parse %s: %w", rec.URL, err)
		}
		page := w.Parser.Page()
		meta.charset = page.Charset
		if (p.opt.Output.Simhash || p.opt.Output.NearDuplicates.KeepOne || traps != nil) && body == HTML {
			meta.setSimhash(&w.sketch, w.Parser, resp.Body)
		}
		if traps != nil && traps.Note(p.saved.HostKey(weburl.Split(rec.URL).Host), meta.simhash) {
			w.Links.Counts[state.CountRepeated]++
		}
		meta.robots.Add(page.Robots)
		meta.rights.page.Add(page.Rights)
		meta.setCanonical(w.Parser, page.Canonical)
		all := p.opt.Links.IgnoreNofollow
		counts = w.TakeLinks(meta.robots.NoFollow && !all, all, &meta.refresh)
	}
	if err := p.headerLinks(w, rec, resp, &counts); err != nil {
		return err
	}
	w.Count(&counts)
	return nil
}

// redirectLink does the work of findLinks for a redirect.
func (p *Pages) redirectLink(w *Worker, rec *weburl.Record, resp *fetch.Response, now time.Time) error {
	flags := weburl.FlagRedirect
	depth := admit.Deeper(rec.Depth)
	if rec.Flags&weburl.FlagSeed != 0 && rec.Redirects < MaxSeedHops {
		// The target of a seed's redirect counts as a seed.
		flags |= weburl.FlagSeed
		depth = rec.Depth
	}
	w.Links.Start(p.sitemaps.ParentOf(rec), rec.URL, depth, flags|p.sitemaps.Flags(rec), now)
	w.Links.Rec.Redirects = min(rec.Redirects, math.MaxUint8-1) + 1
	if err := w.Parser.At(rec.URL); err != nil {
		return fmt.Errorf("crawl: redirect of %s: %w", rec.URL, err)
	}
	var counts parse.Counts
	url := w.Parser.Resolve(resp.Header("Location"), &counts)
	switch {
	case counts.TooLong > 0:
		w.Links.Counts[state.CountLinksTooLong] += 1
	case url == nil:
		w.Links.Counts[state.CountLinksInvalid] += 1
	case w.meta.robots.NoFollow && !p.opt.Links.IgnoreNofollow:
		w.meta.redirect = append(w.meta.redirect, url...)
		w.Links.NoFollow()
	default:
		w.meta.redirect = append(w.meta.redirect, url...)
		w.Links.AddTarget(rec, url)
		if w.Links.Counts[state.CountLinksRedirects] > 0 {
			w.meta.dropped = admit.TooManyRedirects
		}
	}
	return nil
}

// MaxSeedHops limits the redirects of a seed whose targets count as seeds.
const MaxSeedHops = 20
