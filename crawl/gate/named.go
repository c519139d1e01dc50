package gate

import (
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/output"
	"drumbeat/fetch"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/health"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

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

// urlOf returns the URL of the file that a job requests.
func urlOf(job *robots.Job) (string, error) {
	path := "/robots.txt"
	if job.Reserve {
		path = robots.ReservationsPath
	}
	return weburl.Canonical(string(job.Origin) + path)
}

// namedSitemaps parses the Sitemap lines of a response.
func (q *Requests) namedSitemaps(job *robots.Job, f *robots.Fetched, now time.Time) *sitemapBatch {
	var b sitemapBatch
	url, err := urlOf(job)
	off := q.opt.CrawlLog == state.LogOff && !q.opt.Sitemaps
	if err != nil || off || f.Kind != robots.Answered || f.Status/100 != 2 {
		return &b
	}
	lines := robots.Sitemaps(f.Body)
	if len(lines) == 0 {
		return &b
	}
	b.robots = url
	if q.opt.Sitemaps {
		b.links = admit.NewBatch(q.opt.Links)
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

// logRobots logs the outcome of a robots.txt request and the sitemaps that it named. It is part of a
// transaction. LogErrors omits successful outcomes.
func (q *Requests) logRobots(job *robots.Job, f *robots.Fetched, resp *fetch.Response, began time.Time,
	maps *sitemapBatch) error {
	url, err := urlOf(job)
	if err != nil || q.opt.CrawlLog == state.LogOff {
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
	if q.opt.CrawlLog == state.LogAll || e.Reason != "" || health.KindOf(f.Status).Failed() {
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
