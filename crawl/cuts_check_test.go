package crawl

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/crawllog"
	"drumbeat/disk"
	"drumbeat/health"
	"drumbeat/warc"
)

// checkCut looks at what a cut has left, before anything is done about it.
func (l *life) checkCut(power bool) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if n := l.hooks.Load() / 3; n > 0 {
		l.sureGen = l.gen + uint64(n) // so many checkpoints of the last run had ended before the cut
	}
	rep, err := Audit(l.fs, l.opt.Dirs)
	switch {
	case l.sureGen == 0 && (errors.Is(err, ErrIncompatible) || errors.Is(err, fs.ErrNotExist)):
		l.gen, l.active, l.stored = 0, 0, nil
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
	if m.Gen < l.sureGen {
		fault("checkpoint %d is found, %d was durable", m.Gen, l.sureGen)
	}
	stored, err := l.outputOf(set, l.outSet(set), m)
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
	for url := range l.sureStored {
		if stored[url] == 0 {
			fault("the record of %s was durable and is gone", url)
		}
	}
	since := l.began
	if m.Gen > l.gen {
		since = l.frozenAt(m).Add(time.Millisecond)
	}
	failed := l.fs.QuotaErrors() > l.quotaErrors // the crawl was about to go back
	for _, v := range l.wit.all() {
		if !failed && v.run == l.run-1 && v.final && v.end.After(since) && l.cutAt.Sub(v.end) > l.opt.CheckpointEvery+time.Millisecond {
			fault("%s, answered %v before the cut, is lost, with a checkpoint every %v", v.url, l.cutAt.Sub(v.end), l.opt.CheckpointEvery)
		}
	}
	faults = append(faults, l.checkRepeats(l.storedAt)...)
	l.found(m, stored, power)
	return faults
}

// frozenAt is when the last run froze a checkpoint.
func (l *life) frozenAt(m *manifest) time.Time {
	return l.began.Add(time.Duration(m.Active-l.active) * time.Millisecond)
}

// found notes the manifest that the next run will start from. After kill -9 the last one may not be durable yet.
func (l *life) found(m *manifest, stored map[string]int, power bool) {
	if m.Gen > l.gen {
		l.unsure = append(l.unsure, frozenMoment{m.Gen, l.run - 1, l.frozenAt(m)})
	}
	if power || m.Gen <= l.sureGen {
		l.sureGen, l.sureStored = m.Gen, stored
		for _, f := range l.unsure {
			if f.gen <= m.Gen {
				l.wit.cover(f.run, f.at)
			}
		}
		l.unsure = nil
	}
	l.gen, l.active, l.stored, l.storedAt = m.Gen, m.Active, stored, len(l.wit.all())
}

func (l *life) manifest() (disk.Set, *manifest, error) {
	match, err := disk.MatchIdentities(l.fs, l.opt.Dirs, kindState)
	if err != nil {
		return disk.Set{}, nil, err
	}
	m, _, err := readManifest(match.Set)
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
	rep, err := AuditDeep(AuditOptions{FS: l.fs, Dirs: l.opt.Dirs, Out: l.opt.Out, RAMBytes: 1 << 20})
	if err != nil {
		return append(faults, "audit: "+err.Error())
	}
	for _, why := range rep.Bad {
		fault("audit: %s", why)
	}
	for _, d := range rep.Damages {
		fault("audit: %+v", d)
	}
	for _, name := range rep.Unnamed {
		fault("%s is left over", name)
	}
	set, m, err := l.manifest()
	if err != nil {
		return append(faults, err.Error())
	}
	for _, dir := range append(slices.Clone(l.opt.Dirs), l.opt.Out...) {
		names, _ := l.fs.List(dir + "/warc") // there is none where no output goes
		for _, name := range names {
			if strings.HasSuffix(name, ".open") {
				fault("%s/warc/%s is left over", dir, name)
			}
		}
	}
	stored, err := l.outputOf(set, l.outSet(set), m)
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
		if n != 1 || !isTroubled(url) && !isStranger(url) {
			fault("%d records of %s in the output, which must not be fetched", n, url)
		}
	}
	faults = append(faults, l.checkRepeats(l.storedAt)...)
	entries, bad := l.checkLog(set, m)
	faults = append(faults, bad...)
	l.strange, bad = l.checkStrangers(stored, entries)
	faults = append(faults, bad...)
	faults = append(faults, l.checkOnce()...)
	faults = append(faults, checkGraph(l.fs, l.opt.Dirs, want)...)
	return append(faults, l.checkVisits()...)
}

// checkOnce: the crawl has come to what it came to without any cut, in numbers. URLs of strangers are either fetched or not.
func (l *life) checkOnce() (faults []string) {
	w, got := l.world, &l.result.Snapshot
	if w.once == nil {
		return nil
	}
	ended := func(s *Snapshot, strange map[string]int64) (n int64, refused map[string]int64) {
		n, refused = s.Place(PlaceFetched)+s.Later["robots-unavailable"], maps.Clone(s.Refused)
		for why, k := range strange {
			n += k
			if refused[why] -= k; refused[why] == 0 {
				delete(refused, why)
			}
		}
		return n, refused
	}
	o := &w.once.Snapshot
	n, refused := ended(got, l.strange)
	wantN, wantRefused := ended(o, w.strange)
	if got.Unique != o.Unique || n != wantN || !maps.Equal(refused, wantRefused) {
		faults = append(faults, fmt.Sprintf("unique %d, fetched %d, refused %v; without cuts %d, %d, %v; but for strangers: %v, %v",
			got.Unique, n, refused, o.Unique, wantN, wantRefused, l.strange, w.strange))
	}
	return faults
}

// checkLog: the crawl log has each URL that ended once.
func (l *life) checkLog(set disk.Set, m *manifest) (entries map[string][]crawllog.Entry, faults []string) {
	entries = map[string][]crawllog.Entry{}
	note := func(e *crawllog.Entry) error { entries[e.URL] = append(entries[e.URL], *e); return nil }
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
		return nil, []string{"crawl log: " + err.Error()}
	}
	for url, lines := range entries {
		if len(lines) != 1 {
			faults = append(faults, fmt.Sprintf("%d lines of %s in the crawl log", len(lines), url))
		}
	}
	got := &l.result.Snapshot
	if n := got.Place(PlaceFetched) + got.Place(PlaceRefused); int64(len(entries)) != n {
		faults = append(faults, fmt.Sprintf("%d URLs in the crawl log, %d have ended", len(entries), n))
	}
	return entries, faults
}

// checkVisits looks at all requests in their order.
func (l *life) checkVisits() (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	type place struct {
		last  *visit
		page  *visit        // the last that wasn't for robots.txt
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
		if fetched, _, _ := l.world.want.Has(v.url); !fetched && !isRobots(v.url) && !isTroubled(v.url) && !isStranger(v.url) {
			fault("%s was asked for, which must not be fetched", v.url)
		}
		h, s := at(hosts, v.host), at(servers, v.addr.String())
		if h.last != nil {
			gap := v.start.Sub(h.last.end)
			if gap < l.opt.HostDelayMin {
				fault("%s: %v after the end of the request before it (runs %d, %d)", v.url, gap, h.last.run, v.run)
			}
		}
		// A request for another host's robots.txt, redirected to this one, doesn't put off the host's next page.
		if p := h.page; p != nil && v.start.Sub(p.end) < h.delay && !isRobots(v.url) {
			fault("%s: %v after the page before it (runs %d, %d), Crawl-delay %v", v.url, v.start.Sub(p.end), p.run, v.run, h.delay)
		}
		if s.last != nil && v.start.Sub(s.last.start) < l.opt.ServerDelayMin {
			fault("%s: %v after the server's request before it", v.url, v.start.Sub(s.last.start))
		}
		if v.start.Before(h.rest) {
			fault("%s: the host was to rest %v longer (run %d, voucher %t)", v.url, h.rest.Sub(v.start), v.run, v.voucher)
		}
		h.last, s.last = v, v
		if !isRobots(v.url) {
			h.page = v
		}
		if v.delay > 0 {
			h.delay = v.delay
		}
		if v.ill && !v.robots && v.covered {
			h.rest = v.end.Add(firstBackoff)
		}
		if v.robots && !v.voucher { // what a voucher says is kept nowhere
			if o := robots[v.url]; o != nil && o.covered && o.final {
				fault("%s was asked for again, though a durable checkpoint had its answer", v.url)
			}
			robots[v.url] = v
		}
	}
	return append(faults, l.checkTroubled(visits)...)
}

// checkTroubled: hosts that refuse or fail always are asked as often and at such times as their health allows that is known. A run
// knows what it noted itself and what the run before had noted up to its last checkpoint: all that is covered, and maybe more, since
// not every checkpoint that turns out durable has been seen to be. So there may be several states; a request is a fault if
// none allows it, and tells that those which don't weren't what was known.
func (l *life) checkTroubled(visits []visit) (faults []string) {
	policy := l.opt.makePolicy()
	hosts := map[string][]*visit{}
	for i := range visits {
		if v := &visits[i]; isTroubled(v.url) && !v.robots {
			hosts[v.host] = append(hosts[v.host], v)
		}
	}
	if len(hosts) != 2 {
		faults = append(faults, fmt.Sprintf("%d hosts in trouble were asked, want 2", len(hosts)))
	}
	for host, list := range hosts {
		now, saved := []health.State{{}}, []health.State{{}} // what this run may know, what the next may be left with
		for i, v := range list {
			if i > 0 && v.run != list[i-1].run {
				now = unlike(saved)
				saved = slices.Clone(now)
			}
			forbids := func(s health.State) bool {
				return s.End != health.Open || v.start.Before(s.Until.Add(-time.Second)) // Until is a whole second
			}
			if allowed := slices.DeleteFunc(slices.Clone(now), forbids); len(allowed) > 0 {
				now = allowed
			} else {
				faults = append(faults, fmt.Sprintf("%s: request %d, in run %d at %v, of a host that %v", host, i+1, v.run, v.start, now))
			}
			if v.status == 0 {
				continue
			}
			for k := range now {
				now[k].Note(&policy, health.Event{Kind: health.KindOf(v.status), Status: v.status, Place: health.RootPlace}, v.end)
			}
			if v.covered {
				saved = saved[:0]
			}
			saved = append(saved, now...)
		}
	}
	return faults
}

// unlike returns the states without repeated ones.
func unlike(list []health.State) (out []health.State) {
	seen := map[health.State]bool{}
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// isRobots tells robots.txt, and where the web has moved it to.
func isRobots(url string) bool { return strings.Contains(url, "/robots") }

// outputOf counts the response records of each URL in the output that belongs to a manifest. Final files are parsed once for
// all the cuts that find the same content.
func (l *life) outputOf(set, out disk.Set, m *manifest) (map[string]int, error) {
	urls := map[string]int{}
	files, err := warc.Files(out)
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		data, err := disk.ReadFile(l.fs, name)
		if err != nil {
			return nil, err
		}
		sum := xxhash.Sum64(data)
		known, ok := l.parsed.Load(sum)
		if !ok {
			var list []string
			if err := warc.Read(bytes.NewReader(data), 1<<30, func(rec *warc.Record) error {
				list = append(list, responseURL(rec)...)
				return nil
			}); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			known, _ = l.parsed.LoadOrStore(sum, list)
		}
		for _, url := range known.([]string) {
			urls[url]++
		}
	}
	st, err := statePart[warc.State](m, nameWARC)
	if err != nil {
		return nil, err
	}
	err = warc.Walk(warc.Options{Set: out, State: set}, st, 1<<30, func(_ string, rec *warc.Record) error {
		for _, url := range responseURL(rec) {
			urls[url]++
		}
		return nil
	})
	for kind, c := range map[string]Counter{robotsRecord: CountRobotsStored, dnsRecord: CountDNSStored} {
		if n := m.Accounts.Counters[c]; err == nil && int64(urls[kind]) != n {
			err = fmt.Errorf("%d records of%s, the checkpoint counts %d", urls[kind], kind, n)
		}
		delete(urls, kind)
	}
	return urls, err
}

// What responseURL returns for records that aren't of pages.
const robotsRecord, dnsRecord = " robots.txt", " the DNS"

// responseURL returns the URL of a response record, nothing for others.
func responseURL(rec *warc.Record) []string {
	url := rec.Get("WARC-Target-URI")
	switch {
	case rec.Type() != "response":
		return nil
	case rec.Get("WARC-Resource-Type") == warc.KindRobots:
		return []string{robotsRecord}
	case strings.HasPrefix(url, "dns:"):
		return []string{dnsRecord}
	}
	return []string{url}
}
