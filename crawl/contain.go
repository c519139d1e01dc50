package crawl

import (
	"drumbeat/crawl/account"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/weburl"
)

// endByBug refuses a URL whose response made this program panic, so that no later run fetches it again. The
// panic does not count against the host.
func (p *pageStage) endByBug(g *polite.Grant, rec *weburl.Record, panicked error, result *ending) error {
	p.LogBug(string(rec.URL), panicked)
	return p.settle(g, result, func(tx *account.Tx) error {
		tx.AttemptFailed(state.ReasonInternal)
		tx.Count(state.CountInternalErrors, 1)
		return p.deferrals.Refuse(tx, rec, state.PlaceRAM, state.ReasonInternal)
	})
}
