package crawl

import (
	"errors"
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// idleMeter measures, in virtual time, how long a crawl fetches nothing although it has URLs that it could fetch. CPU
// and disk take no virtual time, so all that it finds are waits by timers.
type idleMeter struct {
	all, idle time.Duration
	longest   time.Duration            // of one idle span
	hundred   time.Duration            // until 100 responses
	what      map[string]time.Duration // idle time by the places that had URLs
}

// idleStep is the interval between two looks.
const idleStep = 100 * time.Microsecond

// watch looks at c until done is closed.
func (m *idleMeter) watch(c *crawler, done <-chan struct{}) {
	m.what = map[string]time.Duration{}
	run := time.Duration(0)
	for {
		select {
		case <-done:
			return
		case <-time.After(idleStep):
		}
		m.all += idleStep
		if m.hundred == 0 && c.Counter(state.CountResponses) >= 100 {
			m.hundred = m.all
		}
		where := c.idleWith()
		if where == "" {
			run = 0
			continue
		}
		m.idle += idleStep
		run += idleStep
		m.longest = max(m.longest, run)
		m.what[where] += idleStep
	}
}

// idleWith returns where the URLs are that c could fetch, or make ready to be fetched, while it fetches
// nothing; "" if it fetches, or has no such URL.
func (c *crawler) idleWith() (where string) {
	if c.fetcher.UnderWay() > 0 || c.requests.UnderWay() > 0 {
		return ""
	}
	for _, p := range []state.Place{state.PlaceStar, state.PlaceBeast, state.PlaceOverBudget, state.PlaceRobotsCheck,
		state.PlaceAwaitRobots, state.PlaceReady} {
		if c.Accounts.In(p) > 0 {
			where += " " + p.String()
		}
	}
	now := time.Now()
	if at, ok := c.polite.NextReady(now); ok && !at.After(now) {
		where += " ram"
	}
	if c.seen.Pending() > 0 {
		where += " links"
	}
	return where
}

// TestNoTimerHoldsURLs: a crawl with default scope and budgets that finds its hosts from one seed must be
// idle for at most 5 % of its time while it has URLs, and fetch 100 pages in 0.3 s. With pages that answer
// 500, hosts rest for 10 s, and their URLs fill RAM meanwhile.
func TestNoTimerHoldsURLs(t *testing.T) {
	for _, test := range []struct {
		hosts  int
		errors float64
	}{{400, 0}, {48, 0.01}} {
		inBubble(t, func(t *testing.T) {
			web := smallWeb(t, func(o *simweb.Options) {
				o.PLDs, o.Hosts, o.Pages, o.IPs, o.SeedURLs, o.PageBytes = test.hosts*3/4, test.hosts, 5*o.Pages,
					test.hosts/8, 1, 600
				o.SlowHosts, o.SlowDelay, o.Page.ServerError = test.hosts, time.Millisecond, test.errors
				o.Dead, o.Robots.ServerError, o.Robots.CrawlDelay = simweb.DeadHosts{}, 0, 0
			})
			opt := simOptions(t, web, memfs.New(*seedFlag))
			atOnce(&opt)
			opt.Network.Connections, opt.Order.StockTarget, opt.Disk.CheckpointEvery, opt.Limits.Linger = 64,
				0, time.Minute, 0
			opt.Output.CrawlLog = state.LogOff
			var m idleMeter
			done, ended := make(chan struct{}), make(chan struct{})
			c := openCrawler(t, opt)
			go func() { defer close(ended); m.watch(c, done) }()
			res, err := c.crawl(t.Context(), 0)
			close(done)
			<-ended
			must(t, errors.Join(err, c.close()))
			t.Logf("%+v: %d responses in %v, the first 100 in %v; idle for %v, at most %v at once: %v", test,
				res.Snapshot.Counters[state.CountResponses], m.all, m.hundred, m.idle, m.longest, m.what)
			if m.idle > m.all/20 {
				t.Errorf("%+v: idle for %v of %v while there were URLs", test, m.idle, m.all)
			}
			if m.hundred > 300*time.Millisecond {
				t.Errorf("%+v: 100 pages took %v", test, m.hundred)
			}
			checkFetched(t, web, &opt)
		})
	}
}
