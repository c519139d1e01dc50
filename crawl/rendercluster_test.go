package crawl

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	room "drumbeat/crawl/render"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/internal/render"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// sharedWeb has hosts of eight PLDs on two addresses. Each has two pages to render, whose scripts ask all hosts for a
// script that all pages use, for data of their own, and for a URL that robots.txt forbids.
type sharedWeb struct {
	insideWeb
	mu  sync.Mutex // guards got
	got map[string]int
}

const sharedHosts = 8

func newSharedWeb() *sharedWeb {
	w := &sharedWeb{got: map[string]int{}}
	w.names = func(host string, _ int) []netip.Addr {
		if host == "inside.test" {
			return addrs("10.0.0.1")
		}
		return addrs(fmt.Sprintf("127.16.0.%d", 1+host[1]%2))
	}
	w.Serve = func(_, path string) answer {
		switch {
		case path == "/robots.txt":
			return answer{200, "", "User-agent: *\nDisallow: /secret"}
		case path == "/":
			return answer{200, "", "<a href=r1></a><a href=r2></a>"}
		case strings.HasSuffix(path, ".js"):
			return answer{200, "", "script " + strings.Repeat(".", 3000)}
		}
		return answer{200, "", "<p>page " + path}
	}
	return w
}

func (w *sharedWeb) seeds() (all []string) {
	for i := range sharedHosts {
		all = append(all, fmt.Sprintf("http://h%d.test/", i))
	}
	return all
}

// script asks for what the scripts of a page need. The DOM has how many of the requests were answered.
func (w *sharedWeb) script(ctx context.Context, p *render.Page, f render.Fetcher) (*render.Result, error) {
	answered := 0
	_, page, _ := strings.Cut(p.URL, "//")
	for i := range sharedHosts {
		host := fmt.Sprintf("http://h%d.test", i)
		for _, url := range []string{host + "/app.js", host + "/data?" + page, host + "/secret",
			"http://inside.test/x"} {
			resp, err := f.Fetch(ctx, url)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err == nil && (resp.Status != 200 || len(resp.Body) == 0) {
				err = fmt.Errorf("status %d, body %q", resp.Status, resp.Body)
			}
			w.mu.Lock()
			if w.got[strings.TrimSuffix(url, page)+fmt.Sprint(" ", err)]++; err == nil {
				answered++
			}
			w.mu.Unlock()
		}
	}
	return &render.Result{HTML: fmt.Appendf(nil, `<html>%d answers<a href="/made"><img src="http://h%d.test/%s.png">`,
		answered, p.URL[8]%sharedHosts, strings.ReplaceAll(page, "/", "-")), Base: p.URL}, nil
}

// renderCluster returns nodes that crawl a web, and render its pages.
func (w *sharedWeb) cluster(t *testing.T, nodes int, faults mem.Faults) *testCluster {
	t.Helper()
	c := &testCluster{t: t, net: mem.New(mem.Options{Seed: *seedFlag, Faults: faults})}
	table, err := cluster.NewTable(slices.Repeat([]float64{1}, nodes))
	must(t, err)
	for node := range nodes {
		o := w.options(t, w.seeds()...)
		o.Disk.FS, o.Limits.MaxTime, o.Limits.RAMBytes = memfs.New(*seedFlag+uint64(node)), 0, 256<<20
		o.Politeness.HostDelay, o.Politeness.HostDelayMin = 10*time.Second, 10*time.Second
		o.Politeness.ServerDelay, o.Politeness.ServerDelayMin = 2*time.Second, 2*time.Second
		withBrowser(t, &o, w.script)
		o.Render.Requests, o.Render.Resources = 100, 100
		e := c.net.Transport(node)
		c.engines = append(c.engines, e)
		o.Cluster = &Cluster{Node: node, Table: table, Crawl: 0xc0ffee, Secret: weburl.Secret{1, 2, 3}, Transport: e}
		c.options = append(c.options, o)
	}
	return c
}

// check compares the requests with the delays of hosts and addresses over all nodes, and the output of the nodes with
// what one node has: the DOM of each page once, with all answers.
func (w *sharedWeb) checkAll(t *testing.T, c *testCluster) (doms map[string][]string) {
	t.Helper()
	w.insideWeb.check(t)
	hosts, servers := map[string]time.Time{}, map[netip.Addr]time.Time{}
	for _, r := range w.Got("", "") {
		o, addr := &c.options[0].Politeness, w.names(r.Host, 0)[0]
		if last, ok := hosts[r.Host]; ok && r.At.Sub(last) < o.HostDelay {
			t.Errorf("%s%s came %v after the last request", r.Host, r.Path, r.At.Sub(last))
		}
		if last, ok := servers[addr]; ok && r.At.Sub(last) < o.ServerDelay {
			t.Errorf("%s%s came %v after the last request to %v", r.Host, r.Path, r.At.Sub(last), addr)
		}
		hosts[r.Host], servers[addr] = r.At, r.At
		if r.Path == "/secret" {
			t.Errorf("request for %s%s", r.Host, r.Path)
		}
	}
	doms = map[string][]string{}
	for node := range c.options {
		o := &c.options[node]
		stored := map[string]bool{}
		testworld.EachRecord(t, o.Disk.FS, o.Disk.Dirs, func(r *warc.Record) {
			if r.Type() == "response" && r.Get("WARC-Resource-Type") == warc.KindScript {
				stored[r.Get("WARC-Target-URI")] = true
			}
		})
		own := testworld.Rendered(t, o.Disk.FS, o.Disk.Dirs)
		for url, pages := range own {
			doms[url] = append(doms[url], pages...)
			_, page, _ := strings.Cut(url, "//")
			for i := range sharedHosts {
				for _, of := range []string{fmt.Sprintf("http://h%d.test/app.js", i),
					fmt.Sprintf("http://h%d.test/data?%s", i, page)} {
					if !stored[of] {
						t.Errorf("node %d has no record of %s, which it got for %s", node, of, url)
					}
				}
			}
		}
		if rep := deep(t, o.Disk.FS, o); !rep.Balanced() {
			t.Errorf("audit of node %d: %+v", node, rep)
		}
	}
	for _, seed := range w.seeds() {
		for _, page := range []string{"r1", "r2"} {
			if all := doms[seed+page]; len(all) != 1 {
				t.Errorf("%s%s was rendered %d times", seed, page, len(all))
			}
		}
	}
	return doms
}

// TestRenderCluster: the scripts of a page get answers of hosts that other nodes own. These nodes make the requests,
// so robots.txt, address rules and delays hold over all nodes. The node of a page stores what its scripts received.
func TestRenderCluster(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newSharedWeb()
		c := w.cluster(t, 3, mem.Faults{Delay: 20 * time.Millisecond})
		defer c.close()
		results := c.run(t.Context())
		for url, all := range w.checkAll(t, c) {
			if !strings.Contains(strings.Join(all, ""), "<html>16 answers") {
				t.Errorf("%s: %q", url, all)
			}
		}
		for i := range sharedHosts {
			host := fmt.Sprintf("h%d.test", i)
			made, images := len(w.Got(host, "/made")), len(w.Got("", "/"+host+"-r1.png"))
			// Two tabs of each node may ask for the script at once.
			if app := len(w.Got(host, "/app.js")); made != 1 || images != 1 || app < 1 || app > 2*3 {
				t.Errorf("%s: %d requests for /made, %d for an image, %d for a script", host, made, images, app)
			}
		}
		for what, n := range w.got {
			_, err, _ := strings.Cut(what, " ")
			if refused := strings.Contains(what, "/secret") || strings.Contains(what, "inside.test"); refused !=
				strings.Contains(err, room.ErrRefused.Error()) || !refused && err != "<nil>" {
				t.Errorf("%d requests: %s", n, what)
			}
		}
		var asked, requests, refused int64
		for _, r := range results {
			count := r.Snapshot.Count
			asked, requests = asked+count(state.CountRenderAsked), requests+count(state.CountRenderRequests)
			refused += count(state.CountRenderRefused)
			if n := count(state.CountRenderUnanswered); n > 0 {
				t.Errorf("%d requests without an answer", n)
			}
		}
		t.Logf("%d answers of other nodes, %d requests", asked, requests)
		if asked < 50 || asked > requests || refused != 2*2*sharedHosts*sharedHosts {
			t.Errorf("%d answers of other nodes, %d requests, %d refused", asked, requests, refused)
		}
	})
}

// TestRenderClusterCuts: nodes are killed while they render pages, and while they make requests for pages of other
// nodes. Each page is rendered once, with all answers, and the delays hold.
func TestRenderClusterCuts(t *testing.T) {
	kills := 0
	for seed := *seedFlag; seed < *seedFlag+longOr[uint64](20, 2); seed++ {
		inBubble(t, func(t *testing.T) {
			w := newSharedWeb()
			c := w.cluster(t, 2, mem.Faults{Delay: 20 * time.Millisecond})
			defer c.close()
			for node := range c.options {
				c.options[node].Disk.CheckpointEvery = 20 * time.Second
			}
			c.lives(atRandom(rand.New(rand.NewPCG(seed, 0x72656e64)), 3), &kills)
			w.checkAll(t, c)
			if t.Failed() {
				t.Fatalf("seed %d: %v", seed, maps.Collect(maps.All(w.got)))
			}
		})
	}
	t.Logf("%d kills", kills)
}

// TestRenderClusterGive: slots of a node move while their pages wait for its browser. The giver renders these pages,
// with answers of hosts that were its own before.
func TestRenderClusterGive(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newSharedWeb()
		c := w.cluster(t, 2, mem.Faults{Delay: 20 * time.Millisecond})
		defer c.close()
		var gives atomic.Bool
		for node := range c.options {
			o := &c.options[node]
			o.Disk.CheckpointEvery = 3 * time.Second
			withBrowser(t, o, func(ctx context.Context, p *render.Page, f render.Fetcher) (*render.Result, error) {
				if !gives.Load() {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return w.script(ctx, p, f)
			})
		}
		// The hosts are their own PLDs.
		before, hasher := c.options[0].Cluster.Table, weburl.NewHasher(c.options[0].Cluster.Secret)
		gone := slices.IndexFunc(w.seeds(), func(url string) bool {
			return before.Owner(hasher.PLDKey(weburl.Split([]byte(url)).Host)) == 0
		})
		slot := weburl.Slot(hasher.PLDKey(fmt.Appendf(nil, "h%d.test", gone)))
		next, err := before.Give(map[int]int{slot: 1})
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			if !c.fetchedAll(ctx, 3*sharedHosts) {
				t.Error("the pages are not fetched")
				return
			}
			gives.Store(true)
			c.change(ctx, cluster.ChangeGive, before, next, 0)
			if !c.settled(ctx, 1) {
				t.Error("the nodes have not taken the table")
			}
		}()
		c.run(t.Context())
		<-done
		c.setTable(next)
		w.checkAll(t, c)
		o := &c.options[0]
		pages := testworld.Rendered(t, o.Disk.FS, o.Disk.Dirs)
		for _, page := range []string{"r1", "r2"} {
			if len(pages[w.seeds()[gone]+page]) != 1 {
				t.Errorf("the giver has not rendered its page %s of h%d.test", page, gone)
			}
		}
	})
}

// deafToPages is an engine whose node answers no requests of pages, as one that hangs or is of an earlier version.
type deafToPages struct{ cluster.Transport }

// Answer is that of cluster.Transport.
func (d deafToPages) Answer(kind string, f func(ctx context.Context, from int, data []byte) []byte) (func(), error) {
	if kind == room.AskKind {
		return func() {}, nil
	}
	return d.Transport.Answer(kind, f)
}

// TestRenderClusterDeaf: a node that does not answer fails the requests of pages, after a time. The pages are rendered
// without, and their records say so.
func TestRenderClusterDeaf(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newSharedWeb()
		c := w.cluster(t, 2, mem.Faults{Delay: 20 * time.Millisecond})
		defer c.close()
		c.options[1].Cluster.Transport = deafToPages{c.engines[1]}
		longest := time.Duration(0)
		own := c.options[0].Render
		own.Tabs, own.Dial = 1, func(context.Context, string) (room.Browser, error) {
			return testworld.NewBrowser(func(ctx context.Context, p *render.Page,
				f render.Fetcher) (*render.Result, error) {
				began := time.Now()
				defer func() { longest = max(longest, time.Since(began)) }()
				return w.script(ctx, p, f)
			}), nil
		}
		results := c.run(t.Context())
		for node, lacks := range []bool{true, false} {
			o, pages := &c.options[node], 0
			testworld.EachRecord(t, o.Disk.FS, o.Disk.Dirs, func(r *warc.Record) {
				if r.Type() != "resource" {
					return
				}
				pages++
				if got := r.Get("WARC-Truncated"); (got == "unspecified") != lacks || got != "" && !lacks {
					t.Errorf("node %d: %s is truncated by %q", node, r.Get("WARC-Target-URI"), got)
				}
			})
			n := results[node].Snapshot.Count(state.CountRenderUnanswered)
			if pages == 0 || (n > 0) != lacks || !lacks && n != 0 {
				t.Errorf("node %d: %d rendered pages, %d requests without an answer", node, pages, n)
			}
		}
		if longest < 2*time.Minute || longest > 6*time.Minute {
			t.Errorf("a page took %v", longest)
		}
	})
}
