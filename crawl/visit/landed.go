package visit

import (
	"context"

	"drumbeat/crawl/fetcher"
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

// land hands a page over to a storer if its host waits for its next page. It returns false if it did not.
// The page belongs to the storer afterwards. The caller is to fetch the page of the grant that follows, if
// there is one.
func (s *Stage) land(ctx context.Context, page *arrival) (landed bool, next *polite.Grant) {
	g, resp := page.grant, page.resp
	if !fetcher.MayLand(g) || resp.Spill != nil || len(resp.Raw)+len(resp.Body) > landedBytes {
		return false, nil
	}
	// The transaction may give a host in trouble a back-off, which its next page must await.
	if !page.event.Kind.Good() || !page.sum.Health.Clean() || !s.health.IsClean(g.Item.Host) {
		return false, nil
	}
	select {
	case s.landing <- struct{}{}:
	default:
		return false, nil
	}
	page.key = s.saved.Hasher.URLKey(page.rec.URL)
	s.others.Orders.Land(page.key)
	s.run.Fetchers.Add(1) // the caller is a fetcher, so the wait for all has not ended
	result := page.result.Result
	select {
	case s.landed <- page:
	default:
		go s.storeLanded(ctx, page)
	}
	// The scheduler is told last, so that this processor turns to the next request before it turns to the
	// parser.
	return true, s.others.Grants.Landed(g, result)
}

// storeLanded stores a landed page and then those of landed, until that is closed.
func (s *Stage) storeLanded(ctx context.Context, page *arrival) {
	defer s.run.Fatal()
	for ok := true; ok; page, ok = <-s.landed {
		s.run.Hook("landed")
		err := s.store(ctx, page)
		s.others.Orders.LandedEnd(page.key)
		s.others.Buffers.Release(page.resp)
		<-s.landing
		s.Ended(err)
		s.run.Fetchers.Done()
	}
}

// Ended ends the processing of a granted URL.
func (s *Stage) Ended(err error) {
	if err != nil && s.run.Fetching().Err() == nil {
		s.run.Fail(err)
	}
	s.others.Grants.Ended()
}
