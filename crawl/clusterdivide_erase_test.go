package crawl

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster/mem"
	"drumbeat/crawl/operate"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/erase"
	"drumbeat/weburl"
)

// dividedCluster is a cluster that begins with the hosts of the PLD with the most hosts divided among all nodes. They
// have one file system.
func dividedCluster(t *testing.T, nodes int, sim func(o *simweb.Options),
	change func(node int, o *Options)) (c *testCluster, pld string, owner int) {
	t.Helper()
	web := smallWeb(t, func(o *simweb.Options) {
		fewPLDs(o)
		o.Pages, o.CrawlDelay, o.Page.ServerError = 1200, 0, 0
		if sim != nil {
			sim(o)
		}
	})
	fs := memfs.New(*seedFlag)
	c = newCluster(t, web, nodes, mem.Faults{Delay: 10 * time.Millisecond}, func(node int, o *Options) {
		if o.Disk.FS, o.Disk.Dirs = fs, []string{fmt.Sprintf("n%d", node)}; change != nil {
			change(node, o)
		}
	})
	pld = c.largestPLDs()[0]
	var all []int
	for node := range nodes {
		all = append(all, node)
	}
	table := c.options[0].Cluster.Table
	c.setTable(c.divide(table, pld, all...))
	return c, pld, table.OwnerOf(c.slotOf(pld))
}

// hostsOf lists the hosts of a PLD by the node that visits them.
func (c *testCluster) hostsOf(pld string) map[int][]string {
	h, suffixes := weburl.NewHasher(c.options[0].Cluster.Secret), weburl.NewSuffixes(false)
	hosts, seen := map[int][]string{}, map[string]bool{}
	for url := range c.web.Expected("drumbeat").FetchedURLs() {
		host := string(weburl.Split([]byte(url)).Host)
		if suffixes.PLD(host) == pld && !seen[host] {
			seen[host] = true
			node := c.options[0].Cluster.Table.Visitor(h, suffixes, []byte(host))
			hosts[node] = append(hosts[node], host)
		}
	}
	return hosts
}

// TestDivideErase: each node erases its part of a divided PLD, of a host or of URLs of it: the visitor of the hosts has
// fetched them, and the owner has their keys. The accounts balance, and the visitor takes the URLs no more.
func TestDivideErase(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"pld", "host", "url"} {
		inBubble(t, func(t *testing.T) { divideErase(t, by) })
	}
}

func divideErase(t *testing.T, by string) {
	c, pld, owner := dividedCluster(t, 3, nil, func(_ int, o *Options) { o.Observe.Control = &Control{} })
	defer c.close()
	end := c.begin(t.Context())
	for node := range c.options {
		<-c.options[node].Observe.Control.Started()
	}
	visitor := (owner + 1) % 3
	o := &operated{t: t, web: c.web, opt: c.options[visitor]}
	host := c.hostsOf(pld)[visitor][0]
	for o.hits(host) < 12 {
		time.Sleep(100 * time.Millisecond)
	}
	source, never := erase.Source{}, "http://"+host+"/never"
	switch by {
	case "pld":
		source.PLDs = []string{pld}
	case "host":
		source.Hosts = []string{host}
	case "url":
		source.URLs = []string{never}
		for url := range c.web.Log().Snapshot().Fetches {
			if string(weburl.Split([]byte(url)).Host) == host && !strings.HasSuffix(url, "/robots.txt") {
				source.URLs = append(source.URLs, url)
			}
		}
	}
	for node := range c.options {
		if _, err := c.options[node].Observe.Control.Erase(t.Context(), &erase.Ask{Who: "eve", Reason: "a test",
			Source: source}); err != nil {
			t.Fatalf("node %d: %v", node, err)
		}
	}
	hits := o.hits(host)
	if by == "url" {
		for {
			if records, err := erase.RecordsOf(o.opt.Disk.FS, o.opt.Disk.Dirs); err != nil || len(records) > 0 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Second) // its next run has begun
		for _, a := range o.answers(never, source.URLs[1]) {
			if _, why := state.ReasonText(state.ReasonErased.String()); a.Refused != why {
				t.Errorf("%s is enqueued though it was erased: %+v", a.Line, a)
			}
		}
	}
	end()
	if n := o.hits(host); n != hits && by != "url" {
		t.Errorf("%s had %d requests at the answers, %d at the end", host, hits, n)
	}
	for node := range c.options {
		checkDeep(t, &c.options[node])
	}
	records, err := erase.RecordsOf(o.opt.Disk.FS, o.opt.Disk.Dirs)
	if must(t, err); records[0].Erased.Fetched == 0 {
		t.Errorf("by %s: the visitor has erased no URL that it had fetched: %+v", by, records[0].Erased)
	}
	if rep, err := audit.CompareNodes(c.audits()); err != nil || rep.BadCount > 0 {
		t.Errorf("the accounts of the nodes together: %+v, %v", rep, err)
	}
}

// answers returns the answers about URLs that the crawl does not take.
func (o *operated) answers(urls ...string) []operate.Enqueued {
	o.t.Helper()
	answers, _, err := o.opt.Observe.Control.Enqueue(o.t.Context(), "test", urls)
	must(o.t, err)
	return answers
}
