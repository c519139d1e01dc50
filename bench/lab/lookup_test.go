package main

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"drumbeat/bench/measure"
	"drumbeat/dnscache"
	"drumbeat/internal/cputime"
)

// The kinds of names that the server knows; a name is <number>.<kind>.bench.test.
const (
	namePlain   = "a"
	nameMissing = "nx" // no such name, with an SOA
	nameAlias   = "cn" // two aliases and one address in one reply
	nameCut     = "tc" // every tenth is truncated over UDP and needs TCP
)

// lookupsInFlight is the number of concurrent lookups. Many more don't fit into the server's socket buffer.
const lookupsInFlight = 256

// lookup looks up a name for a caller; ok means that it got the expected answer.
type lookup func(caller int, name string) (ok bool)

// nextName gives each measurement different names.
var nextName atomic.Int64

// BenchmarkLookup looks up names with package dnscache, miekg/dns, net.Resolver and a bare socket: one
// thread that sends prepared questions and reads replies without parsing them. Target for ours: 10 µs of
// CPU per name that isn't cached.
func BenchmarkLookup(b *testing.B) {
	var address string
	p, err := measure.Start(b.Context(), []string{os.Args[0], serveDNSArg}, struct{}{}, &address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.Close() }) // its context has ended by now
	server := netip.MustParseAddrPort(address)
	for _, c := range []struct {
		kind, by string
		client   lookup
	}{
		{namePlain, "ours", ourLookup(b, server, 0)}, {namePlain, "miekg", libLookup(b, server)}, {namePlain, "net.Resolver", stdLookup(server)},
		{nameMissing, "ours", ourLookup(b, server, dnscache.KindNXDomain)}, {nameAlias, "ours", ourLookup(b, server, 0)},
		{nameCut, "ours", ourLookup(b, server, 0)},
	} {
		b.Run("kind="+c.kind+"/by="+c.by, func(b *testing.B) { lookUp(b, c.kind, c.client) })
	}
	b.Run("kind="+namePlain+"/by=bare-socket", func(b *testing.B) { bareLookups(b, server) })
	b.Run("kind=cached/by=ours", func(b *testing.B) {
		do := ourLookup(b, server, 0)
		cpuTime(b, func(i int) error {
			if !do(0, strconv.Itoa(i%1000)+".a.bench.test") {
				return errors.New("a lookup failed")
			}
			return nil
		})
	})
}

func newNames(n int, kind string) []string {
	first := int(nextName.Add(int64(n))) - n
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.Itoa((first+i)%(1<<24)) + "." + kind + ".bench.test"
	}
	return names
}

// lookUp looks up b.N names in several callers.
func lookUp(b *testing.B, kind string, do lookup) {
	names := newNames(b.N, kind)
	var next, failed atomic.Int64
	var all sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cputime.Process()
	for caller := range lookupsInFlight {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(names)); i = next.Add(1) - 1 {
				if !do(caller, names[i]) {
					failed.Add(1)
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(cputime.Process()-cpu)/float64(b.N), "cpu-ns/op")
	if failed.Load() > 0 {
		b.Errorf("%d of %d lookups failed", failed.Load(), b.N)
	}
}

// ourLookup uses package dnscache like a crawl, except that each name is its own PLD.
func ourLookup(b *testing.B, server netip.AddrPort, want dnscache.Kind) lookup {
	r, err := dnscache.New(dnscache.Options{Servers: []netip.AddrPort{server}, Family: dnscache.Family4, MaxInFlight: 4096, MixCase: true,
		MaxEntries: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { r.Close() })
	return func(_ int, name string) bool {
		answer, err := r.Lookup(b.Context(), name, name)
		if e, ok := errors.AsType[*dnscache.Error](err); ok {
			return e.Kind == want
		}
		return err == nil && want == 0 && len(answer.Addrs) == 1
	}
}

// libLookup uses miekg/dns, with one socket per caller.
func libLookup(b *testing.B, server netip.AddrPort) lookup {
	client := dns.Client{Timeout: 2 * time.Second}
	conns := make([]*dns.Conn, lookupsInFlight)
	for i := range conns {
		conn, err := client.Dial(server.String())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { conn.Close() })
		conns[i] = conn
	}
	return func(caller int, name string) bool {
		reply, _, err := client.ExchangeWithConn(question(name), conns[caller])
		return err == nil && len(reply.Answer) == 1
	}
}

// stdLookup uses the standard library's Go resolver, with one socket per question.
func stdLookup(server netip.AddrPort) lookup {
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, server.String())
	}}
	return func(_ int, name string) bool {
		addrs, err := r.LookupNetIP(context.Background(), "ip4", name+".")
		return err == nil && len(addrs) == 1
	}
}

func question(name string) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(name+".", dns.TypeA)
	m.SetEdns0(1232, false)
	return m
}

// bareLookups is the lower bound: a window of questions in flight, and blocking reads.
func bareLookups(b *testing.B, server netip.AddrPort) {
	const window = 64 // its replies must fit into one socket buffer
	questions := make([][]byte, b.N)
	for i, name := range newNames(b.N, namePlain) {
		msg, err := question(name).Pack()
		if err != nil {
			b.Fatal(err)
		}
		questions[i] = msg
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
		err = errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}),
			unix.Connect(fd, &unix.SockaddrInet4{Addr: server.Addr().As4(), Port: int(server.Port())}))
	}
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 4096)
	b.ResetTimer()
	cpu := cputime.Process()
	for sent, got := 0, 0; got < len(questions); {
		if sent < len(questions) && sent-got < window {
			_, err = unix.Write(fd, questions[sent])
			sent++
		} else if _, err = unix.Read(fd, buf); err == unix.EAGAIN { // replies missing after a second are lost
			got, err = sent, nil
		} else if err == unix.EINTR {
			err = nil
		} else {
			got++
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cputime.Process()-cpu)/float64(b.N), "cpu-ns/op")
}

// serveDNS is the name server's process: the name itself determines the answer.
func serveDNS() error {
	return measure.Serve(context.Background(), os.Stdin, os.Stdout, func(*struct{}) (any, error) {
		udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return nil, err
		}
		tcp, err := net.Listen("tcp4", udp.LocalAddr().String())
		if err != nil {
			return nil, err
		}
		_ = udp.SetReadBuffer(4 << 20) // best effort
		go func() {                    // ends with the process
			in, out := make([]byte, 4096), make([]byte, 0, 4096)
			for {
				if n, from, err := udp.ReadFromUDPAddrPort(in); err == nil {
					_, _ = udp.WriteToUDPAddrPort(appendReply(out[:0], in[:n], false), from)
				}
			}
		}()
		tcpServer := &dns.Server{Listener: tcp, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
			if msg, err := r.Pack(); err == nil {
				_, _ = w.Write(appendReply(nil, msg, true))
			}
		})}
		go func() { _ = tcpServer.ActivateAndServe() }()
		return udp.LocalAddr().String(), nil
	}, func() any { return nil }, func() error { return nil })
}

// appendReply appends the reply to a question. It assumes a well-formed question.
func appendReply(dst, msg []byte, tcp bool) []byte {
	number, kind, at := 0, "", 12
	for label := 0; msg[at] != 0; label++ {
		text := msg[at+1 : at+1+int(msg[at])]
		switch label {
		case 0:
			number, _ = strconv.Atoi(string(text))
		case 1:
			kind = strings.ToLower(string(text))
		}
		at += 1 + len(text)
	}
	dst = append(dst, msg[:at+5]...)
	head := dst
	head[2], head[3] = 0x81, 0x80
	binary.BigEndian.PutUint16(head[6:], 1)
	clear(head[8:12])
	owner := byte(12)
	switch {
	case kind == nameMissing:
		head[3] |= 3
		head[7], head[9] = 0, 1
		return append(dst, 0xc0, 12, 0, 6, 0, 1, 0, 0, 3, 0x84, 0, 22, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 3, 0x84)
	case kind == nameAlias:
		head[7] = 3
		for range 2 { // <one letter>.<kind>.bench.test
			dst = append(dst, 0xc0, owner, 0, 5, 0, 1, 0, 0, 3, 0x84, 0, 4)
			owner = byte(len(dst))
			dst = append(dst, 1, 'a'+owner%26, 0xc0, 13+head[12])
		}
	case kind == nameCut && !tcp && number%10 == 0:
		head[2] |= 2
		head[7] = 0
		return dst
	}
	dst = append(dst, 0xc0, owner, 0, 1, 0, 1, 0, 0, 3, 0x84, 0, 4)
	return append(dst, 127, byte(number>>16), byte(number>>8), byte(number))
}
