package crawl

import (
	"context"
	"net/http"
	"time"

	"drumbeat/fetch"
	"drumbeat/internal/health"
	"drumbeat/polite"
	"drumbeat/robots"
	"drumbeat/weburl"
)

// A page occupies its host until its response is stored: the host's delay begins then, and a checkpoint has
// the page in RAM until then. For a host whose next page is due at once, that would make the exchange, the
// parser and the page store work in series, with one core busy. So such a page lands: its host, server and
// connection slot are free from the last byte on, and a storer does the rest while the next request is under
// way. The host still has one connection and one request at a time. To the accounts and to checkpoints a
// landed page is in RAM until its transaction.

const (
	// landAhead is how soon the host's next page must be due. Handing a page over costs a switch of
	// goroutines.
	landAhead = time.Millisecond
	// landedPerParser and landedBytes bound the responses that wait for a parser. A page above either bound
	// occupies its host and its connection slot until it is stored, which slows the fetchers down.
	landedPerParser = 4
	landedBytes     = 1 << 20
)

// arrival is a final response and what its transaction needs.
type arrival struct {
	key    uint64 // of the URL, if the page has landed
	grant  *polite.Grant
	rec    weburl.Record
	sum    robots.Summary
	resp   *fetch.Response
	event  health.Event
	result ending
}

// mayLand reports whether the page of a grant may land.
func mayLand(g *polite.Grant) bool { return g.Again > 0 && g.Again <= landAhead }

// decodesLater reports whether the body of a page that may land is decoded by store, after the next request
// has left. The body of any other response may be that of a challenge, after which the host must rest.
func decodesLater(resp *fetch.Response) bool {
	return resp.Status == http.StatusOK && len(resp.PayloadRaw) > health.ChallengePage && resp.Spill == nil
}

// land hands a page over to a storer if its host waits for its next page. It returns false if it did not.
// The page belongs to the storer afterwards. The caller is to fetch the page of the grant that follows, if
// there is one.
func (p *pageStage) land(ctx context.Context, page *arrival) (landed bool, next *polite.Grant) {
	g, resp := page.grant, page.resp
	if !mayLand(g) || resp.Spill != nil || len(resp.Raw)+len(resp.Body) > landedBytes {
		return false, nil
	}
	// The transaction may give a host in trouble a back-off, which its next page must await.
	if !page.event.Kind.Good() || !page.sum.Health.Clean() || !p.health.isClean(g.Item.Host) {
		return false, nil
	}
	select {
	case p.workers.landing <- struct{}{}:
	default:
		return false, nil
	}
	page.key = p.Hasher.URLKey(page.rec.URL)
	p.orders.land(page.key)
	p.fetchers.Add(1) // the caller is a fetcher, so the wait for all has not ended
	result := page.result.Result
	select {
	case p.workers.landed <- page:
	default:
		go p.storeLanded(ctx, page)
	}
	// The scheduler is told last, so that this processor turns to the next request before it turns to the
	// parser.
	return true, p.dispatcher.landed(g, result)
}

// storeLanded stores a landed page and then those of workers.landed, until that is closed.
func (p *pageStage) storeLanded(ctx context.Context, page *arrival) {
	defer p.fatal()
	for ok := true; ok; page, ok = <-p.workers.landed {
		p.testHook("landed")
		err := p.store(ctx, page)
		p.orders.landedEnd(page.key)
		p.workers.release(page.resp)
		<-p.workers.landing
		p.ended(err)
		p.fetchers.Done()
	}
}

// ended ends the processing of a granted URL.
func (p *pageStage) ended(err error) {
	if err != nil && p.fetching.Err() == nil {
		p.fail(err)
	}
	p.dispatcher.fetchEnded()
}
