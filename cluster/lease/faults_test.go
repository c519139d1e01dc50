package lease

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/cluster/mem"
)

// lives is five lives of a node, fewer if all is fetched. All but the last are cut short. It calls ended after each.
func (n *node) lives(ended func()) {
	for life := range 5 {
		ctx, cancel := context.WithCancel(n.t.Context())
		if life < 4 {
			ctx, cancel = context.WithTimeout(n.t.Context(), n.random(2*time.Minute))
		}
		err := n.live(ctx, life%2 == 1)
		cancel()
		if err != nil {
			n.t.Errorf("node %d: %v", n.number, err)
		}
		ended()
		if len(n.items) == 0 {
			return
		}
		pause(n.t.Context(), n.random(90*time.Second))
	}
}

// TestFaults: nodes are killed and restarted, cut off, and the broker loses leases, while all limits hold and
// all is fetched.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	rounds := uint64(8)
	if *longFlag {
		rounds = 300
	}
	var kills, claims int
	var stages [gone + 1]int
	var sum Figures
	for seed := *seedFlag; seed < *seedFlag+rounds; seed++ {
		synctest.Test(t, func(t *testing.T) {
			net, nodes, _ := testNodes(t, seed, 2+int(seed%3), 60,
				mem.Faults{Delay: 100 * time.Millisecond, NoAsk: 0.1})
			chaos, stop := context.WithCancel(t.Context())
			var mu sync.Mutex
			var events []string
			var ended, all sync.WaitGroup
			ended.Go(func() {
				net.Chaos(chaos, mem.Chaos{Nodes: len(nodes), Every: 30 * time.Second, Away: 100 * time.Second,
					Log: func(event string) {
						mu.Lock()
						defer mu.Unlock()
						events = append(events, fmt.Sprint(time.Now().Format("04:05 "), event))
					}})
			})
			for _, n := range nodes {
				all.Go(func() {
					n.lives(func() {
						mu.Lock()
						defer mu.Unlock()
						kills++
						sum.Taken += n.figures.Taken
						sum.HandedOver += n.figures.HandedOver
						sum.Lost += n.figures.Lost
						events = append(events, fmt.Sprint(time.Now().Format("04:05 "), "node ", n.number, " ends"))
					})
				})
			}
			all.Wait()
			stop()
			ended.Wait()
			for _, n := range nodes {
				if len(n.items) > 0 {
					t.Errorf("node %d: %d items are left", n.number, len(n.items))
				}
				claims += n.claims
				for i, seen := range n.stages {
					stages[i] += seen
				}
			}
			if t.Failed() {
				t.Fatalf("seed %d: %v", seed, events)
			}
		})
	}
	t.Logf("%d lives: %+v; entries seen by stage %v, %d of them claims", kills, sum, stages, claims)
	if !*longFlag { // both are rare and short
		stages[gone], claims = 1, 1
	}
	if slices.Contains(stages[:], 0) || claims == 0 {
		t.Error("the counters were not compared in all stages")
	}
}
