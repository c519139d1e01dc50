package crawl

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/crawl/options"
	"drumbeat/fetch"
	"drumbeat/internal/pace"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/explain"
	"drumbeat/weburl"
)

// largestPLDs lists the PLDs of the web, those with the most hosts first.
func (c *testCluster) largestPLDs() []string {
	hosts := map[string]map[string]bool{}
	for url := range c.web.Expected("drumbeat").FetchedURLs() {
		host := string(weburl.Split([]byte(url)).Host)
		labels := strings.Split(host, ".")
		pld := strings.Join(labels[max(0, len(labels)-2):], ".")
		if hosts[pld] == nil {
			hosts[pld] = map[string]bool{}
		}
		hosts[pld][host] = true
	}
	var plds []string
	for pld := range hosts {
		plds = append(plds, pld)
	}
	slices.SortFunc(plds, func(a, b string) int {
		if n := len(hosts[b]) - len(hosts[a]); n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	return plds
}

// slotOf returns the slot of a PLD.
func (c *testCluster) slotOf(pld string) int {
	return weburl.Slot(weburl.NewHasher(c.options[0].Cluster.Secret).PLDKey([]byte(pld)))
}

// divide returns the table with the hosts of a PLD divided among nodes.
func (c *testCluster) divide(t *cluster.Table, pld string, nodes ...int) *cluster.Table {
	c.t.Helper()
	parts := cluster.EvenParts(nodes)
	c.divided = append(c.divided, c.slotOf(pld))
	next, err := t.Divide(pld, c.slotOf(pld), &parts)
	must(c.t, err)
	return next
}

// fewPLDs is a web whose PLDs have several hosts each.
func fewPLDs(o *simweb.Options) { o.PLDs, o.Hosts, o.Robots.RedirectHost = 4, 40, 0 }

// TestDivide: while three nodes crawl, the hosts of two PLDs are divided among them. Then the slots of an owner move.
// Each URL is fetched once, the delays of hosts are kept, and the audits balance.
func TestDivide(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) { fewPLDs(o); o.Pages = 2000 })
		c := newCluster(t, web, 3, mem.Faults{Delay: 10 * time.Millisecond}, nil)
		defer c.close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
		defer cancel()
		table := c.options[0].Cluster.Table
		done := make(chan struct{})
		go func() {
			defer close(done)
			plds := c.largestPLDs()
			for i, next := range []func(*cluster.Table) *cluster.Table{
				func(t *cluster.Table) *cluster.Table { return c.divide(t, plds[0], 0, 1, 2) },
				func(t *cluster.Table) *cluster.Table { return c.divide(t, plds[1], 2, 1) },
				func(t *cluster.Table) *cluster.Table {
					next, err := t.Give(half(t, 0, 1))
					must(c.t, err)
					return next
				},
			} {
				if !c.fetchedAll(ctx, int64(100+200*i)) {
					t.Errorf("change %d: too few pages", i)
					return
				}
				before := table
				table = next(before)
				c.change(ctx, cluster.ChangeGive, before, table, 0)
				if !c.settled(ctx, table.Moves()) {
					t.Errorf("change %d: the nodes have not taken the table", i)
				}
			}
		}()
		results := c.run(t.Context())
		<-done
		c.setTable(table)
		c.check(results)
		for i := range c.options {
			checkDeep(t, &c.options[i])
		}
		c.conserved()
		checkDelays(t, web.Log().Snapshot(), &c.options[0], 0)
		c.checkDivided(table)
	})
}

// checkDivided checks that each node has fetched URLs of the PLD with the most hosts, and that explain says of no URL
// of a divided PLD that two nodes have it, or none could.
func (c *testCluster) checkDivided(table *cluster.Table) {
	c.t.Helper()
	asked := map[string][]string{} // by PLD
	for url := range c.web.Expected("drumbeat").FetchedURLs() {
		pld := weburl.NewSuffixes(false).PLD(string(weburl.Split([]byte(url)).Host))
		asked[pld] = append(asked[pld], url)
	}
	for _, d := range table.Divisions() {
		fetched, by := make([]int, len(c.options)), map[string]int{}
		for node := range c.options {
			o := &c.options[node]
			e, err := explain.NewExplainer(explain.Options{FS: o.Disk.FS, Dirs: o.Disk.Dirs})
			must(c.t, err)
			reports, err := e.URLs(asked[d.PLD])
			must(c.t, err)
			for _, rep := range reports {
				switch rep.Place {
				case state.PlaceFetched.String():
					fetched[node]++
					by[rep.URL]++
				case explain.PlaceOtherNode, explain.PlaceEnded: // ended elsewhere before its slot moved
				default:
					c.t.Errorf("node %d says of %s: %s", node, rep.URL, rep.Place)
				}
			}
		}
		c.t.Logf("%s of slot %d: owner %d, nodes %v have fetched %v of %d", d.PLD, d.Slot, table.OwnerOf(d.Slot),
			d.Parts.Nodes(), fetched, len(asked[d.PLD]))
		if d.PLD == c.largestPLDs()[0] && slices.Min(fetched) == 0 {
			c.t.Errorf("a node has fetched nothing of %s", d.PLD)
		}
		for url, n := range by {
			if n > 1 {
				c.t.Errorf("%d nodes say that they have fetched %s", n, url)
			}
		}
	}
}

// divides is a crawl in which PLDs are divided, and slots move.
func divides(c *testCluster, table *cluster.Table, rng *rand.Rand, i int) *cluster.Table {
	nodes := len(c.options)
	plds := c.largestPLDs()
	if i%2 == 0 {
		pld := plds[rng.IntN(2)]
		if parts := table.PartsOf([]byte(pld)); parts != nil { // one of its nodes gives its hosts
			next, from := *parts, parts.Nodes()[rng.IntN(len(parts.Nodes()))]
			for at, node := range next {
				if int(node) == from {
					next[at] = uint16((from + 1 + at%(nodes-1)) % nodes)
				}
			}
			after, err := table.Divide(pld, c.slotOf(pld), &next)
			must(c.t, err)
			return after
		}
		return c.divide(table, pld, rng.Perm(nodes)[:2+rng.IntN(nodes-1)]...)
	}
	from := rng.IntN(nodes)
	to := half(table, from, (from+1)%nodes)
	if rng.IntN(2) == 0 { // all
		for slot := range cluster.Slots {
			if table.OwnerOf(slot) == from {
				to[slot] = (from + 1) % nodes
			}
		}
	}
	if len(to) == 0 {
		return nil
	}
	next, err := table.Give(to)
	must(c.t, err)
	return next
}

// TestDivideCuts is TestGiveCuts with PLDs that are divided, also while URLs are visited again or enqueued.
func TestDivideCuts(t *testing.T) {
	t.Parallel()
	giveKindCuts(t, &giveKind{web: fewPLDs, next: divides, waitNext: 20}, clusterSeeds())
	for _, kind := range []giveKind{recrawling, enqueueing} {
		kind.next, kind.web = divides, fewPLDs
		giveKindCuts(t, &kind, max(1, clusterSeeds()/2))
	}
}

// TestDivideShares: a crawl of one PLD has the speed of one node. Once its hosts are divided, three nodes are three
// times as fast.
func TestDivideShares(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.IPs, o.Networks, o.SeedURLs = 1, 120, 6000, 120, 60, 1
			o.Robots.RedirectHost = 0
		})
		c := newCluster(t, web, 3, mem.Faults{Delay: 10 * time.Millisecond}, func(_ int, o *Options) {
			o.Network.Rate = pace.Plain(pace.Pages, 2) // of all nodes
			o.Politeness.PLDDelay, o.Politeness.PLDDelayMin, o.Politeness.NetworkRate = 0, 0, 0
		})
		defer c.close()
		ctx, cancel := context.WithCancel(t.Context())
		var rates [2]float64
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer cancel()
			for i := range rates {
				account.Sleep(ctx, 2*time.Minute)
				before, _, _ := web.Log().Totals()
				account.Sleep(ctx, 2*time.Minute)
				after, _, _ := web.Log().Totals()
				if rates[i] = float64(after-before) / 120; i == 0 {
					table := c.options[0].Cluster.Table
					c.change(ctx, cluster.ChangeGive, table, c.divide(table, c.largestPLDs()[0], 0, 1, 2), 0)
				}
			}
		}()
		for _, r := range c.run(ctx) {
			t.Logf("%d requests", r.Snapshot.Count(state.CountAttempts))
		}
		<-done
		t.Logf("requests/s before and after: %.2f, %.2f", rates[0], rates[1])
		if rates[1] < 2.5*rates[0] {
			t.Error("want three times as many")
		}
	})
}

// seenFetcher notes the last request for each host of a node.
type seenFetcher struct {
	options.Fetcher
	mu   sync.Mutex
	last map[string]time.Time
}

func (f *seenFetcher) Do(ctx context.Context, req *fetch.Request, resp *fetch.Response) error {
	f.mu.Lock()
	f.last[req.Host] = time.Now()
	f.mu.Unlock()
	return f.Fetcher.Do(ctx, req, resp)
}

// TestUndivide: the visitor of hosts gives them back to the owner of their PLD, also those whose URLs wait in BEAST. It
// fetches none of them afterwards.
func TestUndivide(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) { fewPLDs(o); o.Pages, o.Seed = 1500, 3 })
		var seen []*seenFetcher
		c := newCluster(t, web, 2, mem.Faults{Delay: 10 * time.Millisecond}, func(_ int, o *Options) {
			o.Order.StockTarget = 20
			f := &seenFetcher{Fetcher: o.Network.Fetcher, last: map[string]time.Time{}}
			seen, o.Network.Fetcher = append(seen, f), f
		})
		defer c.close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
		defer cancel()
		table, pld := c.options[0].Cluster.Table, c.largestPLDs()[0]
		owner := table.OwnerOf(c.slotOf(pld))
		var undone time.Time
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i, nodes := range [][]int{{0, 1}, {owner}} {
				if !c.fetchedAll(ctx, int64(50+400*i)) {
					t.Error("too few pages")
				}
				before := table
				table = c.divide(before, pld, nodes...)
				c.change(ctx, cluster.ChangeGive, before, table, 0)
				if !c.settled(ctx, table.Moves()) {
					t.Error("the nodes have not taken the table")
				}
			}
			undone = time.Now()
		}()
		results := c.run(t.Context())
		<-done
		c.setTable(table)
		c.check(results)
		hosts := 0
		for host, at := range seen[1-owner].last {
			if !strings.HasSuffix(host, "."+pld) {
				continue
			}
			if hosts++; at.After(undone) {
				t.Errorf("%s was visited %v after it was given back", host, at.Sub(undone))
			}
		}
		if hosts == 0 {
			t.Error("the node has visited no host of the PLD")
		}
	})
}
