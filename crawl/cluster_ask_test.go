package crawl

import (
	"context"
	"sync"
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/exchange"
	"drumbeat/exchange/mem"
	"drumbeat/internal/simweb"
)

// killedAnswerer is an engine whose node is killed when it is first asked for a robots.txt.
type killedAnswerer struct {
	exchange.Engine
	once sync.Once
	cut  func()
}

// Answer is that of exchange.Engine.
func (k *killedAnswerer) Answer(kind string, f func(ctx context.Context, from int, data []byte) []byte) (func(), error) {
	if kind != robotsAskKind {
		return k.Engine.Answer(kind, f)
	}
	return k.Engine.Answer(kind, func(ctx context.Context, _ int, _ []byte) []byte {
		k.once.Do(func() {
			go func() {
				_ = k.Engine.Close() // never fails
				k.cut()
			}()
		})
		<-ctx.Done()
		return nil
	})
}

// timedAsks is an engine that notes how long requests for a robots.txt wait.
type timedAsks struct {
	exchange.Engine
	mu       sync.Mutex // guards the fields below
	longest  time.Duration
	answered int
}

// Ask is that of exchange.Engine.
func (a *timedAsks) Ask(ctx context.Context, to int, kind string, data []byte) ([]byte, error) {
	begun := time.Now()
	answer, err := a.Engine.Ask(ctx, to, kind, data)
	if kind == robotsAskKind {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.longest = max(a.longest, time.Since(begun)); err == nil {
			a.answered++
		}
	}
	return answer, err
}

// TestClusterAskedNodeKilled: a node is killed while another one waits for its answer about a robots.txt. That one asks again soon
// after the node is back, and does not wait for the answer as long as it might take.
func TestClusterAskedNodeKilled(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.Robots.RedirectHost, o.Robots.ServerError = 20, 40, 200, 0.5, 0
		})
		c := newCluster(t, web, 2, mem.Faults{}, func(_ int, o *Options) { o.CheckpointEvery, o.Linger = 3*time.Second, time.Hour })
		defer c.close()
		asks, victim := &timedAsks{Engine: c.engines[0]}, &killedAnswerer{Engine: c.engines[1]}
		c.options[0].Cluster.Engine, c.options[1].Cluster.Engine = asks, victim
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
