package revisit

import (
	"errors"
	"math"
	"net/http"
	"time"
)

// History holds the results of visits to a page. The zero value is that of an unvisited page.
type History struct {
	Last     int64  // Unix seconds of the last response; 0: none
	Interval uint32 // seconds from Last to the time at which the next visit was due
	Visits   uint8  // after the first; no more are counted than a byte holds
	Belief   Belief // about the rate of change
	Body     uint64 // key of the last body; 0: none
	// Captured is the time of receipt of the last body, in Unix seconds, if a response record of this URL has
	// it; else 0. Revisit records of later visits refer to that record.
	Captured int64
	Missing  uint8 // number of the last visits that found no page
	// Copy says that the last body was, or nearly was, that of another page of the host.
	Copy bool
	// Listed is the time of the page's last change by a sitemap, in Unix seconds; 0 after the first visit. An
	// unvisited page has no other field.
	Listed int64
	// ETag and Modified are the validators of the last body (RFC 9110, 8.8); "" for none. Modified is kept
	// without an ETag only.
	ETag, Modified string
}

// Longer validators are dropped, and the request is then unconditional.
const (
	maxETag     = 128
	maxModified = 40 // an HTTP date has 29 bytes
)

// ErrHistory means that bytes are not a History.
var ErrHistory = errors.New("revisit: damaged history of a page")

// Due returns the time of the next visit.
func (h *History) Due() time.Time {
	return time.Unix(h.Last, 0).Add(time.Duration(h.Interval) * time.Second)
}

// Validators returns the validators for a conditional request; "" for none. Without a record of the body
// there are none, because a revisit record could not refer to it.
func (h *History) Validators() (etag, modified string) {
	if h.Captured == 0 {
		return "", ""
	}
	return h.ETag, h.Modified
}

// Outcome is the result of a visit.
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
		case modified >= h.Last: // it says more than that the page has changed
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
		h.Missing, h.Body, h.Captured, h.Copy = 0, o.Body, max(1, o.At.Unix()), false
		// With an ETag, a server ignores Last-Modified (RFC 9110, 13.1.3).
		if h.ETag, h.Modified = kept(o.ETag, maxETag), ""; h.ETag == "" {
			h.Modified = kept(o.Modified, maxModified)
		}
	}
	return changed
}

// clockSlack is how far Last may lie ahead of the clock. If Last lies further ahead, the clock was set back
// after that visit, and the visit counts as made now. Otherwise the next one would wait until the clock
// caught up. An extra hour does no harm, and synchronised clocks differ by less.
const clockSlack = time.Hour

// mendLast sets h.Last to at, in Unix seconds, if it lies more than clockSlack ahead of it.
func (h *History) mendLast(at int64) {
	if h.Last-at > int64(clockSlack/time.Second) {
		h.Last = max(at, 1)
	}
}

// justNow is the time within which a Last-Modified is ignored: many servers send the time of the response for
// pages that they generate.
const justNow = 5 // seconds

// modifiedAt returns the time of the page's last change, if the server gives a plausible one; else 0.
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
