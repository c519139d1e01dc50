package doctor

import (
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"drumbeat/internal/simweb"
)

// liar is a name server on loopback, UDP alone or with TCP, that answers what answer says. It counts queries.
type liar struct {
	addr  netip.AddrPort
	asked atomic.Int64
}

func startLiar(t *testing.T, tcp bool, answer func(name string) (dnsmessage.RCode, bool)) *liar {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	l := &liar{addr: conn.LocalAddr().(*net.UDPAddr).AddrPort()}
	t.Cleanup(func() { conn.Close() })
	if tcp {
		listener, err := net.Listen("tcp4", l.addr.String())
		if err != nil {
			t.Skip("the port is taken for TCP: ", err)
		}
		t.Cleanup(func() { listener.Close() })
	}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			l.asked.Add(1)
			if out := reply(buf[:n], answer); out != nil {
				conn.WriteToUDPAddrPort(out, from)
			}
		}
	}()
	return l
}

// reply builds the reply to a query; nil for none.
func reply(query []byte, answer func(name string) (dnsmessage.RCode, bool)) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	code, address := answer(strings.TrimSuffix(strings.ToLower(q.Name.String()), "."))
	m.Response, m.RecursionAvailable, m.RCode, m.Additionals = true, true, code, nil
	if address {
		m.Answers = []dnsmessage.Resource{
			{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60},
				Body: &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}}}}
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}

// askOne runs the check with one server and returns the result of each row, by the end of its name.
func askOne(t *testing.T, addr netip.AddrPort, names ...string) map[string]finding {
	t.Helper()
	e := newMachine(t, nil)
	e.skipNetwork, e.servers, e.names, e.panicked = false, []netip.AddrPort{addr}, names, func(string, any, []byte) {}
	rows := map[string]finding{}
	for _, r := range checkNameServers(t.Context(), e) {
		rows[strings.TrimPrefix(r.Check, "name server "+addr.String())] = r
	}
	return rows
}

// TestHonestServer: the name server of a synthetic web passes, and its speed is measured.
func TestHonestServer(t *testing.T) {
	o := simweb.Defaults(1)
	o.PLDs, o.Hosts, o.Pages, o.IPs, o.SeedURLs = 10, 30, 100, 10, 3
	web, err := simweb.New(o)
	must(t, err)
	s, err := web.Start(t.Context(), simweb.ServerOptions{})
	must(t, err)
	defer s.Close()
	rows := askOne(t, s.DNSAddrs()[0], "a.test", "b.test", "c.test", "d.test", "e.test")
	for _, what := range []string{"", ", false names"} {
		if r := rows[what]; r.Status != ok || r.Now == "" {
			t.Errorf("%q: got %+v", what, r)
		}
	}
	if r, is := rows[", TCP"]; is {
		t.Errorf("got %+v", r)
	}
	if r := rows[", lookups/s"]; r.Status > warn || !strings.Contains(r.Now, "for 5 names") {
		t.Errorf("got %+v", r)
	}
}

// TestBadServers: servers that invent addresses, fail, are silent, or take no TCP; no server gets more
// queries than allowed.
func TestBadServers(t *testing.T) {
	known := func(name string) bool { return strings.HasSuffix(name, ".test") }
	names := []string{"a.test", "b.test", "c.test", "d.test"}
	for _, c := range []struct {
		name   string
		tcp    bool
		answer func(name string) (dnsmessage.RCode, bool)
		row    string
		want   status
		now    string
	}{
		{"invents", true, func(string) (dnsmessage.RCode, bool) { return 0, true }, ", false names", fail,
			"192.0.2.1 for www.x"},
		{"invents below com", true, func(n string) (dnsmessage.RCode, bool) {
			if known(n) || strings.HasSuffix(n, ".com") {
				return 0, true
			}
			return dnsmessage.RCodeNameError, false
		}, ", false names", fail, "….com"},
		{"no data", true, func(n string) (dnsmessage.RCode, bool) { return 0, known(n) }, ", false names", warn,
			"no NXDOMAIN"},
		{"refuses false names", true, func(n string) (dnsmessage.RCode, bool) {
			if known(n) {
				return 0, true
			}
			return dnsmessage.RCodeServerFailure, false
		}, ", false names", unknown, "servfail"},
		{"fails", true, func(string) (dnsmessage.RCode, bool) { return dnsmessage.RCodeServerFailure, false }, "",
			fail, "servfail"},
		{"fails often", true, func(n string) (dnsmessage.RCode, bool) {
			if n == "a.test" || n == "b.test" {
				return 0, true
			}
			return dnsmessage.RCodeServerFailure, false
		}, "", warn, "2 of 4 names"},
		{"no TCP", false, func(n string) (dnsmessage.RCode, bool) { return 0, known(n) }, ", TCP", warn, "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := startLiar(t, c.tcp, c.answer)
			rows := askOne(t, l.addr, names...)
			if r := rows[c.row]; r.Check == "" || r.Status != c.want || !strings.Contains(r.Now, c.now) {
				t.Errorf("got %+v", rows)
			}
			if n := l.asked.Load(); n > 100 {
				t.Errorf("got %d queries, at most 100 are allowed", n)
			}
		})
	}
}

// TestNoServer: nobody listens; no server is known; a public one.
func TestNoServer(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	addr := netip.MustParseAddrPort(l.Addr().String())
	l.Close()
	if rows := askOne(t, addr, "a.test"); len(rows) != 1 || rows[""].Status != fail || len(rows[""].Fix) == 0 {
		t.Errorf("got %+v", rows)
	}
	e := newMachine(t, nil)
	e.skipNetwork, e.noServers = false, net.ErrClosed
	if r := worst(checkNameServers(t.Context(), e)); r.Status != fail || !strings.Contains(r.Fix[0], "--resolver") {
		t.Errorf("got %+v", r)
	}
	if !public(netip.MustParseAddr("9.9.9.9")) || public(netip.MustParseAddr("127.0.0.1")) {
		t.Error("public is wrong")
	}
}
