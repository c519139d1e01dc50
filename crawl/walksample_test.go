package crawl

import (
	"fmt"

	"drumbeat/disk"
	"drumbeat/internal/simweb"
	"drumbeat/internal/walk"
	"drumbeat/state"
	"drumbeat/state/audit"
)

// checkSampled checks that a walk that has visited all pages has each of them in its sample once, and that it
// is sure that it visited them.
func (e *endOf) checkSampled(set disk.Set, m *state.Manifest) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	w, err := loadWalk(&Options{}, set, m)
	if err != nil {
		return []string{err.Error()}
	}
	if n := w.Waiting(); n != 0 {
		fault("walkers wait for %d URLs that were neither fetched nor refused", n)
	}
	sample := map[string]walk.Sampled{}
	for _, s := range w.Sample() {
		if _, twice := sample[s.URL]; twice || e.stored[s.URL] != 1 {
			fault("%s was stored %d times; in the sample twice: %t", s.URL, e.stored[s.URL], twice)
		}
		sample[s.URL] = s
	}
	pages := 0
	for node := range e.want.Nodes() {
		if e.want.Page(node) {
			pages++
			if s, ok := sample[e.want.URL(node)]; !ok || s.Chance < 0.9 {
				fault("the sample has %+v of %s", s, e.want.URL(node))
			}
		}
	}
	if n := m.Accounts.Counters[state.CountPages]; n != int64(len(sample)) || pages > len(sample) {
		fault("%d pages in the sample, %d were fetched, the web has %d", len(sample), n, pages)
	}
	return faults
}

// loadWalk returns the walk of a checkpoint.
func loadWalk(opt *Options, set disk.Set, m *state.Manifest) (*walk.Walk, error) {
	return state.LoadWalk(set, m, opt.walkOptions(1<<30))
}

// checkWalked compares a random walk that was killed with the web: it visited as many URLs as it was to; all
// that was fetched was to be fetched, and is in the output once. The shares of its sample are for
// TestRandomWalkSample, in virtual time: here a hundred pages that kills at any moment have left are too few,
// and no two runs draw the same.
func (k *killTest) checkWalked(opt *Options, snap *simweb.Snapshot) {
	k.t.Helper()
	want := k.web.Expected("drumbeat")
	rep, err := audit.Deep(audit.Options{FS: disk.OS(), Dirs: opt.Disk.Dirs, RAMBytes: 1 << 20})
	if err != nil || !rep.Balanced() {
		k.t.Errorf("audit: %v, %+v", err, rep)
	}
	opt.Disk.FS = disk.OS()
	checkWalk(k.t, opt)
	for url, n := range snap.Fetches {
		if fetched, _, _ := want.Has(url); !fetched {
			k.t.Errorf("fetched, but must not be: %s", url)
		}
		k.repeated += n - 1
		k.urls++
	}
	k.close()
}
