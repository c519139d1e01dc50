package crawl

import (
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/state/audit"
)

// killedCrawl returns a crawl that was killed right after a checkpoint of its second run, with URLs in STAR
// and RobotsCache.
func killedCrawl(t *testing.T) (*memfs.FS, Options) {
	t.Helper()
	fs, opt := stoppedCrawl(t)
	var killed *memfs.FS
	opt.MaxPages, opt.CheckpointEvery = 1500, 50*time.Millisecond
	n := 0
	opt.hook = func(place string) {
		if place != "checkpoint" {
			return
		}
		if n++; n%3 != 0 || killed != nil { // otherwise its manifest is not durable
			return
		}
		fork := fs.Fork(1)
		m, _, err := state.ReadManifest(disk.Set{FS: fork, Paths: opt.Dirs})
		if err == nil && m.Accounts.Places[state.PlaceStar].N > 0 && m.Accounts.Places[state.PlaceRobotsCheck].N > 0 {
			killed = fork
		}
	}
	if _, err := Run(t.Context(), opt); err != nil {
		t.Fatal(err)
	}
	if killed == nil {
		t.Fatalf("none of %d checkpoints found URLs in STAR and RobotsCache", n/3)
	}
	opt.hook, opt.MaxPages = nil, 0
	return killed, opt
}

// TestAuditFindsEachFaultAndItsPlace: an audit must find a removed, doubled or changed record in each
// place, and name the place.
func TestAuditFindsEachFaultAndItsPlace(t *testing.T) {
	notShort(t)
	t.Parallel()
	found := map[state.Place]bool{}
	inBubble(t, func(t *testing.T) {
		for _, stopped := range []func(*testing.T) (*memfs.FS, Options){stoppedCrawl, killedCrawl} {
			whole, opt := stopped(t)
			before, err := audit.Run(whole, opt.Dirs)
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
					rep, err := audit.Run(fs, opt.Dirs)
					if err != nil {
						t.Fatal(err)
					}
					if text := strings.Join(rep.Bad, "; "); rep.Balanced() || !strings.Contains(text, place.String()+":") {
						t.Errorf("one record of %s %s: audit reports %q", place, name, text)
					}
				}
			}
		}
	})
	t.Log(found)
	for _, place := range []state.Place{state.PlaceStar, state.PlaceBeast, state.PlaceRobotsCheck, state.PlaceDeferred, state.PlaceRAM} {
		if !found[place] {
			t.Errorf("no stopped crawl held a URL in %s", place)
		}
	}
}
