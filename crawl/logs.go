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

// logFetched writes the outcome of a response to the crawl log; part of a step.
func (r *ring) logFetched(w *pageWorker, rec *weburl.Record, resp *fetch.Response, page bool, at warc.Location) error {
	if r.opt.CrawlLog == state.LogOff || r.opt.CrawlLog == state.LogErrors && resp.Status < 400 && resp.Truncated == fetch.NotTruncated && w.said.dropped == "" {
		return nil
	}
	return r.crawlLog.Append(&crawllog.Entry{Time: resp.Start, URL: string(rec.URL), Key: r.Hasher.URLKey(rec.URL), Status: resp.Status, Bytes: resp.BytesRead,
		Depth: int(rec.Depth), Via: string(rec.AppendVia(nil)), Parent: rec.Parent, IP: resp.Remote.Addr(), Elapsed: resp.Total,
		MIME: string(resp.Header("Content-Type")), Truncated: resp.Truncated.String(), Attempts: int(rec.Attempts), Page: page,
		Robots: w.said.directives(), Canonical: string(w.said.canonical), Refresh: string(w.said.refresh), Redirect: string(w.said.redirect),
		Dropped: w.said.dropped, File: at.File, Offset: at.Offset})
}

// logRefused writes the end of a URL without response; part of a step.
func (r *ring) logRefused(rec *weburl.Record, why state.Reason) error {
	if r.opt.CrawlLog == state.LogOff {
		return nil
	}
	return r.crawlLog.Append(&crawllog.Entry{Time: time.Now(), URL: string(rec.URL), Key: r.Hasher.URLKey(rec.URL), Reason: why.String(),
		Depth: int(rec.Depth), Via: string(rec.AppendVia(nil)), Parent: rec.Parent, Attempts: int(rec.Attempts)})
}

// logSeed notes that a seed yielded nothing, and why.
func (r *ring) logSeed(seed, why string) {
	r.seedReports.add(seed + ": " + why)
	if err := r.seedLog.Append(&crawllog.Entry{Time: time.Now(), URL: seed, Reason: why}); err != nil {
		r.fail(err)
	}
}

// maxLaterWalk bounds the records of `later` that are looked through for seeds at the end of a run.
const maxLaterWalk = 1 << 20

// unfinishedSeeds returns the seeds that yielded nothing in this run: those that ended, and those that wait for an
// unreachable host, read from the last checkpoint.
func (r *ring) unfinishedSeeds() ([]string, error) {
	list := r.seedReports.list()
	n := r.acct.in(state.PlaceLater)
	if n == 0 || n > maxLaterWalk || len(list) >= MaxSeedReports {
		return list, nil
	}
	m, _, err := state.ReadManifest(r.Set)
	if err != nil {
		return nil, err
	}
	st, err := state.Part[queue.CalendarState](m, state.NameLater)
	if err != nil {
		return nil, err
	}
	_, err = queue.ScanCalendar(r.Set, state.NameLater, st, func(_ int64, data []byte) error {
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
