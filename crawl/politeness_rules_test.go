package crawl

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/plan"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/state/audit"
)

// listedHost reports whether the lists of these tests name a host of blacklistWeb.
func listedHost(host string) bool {
	return host == "a0.test" || strings.HasSuffix(host, ".a1.test") || host == "b1.test"
}

// TestBlacklistCutAnywhere: after a power cut at any disk operation, before, during or after a reload of
// the blacklist, the next run has the list. It must request nothing that the list names, fetch everything
// else, and balance the places.
func TestBlacklistCutAnywhere(t *testing.T) {
	rng := rand.New(rand.NewPCG(*seedFlag, 3))
	t.Logf("seed %d", *seedFlag)
	rounds := 8
	if *longRuns {
		rounds = 200
	}
	whole, before := 0, 0 // runs without a cut, runs with a cut before the reload
	for range rounds {
		cut := rng.IntN(600)
		inBubble(t, func(t *testing.T) {
			web := blacklistWeb()
			fs := memfs.New(rng.Uint64())
			writeRules(t, fs, "black", "# nothing yet")
			list := []string{"- host a0.test", "- pld a1.test", "- net 127.77.0.0/31"}
			reload := make(chan struct{}, 1)
			opt := tinyOptions(t, web, fs, blacklistSeeds(20)...)
			opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 2*time.Second, 2*time.Second
			opt.Admission.Blacklist, opt.Admission.Reload, opt.Disk.CheckpointEvery = []string{"black"},
				reload, 3*time.Second
			at := time.Now().Add(12 * time.Second)
			go func() {
				time.Sleep(time.Until(at))
				// Both fail after the power cut.
				if disk.WriteFileAtomic(fs, "new", []byte(strings.Join(list, "\n"))) == nil &&
					fs.Rename("new", "black") == nil {
					reload <- struct{}{}
				}
			}()
			fs.CrashAfter(1 + cut)
			if _, err := Run(t.Context(), opt); err == nil {
				whole++
			} else if !errors.Is(err, disk.ErrCrashed) {
				t.Fatal(err)
			} else if time.Now().Before(at) {
				before++
			}
			time.Sleep(time.Until(at.Add(time.Second)))
			after := fs.Crash()
			writeRules(t, after, "black", list...)
			opt.Disk.FS, at = after, time.Now()
			if _, err := Run(t.Context(), opt); err != nil && !errors.Is(err, state.ErrFinished) {
				t.Fatal(err)
			}
			fetched := map[string]bool{}
			for _, r := range web.Got("", "") {
				if listedHost(r.Host) && r.At.After(at) {
					t.Errorf("cut at %d: %s%s was requested %v after the list came into force", cut, r.Host,
						r.Path, r.At.Sub(at))
				}
				fetched["http://"+r.Host+r.Path] = true
			}
			for _, url := range blacklistSeeds(20) {
				host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
				if !listedHost(host) && !fetched[url] {
					t.Errorf("cut at %d: did not fetch %s", cut, url)
				}
			}
			checkBalanced(t, after, opt.Disk.Dirs)
			if rep, err := audit.Deep(audit.Options{FS: after, Dirs: opt.Disk.Dirs, RAMBytes: 1 << 20}); err != nil ||
				!rep.Balanced() {
				t.Errorf("cut at %d: deep audit: %v, %+v", cut, err, rep)
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d runs, %d cut before the reload, %d without a cut", rounds, before, whole)
}

// TestRulesAreBounded: rules that would take too much of the Go heap must be refused, at the start and at a
// reload.
func TestRulesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := &tinyWeb{Serve: pagesOnly}
		fs := memfs.New(*seedFlag)
		var lines []string
		for i := range 1000 {
			lines = append(lines, fmt.Sprintf("- host h%d.example", i))
		}
		writeRules(t, fs, "many", lines...)
		writeRules(t, fs, "few", "- host no.test")
		opt := tinyOptions(t, web, fs, urls("h", 1, 10)...)
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = time.Second, time.Second
		opt.tests.tune = func(p *plan.Plan) { p.HeapBytes = 8 * 20_000 }
		opt.Admission.Rules = []string{"many"}
		if _, err := Run(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "more RAM or fewer rules") {
			t.Errorf("got %v", err)
		}
		reload := make(chan struct{}, 1)
		opt.Admission.Rules, opt.Admission.Reload = []string{"few"}, reload
		go func() {
			time.Sleep(3 * time.Second)
			writeRules(t, fs, "few", lines...)
			reload <- struct{}{}
		}()
		mustRun(t, t.Context(), opt)
		if n := len(web.Pages("")); n != 10 {
			t.Errorf("%d pages", n)
		}
	})
}
