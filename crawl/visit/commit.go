package visit

import (
	"context"
	"net/http"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/contents"
	"drumbeat/crawl/gate"
	"drumbeat/crawl/output"
	"drumbeat/fetch"
	"drumbeat/internal/bug"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/revisit"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// store parses and stores a final response, and records the result for its host, in one transaction.
func (s *Stage) store(ctx context.Context, page *arrival) error {
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
			return s.unread(ctx, page, err)
		}
	}
	parsers := s.parsers
	if resp.Spill != nil {
		parsers = s.large
	}
	var w *Worker
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
	is, err := s.reads.Read(ctx, w, rec, resp, now)
	if err != nil {
		if bug.As(err) != nil {
			w = s.reads.NewWorker() // the old one may be in any state
		}
		return s.unread(ctx, page, err)
	}
	if !w.Streamed() && !s.fits(w) { // a large body has reserved its space
		return s.deferForRoom(page)
	}
	err = s.settle(g, result, func(tx *account.Tx) error { return s.commit(tx, w, page, is, now) })
	s.run.NoteProgress()
	return err
}

// unread ends a URL whose response could not be read.
func (s *Stage) unread(ctx context.Context, page *arrival, err error) error {
	if panicked := bug.As(err); panicked != nil {
		return s.endByBug(page.grant, &page.rec, panicked, &page.result)
	} else if ctx.Err() != nil {
		return nil // stays in RAM: the last checkpoint has it
	}
	return s.exchangeFailed(page.grant, &page.rec, &page.sum, err, &page.result)
}

// commit ends a page, or gives it to the store of contents. It is the transaction of the page.
func (s *Stage) commit(tx *account.Tx, w *Worker, page *arrival, is Found, now time.Time) error {
	rec, resp := &page.rec, page.resp
	v, err := s.health.Note(tx, page.grant.Item.Host, rec, &page.sum.Health, page.event)
	if err != nil {
		return err
	}
	page.result.rest(v)
	waits, err := s.content.Send(tx, &w.Body, &contents.Page{Rec: rec, Resp: resp, Links: w.Links, Records: &w.Prepared,
		Visited: w.Visit.Apply,
		Log:     func() *crawllog.Entry { return s.reads.Entry(w, rec, resp, is.Body != Other) }})
	if err != nil {
		return err
	}
	var at warc.Location
	if s.opt.Output.Store && !waits {
		if at, err = s.reads.Store(w, now); err != nil {
			return err
		}
	}
	if err := s.commitLinks(tx, w, page, is, waits); err != nil {
		return err
	}
	s.reads.Count(tx, rec, resp, is)
	s.others.Answered(weburl.Split(rec.URL).Host, page.grant.Item.PLD, resp.Remote.Addr())
	w.Visit.Count(tx)
	if err := s.others.Fetched(page.grant.Item.PLD, resp.RawBytes()); err != nil {
		return err
	}
	key := s.saved.Hasher.URLKey(rec.URL)
	tx.Fetched(key, is.Page, resp.BytesRead)
	if s.gone(rec, resp, key) {
		if err := s.content.Gone(rec.URL); err != nil {
			return err
		}
	}
	if rec.Flags&weburl.FlagSeed != 0 {
		s.reads.LogSeedsEnd(w, rec, resp, key, is.Page)
	}
	if waits { // the rest follows with the verdict
		tx.Move(key, state.PlaceRAM, state.PlaceContent)
		s.others.Orders.Stored(key)
		return nil
	}
	if err := s.reads.Log(w, rec, resp, is.Body != Other, at); err != nil {
		return err
	}
	w.Visit.Apply(rec)
	if err := s.others.EndVisit(tx, rec, state.PlaceRAM); err != nil || !output.IsRedirect(resp) {
		return err
	}
	return s.askAgain(tx, rec, w.Redirect())
}

// gone reports whether the page of a URL is gone that was visited before, or perhaps was: the operator asks for it.
func (s *Stage) gone(rec *weburl.Record, resp *fetch.Response, key uint64) bool {
	if resp.Status != http.StatusNotFound && resp.Status != http.StatusGone {
		return false
	}
	return revisit.Visited(rec.Visits) || s.others.Orders.Waits(key)
}

// commitLinks sends the links of a page to URLseen or to the walk, unless they wait for the verdict on its
// body, and the page to the browser.
func (s *Stage) commitLinks(tx *account.Tx, w *Worker, page *arrival, is Found, waits bool) error {
	rec, resp := &page.rec, page.resp
	takes := s.content.TakesLinks(&w.Body, rec, waits)
	if s.walk.On() {
		tx.CountAll(&w.Links.Counts)
		if err := s.walk.Fetched(tx, rec.URL, resp.Status, is.Page, w.Links); err != nil {
			return err
		}
	} else if !takes {
		tx.CountAll(&w.Links.Counts)
		if !waits {
			tx.Count(state.CountLinksDuplicate, int64(len(w.Links.Keys)))
		}
	} else if err := s.others.SendLinks(w.Links, tx); err != nil {
		return err
	}
	if !is.Rendered {
		return nil
	}
	of, held := s.reads.ForBrowser(w)
	return s.render.Add(tx, rec, resp, of, held || !takes)
}
