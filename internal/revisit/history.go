package revisit

import (
	"errors"
	"math"
	"net/http"
	"time"
)

// History is what visits to a page found. The zero value is that of a page that was not visited.
type History struct {
	Last     int64  // Unix seconds of the last response; 0: none
	Interval uint32 // seconds from Last to the time at which the next visit was due
	Visits   uint8  // after the first; no more are counted than a byte holds
	Belief   Belief // about the rate of change
	Body     uint64 // key of the last body; 0: none
	// Captured is when the last body was received, in Unix seconds, if a response record of this URL has it;
	// else 0. Records of later visits that find it unchanged refer to that one.
	Captured int64
	Missing  uint8 // the last visits that found no page
	// Listed is when a sitemap says that the page was changed last, in Unix seconds, and 0 after the first
	// visit. It is all that is known of a page that was not visited.
	Listed int64
	// ETag and Modified are the validators of the last body (RFC 9110, 8.8); "" for none. Modified is kept
	// without an ETag only.
	ETag, Modified string
}

// Longer validators are not kept, so the request is not conditional.
const (
	maxETag     = 128
	maxModified = 40 // an HTTP date has 29 bytes
)

// ErrHistory is the error of bytes that are no History.
var ErrHistory = errors.New("revisit: damaged history of a page")

// Due returns when the next visit is due.
func (h *History) Due() time.Time {
	return time.Unix(h.Last, 0).Add(time.Duration(h.Interval) * time.Second)
}

// Validators returns the validators for a conditional request; "" for none. Without a record that has the
// body, an answer without one would have nothing to refer to.
func (h *History) Validators() (etag, modified string) {
	if h.Captured == 0 {
		return "", ""
	}
	return h.ETag, h.Modified
}

// Outcome is what a visit found.
type Outcome struct {
	At      time.Time // of the response
	Missing bool      // the server says that there is no such page (404, 410)
	Same    bool      // the server says that the page has not changed (304)
	Body    uint64    // key of the body, not 0, if neither
	// ETag and Modified are the response's validators; "" for none.
	ETag, Modified string
}

// Note adds a visit. It reports whether the page has changed since the last one; a first visit is no change.
func (p *Policy) Note(h *History, o *Outcome) (changed bool) {
	first := h.Last == 0
	h.mendLast(o.At.Unix())
	at := max(o.At.Unix(), h.Last, 1) // the clock may have been set back a little
	h.Belief = h.Belief.known(p.Default)
	modified := modifiedAt(o, at)
	if first {
		if modified == 0 && h.Listed <= at-justNow {
			modified = h.Listed
		}
		h.Listed = 0
		if modified > 0 && !o.Missing {
			h.Belief = h.Belief.changedAt(float64(at - modified))
		}
	} else {
		changed = o.Missing != (h.Missing > 0) || !o.Missing && !o.Same && o.Body != h.Body
		h.Visits = min(h.Visits, math.MaxUint8-1) + 1
		switch since := float64(at - h.Last); {
		case since == 0:
		case !changed:
			h.Belief = h.Belief.quiet(since)
		case modified >= h.Last: // says more than that it is not the page of the last visit
			h.Belief = h.Belief.changedAt(float64(at - modified))
		default:
			h.Belief = h.Belief.changed(since)
		}
	}
	h.Last = at
	switch {
	case o.Missing:
		h.Missing = min(h.Missing, math.MaxUint8-1) + 1
	case o.Same:
		h.Missing = 0
	default:
		h.Missing, h.Body, h.Captured = 0, o.Body, max(1, o.At.Unix())
		// Beside an ETag, a server ignores the other (RFC 9110, 13.1.3).
		if h.ETag, h.Modified = kept(o.ETag, maxETag), ""; h.ETag == "" {
			h.Modified = kept(o.Modified, maxModified)
		}
	}
	return changed
}

// clockSlack is how far Last may lie ahead of the clock. If it lies further ahead, the clock was set back after
// that visit, and the visit counts as made now. Otherwise the next one would wait until the clock caught up.
// One more hour of waiting does no harm, and synchronised clocks differ by less.
const clockSlack = time.Hour

// mendLast sets h.Last to at, in Unix seconds, if it lies more than clockSlack ahead of it.
func (h *History) mendLast(at int64) {
	if h.Last-at > int64(clockSlack/time.Second) {
		h.Last = max(at, 1)
	}
}

// justNow is the time within which a Last-Modified says nothing: many servers send the time of the response
// for pages that they make anew for each request.
const justNow = 5 // seconds

// modifiedAt returns when the page was last changed, if its server says so believably; else 0.
func modifiedAt(o *Outcome, at int64) int64 {
	if o.Missing || o.Modified == "" {
		return 0
	}
	t, err := http.ParseTime(o.Modified)
	if err != nil || t.Unix() <= 0 || t.Unix() > at-justNow {
		return 0
	}
	return t.Unix()
}

func kept(validator string, limit int) string {
	if len(validator) > limit {
		return ""
	}
	return validator
}
