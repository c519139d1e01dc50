package polite

import (
	"math"
	"time"
)

// DelayAfter returns the delay that a host gets after an exchange: the largest of τh·B0/Bx within its bounds
// (budget 0: unscaled), the Crawl-delay and factor times the response time, both capped at MaxCrawlDelay, and
// the back-off.
func (o *Options) DelayAfter(budget uint32, crawlDelay time.Duration, r Result) time.Duration {
	d := max(o.plainDelay(budget), min(max(crawlDelay, r.CrawlDelay), o.MaxCrawlDelay))
	if o.ResponseFactor > 0 {
		f := math.Min(o.ResponseFactor*float64(r.Elapsed), float64(o.MaxCrawlDelay))
		d = max(d, time.Duration(f))
	}
	return max(d, r.Backoff)
}

// plainDelay is τh·B0/Bx within its bounds.
func (o *Options) plainDelay(budget uint32) time.Duration {
	return scale(o.HostDelay, o.HostDelayMin, float64(o.DefaultBudget), float64(budget))
}

// scale returns full·b0/budget, at least least and at most full.
func scale(full, least time.Duration, b0, budget float64) time.Duration {
	if budget <= b0 {
		return full
	}
	return max(time.Duration(float64(full)*b0/budget), least)
}

// serverDelay is the server's τs·B0/(mean budget of the items that name it).
func (s *Scheduler) serverDelay(v *server) int64 {
	mean := 0.0
	if v.items > 0 {
		mean = float64(v.budgets) / float64(v.items)
	}
	return int64(scale(s.opt.ServerDelay, s.opt.ServerDelayMin, float64(s.opt.DefaultBudget), mean))
}

// budgetOf is the item's budget for means: unscaled items count as B0.
func (s *Scheduler) budgetOf(it *Item) int64 {
	if it.Budget == 0 {
		return int64(s.opt.DefaultBudget)
	}
	return int64(it.Budget)
}

// dueAt returns when the host may be visited next.
func (s *Scheduler) dueAt(h *host) int64 {
	if !h.visited {
		return h.notBefore
	}
	d := h.base
	if it := h.front(); it != nil {
		d = max(d, min(it.CrawlDelay, s.opt.MaxCrawlDelay))
	}
	return max(h.notBefore, h.end+int64(d))
}

// hostSpacing estimates the time from one grant of a host to the next, for shares and deferrals. At least 1
// ms, which is also what counts for a host without any delay: its response time then is mostly a matter of this
// machine's load, and a URL sent to disk because of it would come back long after its host has run dry.
func (s *Scheduler) hostSpacing(h *host, it *Item) int64 {
	usual, crawlDelay := time.Duration(0), it.CrawlDelay
	if h != nil {
		usual, crawlDelay = h.usual, max(crawlDelay, h.crawlDelay)
	}
	d := s.opt.DelayAfter(it.Budget, crawlDelay, Result{Elapsed: usual})
	if d > 0 {
		d += usual
	}
	return int64(max(d, time.Millisecond))
}
