package lease

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/polite"
)

// TestUnreadable: a lease that cannot be decoded is another's for TTL, and then replaced. One that names a
// running node is that node's while it runs.
func TestUnreadable(t *testing.T) {
	later := fmt.Sprintf(`{"v":%d`, cluster.Version+1)
	for _, c := range []struct {
		data string
		kept bool // node 1 runs and is named
	}{
		{"", false}, {"{", false}, {"\x00\xff", false}, {`{"node":"one"}`, false}, {`{"node":99}`, false},
		{`{"node":-7,"run":1}`, false}, {`{"run":3,"open":[{"n":1e99}]}`, false},
		{`{"node":0,"run":9,"wait":[{"node":-5}]}`, false}, {`{"node":1,"run":2,"wait":"a later form"}`, true},
		{`{"node":1,"run":2,"wait":[{"node":77}]}`, true}, {later + `,"node":1,"run":2}`, true},
		{later + `,"node":0,"run":9}`, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			net := mem.New(mem.Options{Seed: *seedFlag, Faults: mem.Faults{Delay: 5 * time.Millisecond}})
			addr := netip.AddrFrom4([4]byte{10, 0, 0, 1})
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			var mu sync.Mutex
			var problems []string
			var leases [2]*Leases
			var sched [2]*polite.Scheduler
			for node := range leases {
				sched[node] = polite.New(polite.Options{Leased: true, ServerDelay: time.Second}, time.Now())
				e := net.Transport(node)
				defer e.Close()
				if node == 0 {
					if _, err := e.Put(ctx, cluster.BucketNet, netKey(polite.Network(addr)),
						[]byte(c.data)); err != nil {
						t.Fatal(err)
					}
				}
				leases[node] = New(Options{Transport: e, Polite: sched[node], Node: node, Nodes: 2,
					Run: uint64(node) + 1, TTL: time.Minute, Longest: longest, Problem: func(text string, err error) {
						mu.Lock()
						defer mu.Unlock()
						problems = append(problems, text)
					}})
				running.Go(func() {
					if err := leases[node].Run(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			time.Sleep(10 * time.Second)
			sched[0].Admit(time.Now(), &polite.Item{Host: 1, PLD: 1, Addrs: []netip.Addr{addr}})
			time.Sleep(59 * time.Second)
			if stageOf(leases[0], addr) != waiting {
				t.Errorf("%q: it is taken within TTL", c.data)
			}
			time.Sleep(5 * time.Second)
			f := leases[0].Figures()
			if got := stageOf(leases[0], addr) == held && f.Replaced == 1 && f.Unreadable == 1; got == c.kept {
				t.Errorf("%q: after TTL, stage %d, %+v", c.data, stageOf(leases[0], addr), f)
			}
			mu.Lock()
			if len(problems) != 1 || !strings.Contains(problems[0], "10.0.0.0") {
				t.Errorf("%q: problems %q", c.data, problems)
			}
			mu.Unlock()
			if c.kept { // its holder was asked, and finds that it cannot read its lease
				time.Sleep(2 * time.Minute) // then it replaces it, and gives the network back
			}
			if !sched[0].Lease(time.Now(), addr).Held {
				t.Errorf("%q: the network waits for ever", c.data)
			}
			cancel()
			running.Wait()
		})
	}
}
