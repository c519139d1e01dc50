package crawl

import (
	"bytes"
	"errors"
	"net/http"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/output"
	"drumbeat/crawl/strategy"
	"drumbeat/fetch"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/health"
	"drumbeat/internal/sitemap"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Sitemaps (Options.Links.Sitemaps). The sitemaps that a robots.txt names enter URLseen as links of robots.txt,
// in the transaction that updates RobotsCache. The sitemaps that an index names enter as links of the
// index. Both carry FlagSitemap and have the robots.txt that named the first sitemap as their parent. The
// pages in a sitemap are ordinary links.
//
// A sitemap may name URLs of its own host, or of the host whose robots.txt named the first sitemap
// (sitemaps.org, "cross submits"). A host and its www form count as one. The protocol also limits a sitemap
// to URLs below its own directory; that rule is not enforced, since few sites follow it. An index names
// sitemaps only, and these cannot be indexes.

// sitemapBatch holds the Sitemap lines of a robots.txt.
type sitemapBatch struct {
	named  []namedSitemap
	robots string       // URL of the robots.txt
	links  *admit.Batch // nil if sitemaps are not followed
}

// namedSitemap is one line. url is canonical, or the text of the line if that is not a URL (bad).
type namedSitemap struct {
	url string
	bad bool
}

// robotsURL returns the URL of an origin's robots.txt.
func robotsURL(origin []byte) (string, error) {
	return weburl.Canonical(string(origin) + "/robots.txt")
}

// namedSitemaps parses the Sitemap lines of a response.
func (q *robotsRequests) namedSitemaps(job *robots.Job, f *robots.Fetched, now time.Time) *sitemapBatch {
	var b sitemapBatch
	url, err := robotsURL(job.Origin)
	off := q.opt.Output.CrawlLog == state.LogOff && !q.opt.Links.Sitemaps
	if err != nil || off || f.Kind != robots.Answered || f.Status/100 != 2 {
		return &b
	}
	lines := robots.Sitemaps(f.Body)
	if len(lines) == 0 {
		return &b
	}
	b.robots = url
	if q.opt.Links.Sitemaps {
		b.links = admit.NewBatch(q.links)
		b.links.Start([]byte(url), []byte(url), admit.Deeper(job.Depth), weburl.FlagSitemap, now)
	}
	for _, line := range lines {
		to, err := q.fetcher.ResolveRedirect(url, []byte(line)) // should be absolute, but is not always
		if err != nil {
			b.named = append(b.named, namedSitemap{line, true})
			continue
		}
		b.named = append(b.named, namedSitemap{to, false})
		if b.links != nil {
			b.links.Add([]byte(to))
		}
	}
	return &b
}

// send sends the sitemaps to URLseen. It is part of a transaction.
func (b *sitemapBatch) send(s *seenStage, tx *account.Tx) error {
	if b.links == nil {
		return nil
	}
	return s.sendLinks(b.links, tx)
}

// logRobots logs the outcome of a robots.txt request and the sitemaps that it named. It is part of a
// transaction. LogErrors omits successful outcomes.
func (q *robotsRequests) logRobots(job *robots.Job, f *robots.Fetched, resp *fetch.Response, began time.Time,
	maps *sitemapBatch) error {
	url, err := robotsURL(job.Origin)
	if err != nil || q.opt.Output.CrawlLog == state.LogOff {
		return nil
	}
	e := crawllog.Entry{Time: began, URL: url, Status: f.Status, Bytes: resp.BytesRead, Depth: int(job.Depth),
		Elapsed: time.Since(began), MIME: output.MIMEType(resp),
		Truncated: resp.Truncated.String(), Attempts: int(job.Tries), TLS: f.TLS}
	if len(f.Addrs) > 0 {
		e.IP = f.Addrs[0]
	}
	if f.Kind != robots.Answered {
		e.Reason = f.Kind.String()
	}
	if q.opt.Output.CrawlLog == state.LogAll || e.Reason != "" || health.KindOf(f.Status).Failed() {
		if err := q.output.LogRobots(&e); err != nil {
			return err
		}
	}
	for _, m := range maps.named {
		e := crawllog.Entry{Time: began, URL: m.url, Reason: "sitemap", Depth: int(job.Depth) + 1, Via: maps.robots}
		if m.bad {
			e.Reason = "bad-sitemap"
		}
		if err := q.output.LogRobots(&e); err != nil {
			return err
		}
	}
	return nil
}

// sitemapFlags returns the flags that a redirect target inherits.
func (p *pageStage) sitemapFlags(rec *weburl.Record) uint8 {
	if !p.opt.Links.Sitemaps {
		return 0
	}
	return rec.Flags & (weburl.FlagSitemap | weburl.FlagSitemapPart)
}

// parentOf returns the page on which a redirect target, or a sitemap named by an index, counts as found.
// For sitemaps that is the robots.txt that named the first one, otherwise the URL itself.
func (p *pageStage) parentOf(rec *weburl.Record) []byte {
	if p.sitemapFlags(rec) != 0 && len(rec.Via) > 0 {
		return rec.AppendVia(nil)
	}
	return rec.URL
}

// sitemapUnpacked is the size to which the fetcher decodes a sitemap. A gzip body is decoded later, as it
// is read.
const sitemapUnpacked = 1 << 20

// SitemapLimits returns the limits of an exchange for a sitemap with a body of at most bytes, as received, or
// what RAM may hold of a page if that is more.
func SitemapLimits(l fetch.Limits, bytes int) fetch.Limits {
	if l.HeldBytes != 0 {
		l.BodyBytes = min(l.BodyBytes, l.HeldBytes)
	}
	l.BodyBytes, l.HeldBytes, l.DecodedBytes = max(l.BodyBytes, bytes), 0, sitemapUnpacked
	return l
}

// termsOf returns the limits of a URL's exchange and its Accept-Encoding, nil and "" for the defaults.
func (p *pageStage) termsOf(rec *weburl.Record) (limits *fetch.Limits, codings string) {
	if p.sitemapFlags(rec) == 0 {
		return nil, ""
	}
	l := SitemapLimits(p.opt.Network.FetchLimits, p.opt.Links.SitemapBytes)
	return &l, p.opt.Links.SitemapEncoding
}

// sitemapBody returns the body to read: as received if it is gzip.
func sitemapBody(resp *fetch.Response) []byte {
	if resp.Encoding == "gzip" {
		return resp.PayloadRaw
	}
	return resp.Body
}

// isSitemap reports whether a response is to be read as a sitemap. If no robots.txt or index named it, it
// must be an XML sitemap, not a feed, a list or an archive.
func (p *pageStage) isSitemap(rec *weburl.Record, resp *fetch.Response) bool {
	if !p.opt.Links.Sitemaps || resp.Status != http.StatusOK || len(resp.Body) == 0 {
		return false
	}
	if rec.Flags&weburl.FlagSitemap != 0 {
		return sitemap.Sniff(sitemapBody(resp)) != sitemap.None
	}
	if output.MIMEType(resp) == "text/html" || resp.Body[0] != '<' && resp.Body[0] != 0xef {
		return false
	}
	return fetcher.IsSitemap(resp.Body)
}

// errPart ends the reading of an index that another index named.
var errPart = errors.New("crawl: an index of sitemaps names another one")

// readSitemap fills a batch with the URLs in a sitemap. It counts unreadable entries and keeps
// the readable ones.
func (p *pageStage) readSitemap(b *admit.Batch, rec *weburl.Record, resp *fetch.Response, now time.Time) {
	b.Start(rec.URL, rec.URL, admit.Deeper(rec.Depth), 0, now)
	index, scored := false, p.strategy.Load().Scores == strategy.SitemapScore
	l := listing{rec: rec, resolver: weburl.NewResolver(p.links.URLOptions())}
	opt := sitemap.Options{ContentType: string(resp.Header("Content-Type"))}
	sum, err := sitemap.Read(sitemapBody(resp), opt, func(e sitemap.Entry) error {
		if e.Form == sitemap.Index && !index {
			if rec.Flags&weburl.FlagSitemapPart != 0 {
				return errPart
			}
			index = true
			b.Start(p.parentOf(rec), rec.URL, admit.Deeper(rec.Depth),
				weburl.FlagSitemap|weburl.FlagSitemapPart, now)
		}
		if url := l.take(&e); url != nil {
			if scored {
				b.SetScore(strategy.ScoreOf(e.Priority))
			}
			if b.Add(url); p.opt.Recrawl != nil && !e.Modified.IsZero() {
				b.Date(e.Modified.Unix())
			}
		}
		return nil
	})
	if err != nil {
		sum.Faults++
	}
	counts := &b.Counts
	counts[state.CountSitemaps] += 1
	counts[state.CountSitemapURLs] += l.taken
	counts[state.CountSitemapFaults] += int64(sum.Faults) + l.foreign + l.invalid
	counts[state.CountLinksInvalid] += l.invalid
}

// listing filters the URLs in a sitemap.
type listing struct {
	rec                     *weburl.Record
	resolver                *weburl.Resolver
	base                    weburl.Base // of links in a feed
	url, last               []byte      // canonical form; origin checked last
	mayList                 bool        // the result of that check
	taken, invalid, foreign int64
}

// resolve returns the canonical form of the URL of an entry. Those of feeds may be relative.
func (l *listing) resolve(e *sitemap.Entry) ([]byte, error) {
	if e.Form != sitemap.RSS && e.Form != sitemap.Atom {
		return l.resolver.AppendResolve(l.url[:0], nil, e.URL)
	}
	if err := l.base.Set(l.rec.URL); err != nil {
		return nil, err
	}
	for _, ref := range e.Bases {
		_ = l.resolver.Rebase(&l.base, ref) // an invalid one has no effect
	}
	return l.resolver.AppendResolve(l.url[:0], &l.base, e.URL)
}

// take returns the canonical form of a URL that the sitemap may name, valid until the next call; nil for
// others.
func (l *listing) take(e *sitemap.Entry) []byte {
	url, err := l.resolve(e)
	if err != nil {
		l.invalid++
		return nil
	}
	l.url = url
	parts := weburl.Split(url)
	if origin := url[:len(url)-len(parts.Path)]; !bytes.Equal(origin, l.last) {
		l.last = append(l.last[:0], origin...)
		l.mayList = l.allowed(parts)
	}
	if !l.mayList {
		l.foreign++
		return nil
	}
	l.taken++
	return url
}

// allowed reports whether the sitemap may name URLs of a host: its own, or one whose robots.txt named the
// sitemap.
func (l *listing) allowed(of weburl.Parts) bool {
	if bytes.Equal(admit.WithoutWWW(of.Host), admit.WithoutWWW(weburl.Split(l.rec.URL).Host)) {
		return true
	}
	if l.rec.Flags&weburl.FlagSitemap == 0 || len(l.rec.Via) == 0 {
		return false
	}
	host, parent := string(admit.WithoutWWW(of.Host)), string(l.rec.AppendVia(nil))
	origins := []string{string(l.last), "http://" + host, "https://" + host,
		"http://www." + host, "https://www." + host}
	for _, origin := range origins {
		if origin+"/robots.txt" == parent {
			return true
		}
	}
	return false
}
