package crawl

import (
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/state/audit"
)

// killedCrawls returns crawls of the options of stoppedCrawl that were killed right after a checkpoint of their second
// run, one with URLs in STAR and one in RobotsCache; they may be the same.
func killedCrawls(t *testing.T) []*memfs.FS {
	t.Helper()
	fs, opt := stoppedCrawl(t)
	wanted := []state.Place{state.PlaceStar, state.PlaceRobotsCheck}
	var killed []*memfs.FS
	opt.Limits.MaxPages, opt.Disk.CheckpointEvery = 1500, 50*time.Millisecond
	n := 0
	opt.tests.hook = func(place string) {
		if place != "checkpoint" {
			return
		}
		if n++; n%3 != 0 || len(wanted) == 0 { // otherwise its manifest is not durable
			return
		}
		fork := fs.Fork(1)
		m, _, err := state.ReadManifest(disk.Set{FS: fork, Paths: opt.Disk.Dirs})
		if err != nil {
			return
		}
		before := len(wanted)
		wanted = slices.DeleteFunc(wanted, func(p state.Place) bool { return m.Accounts.Places[p].N > 0 })
		if len(wanted) < before {
			killed = append(killed, fork)
		}
	}
	mustRun(t, t.Context(), opt)
	if len(wanted) > 0 {
		t.Fatalf("none of %d checkpoints found URLs in %v", n/3, wanted)
	}
	return killed
}

// TestAuditFindsEachFaultAndItsPlace: an audit must find a removed, doubled or changed record in each
// place, and name the place.
func TestAuditFindsEachFaultAndItsPlace(t *testing.T) {
	notShort(t)
	t.Parallel()
	found := map[state.Place]bool{}
	inBubble(t, func(t *testing.T) {
		stopped, opt := stoppedCrawl(t)
		for _, whole := range append(killedCrawls(t), stopped) {
			before, err := audit.Run(whole, opt.Disk.Dirs)
			if err != nil || !before.Balanced() {
				t.Fatalf("before: %v, %+v", err, before)
			}
			for name, fault := range faults {
				for place, breaker := range breakers(fault) {
					if before.Rows[place].Files.N == 0 {
						continue // the place is empty in this crawl
					}
					found[place] = true
					fs := whole.Fork(1)
					tamper(t, fs, &opt, breaker)
					rep, err := audit.Run(fs, opt.Disk.Dirs)
					must(t, err)
					if text := strings.Join(rep.Bad, "; "); rep.Balanced() ||
						!strings.Contains(text, place.Text()+":") {
						t.Errorf("one record of %s %s: audit reports %q", place, name, text)
					}
				}
			}
		}
	})
	t.Log(found)
	for _, place := range []state.Place{state.PlaceStar, state.PlaceBeast, state.PlaceRobotsCheck, state.PlaceDeferred,
		state.PlaceRAM} {
		if !found[place] {
			t.Errorf("no stopped crawl held a URL in %s", place)
		}
	}
}
