package state

import (
	"fmt"
	"time"

	"drumbeat/internal/revisit"
	"drumbeat/weburl"
)

// Due returns when a URL is due that the calendar of deferred URLs returns at a time, in Unix ms. A page that
// waits for its next visit (ReasonRevisit) may return earlier, to wait for the rest of the time.
func Due(rec *weburl.Record, returns int64) time.Time {
	at := time.UnixMilli(returns).UTC()
	if Reason(rec.Reason) != ReasonRevisit {
		return at
	}
	h, err := HistoryOf(rec)
	if err != nil { // an audit reports it
		return at
	}
	if due := h.Due().UTC(); due.After(at) {
		return due
	}
	return at
}

// HistoryOf returns the results of earlier visits to a URL; the zero value for a new one. The error names the
// URL.
func HistoryOf(rec *weburl.Record) (h revisit.History, err error) {
	if err = h.Decode(rec.Visits); err != nil {
		err = fmt.Errorf("crawl: record of %s: %w", rec.URL, err)
	}
	return h, err
}
