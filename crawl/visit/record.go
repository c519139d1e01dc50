package visit

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/output"
	"drumbeat/fetch"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// Pages can ask archives not to keep them, with the directives noarchive and noindex. --robots-meta says
// whether the crawl does as they ask. What it leaves out is documented by a line of the metadata record. The URL is
// fetched like any other, and nofollow alone decides about its links. A hook can leave out a page, too (package hook).

// askArchive fills in w.stores: what is stored of the response whose directives w.meta has.
func (p *Pages) askArchive(w *Worker) {
	w.stores = state.ArchiveKeep
	robots := &w.meta.robots
	if robots.NoArchive {
		w.Links.Counts[state.CountNoArchive]++
		if p.opt.Output.NoArchive != "" {
			w.stores = p.opt.Output.NoArchive
		}
	}
	if robots.NoIndex && p.opt.Output.NoIndex == state.ArchiveDrop {
		w.stores = state.ArchiveDrop
	}
	if !p.opt.Output.Store {
		return
	}
	refused, drop := w.meta.rights.refused(&p.opt.Output.Usage)
	if drop {
		w.stores, w.meta.refused = state.ArchiveDrop, refused
	}
	if w.meta.Unwanted {
		w.stores = state.ArchiveDrop // counted as CountHookDropped
		return
	}
	if drop {
		w.Links.Counts[state.CountUsageDropped]++
		return
	}
	if refused != "" {
		w.Links.Counts[state.CountUsageMarked]++
	}
	switch w.stores {
	case state.ArchiveHeaders:
		w.Links.Counts[state.CountHeadsStored]++
	case state.ArchiveDrop:
		w.Links.Counts[state.CountOmitted]++
	}
}

// leaveOut removes from an exchange what is not stored.
func leaveOut(x *warc.Exchange, stores state.Archive, meta *pageMeta) {
	what := "nothing"
	if stores == state.ArchiveHeaders {
		what = "head only"
	}
	why := "the page asks for " + meta.directives()
	if meta.refused != "" {
		why = "the site asks for " + meta.refused
	}
	if meta.Unwanted {
		why = "the hook does not keep it"
	}
	x.Meta = append(x.Meta, warc.Field{Name: "stored", Value: what + ", because " + why})
	// WARC 1.1 has no better reason for a record without its body.
	x.Body, x.Large, x.Chunked, x.Encoded, x.Truncated = nil, nil, false, false, "unspecified"
}

// warcExchange returns the parts of a response that the page store keeps.
func (p *Pages) warcExchange(w *Worker, rec *weburl.Record, resp *fetch.Response) *warc.Exchange {
	x := &w.exchange
	*x = warc.Exchange{
		URL: rec.URL, Date: resp.Start, IP: resp.Remote.Addr(), Request: resp.RequestHead,
		Head: resp.RawHead, Body: resp.RawBody,
		Chunked: len(resp.PayloadRaw) != len(resp.RawBody), Encoded: len(resp.Header("Content-Encoding")) > 0,
		Truncated: resp.Truncated.String(), Status: resp.Status, MIME: output.MIMEType(resp),
		Meta: x.Meta[:0], Protocols: output.Protocols(resp), Cipher: output.CipherSuite(resp),
	}
	if output.IsRedirect(resp) {
		x.Redirect = string(resp.Header("Location"))
	}
	if p.opt.Output.Simhash && w.meta.simhash != 0 && w.stores == state.ArchiveKeep {
		x.Simhash = fmt.Sprintf("%016x", w.meta.simhash)
	}
	add := func(name, value string) { x.Meta = append(x.Meta, warc.Field{Name: name, Value: value}) }
	add("fetchTimeMs", strconv.FormatInt(resp.Total.Milliseconds(), 10))
	if rec.Parent == 0 && len(rec.Via) > 0 { // via is complete
		add("via", string(rec.AppendVia(nil)))
	}
	add("depth", strconv.Itoa(int(rec.Depth)))
	if resp.TLSVerdict != "" {
		add("tlsVerdict", resp.TLSVerdict)
	}
	w.meta.each(&p.opt.Output.Usage, add)
	if x.Simhash != "" {
		add("simhash", x.Simhash)
	}
	if w.stores != state.ArchiveKeep {
		leaveOut(x, w.stores, &w.meta)
	}
	return x
}

// prepare encodes a response for the page store. That of a spooled body is written to its file now.
func (p *Pages) prepare(ctx context.Context, w *Worker, rec *weburl.Record, resp *fetch.Response) error {
	x := p.warcExchange(w, rec, resp)
	if w.stores == state.ArchiveDrop {
		if err := w.Encoder.PrepareOmitted(&w.Prepared, x); err != nil {
			return fmt.Errorf("crawl: prepare record of %s: %w", rec.URL, err)
		}
		return nil
	}
	if last, err := state.HistoryOf(rec); err != nil {
		return err
	} else if resp.Status == http.StatusNotModified && last.Captured > 0 {
		of := warc.Original{URL: rec.URL, Date: time.Unix(last.Captured, 0)}
		if err := w.Encoder.PrepareNotModified(&w.Prepared, x, of); err != nil {
			return fmt.Errorf("crawl: prepare record of %s: %w", rec.URL, err)
		}
		return nil
	}
	if done, err := w.Body.PrepareRevisit(w.Encoder, &w.Prepared, x); err != nil || done {
		return err
	}
	if resp.Spill == nil || w.stores != state.ArchiveKeep {
		if err := w.Encoder.Prepare(&w.Prepared, x); err != nil {
			return fmt.Errorf("crawl: prepare record of %s: %w", rec.URL, err)
		}
		return nil
	}
	x.Body, x.Large = nil, io.NewSectionReader(resp.Spill, 0, resp.SpoolBytes)
	var err error
	if w.streamed, err = p.output.Stream(ctx, w.Encoder, x); err != nil {
		return &fetch.Error{Stage: fetch.StageBody, Kind: fetch.KindResources, Addr: resp.Remote,
			Err: fetcher.NewSpoolError(fmt.Errorf("crawl: store %s: %w", rec.URL, err))}
	}
	return nil
}

// Store adds the records of a response. It is part of the transaction that ends the URL.
func (p *Pages) Store(w *Worker, now time.Time) (warc.Location, error) {
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
		p.run.Hook("roll")
	}
	return at, err
}
