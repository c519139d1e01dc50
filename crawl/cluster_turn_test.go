package crawl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
)

// TestClusterCutsInTurn cuts one node of a small cluster before each of its disk operations (by default
// before a sample of them), and before and after each of its calls of the broker: each cut in a crawl of its
// own, alternately by kill -9 and by power cut. The node comes back, and all together fetch each URL
// nevertheless, and count it once.
func TestClusterCutsInTurn(t *testing.T) {
	notShort(t)
	t.Parallel()
	stride := *every
	if stride == 0 {
		stride = longOr(1, 16)
	}
	var cuts turnCounts
	for turn := range *turns {
		for _, nodes := range []int{2, 3} {
			seed := *seedFlag + uint64(turn)
			victim := int(seed) % nodes
			none := cutPoint{nodes: nodes, victim: victim}
			disk, calls := none.crawl(t, seed)
			t.Logf("world %d, node %d of %d: %d disk operations, %d calls of the broker", seed, victim,
				nodes, disk, calls)
			var points []cutPoint
			for k := 1 + int(seed)%stride; k <= disk; k += stride {
				points = append(points, cutPoint{nodes: nodes, victim: victim, disk: k, power: len(points)%2 == 0})
			}
			for k := 1 + int(seed)%stride; k <= calls; k += stride {
				power := (k/stride)%2 == 0
				points = append(points, cutPoint{nodes: nodes, victim: victim, call: k, power: power},
					cutPoint{nodes: nodes, victim: victim, call: k, after: true, power: !power})
			}
			var next atomic.Int64
			inParallel(t, func(t *testing.T) bool {
				i := int(next.Add(1)) - 1
				if i >= len(points) {
					return false
				}
				p := points[i]
				p.cuts = &cuts
				p.crawl(t, seed)
				return true
			})
		}
	}
	cuts.log(t)
}

// cutPoint is the moment of the one cut of a cluster's crawl. With neither disk nor call there is none.
type cutPoint struct {
	nodes, victim int
	disk          int  // before this operation on the disk of the node's first life; from 1
	call          int  // at this call of the broker, from 1
	after         bool // its effect is there, but the node did not hear of it
	power         bool
	cuts          *turnCounts
}

// crawl crawls a small web, and returns how many disk operations and calls of the broker the victim's first life had.
func (p cutPoint) crawl(t *testing.T, seed uint64) (operations, calls int) {
	inBubble(t, func(t *testing.T) {
		web := cutWeb(t, seed, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.IPs, o.LinksPerPage, o.PageBytes, o.SeedURLs = 10, 14, 50, 4, 8, 300, 4
		})
		c := newCluster(t, web, p.nodes, mem.Faults{}, func(_ int, o *Options) {
			small(o)
			// A robots.txt that redirects to a host of the node that is away counts as unavailable for a time.
			o.Limits.Linger = time.Hour
		})
		defer c.close()
		victim := &brokenCalls{Transport: c.engines[p.victim], at: p.call, after: p.after}
		c.options[p.victim].Cluster.Transport = victim
		kills, last := 0, ""
		c.lives(cutting{
			arm: func(node, life int, fs *memfs.FS, cut func()) {
				if node != p.victim || life > 0 {
					return
				}
				victim.cut = cut
				fs.Watch(func(memfs.Step, func(uint64) *memfs.FS) { operations++ })
				fs.CrashAfter(p.disk)
			},
			power: func() bool {
				if last = victim.last; p.disk > 0 {
					last = "disk"
				}
				return p.power
			},
			rest: func() time.Duration { return 5 * time.Second },
		}, &kills)
		calls = victim.calls
		c.checkCuts()
		if kills > 1 || p.disk+p.call == 0 && kills > 0 {
			t.Errorf("%d cuts", kills)
		}
		if p.cuts != nil && kills > 0 {
			p.cuts.add(last, p.power)
		}
		if t.Failed() {
			t.Fatalf("world %d, cut %+v, at %s", seed, p, last)
		}
	})
	return operations, calls
}

// brokenCalls is an engine that cuts its node off at a call.
type brokenCalls struct {
	cluster.Transport
	at    int // call; 0: at none
	after bool
	cut   func()

	mu    sync.Mutex // guards the fields below
	calls int
	last  string // kind of the call at the cut
}

// call makes a call. If it is the one, the node ends before it, or after it.
func (b *brokenCalls) call(kind string, f func()) {
	b.mu.Lock()
	b.calls++
	hit := b.calls == b.at
	if hit {
		b.last = kind + ", before"
		if b.after {
			b.last = kind + ", after"
		}
	}
	b.mu.Unlock()
	if hit && !b.after {
		b.end()
	}
	f()
	if hit && b.after {
		b.end()
	}
}

// end cuts the node off. Whoever waits for an answer, or calls now, gets none.
func (b *brokenCalls) end() {
	b.cut()
	_ = b.Transport.Close() // never fails
}

// Publish is that of cluster.Engine.
func (b *brokenCalls) Publish(ctx context.Context, to, from int, id string, data []byte) (result <-chan error) {
	b.call("publish", func() { result = b.Transport.Publish(ctx, to, from, id, data) })
	return result
}

// Purge is that of cluster.Engine.
func (b *brokenCalls) Purge(ctx context.Context, to int, below uint64) (err error) {
	b.call("purge", func() { err = b.Transport.Purge(ctx, to, below) })
	return err
}

// Put is that of cluster.Engine.
func (b *brokenCalls) Put(ctx context.Context, bucket cluster.Bucket, key string,
	data []byte) (revision uint64, err error) {
	b.call("put "+firstToken(key), func() { revision, err = b.Transport.Put(ctx, bucket, key, data) })
	return revision, err
}

// Create is that of cluster.Engine.
func (b *brokenCalls) Create(ctx context.Context, bucket cluster.Bucket, key string,
	data []byte) (revision uint64, err error) {
	b.call("create "+firstToken(key), func() { revision, err = b.Transport.Create(ctx, bucket, key, data) })
	return revision, err
}

// Update is that of cluster.Engine.
func (b *brokenCalls) Update(ctx context.Context, bucket cluster.Bucket, key string, data []byte,
	rev uint64) (revision uint64, err error) {
	b.call("update "+firstToken(key), func() { revision, err = b.Transport.Update(ctx, bucket, key, data, rev) })
	return revision, err
}

// Delete is that of cluster.Engine.
func (b *brokenCalls) Delete(ctx context.Context, bucket cluster.Bucket, key string, revision uint64) (err error) {
	b.call("delete "+firstToken(key), func() { err = b.Transport.Delete(ctx, bucket, key, revision) })
	return err
}

// Ask is that of cluster.Engine.
func (b *brokenCalls) Ask(ctx context.Context, to int, kind string, data []byte) (answer []byte, err error) {
	b.call("ask for "+kind, func() { answer, err = b.Transport.Ask(ctx, to, kind, data) })
	return answer, err
}

// Tell is that of cluster.Engine.
func (b *brokenCalls) Tell(ctx context.Context, to int, kind string, data []byte) (err error) {
	b.call("tell "+kind, func() { err = b.Transport.Tell(ctx, to, kind, data) })
	return err
}

// Read is that of cluster.Engine.
func (b *brokenCalls) Read(ctx context.Context, to int, seq uint64) (r cluster.Reader, err error) {
	b.call("read", func() { r, err = b.Transport.Read(ctx, to, seq) })
	if err != nil {
		return nil, err
	}
	return &brokenReader{Reader: r, b: b}, nil
}

type brokenReader struct {
	cluster.Reader
	b    *brokenCalls
	took bool // a message, with the last call
}

// Next is that of cluster.Reader. The node has processed a message when it asks for the next one.
func (r *brokenReader) Next(ctx context.Context) (m cluster.Message, err error) {
	if r.took {
		r.b.call("message processed", func() {})
	}
	m, err = r.Reader.Next(ctx)
	if r.took = err == nil; r.took {
		r.b.call("message read", func() {})
	}
	return m, err
}

// firstToken returns what kind of value a key names.
func firstToken(key string) string {
	kind, _, _ := strings.Cut(key, ".")
	return kind
}

// turnCounts counts cuts by kind.
type turnCounts struct {
	mu    sync.Mutex
	kills map[string]int
	power map[string]int
}

func (c *turnCounts) add(kind string, power bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kills == nil {
		c.kills, c.power = map[string]int{}, map[string]int{}
	}
	if power {
		c.power[kind]++
		return
	}
	c.kills[kind]++
}

func (c *turnCounts) log(t *testing.T) {
	all := maps.Clone(c.kills)
	maps.Copy(all, c.power)
	var text []string
	kills, power := 0, 0
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		text = append(text, fmt.Sprintf("%s: %d kills, %d power cuts", kind, c.kills[kind], c.power[kind]))
		kills, power = kills+c.kills[kind], power+c.power[kind]
	}
	t.Logf("%d kills, %d power cuts\n%s", kills, power, strings.Join(text, "\n"))
}
