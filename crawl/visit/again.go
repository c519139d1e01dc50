package visit

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
// redirecting URL. The request has the form of an order (package orders), whose record is another than that
// of the unique URL. It waits for robots.txt and its turn like any other. Without room in the table of
// orders, the redirect leads nowhere, as it does on sites without cookies.
func (s *Stage) askAgain(tx *account.Tx, rec *weburl.Record, target []byte) error {
	set := s.opt.Sites.Load()
	if set == nil || len(target) == 0 || s.opt.Policy.TooFar(int(rec.Redirects)+1) {
		return nil
	}
	parts := weburl.Split(target)
	site := set.Lookup(&parts)
	if site == nil || site.Cookies == "" {
		return nil
	}
	var req fetch.Request
	jar := s.fetcher.Dress(&req, site, &parts, rec.URL)
	key, host := s.saved.Hasher.URLKey(target), s.saved.HostKey(parts.Host)
	o := &s.others.Again
	if jar == nil || o.Room() == 0 || !jar.Again(key, fetcher.CookieOf(&req)) || !o.Begin(key, host) {
		return nil
	}
	if err := o.Note(key); err != nil {
		return err
	}
	tx.EnterOrder(key, state.PlaceRobotsCheck)
	again := weburl.Record{URL: target, Depth: rec.Depth, Found: time.Now().Unix(), Flags: weburl.FlagRedirect,
		Redirects: rec.Redirects + 1, Budget: o.Pinned(s.saved.PLDKey(parts.Host))}
	again.SetVia(rec.URL, s.saved.Hasher.URLKey(rec.URL))
	return s.check.CheckRobots(tx, again.Append(nil), &again, state.PlaceRobotsCheck)
}
