package crawl

import (
	"sync"
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// outageCrawl crawls a web with an outage from begin for length. It checks that the crawl waits, continues
// by itself, and ends as it does without an outage.
func outageCrawl(t *testing.T, begin, length time.Duration, outage func(web *simweb.Web) simweb.Outage,
	change func(*Options)) *Result {
	t.Helper()
	web, fs, opt := smallCrawl(t, func(o *simweb.Options) { o.Pages = 2000 })
	opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 2*time.Second, time.Second
	if change != nil {
		change(&opt)
	}
	var mu sync.Mutex
	found := 0
	opt.tests.hook = func(place string) {
		if place == "outage" {
			mu.Lock()
			found++
			mu.Unlock()
		}
	}
	requests := func() int64 {
		var n int64
		for _, k := range web.Log().Snapshot().Fetches {
			n += int64(k)
		}
		return n
	}
	go func() {
		time.Sleep(begin)
		web.SetOutage(outage(web))
		time.Sleep(length / 2)
		before := requests()
		time.Sleep(length / 2)
		// Of half of all hosts, the other half answers: the outage may end and be detected again, with
		// pages between.
		if n := requests() - before; n > int64(length/time.Second) && len(outage(web).Hosts) == 0 {
			t.Errorf("%d pages in the second half of an outage of %v, want at most the probes", n, length)
		}
		web.SetOutage(simweb.Outage{})
	}()
	res, err := Run(t.Context(), opt)
	if err != nil || res.Stop != StopDone {
		t.Fatalf("got %v, %+v", err, res)
	}
	if found == 0 {
		t.Errorf("the crawl detected no outage")
	}
	if res.Snapshot.Elapsed < begin+length {
		t.Fatalf("the crawl ended after %v, before the outage", res.Snapshot.Elapsed)
	}
	t.Logf("%v in total, %d outages detected, %d unconfirmed failures, refused %v", res.Snapshot.Elapsed, found,
		res.Snapshot.Count(state.CountUnconfirmed), res.Snapshot.Refused)
	checkFetchedAtLeastOnce(t, web)
	checkStored(t, web, fs, opt.Disk.Dirs)
	checkDelays(t, web.Log().Snapshot(), &opt, 0)
	return res
}

// checkFetchedAtLeastOnce accepts repeated fetches: a crawl repeats an exchange that an outage broke off.
func checkFetchedAtLeastOnce(t *testing.T, web *simweb.Web) {
	t.Helper()
	snap := web.Log().Snapshot()
	missing := 0
	for url := range web.Expected("drumbeat").FetchedURLs() {
		if snap.Fetches[url] == 0 {
			if missing++; missing <= 10 {
				t.Errorf("not fetched: %s", url)
			}
		}
	}
}

// undisturbed returns the result of the same crawl without an outage.
func undisturbed(t *testing.T) *Result {
	web := smallWeb(t, func(o *simweb.Options) { o.Pages = 2000 })
	opt := simOptions(t, web, memfs.New(*seedFlag))
	opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 2*time.Second, time.Second
	res := mustRun(t, t.Context(), opt)
	t.Logf("undisturbed: %v, refused %v", res.Snapshot.Elapsed, res.Snapshot.Refused)
	return res
}

// TestOutages: an outage of minutes of the network, the name servers or half of all hosts must not cause
// refusals, in the middle of a crawl and at its end, when few hosts are left.
func TestOutages(t *testing.T) {
	notShort(t)
	t.Parallel()
	half := func(web *simweb.Web) []string {
		var hosts []string
		for i, h := range web.Hosts() {
			if i%2 == 0 {
				hosts = append(hosts, h)
			}
		}
		return hosts
	}
	network := func(*simweb.Web) simweb.Outage { return simweb.Outage{All: true} }
	var want map[string]int64
	inBubble(t, func(t *testing.T) { want = undisturbed(t).Snapshot.Refused })
	for _, tt := range []struct {
		name   string
		begin  time.Duration
		outage func(web *simweb.Web) simweb.Outage
	}{
		{"network", 20 * time.Second, network},
		{"network late", 7*time.Minute + 16*time.Second, network},
		// While the crawl looks names up.
		{"names", 1500 * time.Millisecond, func(*simweb.Web) simweb.Outage { return simweb.Outage{DNS: true} }},
		{"half", 20 * time.Second, func(web *simweb.Web) simweb.Outage { return simweb.Outage{Hosts: half(web)} }},
	} {
		if tt.name == "network late" && !*longRuns {
			continue // TestOutageAndCrash has a late outage
		}
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				res := outageCrawl(t, tt.begin, 6*time.Minute, tt.outage, nil)
				for reason, n := range res.Snapshot.Refused {
					if n != want[reason] {
						t.Errorf("%d URLs refused with reason %s, %d without the outage", n, reason, want[reason])
					}
				}
			})
		})
	}
}

// TestOutageAndCrash: a crawl that is killed and restarted within an outage, so that it knows no server,
// must refuse nothing because of the outage.
func TestOutageAndCrash(t *testing.T) {
	notShort(t)
	inBubble(t, func(t *testing.T) {
		web, fs, opt := smallCrawl(t, nil)
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 2*time.Second, time.Second
		go func() {
			time.Sleep(20 * time.Second)
			web.SetOutage(simweb.Outage{All: true})
			time.Sleep(20 * time.Minute)
			web.SetOutage(simweb.Outage{})
		}()
		for range 3 { // kill it within the outage each time
			runFor(t, 2*time.Minute, opt)
			fs = fs.Crash()
			opt.Disk.FS = fs
		}
		res, err := Run(t.Context(), opt)
		if err != nil || res.Stop != StopDone {
			t.Fatalf("got %v, %+v", err, res)
		}
		if len(res.Snapshot.Refused) != 1 || res.Snapshot.Refused["robots"] == 0 {
			t.Errorf("refused %v, want only those that robots.txt forbids", res.Snapshot.Refused)
		}
		checkStored(t, web, fs, opt.Disk.Dirs)
	})
}

// TestRestartInSilence: a crawl restarted while nothing answers knows no canary. It must not confirm the
// second failure of a URL then, although too few servers are left to detect an outage.
func TestRestartInSilence(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: pagesOnly}
		fs := memfs.New(*seedFlag)
		opt := tinyOptions(t, w, fs, urls("a", 2, 20)...)
		opt.Politeness.HostDelay, opt.Disk.CheckpointEvery, opt.Health.Retries = 2*time.Second, time.Second, 0
		var f firewall
		client := f.client(t, w.Dial, nil)
		opt.Network.Fetcher, opt.Network.AllowedAddr, opt.Network.Ports = client, client.AllowedAddr, client.Ports()
		go func() {
			time.Sleep(10 * time.Second)
			f.ban(false, ownAddr("a0.test"), ownAddr("a1.test"))
			time.Sleep(10 * time.Minute)
			f.ban(false)
		}()
		opt.Limits.MaxTime = 15 * time.Second
		mustRun(t, t.Context(), opt)
		fs = fs.Crash()
		opt.Disk.FS, opt.Limits.MaxTime = fs, 0
		res := mustRun(t, t.Context(), opt)
		if n := res.Snapshot.Place(state.PlaceFetched); n != 40 || len(res.Snapshot.Refused) > 0 {
			t.Errorf("%d pages of 40, refused %v", n, res.Snapshot.Refused)
		}
	})
}
