package crawl

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster/mem"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/erase"
	"drumbeat/weburl"
)

// controlled returns a web of PLDs with two hosts each, and a cluster of nodes that have a Control.
func controlled(t *testing.T, nodes, plds int) (*simweb.Web, *testCluster) {
	web := smallWeb(t, func(o *simweb.Options) {
		o.PLDs, o.Hosts, o.Pages, o.CrawlDelay, o.Page.ServerError, o.Robots.RedirectHost = plds, 2*plds, 900, 0, 0, 0
	})
	return web, newCluster(t, web, nodes, mem.Faults{Delay: 10 * time.Millisecond}, func(_ int, o *Options) {
		o.Observe.Control = &Control{}
	})
}

// TestEraseCluster: each node of a cluster takes the same request while all crawl, rests, erases its part, and
// continues. The host gets no further request, also from a node that has links to it in its outbox. All accounts
// balance.
func TestEraseCluster(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web, c := controlled(t, 3, 12)
		defer c.close()
		end := c.begin(t.Context())
		for node := range c.options {
			<-c.options[node].Observe.Control.Started()
		}
		o := &operated{t: t, web: web, opt: c.options[0]}
		for o.plainHost("") == "" || o.hits(o.plainHost("")) < 12 {
			time.Sleep(100 * time.Millisecond)
		}
		host := o.plainHost("")
		for node := range c.options {
			if _, err := c.options[node].Observe.Control.Erase(t.Context(), &erase.Ask{Who: "eve", Reason: "a test",
				Source: erase.Source{Hosts: []string{host}, URLs: []string{"http://" + host + "/never"}}}); err != nil {
				t.Fatalf("node %d: %v", node, err)
			}
		}
		hits := o.hits(host)
		end()
		if n := o.hits(host); n != hits {
			t.Errorf("%s had %d requests at the answers, %d at the end", host, hits, n)
		}
		owners, fetched, barred := 0, int64(0), int64(0)
		for node := range c.options {
			opt := &c.options[node]
			checkDeep(t, opt)
			_, m, err := lastManifest(opt.Disk.FS, opt.Disk.Dirs)
			must(t, err)
			if m.Accounts.Refused[state.ReasonErased] > 0 {
				owners++
			}
			fetched += m.Accounts.Counters[state.CountPages]
			o.opt = *opt
			o.prove(1, host)
			records, err := erase.RecordsOf(opt.Disk.FS, opt.Disk.Dirs)
			must(t, err)
			barred += records[0].Erased.Barred
		}
		if owners != 1 || fetched < 500 || barred != 1 { // only the owner has a key of the URL that nobody knew
			t.Errorf("%d nodes have erased URLs, %d unknown URLs are barred; %d pages", owners, barred, fetched)
		}
		if rep, err := audit.CompareNodes(c.audits()); err != nil || rep.BadCount > 0 {
			t.Errorf("the accounts of the nodes together: %+v, %v", rep, err)
		}
		c.checkLoads(true)
	})
}

// TestEraseOutbox: links that wait for another node lose the page on which they were found, if that is erased. The sums
// of the exchange stay, so the other node takes the links, and all accounts balance. Links to erased pages stay until
// the node that owns these pages takes them; a proof names them.
func TestEraseOutbox(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web, c := controlled(t, 2, 6)
		defer c.close()
		ctx, stop := context.WithCancel(t.Context())
		end := c.begin(ctx)
		for node := range c.options {
			<-c.options[node].Observe.Control.Started()
		}
		o := &operated{t: t, web: web, opt: c.options[0]}
		for o.plainHost("") == "" || o.hits(o.plainHost("")) < 5 {
			time.Sleep(100 * time.Millisecond)
		}
		c.net.Cut(0) // what it finds from now on stays in its outbox
		time.Sleep(time.Minute)
		stop()
		end()
		opt := &c.options[0]
		host := ownHost(c)
		if host == "" {
			t.Fatal("node 0 has visited no host of its own")
		}
		before := leftIn(t, opt, host)
		if before["via of a URL"] == 0 {
			t.Fatalf("nothing waits for the other node: %v", before)
		}
		eraseWithCuts(t, opt, host)
		if after := leftIn(t, opt, host); len(after) > 0 {
			t.Errorf("left in the outbox: %v, before: %v", after, before)
		}
		checkDeep(t, opt)
		c.net.Heal(0)
		c.run(t.Context())
		for node := range c.options {
			checkDeep(t, &c.options[node])
		}
		if rep, err := audit.CompareNodes(c.audits()); err != nil || rep.BadCount > 0 {
			t.Errorf("the accounts of the nodes together: %+v, %v", rep, err)
		}
	})
}

// ownHost returns the busiest host of node 0.
func ownHost(c *testCluster) (host string) {
	h, suffixes, most := weburl.NewHasher(c.options[0].Cluster.Secret), weburl.NewSuffixes(false), uint64(0)
	for name, at := range c.web.Log().Snapshot().Hosts {
		own := c.options[0].Cluster.Table.Owner(h.PLDKey([]byte(suffixes.PLD(name)))) == 0
		if n := uint64(at.Requests); own && strings.HasPrefix(name, "h") && n > most {
			host, most = name, n
		}
	}
	return host
}

// eraseWithCuts erases a host from a stopped node. The power fails or the process is killed now and then meanwhile.
func eraseWithCuts(t *testing.T, o *Options, host string) {
	t.Helper()
	fs, rng := o.Disk.FS.(*memfs.FS), rand.New(rand.NewPCG(*seedFlag, 11))
	for cuts := 0; ; cuts++ {
		if fs.CrashAfter(1 + rng.IntN(60)); cuts == 20 {
			fs.CrashAfter(0)
		}
		_, err := erase.Run(erase.Options{FS: fs, Dirs: o.Disk.Dirs, Reason: "a test",
			Source: erase.Source{Hosts: []string{host}}})
		if err == nil && cuts == 20 {
			o.Disk.FS = fs
			return
		}
		if err != nil && !errors.Is(err, disk.ErrCrashed) {
			t.Fatalf("after %d cuts: %v", cuts, err)
		}
		if rng.IntN(2) == 0 {
			fs = fs.Crash()
		} else {
			fs = fs.Kill()
		}
	}
}

// leftIn counts what a proof finds of a host in outboxes, by kind.
func leftIn(t *testing.T, o *Options, host string) map[string]int {
	t.Helper()
	p, err := erase.Prove(erase.ProofOptions{FS: o.Disk.FS, Dirs: o.Disk.Dirs,
		Source: erase.Source{Hosts: []string{host}}})
	must(t, err)
	kinds := map[string]int{}
	for _, l := range p.Leftovers {
		if strings.Contains(l.File, state.OutboxPrefix) {
			kinds[l.Kind]++
		}
	}
	return kinds
}
