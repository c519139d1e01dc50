package visit

import (
	"net/http"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/output"
	"drumbeat/fetch"
	"drumbeat/internal/health"
	"drumbeat/internal/revisit"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Visit is the effect of a response on its URL's record. The zero value is that of a URL that is not
// visited again.
type Visit struct {
	Noted     bool // the URL is visited again
	History   revisit.History
	First     bool
	Unchanged bool
	Same      bool // unchanged, and the response has no body (304)
}

// noteVisit returns the visit of a URL that has a final response; the zero value if it is not visited again.
func (p *Pages) noteVisit(w *Worker, rec *weburl.Record, resp *fetch.Response) (v Visit, err error) {
	policy, ok := p.others.Revisits(rec.URL)
	if !ok {
		return v, nil
	}
	if policy.Importance > 0 {
		normal, _ := p.others.BudgetRange()
		policy.Weigh(rec.Budget, normal)
	}
	if v.History, err = state.HistoryOf(rec); err != nil {
		return v, err
	}
	v.First = v.History.Last == 0
	o := revisit.Outcome{At: resp.Start, ETag: string(resp.Header("ETag")),
		Modified: string(resp.Header("Last-Modified"))}
	switch good := resp.Status >= 200 && resp.Status <= 299; {
	case resp.Status == http.StatusNotModified && !v.First:
		o.Same = true
	case output.IsRedirect(resp):
		o.Body = p.saved.Hasher.BodyKey(resp.Header("Location"), true) | 1 // 0 stands for none
	case good && resp.Truncated == fetch.NotTruncated:
		o.Body = p.saved.Hasher.BodyKey(resp.Body, true) | 1
		if resp.Spill != nil { // Body is only its beginning
			o.Body = o.Body + uint64(resp.SpoolBytes)<<1
		}
	case good: // a part of a body cannot be compared with another, nor asked for again by its validators
		o.Body, o.ETag, o.Modified = max(1, v.History.Body), "", ""
	case v.First:
		return Visit{}, nil
	case health.KindOf(resp.Status).Failed():
		policy.Later(&v.History, resp.Start)
		v.Noted = true
		return v, nil
	default:
		o.Missing = true
	}
	last := v.History.Last
	changed := policy.Note(&v.History, &o)
	if at, known := w.Body.CapturedAt(rec.URL); known && v.History.Captured > 0 && o.Body != 0 {
		v.History.Captured = at
	}
	fresh, _ := fetcher.Freshness(resp, time.Now())
	next, _ := policy.Next(&v.History, fresh)
	if !o.Missing && (v.History.Copy || policy.Copies > 0 && w.Body.CopyOf(rec.URL)) {
		policy.Copy(&v.History)
		next = time.Duration(v.History.Interval) * time.Second
	}
	if policy.Kind == revisit.Optimal && !v.First {
		elapsed := time.Duration(v.History.Last-last) * time.Second
		p.opt.Margin.Note(&policy, elapsed, next, p.run.Accounts.DeferredFor(state.ReasonRevisit))
	}
	v.Noted, v.Same, v.Unchanged = true, o.Same, !v.First && !changed && !o.Missing
	return v, nil
}

// Apply puts the visit into the URL's record.
func (v *Visit) Apply(rec *weburl.Record) {
	if v.Noted {
		rec.Renew(v.History.Append(nil))
	}
}

// Count counts a visit in its transaction.
func (v *Visit) Count(tx *account.Tx) {
	if !v.Noted || v.First {
		return
	}
	tx.Count(state.CountVisits, 1)
	if v.Unchanged {
		tx.Count(state.CountUnchanged, 1)
	}
	if v.Same {
		tx.Count(state.CountNotModified, 1)
	}
}
