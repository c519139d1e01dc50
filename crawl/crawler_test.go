package crawl

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/audit"
)

// small makes buffers so small that a few hundred links fill a bucket and start a URLseen pass.
func small(o *Options) { o.Drum.BufferBytes, o.Drum.BucketBytes, o.Drum.Buckets = 4<<10, 64<<10, 16 }

// TestChainOfPages: a chain of 1000 pages, each of which links to the next, without delays takes at most a
// minute.
func TestChainOfPages(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web, err := simweb.New(simweb.Options{Seed: *seedFlag, ChainPages: 1000, LogRequests: 10_000})
		must(t, err)
		opt := simOptions(t, web, memfs.New(*seedFlag))
		opt.Admission.Scope = state.ScopeHost
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Politeness.ServerDelay,
			opt.Politeness.ServerDelayMin = 0, 0, 0, 0
		res := mustRun(t, t.Context(), opt)
		checkFetched(t, web, &opt)
		if res.Snapshot.Elapsed > time.Minute {
			t.Errorf("a chain of 1000 pages took %v, want at most 1m", res.Snapshot.Elapsed)
		}
	})
}

// TestStopAndResumeWithOtherRAMAndMoreDirectories: a crawl that is stopped and resumed with other RAM sizes
// and one more directory stays balanced and fetches what an uninterrupted crawl fetches.
func TestStopAndResumeWithOtherRAMAndMoreDirectories(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web, fs, opt := smallCrawl(t, nil)
		small(&opt)
		ram := []int64{128 << 20, 512 << 20, 112 << 20}
		for i := range 6 {
			ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
			opt.Limits.RAMBytes = ram[i%3]
			if i == 3 {
				opt.Disk.Dirs, opt.Disk.AddDirs = append(opt.Disk.Dirs, "d2"), []string{"d2"}
			}
			res, err := Run(ctx, opt)
			cancel()
			if err != nil {
				t.Fatalf("run %d: %v", i, err)
			}
			if res.Stop != StopCancelled {
				t.Fatalf("run %d ended early: %s", i, res.Stop)
			}
			if rep, err := audit.Run(fs, opt.Disk.Dirs); err != nil || !rep.Balanced() {
				t.Fatalf("audit after run %d: %v, %+v", i, err, rep)
			}
		}
		mustRun(t, t.Context(), opt)
		checkFetched(t, web, &opt)
	})
}

// TestSmallNumbersRunTheRealPath: with small buffers and budgets a crawl makes many passes of URLseen and
// scans of QF, and the measured I/O per link agrees with the prediction.
func TestSmallNumbersRunTheRealPath(t *testing.T) {
	t.Parallel()
	notShort(t)
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.Pages, o.Hosts, o.PLDs, o.LinksPerPage = longOr(8000, 2500), 300, 60, 80
		})
		opt := simOptions(t, web, memfs.New(*seedFlag))
		opt.Drum.BufferBytes, opt.Drum.BucketBytes, opt.Drum.Buckets = 4<<10, 64<<10, 1
		opt.Drum.CacheRAMBytes = Unlimited // none: URLseen sees every link
		opt.Budgets.QueuePages = 100       // small budgets, so that QF is used
		opt.Order.StockTarget = 60
		res := mustRun(t, t.Context(), opt)
		checkFetched(t, web, &opt)
		s := &res.Snapshot
		t.Logf("%d URLseen passes (%d by size), s=%d h=%d, %d scans of QF", s.URLSeenPasses, s.URLSeenFullPasses,
			s.Queue, s.Horizon, s.Scans)
		if want := int64(longOr(50, 15)); s.URLSeenFullPasses < want {
			t.Errorf("%d passes of URLseen triggered by size, want at least %d", s.URLSeenFullPasses, want)
		}
		if s.Scans < 3 {
			t.Errorf("%d scans of QF, want at least 3", s.Scans)
		}
		c := &s.Seen
		t.Logf("URLseen, measured and predicted: %+v", *c)
		if c.Links != s.Count(state.CountLinksChecked) || c.Passes != s.URLSeenPasses {
			t.Errorf("%d links merged in %d passes, want %d in %d", c.Links, c.Passes, s.Count(state.CountLinksChecked),
				s.URLSeenPasses)
		}
		if c.URLBytes < 20 || c.URLBytes > 200 || c.TextRatio < 1 ||
			math.Abs(c.Unique-float64(s.Unique)/float64(c.Links)) > 0.01 {
			t.Errorf("URLs of %.1f bytes, compressed %.2f times, %.3f of them new: %+v", c.URLBytes,
				c.TextRatio, c.Unique, *c)
		}
		// Buckets accept tuples until a merge begins; the excess needs a second round.
		if c.Bytes < 0.8*c.Predicted || c.Bytes > 1.6*c.Predicted || c.Full <= 0 || c.Full > 1.1*c.Predicted {
			t.Errorf("I/O of %.1f bytes per link, predicted %.1f, %.1f in full passes", c.Bytes, c.Predicted, c.Full)
		}
	})
}

// TestSpamDoesNotCrowdOut: a PLD with endless hosts and pages, linked to by three other PLDs, must not slow
// down the rest of the crawl. In the first pages, it fetches at least 80 % of the URLs of other PLDs that
// it fetches without the spam PLD.
func TestSpamDoesNotCrowdOut(t *testing.T) {
	t.Parallel()
	notShort(t)
	pages := longOr(5000, 1500)
	others := func(spam bool) (fetched, links int64) {
		inBubble(t, func(t *testing.T) {
			web := smallWeb(t, func(o *simweb.Options) {
				o.Pages, o.Hosts, o.PLDs, o.IPs, o.SeedURLs = 4*pages, pages/5, pages/10, 300, 50
				o.Spam = simweb.Spam{On: spam, InLinks: 3, Links: pages * 6 / 5, IPs: 50}
			})
			opt := simOptions(t, web, memfs.New(*seedFlag))
			opt.Limits.MaxPages = int64(pages)
			for i := range 20 { // spam seeds, so that the spam links outnumber all others
				if spam {
					opt.Admission.SeedLines = append(opt.Admission.SeedLines,
						fmt.Sprintf("http://s%d.%s/", i, web.SpamPLD()))
				}
			}
			res := mustRun(t, t.Context(), opt)
			for url, n := range web.Log().Snapshot().Fetches {
				if spam && strings.Contains(url, web.SpamPLD()) {
					continue
				}
				fetched += int64(n)
			}
			links = res.Snapshot.Count(state.CountLinks)
			t.Logf("spam %t: %d of %d responses are from other PLDs, %d links parsed", spam, fetched,
				res.Snapshot.Count(state.CountResponses), links)
		})
		return
	}
	without, links := others(false)
	with, allLinks := others(true)
	// PldShare keeps it below the possible share.
	if share := 1 - float64(links)/float64(allLinks); share < 0.8 {
		t.Errorf("the spam PLD has %.2f of the parsed links, want at least 0.8 for a meaningful test", share)
	}
	if with*10 < without*8 {
		t.Errorf("fetched %d URLs of other PLDs with spam, %d without: want at least 80 %%", with, without)
	}
}

// TestDeadHostsAreCheap: nine dead hosts for each live one and one host with very many URLs must not raise
// the disk bytes per fetched page to more than 1.5 times (1.8 in the short form) those of the same crawl
// without them.
func TestDeadHostsAreCheap(t *testing.T) {
	t.Parallel()
	notShort(t)
	// The ratio is 1.33 at 3,000 pages fetched, give or take 0.1.
	pages, big, most := 5000, 20_000, 1.8
	if *longRuns {
		pages, big, most = 20_000, 100_000, 1.5
	}
	perPage := func(bad bool) (bytes float64) {
		inBubble(t, func(t *testing.T) {
			web := smallWeb(t, func(o *simweb.Options) {
				o.Pages, o.Hosts, o.PLDs, o.IPs = pages, 100, 50, 50
				o.Robots.ServerError = 0
				if bad {
					o.Dead = simweb.DeadHosts{NXDomain: 300, ServFail: 200, Refused: 200, ConnectTimeout: 200,
						Pages: 1, Links: 0.1}
					o.BigPages = big
				}
			})
			opt := simOptions(t, web, memfs.New(*seedFlag))
			opt.Limits.MaxPages = int64(pages) * 6 / 10
			opt.Disk.CheckpointEvery = time.Minute // few checkpoints in both runs
			res := mustRun(t, t.Context(), opt)
			s := &res.Snapshot
			bytes = float64(s.DiskRead+s.DiskWritten) / float64(s.Count(state.CountResponses))
			t.Logf("bad %t: %.0f disk bytes per page (%d read, %d written), %v, %v, %d checkpoints, deferred %v", bad,
				bytes, s.DiskRead, s.DiskWritten, s.Places, s.Elapsed, s.Count(state.CountCheckpoints), s.Deferred)
		})
		return
	}
	without, with := perPage(false), perPage(true)
	if with > most*without {
		t.Errorf("%.0f disk bytes per fetched page with dead hosts, %.0f without: want at most %.1f times",
			with, without, most)
	}
}
