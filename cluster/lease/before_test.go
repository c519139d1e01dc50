package lease

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/polite"
)

// lagging is a transport whose Get returns the first heartbeat of node 0 forever. A replica that lags may for a while.
type lagging struct {
	cluster.Transport
	first cluster.Value
}

func (l *lagging) Get(ctx context.Context, b cluster.Bucket, key string) (cluster.Value, error) {
	v, err := l.Transport.Get(ctx, b, key)
	if key != heartbeatKey(0) || err != nil {
		return v, err
	}
	if l.first.Revision == 0 {
		l.first = v
	}
	return l.first, nil
}

// afterBefore are the cases of TestBefore.
var afterBefore = []struct {
	name    string
	between func(net *mem.Net, before *Before)
	during  func(net *mem.Net) // while the second one runs
	end     bool
	rests   bool
}{
	{"at once", func(*mem.Net, *Before) {}, nil, true, false},
	{"a replica lags", func(*mem.Net, *Before) {}, nil, true, false},
	{"not ended", func(*mem.Net, *Before) {}, nil, false, true},
	{"alone until now", func(net *mem.Net, before *Before) { net.Wipe(); *before = Alone() }, nil, true, false},
	{"alone by another process's heartbeat", func(_ *mem.Net, before *Before) { *before = Alone() }, nil, false,
		true},
	{"another process", func(_ *mem.Net, before *Before) { *before = Before{} }, nil, true, true},
	{"half of a lease later", func(*mem.Net, *Before) { time.Sleep(30 * time.Second) }, nil, true, false},
	{"a lease later", func(*mem.Net, *Before) { time.Sleep(time.Minute) }, nil, true, true},
	{"the broker was away", func(net *mem.Net, _ *Before) { net.Stop(); net.Start() }, nil, true, true},
	{"the broker has lost all", func(net *mem.Net, _ *Before) { net.Wipe() }, nil, true, true},
	{"the broker has lost the last value",
		func(net *mem.Net, _ *Before) { net.LoseValues(cluster.BucketNet, 1) }, nil, true, true},
	{"the broker is away at the start", func(net *mem.Net, _ *Before) { net.Stop() },
		func(net *mem.Net) { time.Sleep(3 * time.Second); net.Start() }, true, true},
}

// TestBefore: Leases that follow others in their process begin at once, if these ended in order a moment ago, or were
// suspended, and the broker has lost nothing. Otherwise they rest like those of a new process.
func TestBefore(t *testing.T) {
	t.Run("ended", func(t *testing.T) {
		testBefore(t, func(t *testing.T, l *Leases) error { return l.End(t.Context()) })
	})
	t.Run("suspended", func(t *testing.T) {
		testBefore(t, func(t *testing.T, l *Leases) error {
			switch {
			case l.Suspend():
				return nil
			case l.o.Run == 1 && l.heartbeats.round == 0:
				return errors.New("the first ones are not suspended")
			}
			return l.End(t.Context())
		})
	})
}

func testBefore(t *testing.T, end func(t *testing.T, l *Leases) error) {
	const beat = time.Minute / heartbeatsPerTTL
	for _, test := range afterBefore {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net, before := mem.New(mem.Options{}), new(Before)
				transport := cluster.Transport(net.Transport(0))
				if test.name == "a replica lags" {
					transport = &lagging{Transport: transport}
				}
				defer transport.Close()
				for run := uint64(1); run <= 2; run++ {
					if run == 2 {
						test.between(net, before)
					}
					l := New(Options{Transport: transport, Before: before, Run: run, New: run == 1, Nodes: 2,
						Polite: polite.New(polite.Options{Leased: true}, time.Now()), TTL: time.Minute,
						Longest: longest})
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan error)
					go func() { ended <- l.Run(ctx) }()
					begun := time.Now()
					if run == 2 && test.during != nil {
						test.during(net)
					}
					for !l.MayFetch() {
						time.Sleep(10 * time.Millisecond)
					}
					took := time.Since(begun)
					if run == 2 && (test.rests && took < 3*beat || !test.rests && took > beat/10) {
						t.Errorf("it begins after %v", took)
					}
					if run == 2 && l.Figures().Guarded != test.rests {
						t.Errorf("it opens networks: %v", test.rests)
					}
					if run == 1 {
						if _, err := transport.Get(ctx, cluster.BucketNet, heartbeatKey(0)); err != nil {
							t.Error(err)
						}
						time.Sleep(10 * time.Second) // it does not wait for node 1, which has never started
					}
					cancel()
					if err := <-ended; err != nil {
						t.Error(err)
					}
					if test.end {
						if err := end(t, l); err != nil {
							t.Error(err)
						}
					}
				}
			})
		})
	}
}

// TestRounds: the Leases of three processes end, or are suspended, and begin again and again, at once or later than
// others wait, while the broker loses values and is away. All limits hold, by the servers' log, and all is fetched.
func TestRounds(t *testing.T) {
	suspended := 0
	for seed := *seedFlag; seed < *seedFlag+4; seed++ {
		synctest.Test(t, func(t *testing.T) {
			net, nodes, web := testNodes(t, seed, 3, 80, mem.Faults{Delay: 5 * time.Millisecond})
			calm, stop := context.WithCancel(t.Context())
			var all, chaos sync.WaitGroup
			if seed%2 == 0 {
				chaos.Go(func() {
					net.Chaos(calm, mem.Chaos{Nodes: 3, Every: 20 * time.Second, Away: 10 * time.Second})
				})
			}
			for _, n := range nodes {
				n.kept, n.before = net.Transport(n.number), new(Before)
				all.Go(func() {
					for len(n.items) > 0 {
						round := time.Second + n.random(30*time.Second)
						if n.run >= 12 { // else nobody sees that a node which could not tell its end is silent
							round = time.Hour
						}
						ctx, cancel := context.WithTimeout(t.Context(), round)
						err := n.live(ctx, true)
						if cancel(); err != nil {
							t.Error(err)
							return
						}
						switch n.random(8) {
						case 0:
							time.Sleep(n.random(5 * time.Second))
						case 1:
							time.Sleep(n.random(80 * time.Second)) // TTL is a minute
						}
					}
					if err := n.before.Release(t.Context(), n.kept, n.number); err != nil {
						t.Logf("node %d: %v", n.number, err)
					}
				})
			}
			begun := time.Now()
			all.Wait()
			stop()
			chaos.Wait()
			for _, n := range nodes {
				n.kept.Close()
			}
			slept := nodes[0].slept + nodes[1].slept + nodes[2].slept
			suspended += slept
			t.Logf("seed %d: %d visits in %v, %d, %d, %d rounds, %d times suspended", seed, web.visits,
				time.Since(begun), nodes[0].run, nodes[1].run, nodes[2].run, slept)
		})
	}
	if suspended < 4 {
		t.Errorf("leases were suspended %d times", suspended)
	}
}
