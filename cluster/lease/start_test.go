package lease

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/polite"
)

// TestTwice: of two processes for one node the later one is refused, and one that follows a kill is not.
func TestTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes, _ := testNodes(t, *seedFlag, 2, 100, mem.Faults{})
		ctx, cancel := context.WithCancel(t.Context())
		n := nodes[0]
		var all sync.WaitGroup
		all.Go(func() {
			if err := n.live(ctx, false); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(20 * time.Second)
		twin := nodes[1]
		twin.number, twin.run = 0, 100
		if err := twin.live(t.Context(), false); !errors.Is(err, ErrTwice) {
			t.Errorf("another process for node 0: %v", err)
		}
		cancel()
		all.Wait()
		twin.run, twin.items = 200, map[*polite.Item]bool{}
		if err := twin.live(t.Context(), false); err != nil {
			t.Errorf("after a kill: %v", err)
		}
	})
}

// TestHeard: a node that has wanted a network since its start claims it at the moment the others have read its
// heartbeats, without the time of a recheck.
func TestHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, s := mem.New(mem.Options{}), polite.New(polite.Options{Leased: true}, time.Now())
		transport := net.Transport(0)
		defer transport.Close()
		opened := make(chan struct{})
		l := New(Options{Transport: transport, Polite: s, Nodes: 2, Run: 1, TTL: time.Minute, Longest: longest,
			New: true, Opened: sync.OnceFunc(func() { close(opened) })})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		addr := netip.AddrFrom4([4]byte{10, 0, 0, 1})
		time.Sleep(recheckAfter / 3) // the rechecks do not coincide with the heartbeats
		s.Admit(time.Now(), &polite.Item{Host: 1, PLD: 1, Addrs: []netip.Addr{addr}})
		<-opened
		time.Sleep(recheckAfter / 10)
		if is := stageOf(l, addr); is != held {
			t.Errorf("stage %d after the others have read its heartbeats", is)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestStart: a process rests for three heartbeats after its start, and for three more if the process before
// it was killed. Its figures say that it starts, and later, when it was silent for long, that it rests.
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := mem.New(mem.Options{})
		run := uint64(0)
		rests := func(end bool, during func(l *Leases)) time.Duration {
			t.Helper()
			run++
			transport := net.Transport(0)
			defer transport.Close()
			l := New(Options{Transport: transport, Polite: polite.New(polite.Options{Leased: true}, time.Now()),
				Nodes: 2, Run: run, TTL: time.Minute, Longest: longest, New: run == 1})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- l.Run(ctx) }()
			begun := time.Now()
			for !l.MayFetch() && time.Since(begun) < time.Hour {
				if f := l.Figures(); !f.Resting || !f.Starting {
					t.Errorf("at the start: %+v", f)
				}
				time.Sleep(10 * time.Millisecond)
			}
			took := time.Since(begun)
			if f := l.Figures(); f.Resting || f.Starting {
				t.Errorf("after the start: %+v", f)
			}
			if during != nil {
				during(l)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if end {
				if err := l.End(t.Context()); err != nil {
					t.Error(err)
				}
			}
			return took
		}
		beat := time.Minute / heartbeatsPerTTL
		first := rests(true, nil)
		ended := rests(false, nil)
		killed := rests(false, func(l *Leases) {
			net.Cut(0)
			time.Sleep(2 * time.Minute)
			if f := l.Figures(); !f.Resting || f.Starting {
				t.Errorf("silent for long: %+v", f)
			}
			net.Heal(0)
		})
		for i, is := range []time.Duration{first, ended, killed - 3*beat} {
			if is < 3*beat || is > 4*beat {
				t.Errorf("start %d took %v, a heartbeat takes %v", i, is, beat)
			}
		}
	})
}

// replica is a transport whose Get returns the heartbeats of node 0's killed process one after the other, as a replica
// does that was away and catches up. The first one may stay for some calls.
type replica struct {
	cluster.Transport
	old   []cluster.Value // in order
	calls int             // left for the first of old
}

func (r *replica) Get(ctx context.Context, b cluster.Bucket, key string) (cluster.Value, error) {
	v, err := r.Transport.Get(ctx, b, key)
	if key != heartbeatKey(0) || err != nil || len(r.old) == 0 {
		return v, err
	}
	if r.calls--; r.calls < 0 {
		r.calls, r.old = 0, r.old[1:]
	}
	if len(r.old) == 0 {
		return v, nil
	}
	return r.old[0], nil
}

// TestStartReplica: heartbeats of a killed process that a replica returns late are not those of another process.
func TestStartReplica(t *testing.T) {
	for name, calls := range map[string]int{"catches up": 1, "lags": 20} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := mem.New(mem.Options{})
				killed, next := net.Transport(0), &replica{Transport: net.Transport(0), calls: calls}
				defer killed.Close()
				defer next.Close()
				run := func(run uint64, transport cluster.Transport) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					l := New(Options{Transport: transport, Nodes: 2, Run: run, New: run == 1, TTL: time.Minute,
						Polite: polite.New(polite.Options{Leased: true}, time.Now()), Longest: longest})
					var all sync.WaitGroup
					all.Go(func() {
						if err := l.Run(ctx); err != nil {
							t.Errorf("process %d: %v", run, err)
						}
					})
					for run == 1 && ctx.Err() == nil {
						if v, err := transport.Get(ctx, cluster.BucketNet, heartbeatKey(0)); err == nil {
							next.old = append(next.old, v)
						}
						pause(ctx, time.Minute/heartbeatsPerTTL)
					}
					all.Wait()
					if sent := l.heartbeats.sent.Load(); sent == 0 {
						t.Errorf("process %d sent no heartbeat", run)
					}
				}
				run(1, killed)
				if len(next.old) < 20 {
					t.Fatalf("%d heartbeats", len(next.old))
				}
				next.old = next.old[len(next.old)-20:]
				run(2, next)
			})
		})
	}
}
