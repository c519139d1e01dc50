package crawl

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/weburl"
)

// TestGiveEnqueued: slots move while enqueued URLs of them wait, and some have been fetched whose other records wait.
// The node that gets the slots fetches those that wait before all others of their hosts. Each URL is fetched once, or
// once more if it had been fetched before it was enqueued.
func TestGiveEnqueued(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.Robots.RedirectHost = 15, 30, 600, 0
			o.CrawlDelay, o.Page.ServerError = 0, 0 // a failure makes a host back off
		})
		control := new(Control)
		c := newCluster(t, web, 2, mem.Faults{Delay: 10 * time.Millisecond}, func(node int, o *Options) {
			o.Politeness.HostDelay, o.Politeness.HostDelayMin = 20*time.Second, 20*time.Second
			if node == 0 {
				o.Observe.Control = control
			}
		})
		defer c.close()
		before, next := c.halfGiven(0, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var urls, again []string
		var at time.Time
		var done sync.WaitGroup
		done.Go(func() {
			c.fetchedAll(ctx, 200) // most URLs have been found
			at = time.Now()
			if urls, again = enqueueSome(ctx, c, control); len(urls) < 10 {
				t.Error("few URLs were enqueued")
			}
			account.Sleep(ctx, 5*time.Second) // some are fetched
			c.change(ctx, cluster.ChangeGive, before, next, 0)
			if !c.settled(ctx, 1) {
				t.Errorf("the nodes have not taken the table: %s", c.tableChange(ctx).Refused)
				cancel()
			}
		})
		results := c.run(ctx)
		done.Wait()
		for i := range c.options {
			c.options[i].Cluster.Table = next
		}
		if c.checkEnqueued(results, again); c.conserved() == 0 {
			t.Error("no URL has moved")
		}
		c.checkFirst(append(urls, again...), at)
	})
}

// enqueueSome enqueues URLs at node 0 that were not fetched, and one of each fourth host that was. It returns those
// that the node has taken.
func enqueueSome(ctx context.Context, c *testCluster, control *Control) (waiting, again []string) {
	c.t.Helper()
	take := func(urls []string) (taken []string) {
		for _, url := range urls {
			if _, made, err := control.Enqueue(ctx, "test", []string{url}); err == nil && made.Count == 1 {
				taken = append(taken, url)
			}
		}
		return taken
	}
	for i, host := range c.web.Hosts() {
		fetched, missing := pagesOf(c.web, host)
		waiting = append(waiting, take(missing[:min(2, len(missing))])...)
		if i%4 == 0 {
			again = append(again, take(fetched[:min(1, len(fetched))])...)
		}
	}
	return waiting, again
}

// checkEnqueued checks a crawl of two nodes with URLs that were enqueued again after they were fetched.
func (c *testCluster) checkEnqueued(results []*Result, again []string) {
	c.t.Helper()
	snap := c.web.Log().Snapshot()
	for url := range c.web.Expected("drumbeat").FetchedURLs() {
		want := 1
		if slices.Contains(again, url) {
			want = 2
		}
		if n := int(snap.Fetches[url]); n != want {
			c.t.Errorf("%s: fetched %d times, want %d", url, n, want)
		}
	}
	checkDelays(c.t, snap, &c.options[0], 0)
	for node, r := range results {
		if r.Stop != StopDone {
			c.t.Errorf("node %d: %s", node, r.Stop)
		}
		checkDeep(c.t, &c.options[node])
		checkBalanced(c.t, c.options[node].Disk.FS, c.options[node].Disk.Dirs)
	}
	moved := results[1].Snapshot.Count(state.CountEnqueuedMoved)
	if c.t.Logf("%d enqueued URLs have moved, and %d are fetched again", moved, len(again)); moved == 0 {
		c.t.Error("no enqueued URL has moved")
	}
}

// checkFirst checks that URLs that were enqueued at a time were the next ones of their hosts to be requested.
func (c *testCluster) checkFirst(urls []string, at time.Time) {
	c.t.Helper()
	snap, wait, others := c.web.Log().Snapshot(), map[string]int{}, map[string]int{}
	for _, url := range urls {
		wait[string(weburl.Split([]byte(url)).Host)]++
	}
	for _, r := range snap.Requests {
		switch {
		case r.Robots || snap.Epoch.Add(r.Start).Before(at) || wait[r.Host] == 0:
		case slices.Contains(urls, r.URL):
			wait[r.Host]--
		default:
			others[r.Host]++
		}
	}
	for host, n := range others {
		if n > 1 { // its request was under way
			c.t.Errorf("%s: %d other URLs were requested before those that were enqueued", host, n)
		}
	}
}

// enqueueing is a crawl whose nodes are told to fetch URLs at any time.
var enqueueing = giveKind{
	change:   func(o *Options) { o.Observe.Control = new(Control) },
	during:   enqueueAll,
	requests: 10_000,
}

// enqueueAll enqueues URLs at random times. Each that a node has taken is fetched after that.
func enqueueAll(ctx context.Context, c *testCluster, rng *rand.Rand) func() {
	all := slices.Sorted(c.web.Expected("drumbeat").FetchedURLs())
	taken := map[string]time.Time{}
	for range 25 {
		if !account.Sleep(ctx, time.Duration(rng.IntN(3000))*time.Millisecond) {
			break
		}
		for range 4 {
			url := all[rng.IntN(len(all))]
			for i := range c.options {
				at := time.Now()
				_, made, err := c.options[i].Observe.Control.Enqueue(ctx, "test", []string{url})
				if err == nil && made.Count == 1 {
					taken[url] = at
				}
			}
		}
	}
	return func() {
		snap, moved := c.web.Log().Snapshot(), int64(0)
		last := map[string]time.Time{}
		for _, r := range snap.Requests {
			last[r.URL] = slices.MaxFunc([]time.Time{last[r.URL], snap.Epoch.Add(r.Start)}, time.Time.Compare)
		}
		for url, at := range taken {
			if last[url].Before(at.Add(-time.Second)) { // its exchange may have been under way
				c.t.Errorf("%s was enqueued at %v, and requested last at %v", url, at, last[url])
			}
		}
		for i := range c.options {
			_, m, err := lastManifest(c.options[i].Disk.FS, c.options[i].Disk.Dirs)
			must(c.t, err)
			moved += m.Accounts.Counters[state.CountEnqueuedMoved]
			if m.Accounts.Orders.N != 0 {
				c.t.Errorf("node %d: %d enqueued URLs wait at the end", i, m.Accounts.Orders.N)
			}
		}
		c.t.Logf("%d URLs enqueued, %d have moved", len(taken), moved)
	}
}

// TestGiveEnqueuedCuts is TestGiveCuts while URLs are enqueued.
func TestGiveEnqueuedCuts(t *testing.T) {
	t.Parallel()
	giveKindCuts(t, &enqueueing, max(1, clusterSeeds()/2))
}
