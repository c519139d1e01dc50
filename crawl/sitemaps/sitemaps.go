// Package sitemaps is a room of the running crawl: it says which responses are sitemaps, and reads them
// (Options.Links.Sitemaps). The paper's crawl read none; the protocol is that of sitemaps.org.
//
// # Contract
//
// The sitemaps that a robots.txt names enter URLseen as links of robots.txt, in the transaction that updates
// RobotsCache (package gate). The sitemaps that an index names enter as links of the index. Both carry
// FlagSitemap and have the robots.txt that named the first sitemap as their parent. The pages in a sitemap are
// ordinary links.
//
// A sitemap may name URLs of its own host, or of the host whose robots.txt named the first sitemap
// (sitemaps.org, "cross submits"). A host and its www form count as one. The protocol also limits a sitemap
// to URLs below its own directory; that rule is not enforced, since few sites follow it. An index names
// sitemaps only, and these cannot be indexes.
//
// # Concurrency
//
// A Reader has no goroutine and no state, and is safe for concurrent use.
//
// # Memory and disk
//
// The caller holds the response. A sitemap is decoded while it is read, up to the limits of package
// internal/sitemap, and its URLs fill the batch of the caller, which has a bound of its own. Nothing is on
// disk.
//
// # Files
//
// sitemaps.go has all: which limits an exchange has, which responses are sitemaps, and which of their URLs
// count.
package sitemaps

import (
	"bytes"
	"errors"
	"net/http"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/options"
	"drumbeat/crawl/output"
	"drumbeat/crawl/strategy"
	"drumbeat/fetch"
	"drumbeat/internal/sitemap"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Reader knows and reads sitemaps.
type Reader struct{ opt Options }

// Options are the options of a Reader.
type Options struct {
	Links  *options.Links
	Limits fetch.Limits // of pages
	Policy *admit.Policy
	Dated  bool        // the dates of entries are of use
	Scored func() bool // their priorities are
}

// New returns a Reader.
func New(opt Options) *Reader { return &Reader{opt} }

// Flags returns the flags that a redirect target inherits.
func (s *Reader) Flags(rec *weburl.Record) uint8 {
	if !s.opt.Links.Sitemaps {
		return 0
	}
	return rec.Flags & (weburl.FlagSitemap | weburl.FlagSitemapPart)
}

// ParentOf returns the page on which a redirect target, or a sitemap named by an index, counts as found.
// For sitemaps that is the robots.txt that named the first one, otherwise the URL itself.
func (s *Reader) ParentOf(rec *weburl.Record) []byte {
	if s.Flags(rec) != 0 && len(rec.Via) > 0 {
		return rec.AppendVia(nil)
	}
	return rec.URL
}

// sitemapUnpacked is the size to which the fetcher decodes a sitemap. A gzip body is decoded later, as it
// is read.
const sitemapUnpacked = 1 << 20

// Limits returns the limits of an exchange for a sitemap with a body of at most bytes, as received, or
// what RAM may hold of a page if that is more.
func Limits(l fetch.Limits, bytes int) fetch.Limits {
	if l.HeldBytes != 0 {
		l.BodyBytes = min(l.BodyBytes, l.HeldBytes)
	}
	l.BodyBytes, l.HeldBytes, l.DecodedBytes = max(l.BodyBytes, bytes), 0, sitemapUnpacked
	return l
}

// TermsOf returns the limits of a URL's exchange and its Accept-Encoding, nil and "" for the defaults.
func (s *Reader) TermsOf(rec *weburl.Record) (limits *fetch.Limits, codings string) {
	if s.Flags(rec) == 0 {
		return nil, ""
	}
	l := Limits(s.opt.Limits, s.opt.Links.SitemapBytes)
	return &l, s.opt.Links.SitemapEncoding
}

// sitemapBody returns the body to read: as received if it is gzip.
func sitemapBody(resp *fetch.Response) []byte {
	if resp.Encoding == "gzip" {
		return resp.PayloadRaw
	}
	return resp.Body
}

// Is reports whether a response is to be read as a sitemap. If no robots.txt or index named it, it
// must be an XML sitemap, not a feed, a list or an archive.
func (s *Reader) Is(rec *weburl.Record, resp *fetch.Response) bool {
	if !s.opt.Links.Sitemaps || resp.Status != http.StatusOK || len(resp.Body) == 0 {
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
var errPart = errors.New("crawl: a sitemap index refers to another sitemap index")

// Read fills a page's batch with the URLs in a sitemap. It counts unreadable entries and keeps
// the readable ones.
func (s *Reader) Read(b *admit.Batch, rec *weburl.Record, resp *fetch.Response, now time.Time) {
	b.Start(rec.URL, rec.URL, admit.Deeper(rec.Depth), 0, now)
	index, scored := false, s.opt.Scored()
	l := listing{rec: rec, resolver: weburl.NewResolver(s.opt.Policy.URLOptions())}
	opt := sitemap.Options{ContentType: string(resp.Header("Content-Type"))}
	sum, err := sitemap.Read(sitemapBody(resp), opt, func(e sitemap.Entry) error {
		if e.Form == sitemap.Index && !index {
			if rec.Flags&weburl.FlagSitemapPart != 0 {
				return errPart
			}
			index = true
			b.Start(s.ParentOf(rec), rec.URL, admit.Deeper(rec.Depth), weburl.FlagSitemap|weburl.FlagSitemapPart, now)
		}
		if url := l.take(&e); url != nil {
			if scored {
				b.SetScore(strategy.ScoreOf(e.Priority))
			}
			if b.Add(url); s.opt.Dated && !e.Modified.IsZero() {
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
