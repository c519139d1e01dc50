package lease

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/polite"
)

// stageOf returns the stage of an address's network.
func stageOf(l *Leases, addr netip.Addr) stage {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[polite.Network(addr)]; e != nil {
		return e.stage
	}
	return waiting
}

// frozenEngine is the transport of a process that can be frozen (SIGSTOP, a paused machine): what it calls,
// and what comes, waits until it thaws. The broker and the connection live on.
type frozenEngine struct {
	cluster.Transport
	mu    sync.Mutex
	until time.Time
	calls map[string]func() // by call: is called once before its result is there
}

func (e *frozenEngine) freeze(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.until = time.Now().Add(d)
}

// frozen waits until the process has thawed.
func (e *frozenEngine) frozen() {
	for {
		e.mu.Lock()
		d := time.Until(e.until)
		e.mu.Unlock()
		if d <= 0 {
			return
		}
		time.Sleep(d)
	}
}

func (e *frozenEngine) happens(call string) {
	e.mu.Lock()
	f := e.calls[call]
	delete(e.calls, call)
	e.mu.Unlock()
	if f != nil {
		f()
	}
}

func (e *frozenEngine) State() cluster.State { e.frozen(); return e.Transport.State() }

func (e *frozenEngine) Get(ctx context.Context, b cluster.Bucket, key string) (cluster.Value, error) {
	e.frozen()
	v, err := e.Transport.Get(ctx, b, key)
	if key[:3] == "net" {
		e.happens("get")
	}
	e.frozen()
	return v, err
}

func (e *frozenEngine) Update(ctx context.Context, b cluster.Bucket, key string, data []byte,
	rev uint64) (uint64, error) {
	e.frozen()
	if key[:3] == "net" {
		e.happens("decided")
	}
	e.frozen()
	r, err := e.Transport.Update(ctx, b, key, data, rev)
	if key[:3] == "net" {
		e.happens("update")
	}
	e.frozen()
	return r, err
}

func (e *frozenEngine) Create(ctx context.Context, b cluster.Bucket, key string, data []byte) (uint64, error) {
	e.frozen()
	r, err := e.Transport.Create(ctx, b, key, data)
	if key[:3] == "net" {
		e.happens("create")
	}
	e.frozen()
	return r, err
}

func (e *frozenEngine) Last(ctx context.Context, b cluster.Bucket) (uint64, error) {
	e.frozen()
	r, err := e.Transport.Last(ctx, b)
	e.frozen()
	return r, err
}

func (e *frozenEngine) Ask(ctx context.Context, to int, kind string, data []byte) ([]byte, error) {
	e.frozen()
	r, err := e.Transport.Ask(ctx, to, kind, data)
	e.frozen()
	return r, err
}

func (e *frozenEngine) Answer(kind string, f func(context.Context, int, []byte) []byte) (func(), error) {
	return e.Transport.Answer(kind, func(ctx context.Context, from int, data []byte) []byte {
		e.frozen()
		return f(ctx, from, data)
	})
}

func (e *frozenEngine) Watch(ctx context.Context, b cluster.Bucket, p string) (cluster.Watcher, error) {
	e.frozen()
	w, err := e.Transport.Watch(ctx, b, p)
	return &frozenWatcher{w, e}, err
}

type frozenWatcher struct {
	cluster.Watcher
	e *frozenEngine
}

func (w *frozenWatcher) Next(ctx context.Context) (cluster.Value, bool, error) {
	v, ok, err := w.Watcher.Next(ctx)
	w.e.frozen()
	if ctx.Err() == nil {
		time.Sleep(2 * time.Millisecond) // goroutines of the client between the socket and here
	}
	return v, ok, err
}

// iced are two nodes that want one network; each can be frozen.
type iced struct {
	t          *testing.T
	net        *mem.Net
	addr       netip.Addr
	transports [2]*frozenEngine
	leases     [2]*Leases
	sched      [2]*polite.Scheduler
	held       [2]int // looks that found the node able to fetch
}

// inIce runs f with two nodes; node 0 holds the network, and node 1 begins to want it.
func inIce(t *testing.T, f func(*iced)) {
	synctest.Test(t, func(t *testing.T) {
		n := &iced{t: t, net: mem.New(mem.Options{Seed: *seedFlag, Faults: mem.Faults{Delay: 5 * time.Millisecond}}),
			addr: netip.AddrFrom4([4]byte{10, 0, 0, 1})}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for node := range n.leases {
			n.sched[node] = polite.New(polite.Options{Leased: true, ServerDelay: time.Second}, time.Now())
			n.transports[node] = &frozenEngine{Transport: n.net.Transport(node), calls: map[string]func(){}}
			defer n.transports[node].Close()
			n.leases[node] = New(Options{Transport: n.transports[node], Polite: n.sched[node], Node: node, Nodes: 2,
				Run: uint64(node) + 1, TTL: time.Minute, Longest: longest, New: true})
			running.Go(func() {
				if err := n.leases[node].Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(10 * time.Second)
		n.want(0)
		time.Sleep(10 * time.Second)
		if stageOf(n.leases[0], n.addr) != held {
			t.Error("node 0 does not hold the network")
		}
		f(n)
		cancel()
		running.Wait()
	})
}

// want gives a node a URL in the network.
func (n *iced) want(node int) {
	it := &polite.Item{Host: uint64(node), PLD: uint64(node), Addrs: []netip.Addr{n.addr}}
	if v := n.sched[node].Admit(time.Now(), it); v.Kind != polite.Admitted {
		n.t.Errorf("%+v", v)
	}
}

// fetches reports whether a node that is not frozen would begin a request in the network.
func (n *iced) fetches(node int) bool {
	n.transports[node].mu.Lock()
	frozen := time.Now().Before(n.transports[node].until)
	n.transports[node].mu.Unlock()
	return !frozen && n.leases[node].MayFetch() && n.sched[node].Lease(time.Now(), n.addr).Held
}

// look looks for a time whether both nodes fetch at once.
func (n *iced) look(what string, d time.Duration) {
	n.t.Helper()
	both, looks := 0, 0
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		looks++
		a, b := n.fetches(0), n.fetches(1)
		if a {
			n.held[0]++
		}
		if b {
			n.held[1]++
		}
		if a && b {
			both++
		}
	}
	if both > 0 {
		n.t.Errorf("%s: two nodes may fetch in one network in %d of %d looks", what, both, looks)
	}
}

// TestFrozenTaker: node 1 wants the network that node 0 visits, and is frozen for longer than TTL at any
// moment while it asks for it: the holder's heartbeats wait in its connection.
func TestFrozenTaker(t *testing.T) {
	step := 7
	if *longFlag {
		step = 1
	}
	for off := 0; off < 60; off += step {
		inIce(t, func(n *iced) {
			n.want(1)
			time.Sleep(time.Duration(off) * time.Millisecond)
			n.transports[1].freeze(70 * time.Second)
			time.Sleep(70 * time.Second)
			n.look(fmt.Sprintf("frozen %d ms after it wants the network", off), 30*time.Second)
			if n.held[0] == 0 || n.held[1] == 0 {
				t.Errorf("the nodes may fetch in %v looks: the network does not change hands", n.held)
			}
		})
	}
}

// TestFrozenInCall: a node is frozen for longer than TTL just when a call of the transport has had, or will
// have, its effect.
func TestFrozenInCall(t *testing.T) {
	for _, c := range []struct {
		call string
		node int
	}{{"create", 1}, {"get", 1}, {"update", 0}, {"decided", 0}, {"get", 0}} {
		inIce(t, func(n *iced) {
			e, hit := n.transports[c.node], false
			e.mu.Lock()
			e.calls[c.call] = func() { hit = true; e.freeze(70 * time.Second) }
			e.mu.Unlock()
			n.want(1)
			what := fmt.Sprintf("node %d is frozen in %q", c.node, c.call)
			n.look(what, 3*time.Minute)
			if !hit && c.call != "get" {
				t.Errorf("%s: it made no such call", what)
			}
			if n.held[0]+n.held[1] == 0 {
				t.Errorf("%s: nobody fetches", what)
			}
		})
	}
}

// TestFrozenTakeOver: node 0 is frozen, so node 1 takes its network. Node 1 is frozen when it has decided to,
// or has done so. Then node 0 thaws, and perhaps claims its leases again, before node 1 does.
func TestFrozenTakeOver(t *testing.T) {
	for _, call := range []string{"decided", "update"} {
		for _, second := range []time.Duration{5 * time.Second, 50 * time.Second, 2 * time.Minute} {
			inIce(t, func(n *iced) {
				e, hit := n.transports[1], false
				e.mu.Lock()
				e.calls[call] = func() { hit = true; e.freeze(second); n.transports[0].freeze(time.Second) }
				e.mu.Unlock()
				n.want(1)
				n.transports[0].freeze(10 * time.Minute)
				what := fmt.Sprintf("the taker is frozen for %v in %q", second, call)
				n.look(what, 5*time.Minute)
				if !hit {
					t.Errorf("%s: it never came to that", what)
				}
				if n.held[0]+n.held[1] == 0 {
					t.Errorf("%s: nobody fetches", what)
				}
			})
		}
	}
}

// TestFrozenBoth: both nodes are frozen, as on one host that sleeps, and thaw with some time between.
func TestFrozenBoth(t *testing.T) {
	for _, between := range []time.Duration{-3 * time.Second, -5 * time.Millisecond, 0, 5 * time.Millisecond,
		time.Second, 30 * time.Second} {
		inIce(t, func(n *iced) {
			n.want(1)
			n.transports[0].freeze(70*time.Second + between)
			n.transports[1].freeze(70 * time.Second)
			n.look(fmt.Sprintf("both frozen, %v between", between), 3*time.Minute)
			if n.held[0]+n.held[1] == 0 {
				t.Errorf("%v between: nobody fetches", between)
			}
		})
	}
}

// TestFrozenStart: a process that is frozen while it looks whether an earlier one of its node lives does not
// take that look for a proof.
func TestFrozenStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := mem.New(mem.Options{})
		start := func(ctx context.Context, run uint64, e cluster.Transport) (*Leases, chan error) {
			l := New(Options{Transport: e, Polite: polite.New(polite.Options{Leased: true}, time.Now()), Nodes: 2,
				Run: run, TTL: time.Minute, Longest: longest})
			ended := make(chan error, 1)
			go func() { ended <- l.Run(ctx) }()
			return l, ended
		}
		ctx, cancel := context.WithCancel(t.Context())
		first := net.Transport(0)
		defer first.Close()
		_, ended := start(ctx, 1, first)
		time.Sleep(10 * time.Second)
		e := &frozenEngine{Transport: net.Transport(0)}
		defer e.Close()
		_, second := start(ctx, 2, e)
		time.Sleep(700 * time.Millisecond) // it has looked twice
		e.freeze(5 * time.Second)
		time.Sleep(15 * time.Second)
		select {
		case err := <-second:
			if !errors.Is(err, ErrTwice) {
				t.Errorf("the second process ends with %v", err)
			}
		default:
			t.Error("the second process runs beside the first")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
