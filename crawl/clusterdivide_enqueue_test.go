package crawl

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/internal/simweb"
	"drumbeat/weburl"
)

// TestDivideEnqueue: URLs of a divided PLD are enqueued at the nodes that visit their hosts. The others name this node.
// While hosts move, their next node takes them, though the change is not over.
func TestDivideEnqueue(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		const sift = 10 * time.Second
		web := smallWeb(t, func(o *simweb.Options) {
			fewPLDs(o)
			o.Pages, o.CrawlDelay, o.Page.ServerError = 1200, 0, 0
		})
		c := newCluster(t, web, 2, mem.Faults{Delay: 10 * time.Millisecond}, func(_ int, o *Options) {
			o.Observe.Control, o.Order.StockTarget = &Control{}, 20
			siftsSlowly(o, sift)
		})
		defer c.close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
		defer cancel()
		pld, before := c.largestPLDs()[0], c.options[0].Cluster.Table
		owner := before.OwnerOf(c.slotOf(pld))
		next := c.divide(before, pld, 0, 1)
		end := c.begin(ctx)
		c.fetchedAll(ctx, 50)
		c.change(ctx, cluster.ChangeGive, before, next, owner)
		if !c.has(ctx, owner, 1) {
			t.Error("the owner has not given hosts")
		}
		c.setTable(next)
		url := c.urlOf(c.hostsOf(pld)[1-owner][0])
		ask := func(node int) string {
			answers, _, err := c.options[node].Observe.Control.Enqueue(ctx, "test", []string{url})
			if err != nil { // its run ends, and the next one has the table
				return err.Error()
			}
			return answers[0].Refused
		}
		began := time.Now()
		for ask(1-owner) != "" && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took > sift/2 {
			t.Errorf("the visitor takes the URL only %v after its hosts have left", took)
		}
		fetched := web.Log().Snapshot().Fetches[url]
		if why := ask(owner); !strings.Contains(why, "it belongs to node") {
			t.Errorf("the owner takes a URL that it does not visit: %q", why)
		}
		end()
		if web.Log().Snapshot().Fetches[url] == fetched {
			t.Errorf("%s was enqueued, and not requested", url)
		}
		for node := range c.options {
			checkDeep(t, &c.options[node])
		}
		c.conserved()
	})
}

// urlOf returns a URL of a host.
func (c *testCluster) urlOf(host string) string {
	for _, url := range slices.Sorted(c.web.Expected("drumbeat").FetchedURLs()) {
		if string(weburl.Split([]byte(url)).Host) == host {
			return url
		}
	}
	c.t.Fatalf("%s has no URL", host)
	return ""
}
