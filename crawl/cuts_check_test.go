package crawl

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"drumbeat/crawl/gate"
	"drumbeat/disk"
	"drumbeat/internal/health"
	"drumbeat/state"
	"drumbeat/state/audit"
)

// checkCut checks what a cut left, before the next run.
func (l *life) checkCut(power bool) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if n := l.hooks.Load() / 3; n > 0 {
		l.sureGen = l.gen + uint64(n) // the last run completed n checkpoints before the cut
	}
	rep, err := audit.Run(l.fs, l.opt.Disk.Dirs)
	switch {
	case l.sureGen == 0 && (errors.Is(err, state.ErrIncompatible) || errors.Is(err, fs.ErrNotExist)):
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
		fault("found checkpoint %d, but %d was durable", m.Gen, l.sureGen)
	}
	stored, err := outputOf(l.parsed, set, outSet(set, l.opt.Disk.Out), m)
	if err != nil {
		return append(faults, "output: "+err.Error())
	}
	if n := m.Accounts.Places[state.PlaceFetched].N; int64(len(stored)) != n {
		fault("the output has %d URLs, the checkpoint counts %d as fetched", len(stored), n)
	}
	for url, n := range stored {
		if n != 1 {
			fault("the output has %d records of %s, want 1", n, url)
		}
	}
	for url := range l.sureStored {
		if stored[url] == 0 {
			fault("the durable record of %s is missing", url)
		}
	}
	since := l.began
	if m.Gen > l.gen {
		since = l.frozenAt(m).Add(time.Millisecond)
	}
	failed := l.fs.QuotaErrors() > l.quotaErrors // the crawl was about to go back to a checkpoint
	for _, v := range l.wit.all() {
		if !failed && v.run == l.run-1 && v.final && v.end.After(since) &&
			l.cutAt.Sub(v.end) > l.opt.Disk.CheckpointEvery+l.world.lag()+time.Millisecond {
			fault("lost %s, answered %v before the cut, although the crawl makes a checkpoint every %v", v.url,
				l.cutAt.Sub(v.end), l.opt.Disk.CheckpointEvery)
		}
	}
	faults = append(faults, l.checkRepeats(l.storedAt)...)
	l.found(m, stored, power)
	return faults
}

// frozenAt is the time at which the last run froze a checkpoint.
func (l *life) frozenAt(m *state.Manifest) time.Time {
	return l.began.Add(time.Duration(m.Active-l.active) * time.Millisecond)
}

// found records the manifest from which the next run starts. After kill -9 the last one may not be durable
// yet.
func (l *life) found(m *state.Manifest, stored map[string]int, power bool) {
	if m.Gen > l.gen {
		l.unsure = append(l.unsure, frozenMoment{m.Gen, l.run - 1, l.frozenAt(m).Add(-l.world.lag())})
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

func (l *life) manifest() (disk.Set, *state.Manifest, error) {
	return lastManifest(l.fs, l.opt.Disk.Dirs)
}

// checkRepeats checks that the last run requested no URL that was in the output at its start.
func (l *life) checkRepeats(from int) (faults []string) {
	for _, v := range l.wit.all()[from:] {
		if l.stored[v.url] > 0 {
			faults = append(faults, fmt.Sprintf("run %d requested %s, which was in the durable output", v.run, v.url))
		}
	}
	return faults
}

// checkEnd checks a crawl that has ended.
func (l *life) checkEnd() (faults []string) {
	if l.result.Stop != StopDone {
		faults = append(faults, fmt.Sprintf("the crawl ended by %q, want %q", l.result.Stop, StopDone))
	}
	end := endOf{fs: l.fs, dirs: l.opt.Disk.Dirs, out: l.opt.Disk.Out, trouble: l.world.trouble, walks: l.world.walks,
		want: l.world.want, parsed: l.parsed}
	faults = append(faults, end.check()...)
	l.strange = end.strange
	for _, v := range l.wit.all() {
		if isStranger(v.url) && !v.robots && v.covered && v.final && end.stored[v.url] != 1 {
			faults = append(faults, fmt.Sprintf("a durable checkpoint had %s, the output has %d records, want 1", v.url,
				end.stored[v.url]))
		}
	}
	faults = append(faults, l.checkRepeats(l.storedAt)...)
	faults = append(faults, l.checkOnce()...)
	return append(faults, l.checkVisits()...)
}

// checkOnce checks that the numbers at the end equal those of the crawl without a cut. It ignores which
// URLs of strangers were fetched and which were refused.
func (l *life) checkOnce() (faults []string) {
	w, got := l.world, &l.result.Snapshot
	if w.once == nil {
		return nil
	}
	ended := func(s *Snapshot, strange map[string]int64) (n int64, refused map[string]int64) {
		n, refused = s.Place(state.PlaceFetched)+s.Deferred["robots-unavailable"], maps.Clone(s.Refused)
		for why, k := range strange {
			n += k
			if refused[why] -= k; refused[why] == 0 {
				delete(refused, why)
			}
		}
		return n, refused
	}
	o := &w.once.Snapshot
	if n, want := got.Count(state.CountUsageDropped), o.Count(state.CountUsageDropped); n != want {
		faults = append(faults, fmt.Sprintf("%d pages are not stored because of --usage; without cuts %d", n, want))
	}
	n, refused := ended(got, l.strange)
	wantN, wantRefused := ended(o, w.strange)
	if got.Unique != o.Unique || n != wantN || !maps.Equal(refused, wantRefused) {
		faults = append(faults, fmt.Sprintf(
			"unique %d, fetched %d, refused %v; without cuts %d, %d, %v; of these, refused URLs of strangers: %v, %v",
			got.Unique, n, refused, o.Unique, wantN, wantRefused, l.strange, w.strange))
	}
	return faults
}

// checkVisits checks all requests in order: which URLs, the delays, the back-offs, and that none is repeated.
func (l *life) checkVisits() (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	type place struct {
		last    *witnessed
		page    *witnessed    // the last request other than for robots.txt
		delay   time.Duration // Crawl-delay
		backoff time.Time     // end of the back-off after a 503
	}
	hosts, servers := map[string]*place{}, map[string]*place{}
	robots := map[string]*witnessed{}
	at := func(m map[string]*place, key string) *place {
		if m[key] == nil {
			m[key] = &place{}
		}
		return m[key]
	}
	visits := l.wit.all()
	for i := range visits {
		v := &visits[i]
		if fetched, _, _ := l.world.want.Has(v.url); !fetched && !isRobots(v.url) && !isTroubled(v.url) &&
			!isStranger(v.url) {
			fault("requested %s, which must not be fetched", v.url)
		}
		h, s := at(hosts, v.host), at(servers, v.addr.String())
		if h.last != nil {
			gap := v.start.Sub(h.last.end)
			if gap < l.opt.Politeness.HostDelayMin {
				fault("%s: requested %v after the end of the host's previous request (runs %d, %d), want at least %v",
					v.url, gap, h.last.run, v.run, l.opt.Politeness.HostDelayMin)
			}
		}
		// A request for another host's robots.txt that redirects to this host doesn't delay this host's
		// next page.
		if p := h.page; p != nil && v.start.Sub(p.end) < h.delay && !isRobots(v.url) {
			fault("%s: requested %v after the host's previous page (runs %d, %d), Crawl-delay %v", v.url,
				v.start.Sub(p.end), p.run, v.run, h.delay)
		}
		if s.last != nil && v.start.Sub(s.last.start) < l.opt.Politeness.ServerDelayMin {
			fault("%s: requested %v after the server's previous request", v.url, v.start.Sub(s.last.start))
		}
		if v.start.Before(h.backoff) {
			fault("%s: requested %v before the end of the host's back-off (run %d, canary %t)", v.url,
				h.backoff.Sub(v.start), v.run, v.canary)
		}
		h.last, s.last = v, v
		if !isRobots(v.url) {
			h.page = v
		}
		if v.delay > 0 {
			h.delay = v.delay
		}
		if v.ill && v.covered {
			h.backoff = v.end.Add(v.leastBackoff())
		}
		if v.robots && !v.canary { // the crawl keeps no answer to a canary request
			if o := robots[v.url]; o != nil && o.covered && o.final {
				fault("requested %s again, although a durable checkpoint had its answer", v.url)
			}
			robots[v.url] = v
		}
	}
	return append(faults, l.checkTroubled(visits)...)
}

// checkTroubled checks that the crawl sends requests to hosts that always refuse or fail only when the
// known health of the host allows it. A run knows what it recorded itself and what the previous run
// recorded up to its last checkpoint. That includes every covered visit and perhaps more, since the test
// can't see whether a checkpoint is durable. So several states are possible. A request is a fault
// if none of them allows it; otherwise only the states that allow it remain possible.
func (l *life) checkTroubled(visits []witnessed) (faults []string) {
	policy := l.opt.makePolicy()
	hosts := map[string][]*witnessed{}
	for i := range visits {
		if v := &visits[i]; isTroubled(v.url) && !v.robots {
			hosts[v.host] = append(hosts[v.host], v)
		}
	}
	if len(hosts) != 2 {
		faults = append(faults, fmt.Sprintf("%d troubled hosts got requests, want 2", len(hosts)))
	}
	for host, list := range hosts {
		// States that this run, and the next run, may know.
		now, saved := []health.State{{}}, []health.State{{}}
		for i, v := range list {
			if i > 0 && v.run != list[i-1].run {
				now = unlike(saved)
				saved = slices.Clone(now)
			}
			forbids := func(s health.State) bool {
				// Until has a resolution of 1 s.
				return s.End != health.Open || v.start.Before(s.Until.Add(-time.Second))
			}
			if allowed := slices.DeleteFunc(slices.Clone(now), forbids); len(allowed) > 0 {
				now = allowed
			} else {
				faults = append(faults, fmt.Sprintf("%s: request %d, in run %d at %v, although the host's state is %v",
					host, i+1, v.run, v.start, now))
			}
			if v.status == 0 {
				continue
			}
			for k := range now {
				now[k].Note(&policy,
					health.Event{Kind: health.KindOf(v.status), Status: v.status, Place: health.RootPlace}, v.end)
			}
			if v.covered {
				saved = saved[:0]
			}
			saved = append(saved, now...)
		}
	}
	return faults
}

// unlike returns the states without duplicates.
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

// leastBackoff returns the minimum back-off of the host after a visit answered with 503. It is shorter after a
// request for robots.txt, the host's own or that of a host that redirects to it, than after one for a page.
func (v *witnessed) leastBackoff() time.Duration {
	if isRobots(v.url) {
		return gate.RobotsBackoff
	}
	return DefaultBackoff
}

// isRobots reports whether a URL is a robots.txt, a tdmrep.json, or the place to which the web redirects one.
func isRobots(url string) bool { return strings.Contains(url, "/robots") || isReservations(url) }

func isReservations(url string) bool { return strings.HasSuffix(url, "/tdmrep.json") }
