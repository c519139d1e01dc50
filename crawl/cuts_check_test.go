package crawl

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"time"

	"drumbeat/crawllog"
	"drumbeat/disk"
	"drumbeat/warc"
)

// checkCut looks at what a cut has left, before anything is done about it.
func (l *life) checkCut() (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	durable := uint64(l.hooks.Load() / 3) // checkpoints of the last run that had ended before the cut
	rep, err := Audit(l.fs, l.opt.Dirs)
	switch {
	case l.gen == 0 && durable == 0 && (errors.Is(err, ErrIncompatible) || errors.Is(err, fs.ErrNotExist)):
		return nil // no checkpoint yet
	case err != nil:
		return []string{"audit: " + err.Error()}
	}
	for _, why := range rep.Bad {
		fault("audit: %s", why)
	}
	set, m, err := l.manifest()
	if err != nil {
		return append(faults, err.Error())
	}
	if m.Gen < l.gen+durable {
		fault("checkpoint %d is found, %d was durable", m.Gen, l.gen+durable)
	}
	stored, err := outputOf(l.fs, set, l.outSet(set), m)
	if err != nil {
		return append(faults, "output: "+err.Error())
	}
	if n := m.Accounts.Places[PlaceFetched].N; int64(len(stored)) != n {
		fault("%d URLs are in the output, the checkpoint counts %d as fetched", len(stored), n)
	}
	for url, n := range stored {
		if n != 1 {
			fault("%d records of %s in the output", n, url)
		}
	}
	for url := range l.stored {
		if stored[url] == 0 {
			fault("the record of %s was durable and is gone", url)
		}
	}
	if m.Gen > l.gen {
		frozen := l.began.Add(time.Duration(m.Active-l.active) * time.Millisecond)
		l.wit.cover(l.run-1, frozen)
	}
	faults = append(faults, l.checkRepeats(l.storedAt)...)
	l.gen, l.active, l.stored, l.storedAt = m.Gen, m.Active, stored, len(l.wit.all())
	return faults
}

func (l *life) manifest() (disk.Set, *manifest, error) {
	match, err := disk.MatchIdentities(l.fs, l.opt.Dirs, kindState)
	if err != nil {
		return disk.Set{}, nil, err
	}
	m, err := readManifest(match.Set)
	if err == nil && m == nil {
		err = errors.New("no manifest")
	}
	return match.Set, m, err
}

func (l *life) outSet(set disk.Set) disk.Set {
	if len(l.opt.Out) == 0 {
		return set
	}
	match, err := disk.MatchIdentities(l.fs, l.opt.Out, kindOutput)
	if err != nil {
		return disk.Set{FS: l.fs, Paths: l.opt.Out}
	}
	return match.Set
}

// checkRepeats: nothing that was in the output at the start of the last run has been asked for in it.
func (l *life) checkRepeats(from int) (faults []string) {
	for _, v := range l.wit.all()[from:] {
		if l.stored[v.url] > 0 {
			faults = append(faults, fmt.Sprintf("run %d asked for %s, which was in the durable output", v.run, v.url))
		}
	}
	return faults
}

// checkEnd looks at a crawl that has ended.
func (l *life) checkEnd() (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	want := l.world.want
	if l.result.Stop != StopDone {
		fault("the crawl ended because of %q", l.result.Stop)
	}
	got := &l.result.Snapshot
	if once := l.world.once; once != nil {
		o := &once.Snapshot
		if got.Unique != o.Unique || got.Place(PlaceFetched) != o.Place(PlaceFetched) || !maps.Equal(got.Refused, o.Refused) {
			fault("unique %d, fetched %d, refused %v; without cuts %d, %d, %v", got.Unique, got.Place(PlaceFetched), got.Refused,
				o.Unique, o.Place(PlaceFetched), o.Refused)
		}
	}
	rep, err := Audit(l.fs, l.opt.Dirs)
	if err != nil {
		return append(faults, "audit: "+err.Error())
	}
	for _, why := range rep.Bad {
		fault("audit: %s", why)
	}
	set, m, err := l.manifest()
	if err != nil {
		return append(faults, err.Error())
	}
	stored, err := outputOf(l.fs, set, l.outSet(set), m)
	if err != nil {
		return append(faults, "output: "+err.Error())
	}
	for url := range want.FetchedURLs() {
		if stored[url] != 1 {
			fault("%d records of %s in the output", stored[url], url)
		}
		delete(stored, url)
	}
	for url, n := range stored {
		fault("%d records of %s in the output, which must not be fetched", n, url)
	}
	faults = append(faults, l.checkRepeats(l.storedAt)...)
	faults = append(faults, l.checkLog(set, m)...)
	return append(faults, l.checkVisits()...)
}

// checkLog: the crawl log has each URL that ended once.
func (l *life) checkLog(set disk.Set, m *manifest) (faults []string) {
	entries := map[string]int{}
	note := func(e *crawllog.Entry) error { entries[e.URL]++; return nil }
	files, err := crawllog.Files(set, "crawl")
	for _, f := range files {
		if err == nil {
			err = crawllog.ReadFile(l.fs, f, note)
		}
	}
	st, serr := statePart[crawllog.State](m, nameCrawlLog)
	if err = errors.Join(err, serr); err == nil {
		err = crawllog.Walk(crawllog.Options{Set: set, Prefix: "crawl"}, st, note)
	}
	if err != nil {
		return []string{"crawl log: " + err.Error()}
	}
	for url, n := range entries {
		if n != 1 {
			faults = append(faults, fmt.Sprintf("%d lines of %s in the crawl log", n, url))
		}
	}
	got := &l.result.Snapshot
	if n := got.Place(PlaceFetched) + got.Place(PlaceRefused); int64(len(entries)) != n {
		faults = append(faults, fmt.Sprintf("%d URLs in the crawl log, %d have ended", len(entries), n))
	}
	return faults
}

// checkVisits looks at all requests in their order.
func (l *life) checkVisits() (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	type place struct {
		last  *visit
		delay time.Duration // Crawl-delay
		rest  time.Time     // a 503 asked for it
	}
	hosts, servers := map[string]*place{}, map[string]*place{}
	robots := map[string]*visit{}
	at := func(m map[string]*place, key string) *place {
		if m[key] == nil {
			m[key] = &place{}
		}
		return m[key]
	}
	visits := l.wit.all()
	for i := range visits {
		v := &visits[i]
		if fetched, _, _ := l.world.want.Has(v.url); !fetched && !isRobots(v.url) {
			fault("%s was asked for, which must not be fetched", v.url)
		}
		h, s := at(hosts, v.host), at(servers, v.addr.String())
		if h.last != nil {
			gap := v.start.Sub(h.last.end)
			if gap < l.opt.HostDelayMin {
				fault("%s: %v after the end of the request before it (runs %d, %d)", v.url, gap, h.last.run, v.run)
			}
			if gap < h.delay && !isRobots(v.url) {
				fault("%s: %v after the request before it (runs %d, %d), Crawl-delay %v", v.url, gap, h.last.run, v.run, h.delay)
			}
		}
		if s.last != nil && v.start.Sub(s.last.start) < l.opt.ServerDelayMin {
			fault("%s: %v after the server's request before it", v.url, v.start.Sub(s.last.start))
		}
		if v.start.Before(h.rest) {
			fault("%s: the host was to rest %v longer (run %d)", v.url, h.rest.Sub(v.start), v.run)
		}
		h.last, s.last = v, v
		if v.delay > 0 {
			h.delay = v.delay
		}
		if v.ill && !v.robots && v.covered {
			h.rest = v.end.Add(firstBackoff)
		}
		if v.robots {
			if o := robots[v.url]; o != nil && o.covered && o.final {
				fault("%s was asked for again, though a durable checkpoint had its answer", v.url)
			}
			robots[v.url] = v
		}
	}
	return faults
}

// isRobots tells robots.txt, and where the web has moved it to.
func isRobots(url string) bool { return strings.Contains(url, "/robots") }

// outputOf counts the response records of each URL in the output that belongs to a manifest.
func outputOf(fsys disk.FS, set, out disk.Set, m *manifest) (map[string]int, error) {
	urls := map[string]int{}
	count := func(rec *warc.Record) error {
		if rec.Type() == "response" {
			urls[rec.Get("WARC-Target-URI")]++
		}
		return nil
	}
	files, err := warc.Files(out)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if err := warc.ReadFile(fsys, f, 1<<30, count); err != nil {
			return nil, err
		}
	}
	st, err := statePart[warc.State](m, nameWARC)
	if err != nil {
		return nil, err
	}
	err = warc.Walk(warc.Options{Set: out, State: set}, st, 1<<30, func(_ string, rec *warc.Record) error { return count(rec) })
	if err != nil {
		return nil, err
	}
	return urls, nil
}
