package visit

import (
	"strconv"

	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/output"
	"drumbeat/crawl/reader"
	"drumbeat/fetch"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/health"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// Log writes a response to the crawl log. It is part of a transaction.
func (p *Pages) Log(w *Worker, rec *weburl.Record, resp *fetch.Response, page bool,
	at warc.Location) error {
	e := p.Entry(w, rec, resp, page)
	if e == nil {
		return nil
	}
	e.File, e.Offset = at.File, at.Offset
	return p.output.LogEntry(e)
}

// Entry returns the line of the crawl log for a response, without its position; nil for none.
func (p *Pages) Entry(w *Worker, rec *weburl.Record, resp *fetch.Response, page bool) *crawllog.Entry {
	good := resp.Status < 400 && resp.Truncated == fetch.NotTruncated && w.meta.dropped == ""
	if p.opt.Output.CrawlLog == state.LogOff || p.opt.Output.CrawlLog == state.LogErrors && good {
		return nil
	}
	return &crawllog.Entry{DuplicateOf: w.Body.DuplicateOf(), Time: resp.Start, URL: string(rec.URL),
		Key: p.saved.Hasher.URLKey(rec.URL), Status: resp.Status, Bytes: resp.BytesRead, Depth: int(rec.Depth),
		Via: string(rec.AppendVia(nil)), Parent: rec.Parent, IP: resp.Remote.Addr(), Elapsed: resp.Total,
		MIME: output.MIMEType(resp), Charset: w.meta.charset, Truncated: resp.Truncated.String(),
		Attempts: int(rec.Attempts), Page: page, Robots: w.meta.directives(),
		Canonical: string(w.meta.canonical), Refresh: string(w.meta.refresh), Redirect: string(w.meta.redirect),
		Dropped: w.meta.dropped, Scored: w.meta.Scored, Score: w.meta.Score, Fields: string(w.meta.Fields),
		TLS: fetcher.BadTLS(resp.TLSVerdict, nil), Payment: health.Payments(resp.Status, resp.EachHeader),
		SignedBy: fetcher.SignedBy(resp), Rights: w.meta.rights.texts(&p.opt.Output.Usage)}
}

// LogSeedsEnd logs a seed whose response is not a page.
func (p *Pages) LogSeedsEnd(w *Worker, rec *weburl.Record, resp *fetch.Response, key uint64, page bool) {
	switch {
	case w.meta.dropped != "":
		p.output.LogSeed(string(rec.URL), w.meta.dropped)
	case output.IsRedirect(resp) && (len(w.Links.Keys) == 0 || uint64(w.Links.Keys[0]) == key):
		p.output.LogSeed(string(rec.URL), "redirect that leads nowhere")
	case !page && !output.IsRedirect(resp):
		p.output.LogSeed(string(rec.URL), "status "+strconv.Itoa(resp.Status))
	}
}

// Count counts a response in its transaction.
func (p *Pages) Count(tx *account.Tx, rec *weburl.Record, resp *fetch.Response, is Found) {
	tx.Count(state.CountAttempts, 1)
	tx.Count(state.CountResponses, 1)
	tx.Count(state.CountBytesWire, resp.BytesRead)
	tx.Count(state.CountBytesBody, int64(len(resp.Body)))
	tx.Count(state.CountFetchMillis, resp.Total.Milliseconds())
	tx.Response(resp.Status)
	if resp.Proto == fetch.ProtoHTTP2 {
		tx.Count(state.CountHTTP2, 1)
	}
	if resp.Spill != nil {
		tx.Count(state.CountSpooled, 1)
		tx.Count(state.CountBytesSpooled, resp.SpoolBytes)
	}
	if resp.Encoding != "" {
		tx.Count(state.CountCompressed, 1)
		tx.Count(state.CountBytesCompressed, int64(len(resp.PayloadRaw)))
		tx.Count(state.CountBytesUncompressed, int64(len(resp.Body)))
		if coding := state.CodingOf(resp.Encoding); coding >= 0 {
			tx.Count(state.CountCoded+coding, 1)
			tx.Count(state.CountBytesCoded+coding, int64(len(resp.PayloadRaw)))
			tx.Count(state.CountBytesUncoded+coding, int64(len(resp.Body)))
		}
	}
	if is.Mislaid {
		tx.Count(state.CountSitemapFaults, 1) // no sitemap at this URL
	}
	if is.Page {
		tx.Count(state.CountPages, 1)
		tx.Count(state.CountBytesPages, int64(len(resp.Body)))
		if rec.Flags&weburl.FlagSeed != 0 {
			tx.Count(state.CountSeedPages, 1)
		}
	}
	if output.IsRedirect(resp) {
		tx.Count(state.CountRedirects, 1)
	}
	if resp.Flaws&fetch.FlawBodyRefused != 0 {
		tx.Count(state.CountBodiesRefused, 1)
	} else if resp.Truncated != fetch.NotTruncated {
		tx.Count(state.CountTruncated, 1)
	}
	// Sitemaps are decoded later, as they are read.
	if resp.Flaws&reader.DecodeCut != 0 && p.sitemaps.Flags(rec) == 0 {
		tx.Count(state.CountDecodeCut, 1)
	}
}
