package crawl

import (
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/visit"
	"drumbeat/polite"
	"drumbeat/state"
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

// fits reports whether the records of a page fit. If they do not, the page is deferred.
func (p *pageStage) fits(w *visit.Worker) bool {
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
