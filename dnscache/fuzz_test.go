package dnscache

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/miekg/dns"

	"drumbeat/internal/damage"
)

// FuzzForged: the resolver examines only replies that repeat our question letter by letter. They yield a
// kind of failure, or addresses of the requested family at the end of the name's alias chain, at most the
// bound. Memory is bounded whatever the compression pointers and counts say.
func FuzzForged(f *testing.F) {
	q := newQuestion("www.example.test", typeA, true, false)
	question, tail := q.append(nil, 0), q.tail()
	var req dns.Msg
	if err := req.Unpack(question); err != nil {
		f.Fatal(err)
	}
	addForged(f, question, &req)
	f.Fuzz(func(t *testing.T, msg []byte, ours bool) {
		if len(msg) > 64<<10 {
			return
		}
		if ours && len(msg) >= tail { // otherwise the fuzzer hardly ever matches the question
			copy(msg[4:6], question[4:6])
			copy(msg[headerBytes:tail], question[headerBytes:tail])
		}
		loosely, sameCase := q.answers(msg)
		answers := loosely && sameCase
		if answers && (len(msg) < tail || string(msg[headerBytes:tail]) != string(question[headerBytes:tail]) ||
			msg[2]&0x80 == 0) {
			t.Fatalf("%x is taken for an answer to %x", msg, question)
		}
		var rep reply
		var err error
		start := time.Now()
		n := damage.Allocated(func() { rep, err = parseReply(msg, "www.example.test", typeA, nil, 4) })
		if took := time.Since(start); n > 1<<20 || took > 5*time.Second {
			t.Fatalf("%d bytes of reply took %d bytes and %v", len(msg), n, took)
		}
		if err != nil {
			return
		}
		if len(rep.addrs) > 4 || rep.kind != 0 && len(rep.addrs) > 0 {
			t.Fatalf("%+v", rep)
		}
		for _, a := range rep.addrs {
			if v := a.As4(); !a.Is4() || !bytes.Contains(msg, v[:]) || !reachable(msg, "www.example.test", a.String()) {
				t.Fatalf("%v is no address of the name asked for in %x", a, msg)
			}
		}
	})
}

// addForged adds replies to a question, whole and cut, and two that are damaged.
func addForged(f *testing.F, question []byte, req *dns.Msg) {
	made := new(dns.Msg)
	made.SetReply(req)
	for _, text := range []string{
		"www.example.test. 60 IN CNAME a.example.test.", "a.example.test. 60 IN CNAME www.example.test.",
		"a.example.test. 5 IN A 192.0.2.1", "evil.test. 5 IN A 192.0.2.66", "a.example.test. 5 IN AAAA 2001:db8::1",
	} {
		rr, err := dns.NewRR(text)
		if err != nil {
			f.Fatal(err)
		}
		made.Answer = append(made.Answer, rr)
	}
	for n := range len(made.Answer) + 1 {
		m := *made
		m.Answer = m.Answer[:n]
		m.Compress = n%2 == 0
		b, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, true)
		f.Add(b[:len(b)*2/3], true)
	}
	loop := append(make([]byte, 12), 0xc0, 12, 0, 1, 0, 1) // a name that points to itself
	binary.BigEndian.PutUint16(loop[2:], 0x8180)
	binary.BigEndian.PutUint16(loop[4:], 1)
	f.Add(loop, false)
	counts := append([]byte(nil), question...)
	counts[2] |= 0x80
	for i := 6; i < 12; i++ {
		counts[i] = 0xff
	}
	f.Add(counts, true)
}

// reachable is a slow second reading of messages that the library can read. It reports whether aliases lead
// from name to an A record with this address.
func reachable(msg []byte, name, addr string) bool {
	var m dns.Msg
	if m.Unpack(msg) != nil {
		return true
	}
	names := map[string]bool{dns.CanonicalName(name + "."): true}
	for range m.Answer { // up to a fixed point
		for _, rr := range m.Answer {
			if c, ok := rr.(*dns.CNAME); ok && names[dns.CanonicalName(c.Hdr.Name)] {
				names[dns.CanonicalName(c.Target)] = true
			}
		}
	}
	for _, rr := range m.Answer {
		if a, ok := rr.(*dns.A); ok && a.A.String() == addr && names[dns.CanonicalName(a.Hdr.Name)] {
			return true
		}
	}
	return false
}
