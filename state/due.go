package state

import (
	"time"

	"drumbeat/internal/revisit"
	"drumbeat/weburl"
)

// Due returns when a URL is due that the calendar of deferred URLs returns at a time, in Unix ms. A page that waits for
// its next visit (ReasonRevisit) may return earlier, to wait for the rest of the time.
func Due(rec *weburl.Record, returns int64) time.Time {
	at := time.UnixMilli(returns).UTC()
	if Reason(rec.Reason) != ReasonRevisit {
		return at
	}
	var h revisit.History
	if h.Decode(rec.Visits) != nil { // an audit reports it
		return at
	}
	if due := h.Due().UTC(); due.After(at) {
		return due
	}
	return at
}
