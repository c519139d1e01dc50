package crawl

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/disk/memfs"
	"drumbeat/internal/cputime"
	"drumbeat/internal/pace"
	"drumbeat/internal/simweb"
	"drumbeat/weburl"
)

var (
	numbersNodes  = flag.String("numbers.nodes", "2 8 32 64", "TestClusterNumbers: sizes of the cluster")
	numbersRate   = flag.Float64("numbers.rate", 2, "TestClusterNumbers: requests/s of a node")
	numbersGivers = flag.Int("numbers.givers", 1000, "TestClusterNumbers: nodes that give to a new one; 0: no changes")
	numbersCalm   = flag.Duration("numbers.calm", time.Minute, "TestClusterNumbers: time without a change")
	numbersLease  = flag.Duration("numbers.lease", 3*time.Minute, "TestClusterNumbers: time of a lease")
	numbersHost   = flag.Duration("numbers.host", time.Second, "TestClusterNumbers: delay of a host")
)

// tally counts what one kind of call or delivery has carried.
type tally struct{ n, bytes int64 }

// counted counts the operations of all nodes at the broker, by kind: a verb, and the bucket or stream.
type counted struct {
	mu  sync.Mutex
	ops map[string]tally
}

func (c *counted) add(kind string, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.ops[kind]
	c.ops[kind] = tally{t.n + 1, t.bytes + int64(bytes)}
}

func (c *counted) copy() map[string]tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.ops)
}

// countingTransport counts the calls of a node, and what the broker delivers to it.
type countingTransport struct {
	cluster.Transport
	ops *counted
}

func kindOf(verb, key string) string {
	return verb + " " + key[:max(0, strings.IndexByte(key+".", '.'))]
}

func (t countingTransport) Publish(ctx context.Context, to, from int, id string, data []byte) <-chan error {
	t.ops.add("publish", len(data))
	return t.Transport.Publish(ctx, to, from, id, data)
}

func (t countingTransport) Get(ctx context.Context, b cluster.Bucket, key string) (cluster.Value, error) {
	v, err := t.Transport.Get(ctx, b, key)
	t.ops.add(kindOf("get", key), len(v.Data))
	return v, err
}

func (t countingTransport) Put(ctx context.Context, b cluster.Bucket, key string, data []byte) (uint64, error) {
	t.ops.add(kindOf("write", key), len(data))
	return t.Transport.Put(ctx, b, key, data)
}

func (t countingTransport) Create(ctx context.Context, b cluster.Bucket, key string, data []byte) (uint64, error) {
	t.ops.add(kindOf("write", key), len(data))
	return t.Transport.Create(ctx, b, key, data)
}

func (t countingTransport) Update(ctx context.Context, b cluster.Bucket, key string, data []byte,
	revision uint64) (uint64, error) {
	t.ops.add(kindOf("write", key), len(data))
	return t.Transport.Update(ctx, b, key, data, revision)
}

func (t countingTransport) Delete(ctx context.Context, b cluster.Bucket, key string, revision uint64) error {
	t.ops.add(kindOf("delete", key), 0)
	return t.Transport.Delete(ctx, b, key, revision)
}

func (t countingTransport) Last(ctx context.Context, b cluster.Bucket) (uint64, error) {
	t.ops.add("last", 0)
	return t.Transport.Last(ctx, b)
}

func (t countingTransport) Room(ctx context.Context, b cluster.Bucket) (cluster.Room, error) {
	t.ops.add("room", 0)
	return t.Transport.Room(ctx, b)
}

func (t countingTransport) Purge(ctx context.Context, to int, below uint64) error {
	t.ops.add("purge", 0)
	return t.Transport.Purge(ctx, to, below)
}

func (t countingTransport) Ask(ctx context.Context, to int, kind string, data []byte) ([]byte, error) {
	t.ops.add("ask "+kind, len(data))
	return t.Transport.Ask(ctx, to, kind, data)
}

func (t countingTransport) Tell(ctx context.Context, to int, kind string, data []byte) error {
	t.ops.add("tell "+kind, len(data))
	return t.Transport.Tell(ctx, to, kind, data)
}

func (t countingTransport) Watch(ctx context.Context, b cluster.Bucket, pattern string) (cluster.Watcher, error) {
	w, err := t.Transport.Watch(ctx, b, pattern)
	if err != nil {
		return nil, err
	}
	return countingWatcher{w, t.ops}, nil
}

type countingWatcher struct {
	cluster.Watcher
	ops *counted
}

func (w countingWatcher) Next(ctx context.Context) (cluster.Value, bool, error) {
	v, ok, err := w.Watcher.Next(ctx)
	if ok && err == nil {
		w.ops.add(kindOf("deliver", v.Key), len(v.Data))
	}
	return v, ok, err
}

// load is what the nodes of a cluster do.
type load struct {
	rate        float64       // requests/s of a node
	host, lease time.Duration // delay of a host; time of a lease
}

// numbers is a cluster that is measured.
type numbers struct {
	*testCluster
	ops   *counted
	load  // rate is that of all nodes
	ctx   context.Context
	table *cluster.Table
	tool  *mem.Transport // of the command that changes the table
	nodes sync.WaitGroup
	live  []context.CancelFunc // by node
	at    []int                // requests after each second
	mu    sync.Mutex
}

func (c *numbers) start(node int) {
	ctx, cancel := context.WithCancel(c.ctx)
	c.live = append(c.live, cancel)
	o := c.options[node]
	c.nodes.Go(func() {
		res, err := c.testCluster.start(ctx, node, o)
		if err != nil && ctx.Err() == nil {
			c.t.Errorf("node %d: %v", node, err)
		} else if err == nil && res.Stop != StopCancelled && res.Stop != StopLeft {
			c.t.Errorf("node %d: %s", node, res.Stop)
		}
	})
}

// option are the options of one more node.
func (c *numbers) option(node int) {
	e := c.net.Transport(node)
	o := simOptions(c.t, c.web, memfs.New(*seedFlag+uint64(node)))
	o.Cluster = &Cluster{Node: node, Table: c.table, Crawl: 0xc0ffee, Secret: weburl.Secret{1, 2, 3},
		Transport: countingTransport{e, c.ops}, LeaseTTL: c.lease}
	o.Disk.CheckpointEvery = time.Minute
	o.Limits.RAMBytes = 1 << 30
	o.Output.Store, o.Output.CrawlLog = false, ""
	o.Network.Rate = pace.Plain(pace.Pages, c.rate)
	o.Politeness.HostDelay, o.Politeness.HostDelayMin = c.host, c.host
	c.engines, c.options = append(c.engines, e), append(c.options, o)
}

func (c *numbers) size() int { return c.table.Nodes() }

func (c *numbers) count() {
	for account.Sleep(c.ctx, time.Second) {
		n, _, _ := c.web.Log().Totals()
		c.mu.Lock()
		c.at = append(c.at, n)
		c.mu.Unlock()
	}
}

// phase runs f, and prints what it cost.
func (c *numbers) phase(name string, f func()) {
	c.t.Helper()
	had, _, _ := c.web.Log().Totals()
	from, began, before, cpu := len(c.seconds()), time.Now(), c.ops.copy(), cputime.Process()
	f()
	took := time.Since(began).Seconds()
	all, after := c.seconds(), c.ops.copy()
	var rates []int
	for i := from; i < len(all); i++ {
		rates = append(rates, all[i]-all[max(0, i-1)])
	}
	n, _, _ := c.web.Log().Totals()
	n -= had
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	c.t.Logf("%s: %.0f s, %.1f requests/s of %.1f; CPU %v, heap %d MB, %d goroutines", name, took, float64(n)/took,
		c.rate, cputime.Process()-cpu, mem.HeapAlloc>>20, runtime.NumGoroutine())
	c.t.Logf("  requests in each 5 s: %v", sums(rates, 5))
	for _, kind := range slices.Sorted(maps.Keys(after)) {
		d := tally{after[kind].n - before[kind].n, after[kind].bytes - before[kind].bytes}
		if d.n > 0 {
			c.t.Logf("  %-18s %10.2f /s %12.0f B/s, %8.3f /s a node", kind, float64(d.n)/took, float64(d.bytes)/took,
				float64(d.n)/took/float64(c.size()))
		}
	}
}

// has reports whether the mark of a node has the table.
func (c *numbers) has(node int) bool {
	v, err := c.tool.Get(c.ctx, cluster.BucketCrawl, cluster.MarkKey(node))
	return err == nil && cluster.MarkMoves(v.Data) >= c.table.Moves()
}

// part says which slots of a node go where; to gets the number of the slot among those of the node.
func (c *numbers) part(from int, to func(i int) (int, bool)) map[int]int {
	slots, i := map[int]int{}, 0
	for slot := range cluster.Slots {
		if c.table.OwnerOf(slot) != from {
			continue
		}
		if node, moves := to(i); moves {
			slots[slot] = node
		}
		i++
	}
	return slots
}

func (c *numbers) give(slots map[int]int) {
	c.t.Helper()
	next, err := c.table.Give(slots)
	c.apply(cluster.ChangeGive, 0, next, err)
}

func sums(list []int, of int) (all []int) {
	for part := range slices.Chunk(list, of) {
		sum := 0
		for _, n := range part {
			sum += n
		}
		all = append(all, sum)
	}
	return all
}

func (c *numbers) seconds() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.at)
}

// apply makes a change, and waits until the marks of all nodes have it, as the command does.
func (c *numbers) apply(kind cluster.ChangeKind, giver int, next *cluster.Table, err error) {
	c.t.Helper()
	must(c.t, err)
	data, err := cluster.NewTableChange(kind, c.table, next, giver, fmt.Sprint(next.Moves())).Encode()
	must(c.t, err)
	_, err = c.tool.Put(c.ctx, cluster.BucketCrawl, cluster.TableKey, data)
	must(c.t, err)
	c.table = next
	for node := range c.options {
		for !c.table.HasDeparted(node) && !c.has(node) {
			if !account.Sleep(c.ctx, time.Second) {
				c.t.Fatalf("%s: the nodes have not taken table %d", kind, next.Moves())
			}
		}
	}
}

// newNumbers starts a cluster of nodes on a web with enough hosts for the rate. Its end stops all.
func newNumbers(t *testing.T, nodes int, of load) (c *numbers, end func()) {
	t.Helper()
	web := smallWeb(t, func(o *simweb.Options) {
		o.PLDs, o.Hosts, o.Pages = 50*nodes, 100*nodes, 5000*nodes
		o.IPs, o.Networks, o.SeedURLs = 100*nodes, 50*nodes, 50*nodes
		o.Robots.ServerError, o.LogRequests = 0, 1
	})
	c = &numbers{load: of}
	c.testCluster = &testCluster{t: t, web: web, net: mem.New(mem.Options{Seed: *seedFlag, BucketBytes: 1 << 30,
		StreamBytes: 1 << 30, Faults: mem.Faults{Delay: 10 * time.Millisecond}})}
	c.ops, c.rate = &counted{ops: map[string]tally{}}, of.rate*float64(nodes)
	table, err := cluster.NewTable(slices.Repeat([]float64{1}, nodes))
	must(t, err)
	c.table = table
	ctx, cancel := context.WithCancel(t.Context())
	c.ctx, c.tool = ctx, c.net.Transport(0)
	go c.count()
	for node := range nodes {
		c.option(node)
	}
	for node := range nodes {
		c.start(node)
	}
	return c, func() {
		cancel()
		c.nodes.Wait()
		c.close()
		must(t, c.tool.Close())
	}
}

// wait lets the cluster run for a time, and returns its requests/s.
func (c *numbers) wait(d time.Duration) float64 {
	before, _, _ := c.web.Log().Totals()
	account.Sleep(c.ctx, d)
	after, _, _ := c.web.Log().Totals()
	return float64(after-before) / d.Seconds()
}

// TestMoveKeepsRate: while slots move, all nodes continue: they rest neither for the others to hear of them, nor for
// the delays of hosts that they have not visited. The delays of hosts hold nevertheless.
func TestMoveKeepsRate(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c, end := newNumbers(t, 3, load{rate: 0.3, host: time.Minute, lease: DefaultLeaseTTL})
		defer end()
		c.wait(time.Minute)
		for from, to := range []int{1, 2, 0} {
			moved := make(chan struct{})
			go func() {
				defer close(moved)
				c.give(half(c.table, from, to))
			}()
			if rate := c.wait(10 * time.Second); rate < 0.6*c.rate {
				t.Errorf("%.1f requests/s while slots move, of %.1f", rate, c.rate)
			}
			<-moved
			c.wait(20 * time.Second)
		}
		checkDelays(t, c.web.Log().Snapshot(), &c.options[0], 0)
	})
}

// TestClusterNumbers measures clusters of several sizes: what their nodes ask of the broker, and what they keep of
// their rate while a node joins, one leaves, and one is lost. docs/how-it-works/scaling.md has its figures.
func TestClusterNumbers(t *testing.T) {
	if !*longRuns {
		t.Skip("a measurement: -long")
	}
	for size := range strings.FieldsSeq(*numbersNodes) {
		var nodes int
		_, err := fmt.Sscan(size, &nodes)
		must(t, err)
		t.Run(size, func(t *testing.T) { inBubble(t, func(t *testing.T) { measureCluster(t, nodes) }) })
	}
}

func measureCluster(t *testing.T, nodes int) {
	c, end := newNumbers(t, nodes, load{rate: *numbersRate, host: *numbersHost, lease: *numbersLease})
	defer end()
	calm := func() { c.wait(*numbersCalm) }
	c.phase("start", func() { c.wait(time.Minute) })
	c.phase("calm", calm)
	if *numbersGivers == 0 {
		return
	}
	c.phase("room for a node", func() {
		next, err := c.table.Grow()
		c.apply(cluster.ChangeGrow, 0, next, err)
	})
	node, givers := nodes, min(nodes, *numbersGivers)
	c.option(node)
	c.start(node)
	c.phase("it starts", func() { c.wait(*numbersLease / 12) })
	c.phase(fmt.Sprintf("%d of %d nodes give it slots", givers, nodes), func() {
		slots := map[int]int{}
		for from := range givers {
			maps.Copy(slots, c.part(from, func(i int) (int, bool) { return node, i%(node+1) == 0 }))
		}
		c.give(slots)
	})
	c.phase("calm", calm)
	c.phase("node 0 gives all its slots, and leaves", func() {
		c.give(c.part(0, func(i int) (int, bool) { return 1 + i%node, true }))
		next, err := c.table.Depart(0)
		c.apply(cluster.ChangeDepart, 0, next, err)
	})
	c.phase("calm", calm)
	checkDelays(t, c.web.Log().Snapshot(), &c.options[1], 0)
	c.phase("node 1 is lost and forgotten", func() {
		c.options[1].Disk.FS.(*memfs.FS).CrashAfter(1)
		c.live[1]()
		next, err := c.table.Depart(1)
		c.apply(cluster.ChangeForget, 1, next, err)
	})
	c.phase("calm", calm)
	doubled := 0
	for _, n := range c.web.Log().Snapshot().Fetches {
		doubled += max(0, n-1)
	}
	t.Logf("%d URLs were fetched again, all of the lost node", doubled)
}
