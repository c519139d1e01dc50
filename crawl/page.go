package crawl

import (
	"context"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/contents"
	"drumbeat/crawl/gate"
	"drumbeat/crawl/output"
	"drumbeat/crawl/visit"
	"drumbeat/internal/bug"
	"drumbeat/internal/crawllog"
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
				page.event = gate.EventOf(rec, resp)
			}
			return err
		})
		if err != nil {
			return p.unread(ctx, page, err)
		}
	}
	parsers := p.parsers
	if resp.Spill != nil {
		parsers = p.large
	}
	var w *visit.Worker
	select {
	case w = <-parsers:
	case <-ctx.Done():
		return nil
	}
	defer func() {
		w.Release()
		parsers <- w
	}()
	now := time.Now()
	is, err := p.reads.Read(ctx, w, rec, resp, now)
	if err != nil {
		if bug.As(err) != nil {
			w = p.reads.NewWorker() // the old one may be in any state
		}
		return p.unread(ctx, page, err)
	}
	if !w.Streamed() && !p.fits(w) { // a large body has reserved its space
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
func (p *pageStage) commit(tx *account.Tx, w *visit.Worker, page *arrival, is visit.Found, now time.Time) error {
	rec, resp := &page.rec, page.resp
	v, err := p.health.Note(tx, page.grant.Item.Host, rec, &page.sum.Health, page.event)
	if err != nil {
		return err
	}
	page.result.rest(v)
	waits, err := p.content.Send(tx, &w.Body, &contents.Page{Rec: rec, Resp: resp, Links: w.Links, Records: &w.Prepared,
		Visited: w.Visit.Apply,
		Log:     func() *crawllog.Entry { return p.reads.Entry(w, rec, resp, is.Body != visit.Other) }})
	if err != nil {
		return err
	}
	var at warc.Location
	if p.opt.Output.Store && !waits {
		if at, err = p.reads.Store(w, now); err != nil {
			return err
		}
	}
	if err := p.commitLinks(tx, w, page, is, waits); err != nil {
		return err
	}
	p.reads.Count(tx, rec, resp, is)
	p.sketches.addAnswer(weburl.Split(rec.URL).Host, page.grant.Item.PLD, resp.Remote.Addr())
	w.Visit.Count(tx)
	if err := p.budgets.fetched(page.grant.Item.PLD, resp.RawBytes()); err != nil {
		return err
	}
	key := p.Hasher.URLKey(rec.URL)
	if rec.Flags&weburl.FlagSeed != 0 {
		p.reads.LogSeedsEnd(w, rec, resp, key, is.Page)
	}
	if waits { // the rest follows with the verdict
		tx.Move(key, state.PlaceRAM, state.PlaceContent)
		p.orders.stored(key)
		return nil
	}
	if err := p.reads.Log(w, rec, resp, is.Body != visit.Other, at); err != nil {
		return err
	}
	w.Visit.Apply(rec)
	if err := p.deferrals.endVisit(tx, rec, state.PlaceRAM); err != nil || !output.IsRedirect(resp) {
		return err
	}
	return p.askAgain(tx, rec, w.Redirect())
}

// commitLinks sends the links of a page to URLseen or to the walk, unless they wait for the verdict on its
// body, and the page to the browser.
func (p *pageStage) commitLinks(tx *account.Tx, w *visit.Worker, page *arrival, is visit.Found, waits bool) error {
	rec, resp := &page.rec, page.resp
	takes := p.content.TakesLinks(&w.Body, rec, waits)
	if p.walk.On() {
		countLinks(w.Links, tx)
		if err := p.walk.Fetched(tx, rec.URL, resp.Status, is.Page, w.Links); err != nil {
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
	if !is.Rendered {
		return nil
	}
	of, held := p.reads.ForBrowser(w)
	return p.render.Add(tx, rec, resp, of, held || !takes)
}
