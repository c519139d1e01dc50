package crawl

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/fetch"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// spoolWait is the wait of a URL whose body found no spool or no space.
const spoolWait = 10 * time.Minute

// deferLarge defers a URL whose body found no spool or no space. Nothing counts against its host.
func (p *pageStage) deferLarge(g *polite.Grant, rec *weburl.Record, result *ending) error {
	rec.Faults++
	return p.settle(g, result, func(tx *account.Tx) error {
		due := time.Now().Add(spoolWait)
		return p.deferrals.DeferURL(tx, rec, state.PlaceRAM, due, state.ReasonUnconfirmed)
	})
}

// prepare encodes a response for the page store. That of a spooled body is written to its file now.
func (p *pageStage) prepare(ctx context.Context, w *pageWorker, rec *weburl.Record, resp *fetch.Response) error {
	x := p.warcExchange(w, rec, resp)
	if w.stores == state.ArchiveDrop {
		if err := w.Encoder.PrepareOmitted(&w.Prepared, x); err != nil {
			return fmt.Errorf("crawl: prepare record of %s: %w", rec.URL, err)
		}
		return nil
	}
	if last, err := visitsOf(rec); err != nil {
		return err
	} else if resp.Status == http.StatusNotModified && last.Captured > 0 {
		of := warc.Original{URL: rec.URL, Date: time.Unix(last.Captured, 0)}
		if err := w.Encoder.PrepareNotModified(&w.Prepared, x, of); err != nil {
			return fmt.Errorf("crawl: prepare record of %s: %w", rec.URL, err)
		}
		return nil
	}
	if done, err := w.body.PrepareRevisit(w.Encoder, &w.Prepared, x); err != nil || done {
		return err
	}
	if resp.Spill == nil || w.stores != state.ArchiveKeep {
		if err := w.Encoder.Prepare(&w.Prepared, x); err != nil {
			return fmt.Errorf("crawl: prepare record of %s: %w", rec.URL, err)
		}
		return nil
	}
	x.Body, x.Large = nil, io.NewSectionReader(resp.Spill, 0, resp.SpoolBytes)
	var err error
	if w.streamed, err = p.output.Stream(ctx, w.Encoder, x); err != nil {
		return &fetch.Error{Stage: fetch.StageBody, Kind: fetch.KindResources, Addr: resp.Remote,
			Err: fetcher.NewSpoolError(fmt.Errorf("crawl: store %s: %w", rec.URL, err))}
	}
	return nil
}

// fits reports whether the records of a page fit. If they do not, the page is deferred.
func (p *pageStage) fits(w *pageWorker) bool {
	texts := int64(0)
	for i := range w.Links.Tuples {
		texts += int64(len(w.Links.Tuples[i].Aux))
	}
	return p.space.Fits(int64(w.Prepared.Bytes()), int64(len(w.Links.Keys)), texts)
}

// deferForRoom defers a page whose records do not fit. Nothing counts against its host.
func (p *pageStage) deferForRoom(page *arrival) error {
	rec := &page.rec
	return p.settle(page.grant, &page.result, func(tx *account.Tx) error {
		return p.deferrals.DeferURL(tx, rec, state.PlaceRAM, time.Now().Add(spoolWait), state.ReasonUnconfirmed)
	})
}
