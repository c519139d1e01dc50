package polite

import (
	"math"
	"time"
)

// DelayAfter returns a host's delay after an exchange. It is the maximum of τh·B0/Bx within its bounds
// (budget 0: unscaled), of the Crawl-delay up to MaxCrawlDelay, of ResponseFactor times the response time up to
// that and maxAnswerDelay, and of the back-off.
func (o *Options) DelayAfter(budget uint32, crawlDelay time.Duration, r Result) time.Duration {
	return o.delayAfter(o.plainDelay(budget), crawlDelay, r, nil)
}

// delayAfter is DelayAfter for a host whose τh·B0/Bx is plain.
func (o *Options) delayAfter(plain, crawlDelay time.Duration, r Result, t *Terms) time.Duration {
	if t.own() {
		return max(plain, r.Backoff)
	}
	d := max(plain, min(max(crawlDelay, r.CrawlDelay), o.MaxCrawlDelay))
	if o.ResponseFactor > 0 {
		f := math.Min(o.ResponseFactor*float64(r.Elapsed), float64(o.answerDelayMax()))
		d = max(d, time.Duration(f))
	}
	return max(d, r.Backoff)
}

// plainDelay returns τh·B0/Bx within its bounds.
func (o *Options) plainDelay(budget uint32) time.Duration {
	return scale(o.HostDelay, o.HostDelayMin, float64(o.DefaultBudget), float64(budget))
}

// plainDelay returns the delay that SetHostDelay gave to a host, else that of its terms, else that of its
// budget, adapted if h is not nil.
func (ht *hosts) plainDelay(host uint64, h *host, budget uint32, t *Terms) time.Duration {
	d, ok := ht.own[host]
	switch {
	case ok:
		return t.together(d)
	case t.fixed():
		return max(t.HostDelay, t.together(t.HostLeast))
	}
	if d = ht.opt.plainDelay(budget); h != nil && h.steps > 0 {
		d = ht.opt.adaptedTo(d, h, h.steps)
	}
	if t != nil {
		d = max(d, t.together(t.HostLeast))
	}
	return d
}

// setDelay sets the delay of a host after an exchange, and its cause.
func (ht *hosts) setDelay(h *host, key uint64, budget uint32, crawlDelay time.Duration, r Result) {
	h.plain = ht.plainDelay(key, h, budget, h.terms)
	h.base = ht.opt.delayAfter(h.plain, crawlDelay, r, h.terms)
	h.cause = ht.opt.causeOf(h, crawlDelay, r)
}

// visited notes the end of an exchange for an item of the host, and sets the delay.
func (ht *hosts) visited(h *host, it *Item, r Result, now int64) {
	h.busy, h.visited = false, true
	h.end, h.elapsed = now, r.Elapsed
	if r.Elapsed > 0 {
		h.usual += (r.Elapsed - h.usual) / 8
	}
	if r.CrawlDelay > 0 {
		h.crawlDelay = r.CrawlDelay
	}
	if ht.opt.Adaptive {
		ht.adapt(h, it, r)
	}
	ht.setDelay(h, it.Host, it.Budget, max(it.CrawlDelay, h.crawlDelay), r)
}

// SetHostDelay replaces τh·B0/Bx of a host by d; a negative d restores it. Crawl-delays, slow answers and
// back-offs still lengthen the delay, and servers, PLDs and networks have theirs. It does not adapt. The new delay
// takes effect at once unless the host already waits for its server's turn. The caller bounds the number of such hosts.
func (s *Scheduler) SetHostDelay(key uint64, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d < 0 {
		delete(s.hosts.own, key)
	} else {
		s.hosts.own[key] = d
	}
	s.hosts.each(key, func(h *host) {
		s.hosts.setSteps(h, 0)
		s.heaps.setTerms(h, key, h.terms)
	})
}

// scale returns full·b0/budget, but at least least and at most full.
func scale(full, least time.Duration, b0, budget float64) time.Duration {
	if budget <= b0 {
		return full
	}
	return max(time.Duration(float64(full)*b0/budget), least)
}

// serverDelay returns the server's τs·B0/(mean budget of its items).
func (o *settings) serverDelay(v *server) int64 {
	mean := 0.0
	if v.items > 0 {
		mean = float64(v.budgets) / float64(v.items)
	}
	return int64(scale(o.ServerDelay, o.ServerDelayMin, float64(o.DefaultBudget), mean))
}

// pldDelay returns the PLD's delay from start to start: that of its terms, or scaled by its budget.
func (o *settings) pldDelay(p *pld) int64 {
	delay := o.pldDelayOfAll(p)
	if o.PLDShare != nil && delay > 0 {
		return int64(float64(delay) / o.PLDShare(p.key))
	}
	return delay
}

// pldDelayOfAll is pldDelay for a PLD all of whose hosts are visited here.
func (o *settings) pldDelayOfAll(p *pld) int64 {
	if p.terms != nil && p.terms.PLDDelay >= 0 {
		return int64(p.terms.PLDDelay)
	}
	return int64(scale(o.PLDDelay, o.PLDDelayMin, float64(o.DefaultBudget), float64(p.budget)))
}

// budgetOf returns the item's budget for means. Unscaled items count as B0.
func (o *settings) budgetOf(it *Item) int64 {
	if it.Budget == 0 {
		return int64(o.DefaultBudget)
	}
	return int64(it.Budget)
}

// dueAt returns the earliest time of the host's next visit.
func (o *settings) dueAt(h *host) int64 {
	if !h.visited {
		return h.notBefore
	}
	d := h.base
	if it := h.front(); it != nil && !h.terms.own() {
		d = max(d, min(it.CrawlDelay, o.MaxCrawlDelay))
	}
	return max(h.notBefore, h.end+int64(d))
}

// leastSpacing is about the time of the quickest exchange.
const leastSpacing = 250 * time.Microsecond

// spacing estimates the time between grants of a host, for shares and deferrals. It is at least leastSpacing. A
// host without any delay also counts as that: its response time then mostly reflects the load of this
// machine, and a URL sent to disk because of it would return long after its host has run out of URLs.
func (ht *hosts) spacing(h *host, it *Item) int64 {
	usual, crawlDelay, t := time.Duration(0), it.CrawlDelay, it.Terms
	if h != nil {
		usual, crawlDelay, t = h.usual, max(crawlDelay, h.crawlDelay), h.terms
	}
	d := ht.opt.delayAfter(ht.plainDelay(it.Host, h, it.Budget, t), crawlDelay, Result{Elapsed: usual}, t)
	if d > 0 {
		d += usual
	}
	return int64(max(d, leastSpacing))
}
