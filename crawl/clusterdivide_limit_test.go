package crawl

import (
	"context"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/internal/simweb"
	"drumbeat/state/export"
	"drumbeat/weburl"
)

// TestDivideLimit: the limit of pages of a PLD holds though its hosts are divided when most of them have been fetched,
// and given back. The nodes together know how many there were.
func TestDivideLimit(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		const limit = 120
		web := smallWeb(t, func(o *simweb.Options) {
			fewPLDs(o)
			o.Pages, o.CrawlDelay, o.Page.ServerError = 1200, 0, 0
		})
		c := newCluster(t, web, 3, mem.Faults{Delay: 10 * time.Millisecond}, func(_ int, o *Options) {
			o.Admission.MaxPagesPerPLD = limit
		})
		defer c.close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		pld, table := c.largestPLDs()[0], c.options[0].Cluster.Table
		owner := table.OwnerOf(c.slotOf(pld))
		end := c.begin(ctx)
		apply := func(parts cluster.Parts, giver int) {
			t.Helper()
			next, err := table.Divide(pld, c.slotOf(pld), &parts)
			must(t, err)
			c.change(ctx, cluster.ChangeGive, table, next, giver)
			if table = next; !c.settled(ctx, next.Moves()) {
				t.Error("the nodes have not taken the table")
			}
		}
		for c.fetchedOf(pld) < limit/2 {
			time.Sleep(100 * time.Millisecond)
		}
		apply(cluster.EvenParts([]int{0, 1, 2}), owner)
		for from := range 3 {
			if from == owner {
				continue
			}
			parts := *table.PartsOf([]byte(pld))
			for i, is := range parts {
				if int(is) == from {
					parts[i] = uint16(owner)
				}
			}
			apply(parts, from)
		}
		end()
		c.setTable(table)
		pages := 0.0
		for node := range c.options {
			checkDeep(t, &c.options[node])
			for _, row := range c.exported(node, export.PLDs) {
				if row["pld"] == pld {
					pages += row["pages"].(float64)
				}
			}
		}
		n := c.fetchedOf(pld)
		if t.Logf("%d URLs", n); n > limit || n < limit*3/4 {
			t.Errorf("%d URLs of the PLD were fetched, the limit is %d", n, limit)
		}
		if int(pages) != n {
			t.Errorf("the nodes have counted %v pages of %d", pages, n)
		}
	})
}

// fetchedOf returns the number of URLs of a PLD that were fetched.
func (c *testCluster) fetchedOf(pld string) (n int) {
	suffixes := weburl.NewSuffixes(false)
	for url := range c.web.Log().Snapshot().Fetches {
		if suffixes.PLD(string(weburl.Split([]byte(url)).Host)) == pld && !strings.HasSuffix(url, "/robots.txt") {
			n++
		}
	}
	return n
}
