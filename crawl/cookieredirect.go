package crawl

import (
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/fetch"
	"drumbeat/state"
	"drumbeat/weburl"
)

// askAgain makes the crawl ask once more for the target of a redirect that was asked before, if the site's
// cookies have changed since (cookies.Jar.Again). It is part of the transaction that ends rec, the
// redirecting URL. The request has the form of an order (orders.go), whose record is another than that of the
// unique URL. It waits for robots.txt and its turn like any other. Without room in the table of orders, the
// redirect leads nowhere, as it does on sites without cookies.
func (p *pageStage) askAgain(tx *account.Tx, rec *weburl.Record, target []byte) error {
	set := p.sites.Load()
	if set == nil || len(target) == 0 || p.links.TooFar(int(rec.Redirects)+1) {
		return nil
	}
	parts := weburl.Split(target)
	site := set.Lookup(&parts)
	if site == nil || site.Cookies == "" {
		return nil
	}
	var req fetch.Request
	jar := p.fetcher.Dress(&req, site, &parts, rec.URL)
	key, host := p.Hasher.URLKey(target), p.HostKey(parts.Host)
	if jar == nil || p.orders.room() == 0 || !jar.Again(key, fetcher.CookieOf(&req)) || !p.orders.begin(key, host) {
		return nil
	}
	if err := p.operator.NoteOrdered(key); err != nil {
		return err
	}
	tx.EnterOrder(key, state.PlaceRobotsCheck)
	again := weburl.Record{URL: target, Depth: rec.Depth, Found: time.Now().Unix(), Flags: weburl.FlagRedirect,
		Redirects: rec.Redirects + 1, Budget: p.operator.Pinned(p.PLDKey(parts.Host))}
	again.SetVia(rec.URL, p.Hasher.URLKey(rec.URL))
	return p.check.CheckRobots(tx, again.Append(nil), &again, state.PlaceRobotsCheck)
}
