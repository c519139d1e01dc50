package crawl

import (
	"strconv"
	"time"

	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/output"
	"drumbeat/fetch"
	"drumbeat/internal/crawllog"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// storeRecords adds the records of a response. It is part of the transaction that ends the URL.
func (p *pageStage) storeRecords(w *pageWorker, now time.Time) (warc.Location, error) {
	var at warc.Location
	var err error
	if s := w.streamed; s != nil {
		w.streamed = nil
		at, err = p.output.Attach(s)
	} else {
		at, err = p.output.Append(&w.Prepared, now)
	}
	if err == nil && at.File != w.file {
		w.file = at.File
		p.Hook("roll")
	}
	return at, err
}

// logFetched writes a response to the crawl log. It is part of a transaction.
func (p *pageStage) logFetched(w *pageWorker, rec *weburl.Record, resp *fetch.Response, page bool,
	at warc.Location) error {
	e := p.fetchedEntry(w, rec, resp, page)
	if e == nil {
		return nil
	}
	e.File, e.Offset = at.File, at.Offset
	return p.output.LogEntry(e)
}

// fetchedEntry returns the line of the crawl log for a response, without its position; nil for none.
func (p *pageStage) fetchedEntry(w *pageWorker, rec *weburl.Record, resp *fetch.Response, page bool) *crawllog.Entry {
	good := resp.Status < 400 && resp.Truncated == fetch.NotTruncated && w.meta.dropped == ""
	if p.opt.Output.CrawlLog == state.LogOff || p.opt.Output.CrawlLog == state.LogErrors && good {
		return nil
	}
	return &crawllog.Entry{DuplicateOf: w.body.DuplicateOf(), Time: resp.Start, URL: string(rec.URL),
		Key: p.Hasher.URLKey(rec.URL), Status: resp.Status, Bytes: resp.BytesRead, Depth: int(rec.Depth),
		Via: string(rec.AppendVia(nil)), Parent: rec.Parent, IP: resp.Remote.Addr(), Elapsed: resp.Total,
		MIME: output.MIMEType(resp), Charset: w.meta.charset, Truncated: resp.Truncated.String(),
		Attempts: int(rec.Attempts), Page: page, Robots: w.meta.directives(),
		Canonical: string(w.meta.canonical), Refresh: string(w.meta.refresh), Redirect: string(w.meta.redirect),
		Dropped: w.meta.dropped, Scored: w.meta.Scored, Score: w.meta.Score, Fields: string(w.meta.Fields),
		TLS: fetcher.BadTLS(resp.TLSVerdict, nil)}
}

// logSeedsEnd logs a seed whose response is not a page.
func (p *pageStage) logSeedsEnd(w *pageWorker, rec *weburl.Record, resp *fetch.Response, key uint64, page bool) {
	switch {
	case w.meta.dropped != "":
		p.output.LogSeed(string(rec.URL), w.meta.dropped)
	case output.IsRedirect(resp) && (len(w.Links.Keys) == 0 || uint64(w.Links.Keys[0]) == key):
		p.output.LogSeed(string(rec.URL), "redirect that leads nowhere")
	case !page && !output.IsRedirect(resp):
		p.output.LogSeed(string(rec.URL), "status "+strconv.Itoa(resp.Status))
	}
}
