package output

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/plan"
	"drumbeat/internal/crawllog"
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
	"drumbeat/weburl"
)

// MaxSeedReports limits the seeds without yield that a Result lists. The seed log has all of them.
const MaxSeedReports = 100

// Writer writes the results of a crawl: WARC files, logs and seed reports. It has no goroutine, and its
// parts have their own locks. Records are written in the transaction of their URL.
type Writer struct {
	run   *account.Run
	saved *state.Saved
	opt   Options

	// The table of structures opens these.
	WARC      *warc.Writer
	CrawlLog  *crawllog.Log
	SeedLog   *crawllog.Log
	RobotsLog *crawllog.Log // outcomes of robots.txt requests and the sitemaps that they name

	archivers   archivers
	seedReports seedReports
}

// Options are the options of an Output.
type Options struct {
	Store, ArchiveRobots, ArchiveDNS bool
	CrawlLog                         state.LogLevel
	RollEvery                        time.Duration
	Contact, UserAgent, Version      string
	About                            state.About
	IgnoreNofollow                   bool
	WARC                             warc.Options // Host, Mode, FileBytes, Format, Dict and Level
	Plan                             *plan.Plan   // of the crawl, made before the structures are opened
}

// New returns an Output.
func New(run *account.Run, saved *state.Saved, opt Options) *Writer {
	return &Writer{run: run, saved: saved, opt: opt}
}

// Open makes the encoders. The structures must be open.
func (o *Writer) Open() { o.archivers = newArchivers(o.WARC) }

// Form returns the form of the records that are stored now.
func (o *Writer) Form() uint64 { return o.WARC.Form() }

// Append adds the records of a response or another record. It is part of a transaction.
func (o *Writer) Append(p *warc.Prepared, now time.Time) (warc.Location, error) {
	return o.WARC.Append(p, now)
}

// Attach adds a record that stream has written. It is part of a transaction.
func (o *Writer) Attach(s *warc.Streamed) (warc.Location, error) { return o.WARC.Attach(s) }

// NewEncoder returns an encoder of such records.
func (o *Writer) NewEncoder() *warc.Encoder { return o.WARC.NewEncoder() }

// LogEntry writes a line of the crawl log. It is part of a transaction.
func (o *Writer) LogEntry(e *crawllog.Entry) error { return o.CrawlLog.Append(e) }

// LogRobots writes a line of the robots log. It is part of a transaction.
func (o *Writer) LogRobots(e *crawllog.Entry) error { return o.RobotsLog.Append(e) }

// LogRefused writes a URL that ended without a response to the crawl log. It is part of a transaction.
func (o *Writer) LogRefused(tx *account.Tx, rec *weburl.Record, why state.Reason) error {
	return o.logRefused(tx, rec, why.String(), false)
}

// LogOrder writes a URL whose order was not taken, or was refused, to the crawl log. It is part of a transaction.
func (o *Writer) LogOrder(tx *account.Tx, rec *weburl.Record, why string) error {
	return o.logRefused(tx, rec, why, true)
}

func (o *Writer) logRefused(tx *account.Tx, rec *weburl.Record, why string, order bool) error {
	if o.opt.CrawlLog == state.LogOff {
		return nil
	}
	return o.CrawlLog.Append(&crawllog.Entry{Time: time.Now(), URL: string(rec.URL),
		Key: o.saved.Hasher.URLKey(rec.URL), Reason: why, Order: order, Depth: int(rec.Depth),
		Via: string(rec.AppendVia(nil)), Parent: rec.Parent, Attempts: int(rec.Attempts), TLS: tx.TLS})
}

// LogSeed reports a seed that yielded nothing, and why.
func (o *Writer) LogSeed(seed, why string) {
	o.seedReports.add(seed + ": " + why)
	if err := o.SeedLog.Append(&crawllog.Entry{Time: time.Now(), URL: seed, Reason: why}); err != nil {
		o.run.Fail(err)
	}
}

// maxDeferredWalk limits the deferred records that unfinishedSeeds searches at the end of a run.
const maxDeferredWalk = 1 << 20

// UnfinishedSeeds returns the seeds that yielded nothing in this run: those that ended, and the deferred
// ones, read from the last checkpoint.
func (o *Writer) UnfinishedSeeds() ([]string, error) {
	list := o.seedReports.list()
	n := o.run.Accounts.In(state.PlaceDeferred)
	if n == 0 || n > maxDeferredWalk || len(list) >= MaxSeedReports {
		return list, nil
	}
	m, _, err := state.ReadManifest(o.saved.Set)
	if err != nil {
		return nil, err
	}
	st, err := state.Part[queue.CalendarState](m, state.NameDeferred)
	if err != nil {
		return nil, err
	}
	_, err = queue.ScanCalendar(o.saved.Set, state.NameDeferred, st, func(_ int64, data []byte) error {
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

// WARCOptions returns the options of the page store.
func (o *Writer) WARCOptions() warc.Options {
	w := o.opt.WARC
	w.Set, w.State, w.BufferBytes = o.saved.Out, o.saved.Set, o.opt.Plan.OutputBufferBytes
	w.Info = []warc.Field{
		{Name: "software", Value: "drumbeat/" + o.opt.Version},
		{Name: "operator", Value: o.operator()},
		{Name: "http-header-user-agent", Value: o.opt.UserAgent},
		{Name: "robots", Value: o.robotsPolicy()},
		{Name: "isPartOf", Value: "crawl-" + o.saved.CrawlID},
	}
	if m := o.saved.Manifest; m != nil && m.Restored != nil {
		w.Info = append(w.Info, warc.Field{Name: "restored-from", Value: fmt.Sprintf("backup %d, checkpoint %d, on %s",
			m.Restored.Backup, m.Restored.Gen, time.Unix(m.Restored.Time, 0).UTC().Format(time.RFC3339))})
	}
	for _, f := range []warc.Field{{Name: "title", Value: o.opt.About.Title},
		{Name: "description", Value: o.opt.About.Description}} {
		if f.Value != "" {
			w.Info = append(w.Info, f)
		}
	}
	return w
}

// operator returns who crawls and how to reach them (WARC 1.1, section 6.2: a name with an address).
func (o *Writer) operator() string {
	if o.opt.About.Operator == "" {
		return o.opt.Contact
	}
	return o.opt.About.Operator + " <" + o.opt.Contact + ">"
}

// robotsPolicy returns the robots field of the warcinfo record. robots.txt is always obeyed.
func (o *Writer) robotsPolicy() string {
	if o.opt.IgnoreNofollow {
		return "RFC 9309 and Crawl-delay obeyed; nofollow ignored"
	}
	return "RFC 9309, Crawl-delay and nofollow obeyed"
}

// Roll closes the output files that were begun more than Options.RollEvery ago and reports whether
// there were any. The next checkpoint gives them their final names.
func (o *Writer) Roll(now time.Time) (bool, error) {
	if o.opt.RollEvery <= 0 {
		return false, nil
	}
	begunBy := now.Add(-o.opt.RollEvery)
	rolled, err := o.WARC.RollOld(begunBy)
	for _, l := range []*crawllog.Log{o.CrawlLog, o.SeedLog, o.RobotsLog} {
		some, failed := l.RollOld(begunBy, now)
		rolled, err = rolled || some, errors.Join(err, failed)
	}
	if err != nil {
		return rolled, fmt.Errorf("crawl: roll output: %w", err)
	}
	return rolled, nil
}

// Finished returns the totals of the output files that received their final names in this run.
func (o *Writer) Finished() outfile.Finished {
	all := o.WARC.Finished()
	for _, l := range []*crawllog.Log{o.CrawlLog, o.SeedLog, o.RobotsLog} {
		all.Merge(l.Finished())
	}
	return all
}

// finishedWARCs returns the number of WARC files and indexes that became final in this run.
func (o *Writer) finishedWARCs() int64 { return o.WARC.Finished().Files }

// Finish closes the output files. The next checkpoint gives them their final names.
func (o *Writer) Finish() error {
	now := time.Now()
	if err := errors.Join(o.WARC.Roll(), o.CrawlLog.Roll(now), o.SeedLog.Roll(now), o.RobotsLog.Roll(now)); err != nil {
		return fmt.Errorf("crawl: finish output: %w", err)
	}
	return nil
}

// Stream writes the record of a large body to a file that is not part of the store yet.
func (o *Writer) Stream(ctx context.Context, e *warc.Encoder, x *warc.Exchange) (*warc.Streamed, error) {
	return o.WARC.Stream(ctx, e, x, time.Now())
}
