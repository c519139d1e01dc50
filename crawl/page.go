package crawl

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"drumbeat/fetch"
	"drumbeat/parse"
	"drumbeat/polite"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// store parses and stores a final response; note, part of the same step, says what it means for the host.
func (r *ring) store(ctx context.Context, g *polite.Grant, rec *weburl.Record, resp *fetch.Response, result *ending,
	note func(d *delta) error) error {
	var w *pageWorker
	select {
	case w = <-r.workers.parsers:
	case <-ctx.Done():
		return nil
	}
	defer func() { r.workers.parsers <- w }()
	now := time.Now()
	key := r.hasher.URLKey(rec.URL)
	page := isPage(resp)
	if err := r.findLinks(w, rec, resp, key, page, now); err != nil {
		return err
	}
	if r.opt.Store {
		if err := w.encoder.Prepare(&w.prepared, r.warcExchange(w, rec, resp)); err != nil {
			return fmt.Errorf("crawl: prepare record of %s: %w", rec.URL, err)
		}
	}
	err := r.settle(g, result, func(d *delta) error {
		if err := note(d); err != nil {
			return err
		}
		var at warc.Location
		if r.opt.Store {
			var err error
			at, err = r.warc.Append(&w.prepared, now)
			if err != nil {
				return err
			}
			if at.File != w.file {
				w.file = at.File
				r.at("roll")
			}
		}
		if err := w.links.send(d); err != nil {
			return err
		}
		d.move(key, PlaceRAM, PlaceFetched)
		r.countResponse(d, rec, resp, page)
		if err := r.star.Fetched(g.Item.PLD, 1, int64(len(resp.Raw))); err != nil {
			return err
		}
		if rec.Flags&weburl.FlagSeed != 0 {
			switch {
			case isRedirect(resp) && (len(w.links.keys) == 0 || uint64(w.links.keys[0]) == key):
				r.logSeed(string(rec.URL), "redirect that leads nowhere")
			case !page && !isRedirect(resp):
				r.logSeed(string(rec.URL), "status "+strconv.Itoa(resp.Status))
			}
		}
		return r.logFetched(rec, resp, page, at)
	})
	r.touch()
	return err
}

func (r *ring) countResponse(d *delta, rec *weburl.Record, resp *fetch.Response, page bool) {
	d.count(CountAttempts, 1)
	d.count(CountResponses, 1)
	d.count(CountBytesWire, resp.BytesRead)
	d.count(CountBytesBody, int64(len(resp.Body)))
	d.count(CountFetchMillis, resp.Total.Milliseconds())
	d.response(resp.Status)
	if page {
		d.count(CountPages, 1)
		if rec.Flags&weburl.FlagSeed != 0 {
			d.count(CountSeedPages, 1)
		}
	}
	if isRedirect(resp) {
		d.count(CountRedirects, 1)
	}
	if resp.Truncated != fetch.NotTruncated {
		d.count(CountTruncated, 1)
	}
	if resp.Marks&decodeCut != 0 {
		d.count(CountDecodeCut, 1)
	}
}

// decodeCut are the marks of a body that was had, but not decoded to its end.
const decodeCut = fetch.MarkDecodedLimit | fetch.MarkRatioLimit | fetch.MarkDecodeError | fetch.MarkUnknownCoding

// findLinks fills the worker's batch with the links of a response: of the page, or the target of a redirect.
func (r *ring) findLinks(w *pageWorker, rec *weburl.Record, resp *fetch.Response, key uint64, page bool, now time.Time) error {
	if isRedirect(resp) {
		flags := weburl.FlagRedirect
		depth := rec.Depth + 1
		hops := uint8(0)
		if rec.Flags&weburl.FlagSeed != 0 && rec.Waits < maxSeedHops { // a seed's redirect chain is the seed
			flags |= weburl.FlagSeed
			depth, hops = rec.Depth, rec.Waits+1
		}
		w.links.start(key, rec.URL, depth, flags, now)
		w.links.rec.Waits = hops
		if url, err := r.resolveRedirect(string(rec.URL), resp.Header("Location")); err == nil {
			w.links.add([]byte(url))
		} else {
			w.links.d.count(CountLinksInvalid, 1)
		}
		return nil
	}
	w.links.start(key, rec.URL, rec.Depth+1, 0, now)
	if !page {
		return nil
	}
	counts, err := w.parser.ExtractOnce(rec.URL, resp.Body, string(resp.Header("Content-Type")), func(url []byte, l *parse.Link) {
		if (l.NoFollow || w.parser.Page().Robots.NoFollow) && !r.opt.IgnoreNofollow {
			w.links.noFollow()
			return
		}
		w.links.add(url)
	}, w.links.repeat)
	if err != nil {
		return fmt.Errorf("crawl: parse %s: %w", rec.URL, err)
	}
	w.links.d.count(CountLinksInvalid, counts.Invalid)
	w.links.d.count(CountLinksScheme, counts.OtherScheme)
	w.links.d.count(CountLinksTooLong, counts.TooLong)
	w.links.d.count(CountLinksDropped, counts.Dropped)
	return nil
}

func (r *ring) resolveRedirect(base string, location []byte) (string, error) {
	b, err := weburl.NewBase([]byte(base))
	if err != nil {
		return "", err
	}
	url, err := weburl.NewResolver(weburl.Options{MaxBytes: r.opt.MaxURLBytes}).AppendResolve(nil, b, location)
	return string(url), err
}

// maxSeedHops bounds the redirects of a seed that are taken for the seed itself. They are counted in the record's Waits, with
// the times that it was put off.
const maxSeedHops = 20

func isRedirect(resp *fetch.Response) bool {
	switch resp.Status {
	case 301, 302, 303, 307, 308:
		return len(resp.Header("Location")) > 0
	}
	return false
}

// isPage says whether a response is what the paper counts as a page: status 200 and HTML.
func isPage(resp *fetch.Response) bool {
	if resp.Status != http.StatusOK {
		return false
	}
	switch mimeType(resp) {
	case "text/html", "application/xhtml+xml":
		return true
	case "":
		return bytes.Contains(bytes.ToLower(resp.Body[:min(len(resp.Body), 1024)]), []byte("<html"))
	}
	return false
}

// warcExchange is what the page store keeps of a response.
func (r *ring) warcExchange(w *pageWorker, rec *weburl.Record, resp *fetch.Response) *warc.Exchange {
	x := &w.exchange
	*x = warc.Exchange{
		URL: rec.URL, Date: resp.Start, IP: resp.Remote.Addr(), Request: resp.RequestHead, Head: resp.RawHead, Body: resp.RawBody,
		Chunked: len(resp.PayloadRaw) != len(resp.RawBody), Encoded: len(resp.Header("Content-Encoding")) > 0,
		Truncated: resp.Truncated.String(), Status: resp.Status, MIME: mimeType(resp), Meta: x.Meta[:0], Protocols: protocols(resp),
	}
	if isRedirect(resp) {
		x.Redirect = string(resp.Header("Location"))
	}
	add := func(name, value string) { x.Meta = append(x.Meta, warc.Field{Name: name, Value: value}) }
	add("fetchTimeMs", strconv.FormatInt(resp.Total.Milliseconds(), 10))
	add("depth", strconv.Itoa(int(rec.Depth)))
	if resp.TLSVerdict != "" {
		add("tlsVerdict", resp.TLSVerdict)
	}
	return x
}

func protocols(resp *fetch.Response) []string {
	switch resp.TLSVersion {
	case 0:
		return httpOnly
	case tls.VersionTLS13:
		return httpTLS13
	case tls.VersionTLS12:
		return httpTLS12
	}
	return httpOnly
}

var (
	httpOnly  = []string{"http/1.1"}
	httpTLS13 = []string{"http/1.1", "tls/1.3"}
	httpTLS12 = []string{"http/1.1", "tls/1.2"}
)

// mimeType is the Content-Type without parameters, in lower case.
func mimeType(resp *fetch.Response) string {
	t, _, _ := bytes.Cut(resp.Header("Content-Type"), []byte(";"))
	switch t = bytes.TrimSpace(t); string(t) { // nearly all, without an allocation
	case "text/html":
		return "text/html"
	case "text/plain":
		return "text/plain"
	case "application/xhtml+xml":
		return "application/xhtml+xml"
	}
	return string(bytes.ToLower(t))
}
