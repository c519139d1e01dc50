package crawl

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// These tests check --adaptive-delay by the log of the synthetic web (scenario "adaptive" of
// internal/simweb/politeness_polite.go).

// The delays of these tests.
const (
	adaptiveBase  = 20 * time.Second
	adaptiveLeast = time.Second
)

// crawlAdaptive crawls the hosts of the scenario. If change sets MaxTime, a second run ends the crawl; run.done is
// then the time between the two.
func crawlAdaptive(t *testing.T, change func(*Options)) (run welcomeRun) {
	t.Helper()
	inBubble(t, func(t *testing.T) {
		run.web = smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.IPs, o.Hostile = 10, 20, 150, 10, []string{"adaptive"}
		})
		fs := memfs.New(*seedFlag)
		opt := simOptions(t, run.web, fs)
		withHealth(&opt)
		opt.Admission.SeedLines = run.web.HostileSeeds()
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = adaptiveBase, adaptiveLeast
		opt.Politeness.HostDelayFactor, opt.Politeness.MaxCrawlDelay = 10, 5*time.Minute
		opt.Limits.Linger, opt.Politeness.AdaptiveDelay = time.Hour, true
		if change != nil {
			change(&opt)
		}
		run.res = mustRun(t, t.Context(), opt)
		if opt.Limits.MaxTime > 0 {
			for _, q := range run.web.Log().Snapshot().Requests {
				run.done = max(run.done, q.End)
			}
			opt.Limits.MaxTime = 0
			run.res = mustRun(t, t.Context(), opt)
		}
		run.snap = run.web.Log().Snapshot()
		checkDelays(t, run.snap, &opt, 0)
		checkBalanced(t, fs, opt.Disk.Dirs)
		x := explainer(t, fs, opt.Disk.Dirs)
		reps, err := x.Hosts([]string{"http://www.adaptive-0.test:8080/"})
		if err != nil || len(reps[0].Origins) == 0 {
			t.Fatalf("explain: %v, %+v", err, reps)
		}
		for _, o := range reps[0].Origins {
			if strings.Contains(o.DelayWhy, "--adaptive-delay") != opt.Politeness.AdaptiveDelay {
				t.Errorf("AdaptiveDelay %t: explain says %q", opt.Politeness.AdaptiveDelay, o.DelayWhy)
			}
		}
	})
	return run
}

// all returns all requests to the i-th host, in order.
func (run *welcomeRun) all(i int) (rs []simweb.Request) {
	for _, q := range run.snap.Requests {
		if strings.HasPrefix(q.Host, fmt.Sprintf("www.adaptive-%d.", i)) {
			rs = append(rs, q)
		}
	}
	slices.SortFunc(rs, func(a, b simweb.Request) int { return int(a.Start - b.Start) })
	return rs
}

// gapsOf returns the times from the end of each request to the start of the next.
func gapsOf(rs []simweb.Request) (gaps []time.Duration) {
	for i := 1; i < len(rs); i++ {
		gaps = append(gaps, rs[i].Start-rs[i-1].End)
	}
	return gaps
}

// TestAdaptiveDelays: the gaps between requests to a healthy host fall by steps to the minimum and not below.
// At the first strain the next gap is at least the base delay again, and the gaps fall again. A slow host
// keeps its factor, another its Crawl-delay.
func TestAdaptiveDelays(t *testing.T) {
	t.Parallel()
	var most, hosts int64 // as a running crawl reports them
	run := crawlAdaptive(t, func(o *Options) {
		o.Observe.Control, o.Observe.SnapshotEvery = new(Control), time.Second
		o.Observe.Snapshot = func(s *Snapshot) {
			hosts = max(hosts, s.AdaptedHosts)
			p, err := o.Observe.Control.HostPace("www.adaptive-0.test")
			if err == nil && p != nil && p.Delay == adaptiveLeast {
				most = max(most, int64(p.Steps))
			}
		}
	})
	if most != 32 || hosts < 6 {
		t.Errorf("%d steps of a healthy host and %d adapted hosts were reported, want 32 and at least 6", most, hosts)
	}
	names := []string{"healthy", "slow once", "503", "Retry-After", "half a body", "breaks off", "slow", "Crawl-delay"}
	step := (adaptiveBase - adaptiveLeast) / 32
	for i, name := range names[:6] {
		rs := run.all(i)
		gaps := gapsOf(rs)
		if len(rs) < simweb.AdaptiveURLs {
			t.Errorf("%s: %d requests, want %d", name, len(rs), simweb.AdaptiveURLs)
			continue
		}
		strained := 1 + simweb.AdaptiveStrain // the first request is for robots.txt
		if i == 0 {
			strained = len(rs)
		}
		for k, gap := range gaps {
			visits := k // clean visits since the start or the strain
			if k >= strained {
				visits = k - strained
			}
			if least := max(adaptiveLeast, adaptiveBase-time.Duration(visits)*step); gap < least {
				t.Errorf("%s: gap %d is %v, want at least %v", name, k, gap, least)
			}
		}
		if i > 0 && gaps[strained] < adaptiveBase {
			t.Errorf("%s: the gap after strain is %v, want the base delay", name, gaps[strained])
		}
		if before := gaps[simweb.AdaptiveStrain-1]; before > 2*adaptiveLeast {
			t.Errorf("%s: the gap before strain is %v, want about the minimum", name, before)
		}
		if again := slices.Min(gaps[min(strained, len(gaps)-1):]); again > 2*adaptiveLeast {
			t.Errorf("%s: the least gap after strain is %v, want about the minimum", name, again)
		}
		if t.Failed() {
			t.Logf("%s: %d requests in %v, gaps %v", name, len(rs), span(rs), gaps)
		}
	}
	for k, gap := range gapsOf(run.all(6)) {
		if least := 6 * time.Second; gap < least && k > 1 { // ten times a mean with one quick answer in ten
			t.Errorf("slow: gap %d is %v, want at least %v", k, gap, least)
		}
	}
	checkCrawlDelay(t, gapsOf(run.all(7)))
	if s := run.res.Snapshot; s.DelayResets < 5 || s.DelaySteps < 8*32 {
		t.Errorf("%d resets and %d steps, want a reset for each host with strain and all their steps",
			s.DelayResets, s.DelaySteps)
	}
	t.Logf("%d deferrals", run.res.Snapshot.Count(state.CountDeferrals))
}

// checkCrawlDelay: a Crawl-delay of 5 s holds, whatever the host adapts to.
func checkCrawlDelay(t *testing.T, crawlDelay []time.Duration) {
	t.Helper()
	for k, gap := range crawlDelay {
		if gap < 5*time.Second {
			t.Errorf("Crawl-delay: gap %d is %v", k, gap)
		}
	}
	if last := slices.Min(crawlDelay); last > 6*time.Second {
		t.Errorf("Crawl-delay: the least gap is %v, want about 5 s", last)
	}
}

// TestAdaptiveDelaysAreOff: by default no host is visited sooner than at its base delay.
func TestAdaptiveDelaysAreOff(t *testing.T) {
	t.Parallel()
	run := crawlAdaptive(t, func(o *Options) { o.Politeness.AdaptiveDelay = false })
	for i := range 8 {
		for k, gap := range gapsOf(run.all(i)) {
			if gap < adaptiveBase {
				t.Errorf("host %d: gap %d is %v, want the base delay", i, k, gap)
			}
		}
	}
	if s := run.res.Snapshot; s.DelaySteps+s.DelayResets+s.AdaptedHosts != 0 {
		t.Errorf("%d steps, %d resets, %d hosts, want none", s.DelaySteps, s.DelayResets, s.AdaptedHosts)
	}
	t.Logf("%d deferrals", run.res.Snapshot.Count(state.CountDeferrals))
}

// TestAdaptiveDelaysAfterARestart: a restart brings back the base delay, however far a host had adapted.
func TestAdaptiveDelaysAfterARestart(t *testing.T) {
	t.Parallel()
	run := crawlAdaptive(t, func(o *Options) { o.Limits.MaxTime = 375 * time.Second })
	adapted := 0
	for i := range 6 {
		rs := run.all(i)
		first := slices.IndexFunc(rs, func(q simweb.Request) bool { return q.Start > run.done })
		if first < 2 || first+1 >= len(rs) {
			t.Fatalf("host %d: %d requests of %d before the restart, want more before and after", i, first, len(rs))
		}
		gaps := gapsOf(rs)
		if gaps[first-2] <= 2*adaptiveLeast {
			adapted++
		}
		if gaps[first-1] < adaptiveBase || gaps[first] < adaptiveBase {
			t.Errorf("host %d: the gaps after the restart are %v, want at least the base delay", i,
				gaps[first-1:first+1])
		}
	}
	if adapted < 3 {
		t.Errorf("%d hosts had adapted before the restart, want most of them", adapted)
	}
}
