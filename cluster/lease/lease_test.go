package lease

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/polite"
)

var (
	seedFlag = flag.Uint64("seed", 1, "first seed of the simulations")
	longFlag = flag.Bool("long", false, "run many simulations")
)

// servers are what all nodes visit. They keep the log.
type servers struct {
	t   *testing.T
	opt polite.Options

	mu     sync.Mutex
	last   map[netip.Addr]time.Time
	starts map[netip.Addr][]time.Time // by network
	open   map[netip.Addr]int         // by network
	who    map[netip.Addr]string
	by     map[string]int // visits by process
	visits int
	refuse time.Duration // the next visit finds a back-off of that long; nobody knows it before
	until  map[netip.Addr]time.Time
}

func newServers(t *testing.T, opt polite.Options) *servers {
	return &servers{t: t, opt: opt, last: map[netip.Addr]time.Time{}, starts: map[netip.Addr][]time.Time{},
		open: map[netip.Addr]int{}, who: map[netip.Addr]string{}, by: map[string]int{},
		until: map[netip.Addr]time.Time{}}
}

func (v *servers) begin(who string, a netip.Addr) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now, net := time.Now(), polite.Network(a)
	v.visits++
	v.by[who]++
	if last, ok := v.last[a]; ok && now.Sub(last) < v.opt.ServerDelay {
		v.t.Errorf("%s: %s: %v: %v after the request of %s", now.Format("04:05.000"), who, a, now.Sub(last), v.who[a])
	}
	if left := v.until[a].Sub(now); left > 0 {
		v.t.Errorf("%s: %v rests for another %v", who, a, left)
	}
	v.last[a], v.who[a] = now, who
	v.starts[net] = append(v.starts[net], now)
	burst := int(v.opt.NetworkRate)
	if n := len(v.starts[net]); n > burst && now.Sub(v.starts[net][n-1-burst]) < time.Second {
		v.t.Errorf("%s: %v: %d requests in %v", who, net, burst+1, now.Sub(v.starts[net][n-1-burst]))
	}
	if v.open[net]++; v.open[net] > v.opt.NetworkConnections {
		v.t.Errorf("%s: %v: %d exchanges", who, net, v.open[net])
	}
}

func (v *servers) end(a netip.Addr) (r polite.Result) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.open[polite.Network(a)]--
	if v.refuse > 0 {
		r.ServerBackoff, v.until[a], v.refuse = v.refuse, time.Now().Add(v.refuse), 0
	}
	return r
}

const longest = 2 * time.Second

// node is a crawler without anything but politeness.
type node struct {
	t       *testing.T
	web     *servers
	net     *mem.Net
	number  int
	nodes   int
	ttl     time.Duration
	rng     *rand.Rand
	mu      sync.Mutex
	items   map[*polite.Item]bool // that are not fetched
	run     uint64
	figures Figures
	wrap    func(cluster.Transport) cluster.Transport // nil: no
	// Of leases, that the last process seems to have seen; its start is one.
	losses  int
	stages  [gone + 1]int // that count has seen
	claims  int
	rested  int // looks that found it resting after its start
	problem func(string, error)
	kept    cluster.Transport // of all lives, which then are of one process; nil: each is a process
	before  *Before           // of the same
	recent  *polite.Recent    // of the last of these lives
	slept   int               // how often leases were suspended
	bodies  time.Duration     // each fourth exchange takes that long; 0: none does
}

// admit gives the items that are not fetched to a new process, and returns their number.
func (n *node) admit(s *polite.Scheduler) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, it := range slices.Collect(maps.Keys(n.items)) {
		fresh := &polite.Item{Host: it.Host, PLD: it.PLD, Addrs: it.Addrs}
		delete(n.items, it)
		n.items[fresh] = true
		if v := s.Admit(time.Now(), fresh); v.Kind != polite.Admitted {
			n.t.Errorf("admit: %+v", v)
		}
	}
	return len(n.items)
}

// await waits until a request may begin, but no longer than a second.
func await(ctx context.Context, s *polite.Scheduler, wait time.Duration) {
	timer := time.NewTimer(min(wait, time.Second))
	defer timer.Stop()
	select {
	case <-s.Ready():
	case <-timer.C:
	case <-ctx.Done():
	}
}

// live is one life of a node. It returns nil when all is fetched or ctx has ended; clean says that it then says so.
func (n *node) live(ctx context.Context, clean bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	transport := n.kept
	if transport == nil {
		transport = n.net.Transport(n.number)
		defer transport.Close()
	}
	if n.wrap != nil {
		transport = n.wrap(transport)
	}
	opt := n.web.opt
	if n.run > 0 {
		opt.Visited, opt.Recent = time.Now(), n.recent
	}
	n.run++
	s := polite.New(opt, time.Now())
	l := New(Options{Transport: transport, Polite: s, Node: n.number, Nodes: n.nodes,
		Run: uint64(n.number)<<32 + n.run, TTL: n.ttl, Longest: longest, New: n.run == 1, Problem: n.problem,
		Before: n.before})
	left := n.admit(s)
	var running, exchanges sync.WaitGroup
	var failed error
	running.Go(func() {
		if failed = l.Run(ctx); failed != nil {
			cancel()
		}
	})
	running.Go(func() {
		for ctx.Err() == nil {
			if f := l.Figures(); f.Resting && !f.Starting {
				n.rested++
			}
			n.count(l)
			pause(ctx, n.random(100*time.Millisecond))
		}
	})
	for left > 0 && ctx.Err() == nil {
		if !l.MayFetch() {
			pause(ctx, 50*time.Millisecond)
			continue
		}
		g, wait := s.Next(time.Now())
		if g == nil {
			await(ctx, s, wait)
		} else {
			setup, took := n.random(300*time.Millisecond), n.random(longest)
			if n.bodies > 0 && n.random(4) == 0 {
				took = n.bodies
			}
			exchanges.Go(func() { n.exchange(ctx, s, g, setup, took) })
		}
		n.mu.Lock()
		left = len(n.items)
		n.mu.Unlock()
	}
	exchanges.Wait()
	n.figures = l.Figures()
	cancel()
	running.Wait()
	n.losses = l.heartbeats.events
	if failed == nil {
		n.end(l, s, clean)
	}
	return failed
}

// end ends a life, by suspension if another one of its process may follow.
func (n *node) end(l *Leases, s *polite.Scheduler, clean bool) {
	if n.before != nil {
		n.recent = s.InDelay(time.Now())
	}
	if !clean {
		return
	}
	if n.before != nil && n.random(2) == 0 && l.Suspend() {
		n.slept++
		return
	}
	end, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.End(end); err != nil {
		n.t.Logf("node %d: %v", n.number, err)
	}
}

// count compares the counters of leases with their entries.
func (n *node) count(l *Leases) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var held, wanted, claims int
	var longest time.Duration
	for _, e := range l.entries {
		if e.claim {
			claims++
		}
		switch {
		case e.stage != waiting:
			held++
		case !e.claim:
			wanted++
			longest = max(longest, l.now()-e.wanted)
		}
		n.stages[e.stage]++
	}
	n.claims += claims
	if e := l.line.Front(); held != l.held || wanted != l.line.Len() || claims != l.claims ||
		e != nil && l.now()-e.wanted != longest {
		n.t.Errorf("node %d: %d networks held, %d wanted, for %v, %d claims; the counters say %d, %d, %+v, %d",
			n.number, held, wanted, longest, claims, l.held, l.line.Len(), e, l.claims)
	}
}

// exchange is a request. If the process ends, it ends with it.
func (n *node) exchange(ctx context.Context, s *polite.Scheduler, g *polite.Grant, setup, took time.Duration) {
	pause(ctx, setup)
	if ctx.Err() != nil {
		return
	}
	s.Started(time.Now(), g)
	n.web.begin(fmt.Sprintf("node %d, run %d", n.number, n.run), g.Addr)
	pause(ctx, took)
	result := n.web.end(g.Addr)
	if ctx.Err() != nil {
		return
	}
	s.Done(time.Now(), g, result)
	n.mu.Lock()
	delete(n.items, g.Item)
	n.mu.Unlock()
}

func (n *node) random(d time.Duration) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Duration(n.rng.Int64N(int64(d)))
}

func testNodes(t *testing.T, seed uint64, nodes, items int, faults mem.Faults) (*mem.Net, []*node, *servers) {
	opt := polite.Options{HostDelay: 5 * time.Second, ServerDelay: time.Second, ServerDelayMin: time.Second,
		NetworkRate: 5, NetworkConnections: 4, Leased: true, MaxPerServer: polite.Unlimited,
		MaxPerHost: polite.Unlimited}
	web, net := newServers(t, opt), mem.New(mem.Options{Seed: seed, Faults: faults})
	var all []*node
	for i := range nodes {
		n := &node{t: t, web: web, net: net, number: i, nodes: nodes, ttl: time.Minute,
			rng: rand.New(rand.NewPCG(seed, uint64(i))), items: map[*polite.Item]bool{}}
		for k := range items {
			host := k % 8
			a := netip.AddrFrom4([4]byte{10, 0, byte(host % 3), byte(host % 4)})
			it := &polite.Item{Host: uint64(i*100 + host), PLD: uint64(i*100 + host), Addrs: []netip.Addr{a}}
			if host == 5 { // it has an address in a network of its own, too
				it.Addrs = append(it.Addrs, netip.AddrFrom4([4]byte{10, 1, byte(i), 1}))
			}
			n.items[it] = true
		}
		all = append(all, n)
	}
	return net, all, web
}

// TestNodes: nodes that share all networks visit them in turn, keep all limits together, and give leases back
// at the end.
func TestNodes(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 3
	}
	for seed := *seedFlag; seed < *seedFlag+seeds; seed++ {
		synctest.Test(t, func(t *testing.T) { testTurns(t, seed) })
	}
}

func testTurns(t *testing.T, seed uint64) {
	net, nodes, web := testNodes(t, seed, 3, 80, mem.Faults{Delay: 5 * time.Millisecond})
	begun := time.Now()
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(func() {
			if err := n.live(t.Context(), true); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	var sum Figures
	for _, n := range nodes {
		sum.Taken += n.figures.Taken
		sum.HandedOver += n.figures.HandedOver
		sum.Lost += n.figures.Lost
	}
	took := time.Since(begun)
	t.Logf("%d visits in %v: %+v", web.visits, took, sum)
	if f := nodes[0].figures; f.Resting || f.Starting || f.Losses > 0 {
		t.Errorf("at the end: %+v", f)
	}
	if web.visits != 240 || sum.HandedOver < 10 || sum.Lost > 0 {
		t.Errorf("%d visits, want 240: %+v", web.visits, sum)
	}
	// A host alone takes a minute. Each node has a network for a third of the time; stays are short.
	if took > 4*time.Minute {
		t.Errorf("it took %v", took)
	}
	e := net.Transport(0)
	defer e.Close()
	for i := range nodes {
		v, err := e.Get(t.Context(), cluster.BucketNet, heartbeatKey(i))
		var b heartbeat
		if err != nil || json.Unmarshal(v.Data, &b) != nil || !b.Ended {
			t.Errorf("node %d: heartbeat %s, %v", i, v.Data, err)
		}
	}
}

// together runs nodes until all is fetched, and happens beside them.
func together(t *testing.T, nodes []*node, happens func()) {
	t.Helper()
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(func() {
			if err := n.live(t.Context(), true); err != nil {
				t.Error(err)
			}
		})
	}
	happens()
	all.Wait()
	for _, n := range nodes {
		if len(n.items) > 0 {
			t.Errorf("node %d: %d items are left", n.number, len(n.items))
		}
	}
}

// TestSilent: a node that is cut off continues, and then rests; the others take its networks after TTL; it
// continues with its own once it is back.
func TestSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, nodes, web := testNodes(t, *seedFlag, 2, 400, mem.Faults{Delay: 5 * time.Millisecond})
		visits := func() (before int) {
			web.mu.Lock()
			defer web.mu.Unlock()
			return web.by["node 0, run 1"]
		}
		together(t, nodes, func() {
			time.Sleep(time.Minute)
			net.Cut(0)
			was := visits()
			time.Sleep(30 * time.Second)
			on := visits()
			time.Sleep(25 * time.Second)
			resting := visits()
			time.Sleep(5 * time.Minute)
			if on == was || visits() > resting+8 { // some exchanges are about to begin
				t.Errorf("node 0, cut off, had %d, %d, %d, %d visits", was, on, resting, visits())
			}
			net.Heal(0)
		})
	})
}

// TestLoss: a broker that has lost all leases gives them to another node than the holder, which is cut off,
// does not know of it, and continues. The other one does not open them before the holder rests.
func TestLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, nodes, _ := testNodes(t, *seedFlag, 2, 400, mem.Faults{Delay: 5 * time.Millisecond})
		together(t, nodes, func() {
			for range 5 {
				time.Sleep(50 * time.Second)
				net.Cut(0)
				net.Stop()
				net.Wipe()
				net.Start()
				time.Sleep(45 * time.Second)
				net.Heal(0)
			}
		})
		if f := nodes[1].figures; f.Losses != 5 {
			t.Errorf("a node that stays connected counts %d losses, want 5", f.Losses)
		}
	})
}

// TestRestsOutliveKills: a node gets a lease whose server rests, and is killed before anything of its own
// says so. Its next processes keep the rest, no longer than it was, and so does another node that takes the
// lease.
func TestRestsOutliveKills(t *testing.T) {
	for _, taker := range []int{1, 0} {
		synctest.Test(t, func(t *testing.T) {
			_, nodes, web := testNodes(t, *seedFlag, 2, 0, mem.Faults{Delay: 5 * time.Millisecond})
			a := netip.AddrFrom4([4]byte{10, 0, 0, 1})
			give := func(node int) {
				nodes[node].items[&polite.Item{Host: uint64(node), PLD: uint64(node), Addrs: []netip.Addr{a}}] = true
			}
			live := func(node int, d time.Duration) {
				ctx, cancel := context.WithTimeout(t.Context(), d)
				defer cancel()
				if err := nodes[node].live(ctx, d > time.Hour); err != nil {
					t.Error(err)
				}
			}
			web.refuse = 20 * time.Minute
			give(0)
			live(0, 2*time.Hour)
			give(1)
			for range 3 {
				live(1, 2*time.Minute)
				time.Sleep(time.Minute)
			}
			give(taker)
			live(taker, 2*time.Hour)
			over := time.Since(web.until[a])
			t.Logf("node %d visits %v after the rest", taker, over)
			if most := time.Duration(1-taker)*10*time.Minute + 20*time.Second; len(nodes[taker].items) > 0 ||
				over > most {
				t.Errorf("node %d visits %v after the rest, want at most %v", taker, over, most)
			}
		})
	}
}

// TestSlowEngine: another node has many networks that this one wants, and calls of the transport take so long
// that some step is always due. This one still gets a network that nobody has.
func TestSlowEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, nodes, _ := testNodes(t, *seedFlag, 2, 0, mem.Faults{Delay: time.Second})
		const networks = 1000
		address := func(network int) netip.Addr {
			return netip.AddrFrom4([4]byte{10, byte(network >> 8), byte(network), 0})
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var running sync.WaitGroup
		var l *Leases
		for node := range 2 {
			s := polite.New(nodes[node].web.opt, time.Now())
			want := func(network int) {
				it := &polite.Item{Host: uint64(node<<20 + network), PLD: uint64(network),
					Addrs: []netip.Addr{address(network)}}
				if v := s.Admit(time.Now(), it); v.Kind != polite.Admitted {
					t.Fatalf("%+v", v)
				}
			}
			l = New(Options{Transport: net.Transport(node), Polite: s, Node: node, Nodes: 2, Run: uint64(node) + 1,
				TTL: 10 * time.Minute, Longest: longest, New: true})
			defer l.o.Transport.Close()
			running.Go(func() {
				if err := l.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			for network := range networks {
				want(network)
			}
			time.Sleep(2 * time.Minute)
			want(networks + node)
		}
		began := time.Now()
		for held := false; !held; {
			l.mu.Lock()
			e := l.entries[address(networks+1)]
			held = e != nil && e.stage != waiting
			due, queued := 0, len(l.queue)
			for _, q := range l.queue {
				if q.due <= l.now() {
					due++
				}
			}
			l.mu.Unlock()
			if due < queued/2 {
				t.Errorf("%d of %d steps are due: the transport is not slow", due, queued)
			}
			if time.Since(began) > time.Minute {
				t.Error("a network that nobody has is not held after a minute")
				break
			}
			time.Sleep(time.Second)
		}
		cancel()
		running.Wait()
	})
}
