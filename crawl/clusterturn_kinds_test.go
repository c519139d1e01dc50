package crawl

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/internal/revisit"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// giveKind is a kind of crawl whose slots move (giveCuts). The zero value is a crawl with the default options.
type giveKind struct {
	change   func(o *Options)
	requests int // that the web notes
	// The first move begins within waitFirst seconds (0: 5), each further one within waitNext seconds of the last one.
	waitFirst, waitNext int
	stop                string // how nodes end
	web                 func(o *simweb.Options)
	// next returns the next table of a number of changes; nil: there is none now.
	next func(c *testCluster, table *cluster.Table, rng *rand.Rand, i int) *cluster.Table
	// check replaces checkCuts. It returns how many URLs were fetched more often than they should.
	check func(c *testCluster, cuts *cutTimes) int
	// during runs until the crawl ends. A check that it returns runs afterwards.
	during func(ctx context.Context, c *testCluster, rng *rand.Rand) (check func())
}

// waits returns the times before each move.
func (k *giveKind) waits(rng *rand.Rand) (waits [5]time.Duration) {
	waits[0] = time.Duration(1+rng.IntN(max(5, k.waitFirst))) * time.Second
	for i := range waits[1:] {
		waits[1+i] = time.Duration(rng.IntN(1+k.waitNext)) * time.Second
	}
	return waits
}

// cutTimes are the times at which nodes were cut off.
type cutTimes struct {
	mu sync.Mutex
	at []time.Time
}

// noted returns how with the times of its cuts noted.
func (x *cutTimes) noted(how cutting) cutting {
	power := how.power
	how.power = func() bool {
		x.mu.Lock()
		x.at = append(x.at, time.Now())
		x.mu.Unlock()
		return power()
	}
	return how
}

// within reports whether a node was cut off in a span of time.
func (x *cutTimes) within(from, to time.Time) bool {
	return slices.ContainsFunc(x.at, func(at time.Time) bool { return !at.Before(from) && !at.After(to) })
}

// since returns the times since another one.
func (x *cutTimes) since(epoch time.Time) (list []time.Duration) {
	for _, at := range x.at {
		list = append(list, at.Sub(epoch).Round(time.Second))
	}
	return list
}

// pageVisits returns the times of the visits of each page, in order.
func pageVisits(snap *simweb.Snapshot) map[string][]time.Time {
	visits := map[string][]time.Time{}
	for _, r := range snap.Requests {
		if !r.Robots && r.Status == 200 {
			visits[r.URL] = append(visits[r.URL], snap.Epoch.Add(r.Start))
		}
	}
	return visits
}

// The crawl of recrawling: each page is visited each half an hour, up to two times more.
const (
	visitEach = 30 * time.Minute
	visitFor  = 75 * time.Minute
	// visitLate is how late a visit may be: a sixteenth of the interval, and the time while a broker or a node is away,
	// or another node has the lease of the network.
	visitLate = visitEach/16 + 25*time.Minute
)

var recrawling = giveKind{
	change: func(o *Options) {
		o.Recrawl = &revisit.Policy{Kind: revisit.Uniform, Least: visitEach, Longest: visitEach, Default: visitEach,
			Gone: 2}
		o.Limits.MaxTime = visitFor
	},
	waitFirst: 120, waitNext: 600, requests: 10_000, stop: StopTime, check: (*testCluster).checkRecrawl,
}

// checkRecrawl checks a crawl that visited pages again: each in time, none early but for visits that a cut took back.
func (c *testCluster) checkRecrawl(cuts *cutTimes) (doubled int) {
	c.t.Helper()
	snap, want := c.web.Log().Snapshot(), c.web.Expected("drumbeat")
	checkDelays(c.t, snap, &c.options[0], 0)
	for url := range want.FetchedURLs() {
		if snap.Fetches[url] == 0 {
			c.t.Errorf("not fetched: %s", url)
		}
	}
	visits := pageVisits(snap)
	last := time.Time{}
	for _, times := range visits {
		last = slices.MaxFunc(append(times, last), time.Time.Compare)
	}
	again := 0
	for url, times := range visits {
		for i, at := range times[1:] {
			switch gap := at.Sub(times[i]); {
			case cuts.within(times[i], at) && gap < visitEach:
				doubled++
			case gap < visitEach-time.Second || gap > visitEach+visitLate:
				c.t.Errorf("%s is visited again after %v, at %v, want %v; cuts at %v", url, gap, at.Sub(snap.Epoch),
					visitEach, cuts.since(snap.Epoch))
			default:
				again++
			}
		}
		if gap := last.Sub(times[len(times)-1]); gap > visitEach+visitLate {
			c.t.Errorf("%s was visited %v before the last visit of all", url, gap)
		}
	}
	var urls, refused int64
	for node := range c.options {
		o := &c.options[node]
		checkDeep(c.t, o)
		_, m, err := lastManifest(o.Disk.FS, o.Disk.Dirs)
		must(c.t, err)
		urls += m.Accounts.Places[state.PlaceFetched].N + m.Accounts.Waiting()
		refused += m.Accounts.Places[state.PlaceRefused].N
	}
	// Those of a host whose robots.txt fails wait until they are refused.
	never := int64(want.Refused + want.Dead)
	if urls+refused != int64(want.Fetched)+never || refused > never || again < len(visits)/2 {
		c.t.Errorf("the nodes have %d URLs and have refused %d, want %d and %d; %d visits in time of %d pages", urls,
			refused, want.Fetched, never, again, len(visits))
	}
	c.t.Logf("%d pages, %d visits in time, %d again after a cut", len(visits), again, doubled)
	return doubled
}

// TestGiveRecrawlCuts: slots of a crawl that visits pages again move, there and back, while nodes are killed: each page
// is visited again in time, by the node that has its slot, and none is lost or visited twice.
func TestGiveRecrawlCuts(t *testing.T) {
	t.Parallel()
	giveKindCuts(t, &recrawling, max(1, clusterSeeds()/2))
}

// giveKindCuts moves slots of crawls of a kind.
func giveKindCuts(t *testing.T, kind *giveKind, crawls uint64) {
	var kills, doubled int
	var given int64
	// In some crawls only slots without URLs move: a few more follow until others do.
	for seed := *seedFlag; seed < *seedFlag+crawls || given == 0 && seed < *seedFlag+crawls+8; seed++ {
		inBubble(t, func(t *testing.T) {
			d, n := giveCuts(t, seed, kind, &kills)
			doubled, given = doubled+d, given+n
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if t.Logf("%d cuts, %d URLs have moved, %d were fetched more than once", kills, given, doubled); given == 0 {
		t.Error("no URL has moved")
	}
}

// byDepth gives URLs lanes by their depth.
var byDepth = giveKind{
	change:    func(o *Options) { o.Order.Priority = "depth" },
	waitFirst: 40,
}

// TestGiveLanesCuts is TestGiveCuts with several lanes.
func TestGiveLanesCuts(t *testing.T) {
	t.Parallel()
	giveKindCuts(t, &byDepth, max(1, clusterSeeds()/2))
}
