package polite_test

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"drumbeat/polite"
)

// TestBytesAreWhatTheHeapHolds: Bytes and TableBytes match the growth of the heap within a quarter.
func TestBytesAreWhatTheHeapHolds(t *testing.T) {
	const hosts = 10_000
	for _, c := range []struct {
		name     string
		perHost  int
		networks bool
		visited  bool // each host was visited and its items are gone
		adaptive bool
	}{{"one URL a host", 1, false, false, false}, {"three URLs per host, networks", 3, true, false, false},
		{"hosts that rest, networks", 1, true, true, false}, {"hosts that adapt, networks", 1, true, true, true}} {
		opt := polite.Options{HostDelay: 40 * time.Second, ServerDelay: 40 * time.Second,
			PLDDelay: 40 * time.Second, MaxItems: 1 << 20}
		if c.adaptive {
			opt.HostDelayMin, opt.ResponseFactor, opt.Adaptive = time.Second, 10, true
		}
		if c.networks {
			opt.NetworkRate, opt.NetworkConnections = 0.025, 20
		}
		now := time.Now()
		before := heapBytes()
		s := polite.New(opt, now)
		for i := range hosts * c.perHost {
			h := i % hosts
			var a [4]byte
			binary.BigEndian.PutUint32(a[:], 0x0b000000+uint32(h)<<8)
			it := &polite.Item{Rec: make([]byte, 140), Host: uint64(h), PLD: uint64(h),
				Addrs: []netip.Addr{netip.AddrFrom4(a)}}
			if v := s.Admit(now, it); v.Kind != polite.Admitted {
				t.Fatalf("%s: item %d: %+v", c.name, i, v)
			}
		}
		if c.visited {
			for g, wait := s.Next(now); g != nil || wait == 0; g, wait = s.Next(now) {
				if g != nil {
					s.Started(now, g)
					s.Done(now, g, polite.Result{Elapsed: time.Second, Sign: polite.Clean})
				}
			}
			if n := s.Use().Resting; n != hosts {
				t.Errorf("%s: %d hosts rest, want %d", c.name, n, hosts)
			}
		}
		got, want := s.Bytes()+s.TableBytes(), heapBytes()-before
		t.Logf("%s: %d bytes per host counted, %d on the heap", c.name, got/hosts, want/hosts)
		if float64(got) < 0.8*float64(want) || float64(got) > 1.25*float64(want) {
			t.Errorf("%s: %d bytes counted, %d on the heap", c.name, got, want)
		}
		runtime.KeepAlive(s)
	}
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
