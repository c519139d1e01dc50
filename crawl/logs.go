package crawl

import (
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/fetch"
	"drumbeat/internal/crawllog"
	"drumbeat/queue"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// MaxSeedReports bounds the seeds without yield that a Result lists; the seed log has them all.
const MaxSeedReports = 100

// output is what a crawl leaves: WARC files, logs, and what is to be said of seeds. Its parts lock themselves; what is
// written belongs to the transaction of the URL.
type output struct {
	*engine
	warc        *warc.Writer
	crawlLog    *crawllog.Log
	seedLog     *crawllog.Log
	robotsLog   *crawllog.Log    // outcomes of robots requests, and the sitemaps that were named
	closedFiles map[string]int64 // sizes of closed files of output; used by diskUsed alone
	seedReports seedReports

	dispatcher *dispatcher
}

// logFetched writes the outcome of a response to the crawl log; part of a transaction.
func (o *output) logFetched(w *pageWorker, rec *weburl.Record, resp *fetch.Response, page bool, at warc.Location) error {
	if o.opt.CrawlLog == state.LogOff || o.opt.CrawlLog == state.LogErrors && resp.Status < 400 && resp.Truncated == fetch.NotTruncated && w.meta.dropped == "" {
		return nil
	}
	return o.crawlLog.Append(&crawllog.Entry{Time: resp.Start, URL: string(rec.URL), Key: o.Hasher.URLKey(rec.URL), Status: resp.Status, Bytes: resp.BytesRead,
		Depth: int(rec.Depth), Via: string(rec.AppendVia(nil)), Parent: rec.Parent, IP: resp.Remote.Addr(), Elapsed: resp.Total,
		MIME: string(resp.Header("Content-Type")), Truncated: resp.Truncated.String(), Attempts: int(rec.Attempts), Page: page,
		Robots: w.meta.directives(), Canonical: string(w.meta.canonical), Refresh: string(w.meta.refresh), Redirect: string(w.meta.redirect),
		Dropped: w.meta.dropped, File: at.File, Offset: at.Offset})
}

// logRefused writes the end of a URL without response; part of a transaction.
func (o *output) logRefused(rec *weburl.Record, why state.Reason) error {
	if o.opt.CrawlLog == state.LogOff {
		return nil
	}
	return o.crawlLog.Append(&crawllog.Entry{Time: time.Now(), URL: string(rec.URL), Key: o.Hasher.URLKey(rec.URL), Reason: why.String(),
		Depth: int(rec.Depth), Via: string(rec.AppendVia(nil)), Parent: rec.Parent, Attempts: int(rec.Attempts)})
}

// logSeed notes that a seed yielded nothing, and why.
func (o *output) logSeed(seed, why string) {
	o.seedReports.add(seed + ": " + why)
	if err := o.seedLog.Append(&crawllog.Entry{Time: time.Now(), URL: seed, Reason: why}); err != nil {
		o.fail(err)
	}
}

// maxDeferredWalk bounds the records of `deferred` that are looked through for seeds at the end of a run.
const maxDeferredWalk = 1 << 20

// unfinishedSeeds returns the seeds that yielded nothing in this run: those that ended, and those that wait for an
// unreachable host, read from the last checkpoint.
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

// seedReports keeps the first seeds that yielded nothing, for the end of the run.
type seedReports struct {
	mu   sync.Mutex // guards all
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
