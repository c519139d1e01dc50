package crawl

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/contents"
	"drumbeat/crawl/hook"
	"drumbeat/crawl/output"
	"drumbeat/crawl/reader"
	"drumbeat/fetch"
	"drumbeat/internal/bug"
	"drumbeat/internal/crawllog"
	"drumbeat/parse"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// store parses and stores a final response, and records the result for its host, in one transaction.
func (p *pageStage) store(ctx context.Context, page *arrival) error {
	g, rec, resp, result := page.grant, &page.rec, page.resp, &page.result
	if resp.Undecoded() {
		// Before a parser is taken: decoding may wait for memory that pages give back once they are parsed.
		err := bug.Contained(func() error {
			err := resp.Decode(ctx)
			if err == nil {
				page.event = eventOf(rec, resp)
			}
			return err
		})
		if err != nil {
			return p.unread(ctx, page, err)
		}
	}
	parsers := p.workers.parsers
	if resp.Spill != nil {
		parsers = p.workers.large
	}
	var w *pageWorker
	select {
	case w = <-parsers:
	case <-ctx.Done():
		return nil
	}
	defer func() {
		w.release()
		parsers <- w
	}()
	now := time.Now()
	is, err := p.read(ctx, w, page, now)
	if err != nil {
		if bug.As(err) != nil {
			w = newPageWorker(p.engine, p.output) // the old one may be in any state
		}
		return p.unread(ctx, page, err)
	}
	if w.streamed == nil && !p.fits(w) { // a large body has reserved its space
		return p.deferForRoom(page)
	}
	err = p.settle(g, result, func(tx *account.Tx) error { return p.commit(tx, w, page, is, now) })
	p.NoteProgress()
	return err
}

// unread ends a URL whose response could not be read.
func (p *pageStage) unread(ctx context.Context, page *arrival, err error) error {
	if panicked := bug.As(err); panicked != nil {
		return p.endByBug(page.grant, &page.rec, panicked, &page.result)
	} else if ctx.Err() != nil {
		return nil // stays in RAM: the last checkpoint has it
	}
	return p.exchangeFailed(page.grant, &page.rec, &page.sum, err, &page.result)
}

// commit ends a page, or gives it to the store of contents. It is the transaction of the page.
func (p *pageStage) commit(tx *account.Tx, w *pageWorker, page *arrival, is found, now time.Time) error {
	rec, resp := &page.rec, page.resp
	v, err := p.health.noteHost(tx, page.grant.Item.Host, rec, &page.sum.Health, page.event)
	if err != nil {
		return err
	}
	page.result.rest(v)
	waits, err := p.content.Send(tx, &w.body, &contents.Page{Rec: rec, Resp: resp, Links: w.Links, Records: &w.Prepared,
		Visited: w.visit.apply,
		Log:     func() *crawllog.Entry { return p.fetchedEntry(w, rec, resp, is.body != contentOther) }})
	if err != nil {
		return err
	}
	var at warc.Location
	if p.opt.Output.Store && !waits {
		if at, err = p.storeRecords(w, now); err != nil {
			return err
		}
	}
	if err := p.commitLinks(tx, w, page, is, waits); err != nil {
		return err
	}
	p.countResponse(tx, rec, resp, is)
	p.sketches.addAnswer(weburl.Split(rec.URL).Host, page.grant.Item.PLD, resp.Remote.Addr())
	w.visit.count(tx)
	if err := p.budgets.fetched(page.grant.Item.PLD, resp.RawBytes()); err != nil {
		return err
	}
	key := p.Hasher.URLKey(rec.URL)
	if rec.Flags&weburl.FlagSeed != 0 {
		p.logSeedsEnd(w, rec, resp, key, is.page)
	}
	if waits { // the rest follows with the verdict
		tx.Move(key, state.PlaceRAM, state.PlaceContent)
		p.orders.stored(key)
		return nil
	}
	if err := p.logFetched(w, rec, resp, is.body != contentOther, at); err != nil {
		return err
	}
	w.visit.apply(rec)
	if err := p.deferrals.endVisit(tx, rec, state.PlaceRAM); err != nil || !output.IsRedirect(resp) {
		return err
	}
	return p.askAgain(tx, rec, w.meta.redirect)
}

// commitLinks sends the links of a page to URLseen or to the walk, unless they wait for the verdict on its
// body, and the page to the browser.
func (p *pageStage) commitLinks(tx *account.Tx, w *pageWorker, page *arrival, is found, waits bool) error {
	rec, resp := &page.rec, page.resp
	takes := p.content.TakesLinks(&w.body, rec, waits)
	if p.walk.On() {
		countLinks(w.Links, tx)
		if err := p.walk.Fetched(tx, rec.URL, resp.Status, is.page, w.Links); err != nil {
			return err
		}
	} else if !takes {
		countLinks(w.Links, tx)
		if !waits {
			tx.Count(state.CountLinksDuplicate, int64(len(w.Links.Keys)))
		}
	} else if err := p.seen.sendLinks(w.Links, tx); err != nil {
		return err
	}
	if !is.rendered {
		return nil
	}
	of := ""
	if p.opt.Output.Store && w.stores == state.ArchiveKeep {
		of = w.Encoder.ResponseID()
	}
	held := !takes || w.meta.Unfollowed || w.meta.robots.NoFollow && !p.opt.Links.IgnoreNofollow
	return p.render.Add(tx, rec, resp, of, held)
}

// found describes the content of a response.
type found struct {
	body              content
	page, sitemap     bool
	mislaid, rendered bool // no sitemap, although it was named as one; to be rendered
}

// read fills w with what the response contains: links, metadata, the visit and the records to store.
func (p *pageStage) read(ctx context.Context, w *pageWorker, page *arrival, now time.Time) (is found, _ error) {
	rec, resp := &page.rec, page.resp
	w.visit = pageVisit{}
	err := bug.Contained(func() (err error) {
		if is, err = p.find(w, rec, resp, now); err != nil {
			return err
		}
		if err = p.judge(ctx, w, rec, resp, is); err != nil {
			return err
		}
		w.visit, err = p.noteVisit(w, rec, resp)
		is.mislaid = !is.sitemap && !output.IsRedirect(resp) && !w.visit.same && p.sitemapFlags(rec) != 0
		is.rendered = is.page && !w.visit.unchanged && p.render.Wants(rec)
		return err
	})
	return is, err
}

// find fills w with the links and the metadata of the response.
func (p *pageStage) find(w *pageWorker, rec *weburl.Record, resp *fetch.Response, now time.Time) (is found, _ error) {
	if p.opt.tests.reading != nil {
		p.opt.tests.reading("page", rec.URL)
	}
	body, sniffed := p.bodyOf(resp)
	if is.sitemap = p.isSitemap(rec, resp); is.sitemap {
		body, sniffed = contentOther, false
	}
	is.body = body
	is.page = body == contentHTML && resp.Status == http.StatusOK && resp.Flaws&fetch.FlawNotChunked == 0
	if is.sitemap {
		w.meta.start(resp, p.opt.Identity.Agent)
		p.readSitemap(w, rec, resp, now)
	} else if err := p.findLinks(w, rec, resp, body, now); err != nil {
		return is, err
	}
	p.scoreLinks(w, rec, resp)
	if sniffed {
		w.Links.Counts[state.CountSniffed] += 1
	}
	if is.page && w.meta.robots.NoIndex {
		w.Links.Counts[state.CountNoIndex] += 1
	}
	return is, nil
}

// judge asks the hook about the response, decides how much of it is stored, and prepares its records.
func (p *pageStage) judge(ctx context.Context, w *pageWorker, rec *weburl.Record, resp *fetch.Response,
	is found) error {
	if p.opt.opened.asker != nil && !is.sitemap && !output.IsRedirect(resp) {
		kind, _ := p.kindOf(resp) // is.body is set only for a status of 200 to 299
		var err error
		if w.meta.Said, err = hook.Ask(ctx, p.opt.opened.asker, &w.Reader, &hook.Page{Rec: rec, Resp: resp,
			Robots: w.meta.directives(), HTML: kind == contentHTML, Strategy: p.strategy.Load()}); err != nil {
			return err
		}
	}
	p.askArchive(w)
	whole := w.stores == state.ArchiveKeep && !is.sitemap && resp.Flaws&reader.DecodeCut == 0
	if err := p.content.Look(&w.body, rec, resp, whole); err != nil || !p.opt.Output.Store {
		return err
	}
	return p.prepare(ctx, w, rec, resp)
}

func (p *pageStage) countResponse(tx *account.Tx, rec *weburl.Record, resp *fetch.Response, is found) {
	tx.Count(state.CountAttempts, 1)
	tx.Count(state.CountResponses, 1)
	tx.Count(state.CountBytesWire, resp.BytesRead)
	tx.Count(state.CountBytesBody, int64(len(resp.Body)))
	tx.Count(state.CountFetchMillis, resp.Total.Milliseconds())
	tx.Response(resp.Status)
	if resp.Proto == fetch.ProtoHTTP2 {
		tx.Count(state.CountHTTP2, 1)
	}
	if resp.Spill != nil {
		tx.Count(state.CountSpooled, 1)
		tx.Count(state.CountBytesSpooled, resp.SpoolBytes)
	}
	if resp.Encoding != "" {
		tx.Count(state.CountCompressed, 1)
		tx.Count(state.CountBytesCompressed, int64(len(resp.PayloadRaw)))
		tx.Count(state.CountBytesUncompressed, int64(len(resp.Body)))
		if coding := state.CodingOf(resp.Encoding); coding >= 0 {
			tx.Count(state.CountCoded+coding, 1)
			tx.Count(state.CountBytesCoded+coding, int64(len(resp.PayloadRaw)))
			tx.Count(state.CountBytesUncoded+coding, int64(len(resp.Body)))
		}
	}
	if is.mislaid {
		tx.Count(state.CountSitemapFaults, 1) // no sitemap at this URL
	}
	if is.page {
		tx.Count(state.CountPages, 1)
		tx.Count(state.CountBytesPages, int64(len(resp.Body)))
		if rec.Flags&weburl.FlagSeed != 0 {
			tx.Count(state.CountSeedPages, 1)
		}
	}
	if output.IsRedirect(resp) {
		tx.Count(state.CountRedirects, 1)
	}
	if resp.Flaws&fetch.FlawBodyRefused != 0 {
		tx.Count(state.CountBodiesRefused, 1)
	} else if resp.Truncated != fetch.NotTruncated {
		tx.Count(state.CountTruncated, 1)
	}
	if resp.Flaws&reader.DecodeCut != 0 && p.sitemapFlags(rec) == 0 { // sitemaps are decoded later, as they are read
		tx.Count(state.CountDecodeCut, 1)
	}
}

// findLinks adds the links of a response to w.Links: those of the page and its headers, or the target of a
// redirect. It stores the metadata of the response in w.meta.
func (p *pageStage) findLinks(w *pageWorker, rec *weburl.Record, resp *fetch.Response, body content,
	now time.Time) error {
	meta := &w.meta
	meta.start(resp, p.opt.Identity.Agent)
	if output.IsRedirect(resp) {
		return p.redirectLink(w, rec, resp, now)
	}
	w.Links.Start(rec.URL, rec.URL, admit.Deeper(rec.Depth), 0, now)
	// The links of an error page are the same on all error pages of a site, or a trap.
	if resp.Status < 200 || resp.Status > 299 {
		return nil
	}
	var counts parse.Counts
	if body != contentOther {
		read := w.Parser.Parse
		if body == contentCSS {
			read = w.Parser.ParseCSS
		}
		if err := read(rec.URL, resp.Body, string(resp.Header("Content-Type"))); err != nil {
			return fmt.Errorf("crawl: parse %s: %w", rec.URL, err)
		}
		page := w.Parser.Page()
		meta.charset = page.Charset
		if (p.opt.Output.Simhash || p.traps != nil) && body == contentHTML {
			meta.setSimhash(&w.sketch, w.Parser, resp.Body)
		}
		if p.traps != nil && p.traps.Note(p.HostKey(weburl.Split(rec.URL).Host), meta.simhash) {
			w.Links.Counts[state.CountRepeated]++
		}
		meta.robots.Add(page.Robots)
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
func (p *pageStage) redirectLink(w *pageWorker, rec *weburl.Record, resp *fetch.Response, now time.Time) error {
	flags := weburl.FlagRedirect
	depth := admit.Deeper(rec.Depth)
	if rec.Flags&weburl.FlagSeed != 0 && rec.Redirects < maxSeedHops {
		// The target of a seed's redirect counts as a seed.
		flags |= weburl.FlagSeed
		depth = rec.Depth
	}
	w.Links.Start(p.parentOf(rec), rec.URL, depth, flags|p.sitemapFlags(rec), now)
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

// maxSeedHops limits the redirects of a seed whose targets count as seeds.
const maxSeedHops = 20

// warcExchange returns the parts of a response that the page store keeps.
func (p *pageStage) warcExchange(w *pageWorker, rec *weburl.Record, resp *fetch.Response) *warc.Exchange {
	x := &w.exchange
	*x = warc.Exchange{
		URL: rec.URL, Date: resp.Start, IP: resp.Remote.Addr(), Request: resp.RequestHead,
		Head: resp.RawHead, Body: resp.RawBody,
		Chunked: len(resp.PayloadRaw) != len(resp.RawBody), Encoded: len(resp.Header("Content-Encoding")) > 0,
		Truncated: resp.Truncated.String(), Status: resp.Status, MIME: output.MIMEType(resp),
		Meta: x.Meta[:0], Protocols: output.Protocols(resp),
	}
	if output.IsRedirect(resp) {
		x.Redirect = string(resp.Header("Location"))
	}
	if p.opt.Output.Simhash && w.meta.simhash != 0 && w.stores == state.ArchiveKeep {
		x.Simhash = fmt.Sprintf("%016x", w.meta.simhash)
	}
	add := func(name, value string) { x.Meta = append(x.Meta, warc.Field{Name: name, Value: value}) }
	add("fetchTimeMs", strconv.FormatInt(resp.Total.Milliseconds(), 10))
	if rec.Parent == 0 && len(rec.Via) > 0 { // via is complete
		add("via", string(rec.AppendVia(nil)))
	}
	add("depth", strconv.Itoa(int(rec.Depth)))
	if resp.TLSVerdict != "" {
		add("tlsVerdict", resp.TLSVerdict)
	}
	w.meta.each(add)
	if x.Simhash != "" {
		add("simhash", x.Simhash)
	}
	if w.stores != state.ArchiveKeep {
		leaveOut(x, w.stores, &w.meta)
	}
	return x
}
