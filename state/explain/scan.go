package explain

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"time"

	"drumbeat/beast"
	"drumbeat/internal/crawllog"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// scannedPlaces are the places whose URLs scan finds, small ones first. Those of star and robotscheck are looked up by
// key.
var scannedPlaces = [...]state.Place{state.PlaceRAM, state.PlaceReady, state.PlaceHeld, state.PlaceAwaitRobots,
	state.PlaceContent, state.PlaceUnstreamed, state.PlaceDeferred, state.PlaceBeast}

// scan calls visit for the URL records of places. If visit returns fs.SkipAll, scan stops and returns nil. It passes
// what it can't read to damaged and continues after it.
func (v *view) scan(places []state.Place, visit func(at state.Spot, data []byte) error,
	damaged func(error) error) error {
	return v.r.ScanURLs(v.r.Manifest, state.URLScan{Places: places, Visit: visit, Damaged: damaged})
}

// finder finds the places of a set of URLs.
type finder struct {
	v       *view
	damaged func(error) error
	want    map[string][]*URLReport
	left    int
}

func (v *view) newFinder(reports []*URLReport) *finder {
	f := &finder{v: v, want: map[string][]*URLReport{}, damaged: v.damaged(new([]string))}
	for _, rep := range reports {
		if f.want[rep.URL] == nil {
			f.left++
		}
		f.want[rep.URL] = append(f.want[rep.URL], rep)
	}
	return f
}

// urls returns the URLs that are not found yet.
func (f *finder) urls() (list []string) {
	for url := range f.want {
		list = append(list, url)
	}
	return list
}

// found calls note for the reports of a URL and removes the URL from the search.
func (f *finder) found(url string, note func(rep *URLReport)) {
	for _, rep := range f.want[url] {
		note(rep)
	}
	if _, ok := f.want[url]; ok {
		delete(f.want, url)
		f.left--
	}
}

// take checks one record. It returns fs.SkipAll when all URLs are found.
func (f *finder) take(at state.Spot, data []byte) error {
	if f.left == 0 {
		return fs.SkipAll
	}
	var rec weburl.Record
	if err := rec.Decode(data); err != nil {
		return f.damaged(fmt.Errorf("crawl: a record of %s: %w", at.Place, err))
	}
	if f.want[string(rec.URL)] == nil {
		return nil
	}
	f.found(string(rec.URL), func(rep *URLReport) {
		rep.Place = at.Place.String()
		rep.record(&rec)
		switch at.Place {
		case state.PlaceBeast:
			rep.Queue = f.v.queueReport(at.Lane, at.Queue)
		case state.PlaceOverBudget:
			rep.lane = at.Lane
		case state.PlaceDeferred:
			rep.Due = state.Due(&rec, at.Due)
			if h, err := state.HistoryOf(&rec); err == nil { // an audit reports the error
				rep.Copy = h.Copy
			}
		}
	})
	if f.left == 0 {
		return fs.SkipAll
	}
	return nil
}

func (v *view) queueReport(lane int, n beast.Number) *QueueReport {
	st := v.laneState(lane)
	return &QueueReport{Lane: lane, Lanes: v.lanes(), Number: int64(n), Current: int64(st.Current),
		Ahead: int64(n - st.Current), Horizon: int64(st.Horizon)}
}

// lanes returns the number of lanes of BEAST.
func (v *view) lanes() int { return 1 + len(v.beast.More) }

// laneState returns the state of a lane of BEAST.
func (v *view) laneState(lane int) *beast.State {
	if lane == 0 {
		return v.beast
	}
	return &v.beast.More[lane-1]
}

// record fills in Record.
func (rep *URLReport) record(rec *weburl.Record) {
	r := &RecordReport{Found: time.Unix(rec.Found, 0).UTC(), Depth: int(rec.Depth), Budget: rec.Budget,
		Attempts: int(rec.Attempts), Waits: int(rec.Waits), Redirects: int(rec.Redirects), Faults: int(rec.Faults)}
	if rec.Reason != 0 {
		r.Reason = state.Reason(rec.Reason).String()
	}
	if rec.Parent == 0 { // the record holds the whole parent URL
		r.ParentURL = string(rec.AppendVia(nil))
	}
	for _, f := range [...]struct {
		flag uint8
		name string
	}{{weburl.FlagSeed, "seed"}, {weburl.FlagSeedFallback, "seed-without-scheme"}, {weburl.FlagRedirect, "redirect"},
		{weburl.FlagRefresh, "refresh"}, {weburl.FlagSitemap, "sitemap"}, {weburl.FlagUnconfirmed, "unconfirmed"},
		{weburl.FlagCounted, "counted"}} {
		if rec.Flags&f.flag != 0 {
			r.Flags = append(r.Flags, f.name)
		}
	}
	rep.Record, rep.parent = r, rec.Parent
}

// find finds the places of seen URLs. It searches the output before the queues, which are long, unless URLs of the
// output may wait for another visit.
func (v *view) find(f *finder, damaged func(error) error) error {
	if err := v.scan(scannedPlaces[:1], f.take, damaged); err != nil {
		return err
	}
	waits := func(f *finder, damaged func(error) error) error { return v.scan(scannedPlaces[:], f.take, damaged) }
	looks := []func(*finder, func(error) error) error{v.findStored, v.findLogged, waits}
	if v.m.Accounts.Recrawled() { // the output also has URLs that wait for their next visit
		looks = append(looks[2:], looks[:2]...)
	}
	for _, look := range looks {
		if f.left == 0 {
			return nil
		}
		if err := look(f, damaged); err != nil {
			return err
		}
	}
	return nil
}

// findStored searches the indexes of the output.
func (v *view) findStored(f *finder, damaged func(error) error) error {
	if v.r.Out.Len() == 0 {
		return nil
	}
	return warc.Find(v.r.WARCFiles(), v.warc, f.urls(), func(x *warc.Indexed) error {
		f.found(x.URL, func(rep *URLReport) {
			rep.Place = state.PlaceFetched.String()
			rep.Ended = &EndedReport{Source: "index", Time: x.Time.UTC(), Status: x.Status, MIME: x.MIME,
				Revisit: x.IsRevisit(), Redirect: x.Redirect, Truncated: x.Truncated, File: x.File, Offset: x.Offset,
				Length: x.Length}
			v.readMeta(rep, x)
		})
		return nil
	}, damaged)
}

// readMeta fills in Record from the metadata record of a stored URL. It ignores errors, as when the file
// was moved away: the answer then only lacks Record.
func (v *view) readMeta(rep *URLReport, x *warc.Indexed) {
	fields, err := warc.Meta(v.r.WARCFiles(), v.warc, x)
	if err != nil || len(fields) == 0 {
		return
	}
	rec := weburl.Record{URL: []byte(rep.URL)}
	for _, f := range fields {
		switch f.Name {
		case "via":
			rec.SetVia([]byte(f.Value), 0)
		case "depth":
			depth, _ := strconv.ParseUint(f.Value, 10, 16)
			rec.Depth = uint16(depth)
		}
	}
	rep.record(&rec)
	rep.Record.Found = time.Time{}
}

// findDropped reads from the crawl log why redirects in an index are not followed. It returns at once if
// the crawl has dropped no redirect.
func (v *view) findDropped(reports []*URLReport, damaged func(error) error) error {
	stored := map[string][]*URLReport{}
	for _, rep := range reports {
		if e := rep.Ended; e != nil && e.Source == "index" && e.Redirect != "" {
			stored[rep.URL] = append(stored[rep.URL], rep)
		}
	}
	if len(stored) == 0 || v.m.Accounts.Counters[state.CountLinksRedirects] == 0 {
		return nil
	}
	urls := slices.Collect(maps.Keys(stored))
	_, err := crawllog.Find(v.logOptions(), v.log, urls, maxLogBytes, func(e *crawllog.Entry) error {
		if e.Order {
			return nil
		}
		for _, rep := range stored[e.URL] {
			rep.Ended.Dropped = e.Dropped
		}
		if delete(stored, e.URL); len(stored) == 0 {
			return io.EOF
		}
		return nil
	}, damaged)
	return err
}

// maxLogBytes limits the compressed bytes of the crawl log that one call reads: about a minute of work.
const maxLogBytes = 8 << 30

// findLogged searches the crawl log.
func (v *view) findLogged(f *finder, damaged func(error) error) error {
	cut, err := crawllog.Find(v.logOptions(), v.log, f.urls(), maxLogBytes, func(e *crawllog.Entry) error {
		if e.Order {
			return nil
		}
		f.found(e.URL, func(rep *URLReport) {
			rep.Place = state.PlaceFetched.String()
			rep.Ended = &EndedReport{Source: "log", Time: e.Time.UTC(), Status: e.Status, Reason: e.Reason,
				MIME: e.MIME, Truncated: e.Truncated, Redirect: e.Redirect, Dropped: e.Dropped,
				NearDuplicateOf: e.NearDuplicateOf,
				Attempts:        e.Attempts, Bytes: e.Bytes, File: e.File, Offset: e.Offset}
			if e.Reason != "" {
				rep.Place = state.PlaceRefused.String()
			}
			if e.IP.IsValid() {
				rep.Ended.IP = e.IP.String()
			}
			rec := weburl.Record{URL: []byte(e.URL), Depth: uint16(e.Depth), Attempts: uint8(min(e.Attempts, 255))}
			rec.SetVia([]byte(e.Via), 0)
			rec.Parent = e.Parent
			rep.record(&rec)
			rep.Record.Found = time.Time{}
		})
		if f.left == 0 {
			return io.EOF
		}
		return nil
	}, damaged)
	if cut {
		v.logCut = true
	}
	return err
}

// matcher returns a function that checks the records that wait under the key of a PLD or origin.
func (f *finder) matcher(p state.Place) func([]byte) error {
	return func(data []byte) error {
		if f == nil {
			return nil
		}
		if err := f.take(state.Spot{Place: p}, data); err != nil && !errors.Is(err, fs.SkipAll) {
			return err
		}
		return nil
	}
}

// site reports on a PLD; check gets the URLs that wait for its budget.
func (v *view) site(pld string, check func(aux []byte) error, damaged func(error) error) *PLDReport {
	rep := &PLDReport{PLD: pld}
	known, err := star.LookUp(v.r.Set, state.NameStar, v.star, v.r.Hasher.PLDKey([]byte(pld)), check)
	if err != nil {
		_ = damaged(err)
		return rep
	}
	p := known.Merged
	*rep = PLDReport{PLD: pld, Known: known.Found, Indegree: p.Indegree, Placed: p.Placed, Fetched: p.Fetched,
		Bytes: p.Bytes, Checks: known.Checks}
	for lane := range p.Lanes() {
		ledger := beast.DecodeLedger(p.LedgerOf(lane))
		if ledger.Epoch != uint16(v.beast.Epoch) {
			continue
		}
		if lane == 0 {
			rep.Next, rep.Used = int64(ledger.Next), ledger.Used
		} else if lanes := max(1, v.star.Lanes); ledger.Next > 0 {
			rep.Further = append(rep.Further, LaneFill{lane % lanes, lane / lanes, int64(ledger.Next), ledger.Used})
		}
	}
	n, divided := p.Hosts()
	if rep.Parts = n; divided {
		rep.Divided = v.m.Frozen.Parts
	}
	if p.FirstSeen > 0 {
		rep.FirstSeen = time.Unix(int64(p.FirstSeen), 0).UTC()
	}
	budgets, ok, err := BudgetsOf(v.m.Run, v.changed)
	if err != nil {
		_ = damaged(err)
	}
	if !ok || err != nil {
		return rep
	}
	now, err := star.BudgetOf(v.r.Set, v.star, budgets, v.r.Hasher.PLDKey([]byte(pld)), &p)
	if err != nil {
		_ = damaged(err)
		return rep
	}
	pinned, ok := v.changed.Budgets[pld]
	if !ok {
		pinned, ok = v.sites.Budgets()[pld]
	}
	if ok {
		now.Nominal, now.Pages, rep.Pinned = pinned, pinned, true
	}
	rep.Budget, rep.PerQueue, rep.Prior = now.Nominal, now.Pages, now.Prior
	if rep.BySupporters = now.Supporters; now.Supporters {
		rep.Supporters, rep.Standing, rep.Newcomer = p.Support.Supporters(), p.Support.Standing(), !p.Support.Known()
	}
	if now.Rank > 0 && now.Rank <= now.Ranks {
		rep.Rank, rep.Ranks = now.Rank, now.Ranks
	}
	return rep
}

// BudgetsOf returns the budgets of a crawl by the options of its last run, which may be nil, and the
// operator's changes. ok is false if they are not known or budgets are off.
func BudgetsOf(run *state.LastRun, changed *changes.Settings) (b star.Budgets, ok bool, err error) {
	if run == nil || run.Scope != state.ScopeAll {
		return b, false, nil
	}
	name := run.Budget
	b = star.Budgets{Default: run.BudgetDefault, Max: run.BudgetMax, Ranks: run.BudgetRanks, QueuePages: run.QueuePages,
		Share: run.BudgetShare}
	if f := changed.Function; f != nil {
		name, b.Default, b.Max = f.Name, f.Default, f.Max
	}
	b.Function, err = star.ParseFunction(name)
	return b, err == nil, err
}
