package crawl

import (
	"context"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/weburl"
)

// await waits until ok returns true, for an hour of virtual time at most. Which node has its turn at a network first
// is not determined, so a test of running nodes must not expect something at a certain time. state is for the error.
func await(t *testing.T, what string, ok func() (done bool, state any)) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(500 * time.Millisecond) {
		synctest.Wait()
		done, state := ok()
		if done {
			t.Logf("after %v: %s", time.Since(began), what)
			return
		}
		if time.Since(began) > time.Hour {
			t.Fatalf("not within an hour: %s: %+v", what, state)
		}
	}
}

const anyNode = -1

// requested returns how many URLs of a node's sites, by the table that it starts with, the web has had requests for.
func (c *testCluster) requested(node int) (n int) {
	c.t.Helper()
	if c.suffixes == nil {
		c.suffixes = weburl.NewSuffixes(false)
	}
	of := c.options[0].Cluster
	h := weburl.NewHasher(of.Secret)
	for text := range c.web.Log().Snapshot().Fetches {
		u, err := url.Parse(text)
		if err != nil {
			c.t.Error(err)
			return 0
		}
		if node == anyNode || of.Table.Owner(h.PLDKey([]byte(c.suffixes.PLD(u.Hostname())))) == node {
			n++
		}
	}
	return n
}

// awaitRequests waits, for up to an hour of virtual time, until the web has had requests for n URLs of a node's sites.
func (c *testCluster) awaitRequests(node, n int) {
	c.t.Helper()
	for began := time.Now(); c.requested(node) < n; time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > time.Hour {
			c.t.Errorf("node %d has fetched %d URLs in an hour, want %d", node, c.requested(node), n)
			return
		}
	}
}

// fetched calls then once the web has had requests for n more URLs of a node's sites, or ctx ends.
func (c *testCluster) fetched(ctx context.Context, node, n int, then func()) {
	n += c.requested(node)
	go func() {
		for c.requested(node) < n && account.Sleep(ctx, 100*time.Millisecond) {
		}
		then()
	}()
}

// stopAfter runs all nodes until they have fetched n URLs, and stops them in order.
func (c *testCluster) stopAfter(n int) {
	c.t.Helper()
	c.stopNodeAfter(anyNode, n)
}

// stopNodeAfter runs all nodes until one of them has fetched n URLs, and stops all in order. Where nodes
// lease networks from one another, one may fetch hundreds of URLs before another one fetches its first.
func (c *testCluster) stopNodeAfter(node, n int) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	c.fetched(ctx, node, n, cancel)
	for i, r := range c.run(ctx) {
		if r.Stop == StopDone {
			c.t.Fatalf("node %d ended before node %d had fetched %d URLs", i, node, n)
		}
	}
	c.reopen()
	account.Sleep(c.t.Context(), c.options[0].Network.KeepAlive+time.Second) // connections of a process end with it
}
