package crawl

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster/mem"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// TestClusterGoesOn: a crawl is over at once since its flags forbid all servers. Under other flags, only the
// nodes that hold seeds back have work, and find links for the others: all fetch their part, whichever node
// starts last, minutes after the others. Twice more, nothing is left.
func TestClusterGoesOn(t *testing.T) {
	notShort(t)
	t.Parallel()
	for last := range 3 {
		inBubble(t, func(t *testing.T) {
			web := smallWeb(t, func(o *simweb.Options) {
				o.PLDs, o.Hosts, o.Pages, o.SeedURLs, o.Robots.RedirectHost = 30, 60, 600, 1, 0
			})
			c := newCluster(t, web, 3, mem.Faults{Delay: 10 * time.Millisecond}, func(_ int, o *Options) {
				o.Limits.Linger = 12 * time.Hour // until a server that was not allowed is confirmed to be
			})
			defer c.close()
			all := c.options[0].Network.AllowedAddr
			for i := range c.options {
				c.options[i].Network.Flags, c.options[i].Network.AllowedAddr = "none",
					func(netip.Addr) bool { return false }
			}
			for i, r := range c.run(t.Context()) {
				o := &c.options[i]
				o.Network.AllowedAddr, o.Cluster.Reconfigure = all, true
				// Else its flags are those before: it has no work at all.
				if last > 0 || r.Snapshot.Place(state.PlaceHeld) > 0 {
					o.Network.Flags = ""
				}
			}
			for run := range 3 {
				c.reopen()
				ctx, cancel := context.WithTimeout(t.Context(), clusterTime)
				errs := make([]error, 3)
				results := make([]*Result, 3)
				var wg sync.WaitGroup
				for node := range c.options {
					wg.Go(func() {
						if node == last {
							time.Sleep(10 * time.Minute) // to open a large state, or to be started by hand
						}
						results[node], errs[node] = Run(ctx, c.options[node])
					})
				}
				wg.Wait()
				cancel()
				for node, err := range errs {
					if finished := errors.Is(err, state.ErrFinished); err != nil && !finished || run > 0 && !finished {
						t.Errorf("run %d, node %d: %v", run, node, err)
					}
				}
				c.check(results)
			}
		})
	}
}

// TestClusterOldEnd: a node starts without knowing that the crawl was over, as after a kill before its last
// manifest, and has more work. It does not take the end that the others have written for its own: they start
// minutes later and take what it has sent.
func TestClusterOldEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.SeedURLs, o.Robots.RedirectHost = 30, 60, 300, 1, 0
		})
		c := newCluster(t, web, 3, mem.Faults{Delay: 10 * time.Millisecond},
			func(_ int, o *Options) { o.Limits.Linger = 12 * time.Hour })
		defer c.close()
		all := c.options[0].Network.AllowedAddr
		for i := range c.options {
			c.options[i].Network.Flags, c.options[i].Network.AllowedAddr = "none",
				func(netip.Addr) bool { return false }
		}
		first := -1
		for i, r := range c.run(t.Context()) {
			o := &c.options[i]
			if o.Network.AllowedAddr, o.Cluster.Reconfigure, o.Network.Flags = all, true,
				""; r.Snapshot.Place(state.PlaceHeld) > 0 {
				first = i
			}
		}
		if first < 0 {
			t.Fatal("no node has work")
		}
		c.tamper(c.options[first].Disk.FS, first, func(m *state.Manifest) { m.Done = "" })
		c.reopen()
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour) // longer than Linger
		defer cancel()
		errs, results := make([]error, 3), make([]*Result, 3)
		var wg sync.WaitGroup
		for node := range c.options {
			wg.Go(func() {
				if node != first {
					time.Sleep(5 * time.Minute)
				}
				results[node], errs[node] = Run(ctx, c.options[node])
			})
		}
		wg.Wait()
		for node, err := range errs {
			if err != nil {
				t.Errorf("node %d: %v", node, err)
			}
		}
		c.check(results)
	})
}

// TestClusterAgainAlone: a node that is started alone after the end waits for the others for an hour, and
// says for which.
func TestClusterAgainAlone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 10, 20, 100)
		var log bytes.Buffer
		c := newCluster(t, web, 3, mem.Faults{Delay: 10 * time.Millisecond}, func(node int, o *Options) {
			if node == 1 {
				o.Observe.Log = slog.New(slog.NewTextHandler(&log, nil))
			}
		})
		defer c.close()
		c.check(c.run(t.Context()))
		c.reopen()
		log.Reset()
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		const longest = time.Hour // that a node waits for the others
		began := time.Now()
		_, err := Run(ctx, c.options[1])
		if took := time.Since(began); !errors.Is(err, state.ErrFinished) || took < longest ||
			took > longest+2*time.Minute {
			t.Errorf("%v after %v", err, took)
		}
		if !strings.Contains(log.String(), `nodes="[0 2]"`) {
			t.Errorf("the log does not name the nodes: %s", log.String())
		}
	})
}
