package dnscache

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// rawServer is a name server on a UDP socket. For each question it sends the packets of reply in order,
// those in foreign from another socket.
func rawServer(t *testing.T, reply func(req *dns.Msg, packet []byte) (own, foreign [][]byte)) netip.AddrPort {
	t.Helper()
	conns := [2]*net.UDPConn{}
	for i := range conns {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		must(t, err)
		t.Cleanup(func() { c.Close() })
		conns[i] = c
	}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := conns[0].ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			req := new(dns.Msg)
			if req.Unpack(buf[:n]) != nil {
				continue
			}
			own, foreign := reply(req, buf[:n])
			for _, p := range foreign {
				conns[1].WriteToUDPAddrPort(p, from)
			}
			for _, p := range own {
				conns[0].WriteToUDPAddrPort(p, from)
			}
		}
	}()
	return conns[0].LocalAddr().(*net.UDPAddr).AddrPort()
}

func packed(t testing.TB, m *dns.Msg) []byte {
	b, err := m.Pack()
	if err != nil {
		t.Error(err)
	}
	return b
}

// TestFlood: before the answer come a hundred packets with other ids, other questions, from another address,
// truncated or garbage, each with an address of the attacker. The answer is accepted; the others are counted
// and leave no trace.
func TestFlood(t *testing.T) {
	const evil = "198.51.100.66"
	addr := rawServer(t, func(req *dns.Msg, packet []byte) (own, foreign [][]byte) {
		name := req.Question[0].Name
		lie := replyTo(req, 0, rr(t, "%s 300 IN A %s", name, evil))
		foreign = append(foreign, packed(t, lie)) // the right id and question, from another socket
		for i := range 25 {
			other := lie.Copy()
			other.Id += uint16(i + 1)
			own = append(own, packed(t, other))
			other = lie.Copy()
			other.Question[0].Name = fmt.Sprintf("h%d.%s", i, name)
			own = append(own, packed(t, other))
			whole := packed(t, lie)
			own = append(own, whole[:i%len(whole)])
			whole[len(whole)-1-i%20] ^= 0x55
			whole[2] &^= 0x80 // a question
			own = append(own, whole)
		}
		good := replyTo(req, 0, rr(t, "%s 300 IN A 192.0.2.1", name), rr(t, "www.bank.test. 300 IN A %s", evil))
		good.Extra = append(good.Extra, rr(t, "www.bank.test. 300 IN A %s", evil))
		good.Ns = append(good.Ns, rr(t, "bank.test. 300 IN NS ns.evil.test."))
		return append(own, packed(t, good)), foreign
	})
	r, err := New(Options{Servers: []netip.AddrPort{addr}, Family: Family4, Sockets: 2})
	must(t, err)
	defer r.Close()
	for i := range 10 {
		host := fmt.Sprintf("a%d.test", i)
		if got := lookup(t, r, host); got != "192.0.2.1" {
			t.Errorf("%s: got %s", host, got)
		}
	}
	if s := r.Stats(); s.Lies < 700 || s.Entries != 10 || s.InFlight != 0 {
		t.Errorf("got %+v, want some hundred lies and ten entries", s)
	}
	for _, k := range r.servers[0].sockets {
		k.mu.Lock()
		if len(k.asked) != 0 {
			t.Errorf("%d questions left in a socket's table", len(k.asked))
		}
		k.mu.Unlock()
	}
}

// TestUnasked: hundreds of thousands of unsolicited packets change nothing and cost no memory.
func TestUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, servers := pipeResolver(t, Options{Family: Family4, Sockets: 1}, nil, nil)
		conn := servers.udp(0)
		m := new(dns.Msg)
		m.SetQuestion("a.test.", dns.TypeA)
		reply := packed(t, replyTo(m, 0, rr(t, "a.test. 300 IN A 192.0.2.1")))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range 200_000 {
			binary.BigEndian.PutUint16(reply, uint16(i))
			if _, err := conn.Write(reply); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		runtime.GC()
		runtime.ReadMemStats(&after)
		if s := r.Stats(); s.Lies != 200_000 || s.Entries != 0 {
			t.Errorf("got %+v, want 200,000 lies and no entry", s)
		}
		if after.HeapAlloc > before.HeapAlloc+1<<20 {
			t.Errorf("the heap grew from %d to %d bytes", before.HeapAlloc, after.HeapAlloc)
		}
	})
}

// pipes are the far ends of a resolver's connections to one server without sockets.
type pipes struct {
	mu         sync.Mutex
	conns      []net.Conn // UDP
	open, most int        // TCP
}

func (p *pipes) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open += n
	p.most = max(p.most, p.open)
}

func (p *pipes) mostTCP() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

// countedConn is a TCP connection that reports when it is closed.
type countedConn struct {
	net.Conn
	p    *pipes
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.p.count(-1) })
	return c.Conn.Close()
}

func (p *pipes) udp(i int) net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns[i]
}

// pipeResolver returns a resolver in a synctest bubble. answer replies to questions by UDP, tcp serves a TCP
// connection; nil: no reply.
func pipeResolver(t *testing.T, opt Options, answer answerer, tcp func(net.Conn)) (*Resolver, *pipes) {
	t.Helper()
	p := &pipes{}
	opt.Servers = []netip.AddrPort{netip.MustParseAddrPort("192.0.2.53:53")}
	opt.Dial = func(_ context.Context, network string, _ netip.AddrPort) (net.Conn, error) {
		near, far := net.Pipe()
		if network == "tcp" {
			go func() {
				defer far.Close()
				if tcp != nil {
					tcp(far)
				}
			}()
			p.count(1)
			return &countedConn{Conn: near, p: p}, nil
		}
		p.mu.Lock()
		p.conns = append(p.conns, far)
		p.mu.Unlock()
		go func() {
			buf := make([]byte, 4096)
			for {
				n, err := far.Read(buf)
				if err != nil {
					return
				}
				req := new(dns.Msg)
				if answer == nil || req.Unpack(buf[:n]) != nil {
					continue
				}
				if m := answer(req, false); m != nil {
					far.Write(packed(t, m))
				}
			}
		}()
		return near, nil
	}
	r, err := New(opt)
	must(t, err)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, p
}

// TestThousandsOfRecords: an answer of maximum size yields MaxAddrs addresses and an entry of bounded size.
func TestThousandsOfRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := pipeResolver(t, Options{Family: Family4}, func(req *dns.Msg, _ bool) *dns.Msg {
			m := replyTo(req, 0)
			m.Truncated = true
			return m
		}, func(c net.Conn) {
			var size [2]byte
			if _, err := io.ReadFull(c, size[:]); err != nil {
				return
			}
			q := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(c, q); err != nil {
				return
			}
			req := new(dns.Msg)
			if req.Unpack(q) != nil {
				return
			}
			m := replyTo(req, 0)
			m.Compress = true
			for i := range 4000 {
				m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: req.Question[0].Name, Rrtype: dns.TypeA,
					Class: dns.ClassINET, Ttl: 300}, A: net.IPv4(10, 0, byte(i>>8), byte(i))})
			}
			b := packed(t, m)
			c.Write(binary.BigEndian.AppendUint16(nil, uint16(len(b))))
			c.Write(b)
		})
		got := strings.Fields(lookup(t, r, "many.test"))
		if len(got) != 16 || got[0] != "10.0.0.0" {
			t.Errorf("got %d addresses, %v, want the first 16", len(got), got)
		}
		if s := r.Stats(); s.Bytes > 400 || s.TCP != 1 {
			t.Errorf("got %+v", s)
		}
	})
}

// TestAliases: alias chains that loop, never end or are too long fail with KindChain after a bounded number
// of questions.
func TestAliases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		r, _ := pipeResolver(t, Options{Family: Family4}, func(req *dns.Msg, _ bool) *dns.Msg {
			asked.Add(1)
			name := req.Question[0].Name
			m := replyTo(req, 0)
			var i int
			switch {
			// Four hundred aliases in one reply, and an address after them.
			case strings.HasPrefix(name, "long"):
				for i := range 400 {
					from, to := fmt.Sprintf("l%d.test.", i), fmt.Sprintf("l%d.test.", i+1)
					if i == 0 {
						from = name
					}
					m.Answer = append(m.Answer, rr(t, "%s 300 IN CNAME %s", from, to))
				}
				m.Answer = append(m.Answer, rr(t, "l400.test. 300 IN A 192.0.2.1"))
				m.Compress = true
				m.Truncate(4000)
				m.Truncated = false
			case strings.HasPrefix(name, "both"): // an alias to itself among other addresses
				m.Answer = append(m.Answer, rr(t, "%s 300 IN CNAME x.test.", name),
					rr(t, "x.test. 300 IN CNAME y.test."),
					rr(t, "y.test. 300 IN CNAME x.test."), rr(t, "z.test. 300 IN A 192.0.2.66"))
			default: // each name is an alias of the next one
				fmt.Sscanf(name, "e%d.", &i)
				m.Answer = append(m.Answer, rr(t, "%s 300 IN CNAME e%d.endless.test.", name, i+1))
			}
			return m
		}, nil)
		for host, most := range map[string]int{"e0.endless.test": maxAsks, "long.test": maxAsks, "both.test": maxAsks} {
			asked.Store(0)
			if got := lookup(t, r, host); got != "chain" {
				t.Errorf("%s: got %s, want chain", host, got)
			}
			if n := asked.Load(); n > int64(most) {
				t.Errorf("%s: %d questions, want at most %d", host, n, most)
			}
		}
	})
}

// TestStallingTCP: lookups end in time if name servers truncate and then stall by TCP at any stage. They use
// at most their share of connections and do not delay names of other PLDs.
func TestStallingTCP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stages atomic.Int64
		r, p := pipeResolver(t, Options{Family: Family4}, func(req *dns.Msg, _ bool) *dns.Msg {
			if req.Question[0].Name == "good.test." {
				return replyTo(req, 0, rr(t, "good.test. 300 IN A 192.0.2.1"))
			}
			m := replyTo(req, 0)
			m.Truncated = true
			return m
		}, func(c net.Conn) {
			switch stages.Add(1) % 4 {
			case 1:
				io.CopyN(io.Discard, c, 20)
			case 2:
				go io.Copy(io.Discard, c)
				c.Write([]byte{0xff, 0xff})
			case 3:
				go io.Copy(io.Discard, c)
				c.Write([]byte{0xff, 0xff})
				for {
					if _, err := c.Write([]byte{0}); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			}
			io.Copy(io.Discard, c)
		})
		begin := time.Now()
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				host := fmt.Sprintf("h%d.p%d.test", i, i%50)
				_, err := r.Lookup(t.Context(), host, fmt.Sprintf("p%d.test", i%50))
				var de *Error
				if !errors.As(err, &de) || de.Kind.Permanent() {
					t.Errorf("%s: got %v, want a failure that denies nothing", host, err)
				}
			})
		}
		synctest.Wait()
		at := time.Now()
		if got := lookup(t, r, "good.test"); got != "192.0.2.1" || time.Since(at) > time.Second {
			t.Errorf("good.test: got %s after %v", got, time.Since(at))
		}
		wg.Wait()
		if took := time.Since(begin); took > 3*time.Minute || p.mostTCP() > maxTCP || p.mostTCP() < 8 {
			t.Errorf("took %v, %d connections at once, want at most %d", took, p.mostTCP(), maxTCP)
		}
		if s := r.Stats(); s.InFlight != 0 || s.Waiting != 0 {
			t.Errorf("left over: %+v", s)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second) // until those that trickle notice
	})
}

// TestSilentPLD: a PLD with endless names and silent servers uses at most its share of lookups. Others are
// answered at once.
func TestSilentPLD(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := pipeResolver(t, Options{Family: Family4, MaxInFlight: 64, MaxWaitingPerPLD: 100},
			func(req *dns.Msg, _ bool) *dns.Msg {
				if strings.HasSuffix(req.Question[0].Name, ".silent.test.") {
					return nil
				}
				return replyTo(req, 0, rr(t, "%s 300 IN A 192.0.2.1", req.Question[0].Name))
			}, nil)
		var wg sync.WaitGroup
		var mu sync.Mutex
		kinds := map[Kind]int{}
		for i := range 1000 {
			wg.Go(func() {
				_, err := r.Lookup(t.Context(), fmt.Sprintf("h%d.silent.test", i), "silent.test")
				var de *Error
				if errors.As(err, &de) {
					mu.Lock()
					kinds[de.Kind]++
					mu.Unlock()
				}
			})
		}
		synctest.Wait()
		if s := r.Stats(); s.InFlight != 8 || s.Waiting != 100 {
			t.Errorf("%d in flight and %d waiting, want 8 and 100", s.InFlight, s.Waiting)
		}
		at := time.Now()
		for i := range 50 {
			if got := lookup(t, r, fmt.Sprintf("good%d.test", i)); got != "192.0.2.1" {
				t.Errorf("good%d.test: got %s", i, got)
			}
		}
		if time.Since(at) > 0 {
			t.Errorf("others waited for %v", time.Since(at))
		}
		wg.Wait()
		if kinds[KindBusy] != 892 || kinds[KindTimeout] != 108 {
			t.Errorf("got %v, want 892 busy and 108 timeouts", kinds)
		}
	})
}
