package crawl

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/crawl/gate"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/robots"
)

// killedAnswerer is an engine whose node is killed when it is first asked for a robots.txt.
type killedAnswerer struct {
	cluster.Transport
	once sync.Once
	cut  func()
}

// Answer is that of cluster.Engine.
func (k *killedAnswerer) Answer(kind string,
	f func(ctx context.Context, from int, data []byte) []byte) (func(), error) {
	if kind != gate.AskKind {
		return k.Transport.Answer(kind, f)
	}
	return k.Transport.Answer(kind, func(ctx context.Context, _ int, _ []byte) []byte {
		k.once.Do(func() {
			go func() {
				_ = k.Transport.Close() // never fails
				k.cut()
			}()
		})
		<-ctx.Done()
		return nil
	})
}

// timedAsks is an engine that notes how long requests for a robots.txt wait.
type timedAsks struct {
	cluster.Transport
	mu       sync.Mutex // guards the fields below
	longest  time.Duration
	answered int
	failures int // answers that say that the site has failed
}

// Ask is that of cluster.Engine.
func (a *timedAsks) Ask(ctx context.Context, to int, kind string, data []byte) ([]byte, error) {
	begun := time.Now()
	answer, err := a.Transport.Ask(ctx, to, kind, data)
	if kind == gate.AskKind {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.longest = max(a.longest, time.Since(begun)); err == nil {
			a.answered++
			var said struct{ Kind robots.Kind }
			if json.Unmarshal(answer, &said) == nil && said.Kind == robots.NetworkFailure {
				a.failures++
			}
		}
	}
	return answer, err
}

// TestClusterAskedNodeKilled: a node is killed while another one waits for its answer about a robots.txt.
// That one asks again soon after the node is back, and does not wait for the answer as long as it might take.
func TestClusterAskedNodeKilled(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.Robots.RedirectHost, o.Robots.ServerError = 20, 40, 200, 0.5, 0
		})
		c := newCluster(t, web, 2, mem.Faults{},
			func(_ int, o *Options) { o.Disk.CheckpointEvery, o.Limits.Linger = 3*time.Second, time.Hour })
		defer c.close()
		asks, victim := &timedAsks{Transport: c.engines[0]}, &killedAnswerer{Transport: c.engines[1]}
		c.options[0].Cluster.Transport, c.options[1].Cluster.Transport = asks, victim
		kills := 0
		c.lives(cutting{
			arm: func(node, life int, _ *memfs.FS, cut func()) {
				if node == 1 && life == 0 {
					victim.cut = cut
				}
			},
			power: func() bool { return false },
			rest:  func() time.Duration { return 5 * time.Second },
		}, &kills)
		c.checkCuts()
		t.Logf("%d kills; a request waits for %v at most; %d answers", kills, asks.longest, asks.answered)
		if kills != 1 || asks.longest > time.Minute || asks.answered == 0 {
			t.Errorf("%d kills; a request waits for %v at most; %d answers", kills, asks.longest, asks.answered)
		}
	})
}

// stoppedAnswerer is an engine whose node is told to stop when it is first asked for a robots.txt.
type stoppedAnswerer struct {
	cluster.Transport
	once sync.Once
	stop func()
}

// Answer is that of cluster.Engine.
func (s *stoppedAnswerer) Answer(kind string,
	f func(ctx context.Context, from int, data []byte) []byte) (func(), error) {
	return s.Transport.Answer(kind, func(ctx context.Context, from int, data []byte) []byte {
		if kind == gate.AskKind {
			s.once.Do(s.stop)
		}
		return f(ctx, from, data)
	})
}

// TestClusterAskedNodeStops: a node is told to stop while it makes another node's request for a robots.txt.
// That one does not take it for a failure of the site, and asks again: no site of this web fails.
func TestClusterAskedNodeStops(t *testing.T) {
	t.Parallel()
	webs := uint64(4)
	if testing.Short() {
		webs = 1
	}
	for seed := *seedFlag; seed < *seedFlag+webs; seed++ {
		inBubble(t, func(t *testing.T) {
			web := smallWeb(t, func(o *simweb.Options) {
				o.Seed, o.PLDs, o.Hosts, o.Pages, o.Robots.RedirectHost, o.Robots.ServerError = seed, 20,
					40, 200, 0.5, 0
			})
			c := newCluster(t, web, 2, mem.Faults{}, nil)
			defer c.close()
			ctx, stop := context.WithCancel(t.Context())
			first := c.options[1]
			cl := *first.Cluster
			cl.Transport, first.Cluster = &stoppedAnswerer{Transport: c.engines[1], stop: stop}, &cl
			asks := &timedAsks{Transport: c.engines[0]}
			c.options[0].Cluster.Transport = asks
			results := make([]*Result, 2)
			var wg sync.WaitGroup
			wg.Go(func() { results[0] = mustRun(t, t.Context(), c.options[0]) })
			wg.Go(func() {
				if r := mustRun(t, ctx, first); r.Stop != StopCancelled {
					t.Errorf("seed %d: node 1 was not stopped: %s", seed, r.Stop)
				}
				account.Sleep(t.Context(), 5*time.Second)
				results[1] = mustRun(t, t.Context(), c.options[1])
			})
			wg.Wait()
			c.check(results)
			if asks.answered == 0 || asks.failures > 0 {
				t.Errorf("seed %d: %d answers, %d of them say that the site has failed", seed,
					asks.answered, asks.failures)
			}
		})
	}
}
