package crawl

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"drumbeat/fetch"
	"drumbeat/internal/crawllog"
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
	"drumbeat/weburl"
)

// MaxSeedReports limits the seeds without yield that a Result lists. The seed log has all of them.
const MaxSeedReports = 100

// output writes the results of a crawl: WARC files, logs and seed reports. It has no goroutine, and its
// parts have their own locks. Records are written in the transaction of their URL.
type output struct {
	*engine
	warc        *warc.Writer
	crawlLog    *crawllog.Log
	seedLog     *crawllog.Log
	robotsLog   *crawllog.Log // outcomes of robots.txt requests and the sitemaps that they name
	seedReports seedReports
}

// store adds the records of a response. It is part of the transaction that ends the URL.
func (o *output) store(w *pageWorker, now time.Time) (warc.Location, error) {
	if s := w.streamed; s != nil {
		w.streamed = nil
		return o.warc.Attach(s)
	}
	return o.warc.Append(&w.prepared, now)
}

// form returns the form of the records that are stored now.
func (o *output) form() uint64 { return o.warc.Form() }

// newEncoder returns an encoder of such records.
func (o *output) newEncoder() *warc.Encoder { return o.warc.NewEncoder() }

// storeCapture adds the records of a page that has waited. It is part of a transaction.
func (o *output) storeCapture(p *warc.Prepared) (warc.Location, error) {
	return o.warc.Append(p, time.Now())
}

// logEntry writes a line of the crawl log. It is part of a transaction.
func (o *output) logEntry(e *crawllog.Entry) error { return o.crawlLog.Append(e) }

// logFetched writes a response to the crawl log. It is part of a transaction.
func (o *output) logFetched(w *pageWorker, rec *weburl.Record, resp *fetch.Response, page bool,
	at warc.Location) error {
	e := o.fetchedEntry(w, rec, resp, page)
	if e == nil {
		return nil
	}
	e.File, e.Offset = at.File, at.Offset
	return o.crawlLog.Append(e)
}

// fetchedEntry returns the line of the crawl log for a response, without its position; nil for none.
func (o *output) fetchedEntry(w *pageWorker, rec *weburl.Record, resp *fetch.Response, page bool) *crawllog.Entry {
	good := resp.Status < 400 && resp.Truncated == fetch.NotTruncated && w.meta.dropped == ""
	if o.opt.Output.CrawlLog == state.LogOff || o.opt.Output.CrawlLog == state.LogErrors && good {
		return nil
	}
	of := ""
	if w.body.known {
		of = string(w.body.first.url)
	}
	return &crawllog.Entry{DuplicateOf: of, Time: resp.Start, URL: string(rec.URL), Key: o.Hasher.URLKey(rec.URL),
		Status: resp.Status, Bytes: resp.BytesRead, Depth: int(rec.Depth),
		Via: string(rec.AppendVia(nil)), Parent: rec.Parent, IP: resp.Remote.Addr(), Elapsed: resp.Total,
		MIME: mimeType(resp), Charset: w.meta.charset, Truncated: resp.Truncated.String(),
		Attempts: int(rec.Attempts), Page: page, Robots: w.meta.directives(),
		Canonical: string(w.meta.canonical), Refresh: string(w.meta.refresh), Redirect: string(w.meta.redirect),
		Dropped: w.meta.dropped, Scored: w.meta.scored, Score: w.meta.score, Fields: string(w.meta.fields), TLS: badTLS(resp.TLSVerdict, nil)}
}

// logRefused writes a URL that ended without a response to the crawl log. It is part of a transaction.
func (o *output) logRefused(tx *transaction, rec *weburl.Record, why state.Reason) error {
	if o.opt.Output.CrawlLog == state.LogOff {
		return nil
	}
	return o.crawlLog.Append(&crawllog.Entry{Time: time.Now(), URL: string(rec.URL), Key: o.Hasher.URLKey(rec.URL),
		Reason: why.String(), Depth: int(rec.Depth), Via: string(rec.AppendVia(nil)), Parent: rec.Parent,
		Attempts: int(rec.Attempts), TLS: tx.tls})
}

// logSeed reports a seed that yielded nothing, and why.
func (o *output) logSeed(seed, why string) {
	o.seedReports.add(seed + ": " + why)
	if err := o.seedLog.Append(&crawllog.Entry{Time: time.Now(), URL: seed, Reason: why}); err != nil {
		o.fail(err)
	}
}

// maxDeferredWalk limits the deferred records that unfinishedSeeds searches at the end of a run.
const maxDeferredWalk = 1 << 20

// unfinishedSeeds returns the seeds that yielded nothing in this run: those that ended, and the deferred
// ones, read from the last checkpoint.
func (o *output) unfinishedSeeds() ([]string, error) {
	list := o.seedReports.list()
	n := o.acct.in(state.PlaceDeferred)
	if n == 0 || n > maxDeferredWalk || len(list) >= MaxSeedReports {
		return list, nil
	}
	m, _, err := state.ReadManifest(o.Set)
	if err != nil {
		return nil, err
	}
	st, err := state.Part[queue.CalendarState](m, state.NameDeferred)
	if err != nil {
		return nil, err
	}
	_, err = queue.ScanCalendar(o.Set, state.NameDeferred, st, func(_ int64, data []byte) error {
		var rec weburl.Record
		if err := rec.Decode(data); err != nil {
			return err
		}
		if rec.Flags&weburl.FlagSeed != 0 {
			list = append(list, string(rec.URL)+": "+state.Reason(rec.Reason).String())
		}
		if len(list) >= MaxSeedReports {
			return fs.SkipAll
		}
		return nil
	}, nil)
	if errors.Is(err, fs.SkipAll) {
		err = nil
	}
	return list, err
}

// seedReports holds the first seeds that yielded nothing, for the end of the run.
type seedReports struct {
	mu   sync.Mutex // guards text
	text []string
}

func (s *seedReports) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.text) < MaxSeedReports {
		s.text = append(s.text, text)
	}
}

func (s *seedReports) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.text)
}

func (o *output) warcOptions() warc.Options {
	return warc.Options{Set: o.Out, State: o.Set, Host: o.opt.Identity.Host, Mode: o.opt.Output.OutMode,
		FileBytes: o.opt.Output.WARCFileBytes, BufferBytes: o.plan.OutputBufferBytes, Format: o.opt.Output.WARCFormat,
		Dict: o.opt.Output.WARCDict, Level: o.opt.Output.WARCLevel,
		Info: []warc.Field{
			{Name: "software", Value: "drumbeat/" + o.opt.Identity.Version},
			{Name: "operator", Value: o.opt.Identity.Contact},
			{Name: "http-header-user-agent", Value: o.opt.Identity.UserAgent},
			{Name: "robots", Value: o.robotsPolicy()},
			{Name: "isPartOf", Value: "crawl-" + o.CrawlID},
		}}
}

// robotsPolicy returns the robots field of the warcinfo record. robots.txt is always obeyed.
func (o *output) robotsPolicy() string {
	if o.opt.Links.IgnoreNofollow {
		return "RFC 9309 and Crawl-delay obeyed; nofollow ignored"
	}
	return "RFC 9309, Crawl-delay and nofollow obeyed"
}

// rollOutput closes the output files that were begun more than Options.Output.RollEvery ago and reports whether
// there were any. The next checkpoint gives them their final names.
func (o *output) rollOutput(now time.Time) (bool, error) {
	if o.opt.Output.RollEvery <= 0 {
		return false, nil
	}
	begunBy := now.Add(-o.opt.Output.RollEvery)
	rolled, err := o.warc.RollOld(begunBy)
	for _, l := range []*crawllog.Log{o.crawlLog, o.seedLog, o.robotsLog} {
		some, failed := l.RollOld(begunBy, now)
		rolled, err = rolled || some, errors.Join(err, failed)
	}
	if err != nil {
		return rolled, fmt.Errorf("crawl: roll output: %w", err)
	}
	return rolled, nil
}

// finishedOutput returns the totals of the output files that received their final names in this run.
func (o *output) finishedOutput() outfile.Finished {
	all := o.warc.Finished()
	for _, l := range []*crawllog.Log{o.crawlLog, o.seedLog, o.robotsLog} {
		all.Merge(l.Finished())
	}
	return all
}

// finishedWARCs returns the number of WARC files and indexes that became final in this run.
func (o *output) finishedWARCs() int64 { return o.warc.Finished().Files }

// finishOutput closes the output files. The next checkpoint gives them their final names.
func (o *output) finishOutput() error {
	now := time.Now()
	if err := errors.Join(o.warc.Roll(), o.crawlLog.Roll(now), o.seedLog.Roll(now), o.robotsLog.Roll(now)); err != nil {
		return fmt.Errorf("crawl: finish output: %w", err)
	}
	return nil
}
