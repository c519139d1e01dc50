package lease

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/cluster/mem"
	"drumbeat/polite"
)

// TestYoung: nodes that begin a new crawl together fetch after some quick heartbeats. If one is missing, has
// begun long before, or continues a crawl, the others rest for as long as safety needs, and no longer.
func TestYoung(t *testing.T) {
	const beat = time.Minute / heartbeatsPerTTL
	for _, c := range []struct {
		name        string
		late        time.Duration // when the last node starts
		old         bool          // the first node continues a crawl
		nodes       int           // that start
		least, most time.Duration // until the last node opens leases
	}{
		{"together", 0, false, 3, 0, beat},
		{"one soon after", 2 * beat, false, 3, 0, beat},
		{"one much later", 70 * beat, false, 3, 3 * beat, 5 * beat},
		{"one continues", 0, true, 3, 3 * beat, 5 * beat},
		{"one is missing", 0, false, 2, 3 * beat, 5 * beat},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := mem.New(mem.Options{Seed: *seedFlag, Faults: mem.Faults{Delay: 5 * time.Millisecond}})
				ctx, cancel := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for node := range c.nodes {
					transport := net.Transport(node)
					defer transport.Close()
					l := New(Options{Transport: transport, Polite: polite.New(polite.Options{Leased: true}, time.Now()),
						Node: node, Nodes: 3, Run: uint64(node) + 1, TTL: time.Minute, Longest: longest,
						New: node != 0 || !c.old})
					if node == c.nodes-1 {
						time.Sleep(c.late)
					}
					all.Go(func() {
						if err := l.Run(ctx); err != nil {
							t.Error(err)
						}
					})
					if node < c.nodes-1 {
						continue
					}
					begun := time.Now()
					for !(l.MayFetch() && l.heartbeats.open()) && time.Since(begun) < 10*time.Minute {
						time.Sleep(10 * time.Millisecond)
					}
					if took := time.Since(begun); took < c.least || took > c.most {
						t.Errorf("it took %v; want %v to %v", took, c.least, c.most)
					}
				}
				cancel()
				all.Wait()
			})
		})
	}
}
