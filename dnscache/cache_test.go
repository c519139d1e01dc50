package dnscache

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

var seedFlag = flag.Uint64("seed", 0, "seed of random tests; 0: a random one")

func testRand(t testing.TB) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// TestCacheModel compares random operations with a map: lookups are right, and bounds and byte counts hold.
func TestCacheModel(t *testing.T) {
	rnd := testRand(t)
	c := newCache(100, 20_000)
	type known struct {
		addrs   []netip.Addr
		kind    Kind
		expires time.Time
	}
	model := make(map[string]known)
	now := time.Unix(1e9, 0)
	for range 50_000 {
		now = now.Add(time.Duration(rnd.IntN(2000)) * time.Millisecond)
		host := fmt.Sprintf("h%d.test", rnd.IntN(300))
		if rnd.IntN(2) == 0 {
			k := known{expires: now.Add(time.Duration(1+rnd.IntN(300)) * time.Second)}
			if rnd.IntN(4) == 0 {
				k.kind = KindNXDomain
			}
			for range rnd.IntN(5) * int(1-min(k.kind, 1)) {
				k.addrs = append(k.addrs, netip.AddrFrom4([4]byte{10, 0, 0, byte(rnd.IntN(256))}))
			}
			if rnd.IntN(2) == 0 && k.kind == 0 {
				k.addrs = append(k.addrs, netip.AddrFrom16([16]byte{0x20, 1, 15: byte(rnd.IntN(256))}))
			}
			model[host] = k
			c.put(host, k.addrs, k.kind, k.expires, now)
		}
		want := model[host]
		if e, ok := c.get(host, now); ok {
			a := e.answer()
			if !slices.Equal(a.Addrs, want.addrs) || e.kind != want.kind || !a.Expires.Equal(want.expires) {
				t.Fatalf("%s: got %v, want %v", host, a, want)
			}
			if !now.Before(want.expires) {
				t.Fatalf("%s: got after its time", host)
			}
		}
		if len(c.index) > 100 || c.bytes > 20_000 || len(c.slots) > 100 {
			t.Fatalf("%d entries, %d bytes, %d slots", len(c.index), c.bytes, len(c.slots))
		}
	}
	var sum int64
	for _, i := range c.index {
		sum += c.slots[i].cost()
	}
	if sum != c.bytes || len(c.index)+len(c.free) != len(c.slots) {
		t.Errorf("bytes %d, want %d; %d entries and %d free of %d", c.bytes, sum, len(c.index), len(c.free),
			len(c.slots))
	}
}

// TestCacheMemory: the formula for the cost of an entry is at least what the heap shows.
func TestCacheOfAClockThatWasAhead(t *testing.T) {
	c, now := newCache(100, 20_000), time.Now()
	ahead := now.Add(365 * 24 * time.Hour)
	c.get("a", ahead)
	c.put("a", nil, KindNXDomain, ahead.Add(time.Hour), ahead)
	if _, ok := c.get("a", ahead.Add(-59*time.Minute)); !ok {
		t.Error("an hour is no difference")
	}
	if _, ok := c.get("a", now); ok || c.bytes != 0 || len(c.index) != 0 {
		t.Error("it is still there")
	}
	c.put("a", nil, KindNXDomain, now.Add(time.Hour), now)
	if _, ok := c.get("a", now); !ok {
		t.Error("nothing is kept afterwards")
	}
}

func TestCacheMemory(t *testing.T) {
	const n = 200_000
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	c := newCache(n, 1<<40)
	now := time.Now()
	addrs := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}
	for i := range 2 * n {
		c.put(fmt.Sprintf("host%d.example.org", i), addrs, 0, now.Add(time.Hour), now)
	}
	got := float64(heap()-before) / n
	t.Logf("%.0f bytes an entry, %.0f by the formula", got, float64(c.bytes)/n)
	if len(c.index) != n || got > 1.3*float64(c.bytes)/n {
		t.Errorf("%d entries, %.0f bytes each, want at most 1.3 times %d", len(c.index), got, c.bytes/n)
	}
	runtime.KeepAlive(c)
}

// TestInProcess runs in virtual time over net.Pipe: retries after 1, 2 and 4 s, the failure's memory of 30 s.
func TestInProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Duration
		var mu sync.Mutex
		begin := time.Now()
		dial := func(_ context.Context, network string, _ netip.AddrPort) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				buf := make([]byte, 4096)
				for {
					n, err := server.Read(buf)
					if err != nil {
						return
					}
					var req dns.Msg
					if err := req.Unpack(buf[:n]); err != nil {
						t.Error(err)
					}
					mu.Lock()
					asked = append(asked, time.Since(begin))
					mu.Unlock()
					if time.Since(begin) > time.Minute {
						b, _ := replyTo(&req, 0, rr(t, "%s 300 IN A 192.0.2.1", req.Question[0].Name)).Pack()
						server.Write(b)
					}
				}
			}()
			return client, nil
		}
		r, err := New(Options{Family: Family4, Dial: dial,
			Servers: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.53:53")}})
		must(t, err)
		defer r.Close()
		for range 2 {
			if got := lookup(t, r, "a.test"); got != "timeout" || time.Since(begin) != 7*time.Second {
				t.Errorf("got %s after %v", got, time.Since(begin))
			}
		}
		time.Sleep(31 * time.Second)
		if got := lookup(t, r, "a.test"); got != "timeout" || time.Since(begin) != 45*time.Second {
			t.Errorf("got %s after %v", got, time.Since(begin))
		}
		time.Sleep(31 * time.Second)
		if got := lookup(t, r, "a.test"); got != "192.0.2.1" {
			t.Errorf("got %s", got)
		}
		want := []time.Duration{0, time.Second, 3 * time.Second, 38 * time.Second, 39 * time.Second,
			41 * time.Second, 76 * time.Second}
		if !slices.Equal(asked, want) {
			t.Errorf("asked at %v, want %v", asked, want)
		}
	})
}

// FuzzReply: no message makes the parser panic, and what it takes is of the right family.
func FuzzReply(f *testing.F) {
	for key, rrs := range testZone {
		name, qtype, _ := cut(key)
		q := newQuestion(name, qtype, true, false)
		var req dns.Msg
		if err := req.Unpack(q.append(nil, 0)); err != nil {
			f.Fatal(err)
		}
		m := zone(f, testZone)(&req, false)
		b, err := m.Pack()
		if err != nil {
			f.Fatal(err, rrs)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		for _, qtype := range []uint16{typeA, typeAAAA} {
			q := newQuestion("a.test", qtype, true, false)
			checkReply(t, msg, &q)
			if len(msg) < q.tail() {
				continue
			}
			flags, counts := [2]byte(msg[2:]), [6]byte(msg[6:])
			copy(msg, q.append(nil, 0)[:q.tail()]) // else the fuzzer hardly ever gets past the question
			copy(msg[2:], flags[:])
			copy(msg[6:], counts[:])
			msg[2] |= 0x80
			checkReply(t, msg, &q)
		}
	})
}

// checkReply compares what we read with what the library reads, where it can read all; we may read more, as
// records that aren't about the name don't matter.
func checkReply(t *testing.T, msg []byte, q *question) {
	name, qtype := q.name, q.qtype
	rep, err := parseReply(msg, name, qtype, nil, 4)
	if err == nil && (len(rep.addrs) > 4 || rep.kind != 0 && len(rep.addrs) > 0) {
		t.Fatalf("%+v", rep)
	}
	for _, a := range rep.addrs {
		if a.Is4() != (qtype == typeA) {
			t.Fatalf("%v for a question of type %d", a, qtype)
		}
	}
	if ok, _ := q.answers(msg); !ok || new(dns.Msg).Unpack(msg) != nil {
		return
	}
	want, libErr := readByLibrary(msg, name, qtype, 4)
	if _, ok := checkName(want.alias); !ok && want.alias != "" {
		if _, ok := checkName(rep.alias); ok { // quoted in another way
			t.Fatalf("alias %q, the library has %q", rep.alias, want.alias)
		}
		rep.alias = want.alias
	}
	same := rep.kind == want.kind && rep.truncated == want.truncated && rep.noEDNS == want.noEDNS &&
		rep.alias == want.alias && rep.ttl == want.ttl && slices.Equal(rep.addrs, want.addrs)
	if !same || (err == nil) != (libErr == nil) {
		t.Fatalf("%x: got %+v, %v; the library has %+v, %v", msg, rep, err, want, libErr)
	}
}

func cut(key string) (string, uint16, bool) {
	name, qtype := key[:len(key)-3], typeA
	if key[len(key)-4:] == "AAAA" {
		name, qtype = key[:len(key)-6], typeAAAA
	}
	return name, uint16(qtype), true
}

// startBare is a name server that does as little as it can: it returns the question with one address.
func startBare(b *testing.B) netip.AddrPort {
	pc, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	must(b, err)
	b.Cleanup(func() { pc.Close() })
	pc.SetReadBuffer(4 << 20)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := pc.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			end := headerBytes
			for end < n && buf[end] != 0 {
				end += int(buf[end]) + 1
			}
			end += 5
			buf[2] |= 0x80
			copy(buf[6:], []byte{0, 1, 0, 0, 0, 0})
			msg := append(buf[:end], 0xc0, headerBytes, 0, 1, 0, 1, 0, 0, 1, 0, 0, 4, 192, 0, 2, 1)
			binary.BigEndian.PutUint16(msg[4:], 1)
			pc.WriteToUDPAddrPort(msg, from)
		}
	}()
	return pc.LocalAddr().(*net.UDPAddr).AddrPort()
}

// BenchmarkLookup measures whole lookups over loopback, the server's share included, and hits in the cache.
func BenchmarkLookup(b *testing.B) {
	addr := startBare(b)
	for _, par := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("cached=no/flying=%d", par), func(b *testing.B) {
			r, err := New(Options{Family: Family4, Servers: []netip.AddrPort{addr}})
			must(b, err)
			defer r.Close()
			var next, failed atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(max(par/runtime.GOMAXPROCS(0), 1))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					host := fmt.Sprintf("h%d.test", next.Add(1))
					if _, err := r.Lookup(b.Context(), host, host); err != nil {
						failed.Add(1)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lookups/s")
			b.ReportMetric(float64(failed.Load()), "failed")
		})
	}
	b.Run("cached=yes", func(b *testing.B) {
		r, err := New(Options{Family: Family4, Servers: []netip.AddrPort{addr}})
		must(b, err)
		defer r.Close()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.Lookup(b.Context(), "a.test", "test"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
