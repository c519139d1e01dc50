package dnscache

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/miekg/dns"

	"drumbeat/internal/damage"
)

// randomName returns a valid DNS name with random labels and length.
func randomName(rnd *rand.Rand) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-_"
	var b strings.Builder
	for want := 1 + rnd.IntN(253); b.Len() < want; {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		for range 1 + rnd.IntN(min(63, 253-b.Len())) {
			b.WriteByte(letters[rnd.IntN(len(letters))])
		}
		if b.Len() > 251 {
			break
		}
	}
	return b.String()
}

// TestQuestion: the library reads our packed questions, and our reader accepts its replies but none that
// differs in a bit of the question.
func TestQuestion(t *testing.T) {
	rnd := testRand(t)
	for range 2000 {
		name, ok := checkName(randomName(rnd))
		if !ok {
			t.Fatalf("%q can't be a name", name)
		}
		qtype, edns, mix := []uint16{typeA, typeAAAA}[rnd.IntN(2)], rnd.IntN(2) == 0, rnd.IntN(2) == 0
		q := newQuestion(name, qtype, edns, mix)
		msg := q.append(nil, 0xabcd)
		var m dns.Msg
		if err := m.Unpack(msg); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		got := m.Question[0]
		if m.Id != 0xabcd || !m.RecursionDesired || m.Response || len(m.Question) != 1 ||
			(m.IsEdns0() != nil) != edns ||
			got.Qtype != qtype || got.Qclass != dns.ClassINET || !strings.EqualFold(got.Name, name+".") ||
			!mix && got.Name != name+"." {
			t.Fatalf("%q: the library reads %v", name, &m)
		}
		if edns && m.IsEdns0().UDPSize() != udpBytes {
			t.Fatalf("EDNS0 size %d", m.IsEdns0().UDPSize())
		}
		if repeats(&q, msg, mix) {
			t.Fatal("a question is taken for its answer")
		}
		reply := packed(t, replyTo(&m, 0))
		if !repeats(&q, reply, true) || q.tail() > len(reply) {
			t.Fatalf("%q: the library's reply isn't taken", name)
		}
		bit := headerBytes*8 + rnd.IntN(8*(q.tail()-headerBytes))
		was := reply[bit/8]
		reply[bit/8] ^= 1 << (bit & 7)
		onlyCase := unicode.ToLower(rune(reply[bit/8])) == unicode.ToLower(rune(was))
		if repeats(&q, reply, mix) != (onlyCase && !mix) {
			t.Fatalf("%q: %q in place of %q at %d: taken: %v", name, reply[bit/8], was, bit/8, repeats(&q, reply, mix))
		}
	}
}

// repeats reports whether msg is a reply to q, letter by letter if exact.
func repeats(q *question, msg []byte, exact bool) bool {
	ok, sameCase := q.answers(msg)
	return ok && (sameCase || !exact)
}

// TestMixedCase: the random bits determine the case of the letters, and each question has its own.
func TestMixedCase(t *testing.T) {
	seen := make(map[string]bool)
	for range 100 {
		q := newQuestion("abcdefghijklmnopqrstuvwxyz.test", typeA, true, true)
		seen[string(q.append(nil, 0))] = true
	}
	if len(seen) < 100 {
		t.Errorf("%d ways of writing 30 letters in 100 questions", len(seen))
	}
}

// TestReadingCosts: packing a question, comparing a reply with it and reading the reply takes few
// allocations.
func TestReadingCosts(t *testing.T) {
	q := newQuestion("www.example.test", typeA, true, true)
	var m dns.Msg
	must(t, m.Unpack(q.append(nil, 1)))
	reply := packed(t,
		replyTo(&m, 0, rr(t, "www.example.test. 60 IN CNAME b.test."), rr(t, "b.test. 60 IN A 192.0.2.1")))
	buf, space := make([]byte, 0, questionBytes), make([]netip.Addr, 0, 4)
	n := testing.AllocsPerRun(100, func() {
		buf = q.append(buf[:0], 2)
		if !repeats(&q, reply, true) {
			t.Fatal("not taken")
		}
		if rep, err := parseReply(reply, q.name, q.qtype, space, 4); err != nil || len(rep.addrs) != 1 {
			t.Fatal(rep, err)
		}
	})
	if n > 16 {
		t.Errorf("%v allocations, want 16 or fewer", n)
	}
}

// BenchmarkMessages measures the library's part of a lookup.
func BenchmarkMessages(b *testing.B) {
	q := newQuestion("www.example.test", typeA, true, true)
	var m dns.Msg
	must(b, m.Unpack(q.append(nil, 1)))
	r, _ := replyTo(&m, 0, rr(b, "www.example.test. 60 IN A 192.0.2.1")).Pack()
	buf, space := make([]byte, 0, questionBytes), make([]netip.Addr, 0, 4)
	b.Run("pack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = q.append(buf[:0], 2)
		}
	})
	b.Run("answers", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			q.answers(r)
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			parseReply(r, q.name, q.qtype, space, 4)
		}
	})
}

// TestHostileReply: a reply of maximum size takes bounded memory, where the library would unpack 24 MB. A bad
// EDNS0 option, a record of another class and bytes after the last record do not make an address unreadable.
func TestHostileReply(t *testing.T) {
	q := newQuestion("a.test", typeA, true, false)
	var req dns.Msg
	must(t, req.Unpack(q.append(nil, 0)))
	good := rr(t, "a.test. 60 IN A 192.0.2.1")
	other := rr(t, "a.test. 60 CH A 198.51.100.66")
	m := replyTo(&req, 0, other, good)
	// A subnet of one byte.
	odd := append(packed(t, m), 0, 0, byte(dns.TypeOPT), 4, 208, 0, 0, 0, 0, 0, 5, 0, 8, 0, 1, 255)
	odd[11]++
	odd = append(odd, "more"...)
	if new(dns.Msg).Unpack(odd) == nil {
		t.Error("the library reads the bad option")
	}
	// A name of 127 bytes that must be escaped, and a HIP record with pointers to it.
	long := dns.RR_Header{Name: strings.Repeat(`\001.`, 127), Rrtype: dns.TypeA, Class: dns.ClassINET}
	m = replyTo(&req, 0, good, &dns.A{Hdr: long, A: net.IPv4(192, 0, 2, 2)})
	huge := packed(t, m)
	at := headerBytes + len("\x01a\x04test\x00") + 4 + len("\x01a\x04test\x00") + 14
	var servers []byte
	for len(huge)+12+4+len(servers) < 65534 {
		servers = binary.BigEndian.AppendUint16(servers, 0xc000|uint16(at))
	}
	huge = append(huge, 0xc0, byte(at), 0, byte(dns.TypeHIP), 0, 1, 0, 0, 0, 0)
	huge = binary.BigEndian.AppendUint16(huge, uint16(4+len(servers)))
	huge = append(append(huge, 0, 0, 0, 0), servers...)
	huge[7]++
	byLibrary := damage.Allocated(func() { new(dns.Msg).Unpack(huge) })
	many := packed(t, replyTo(&req, 0, good))
	for len(many)+16 < 65535 {
		many = append(many, 0xc0, headerBytes, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1)
	}
	binary.BigEndian.PutUint16(many[6:], 65535)
	for name, msg := range map[string][]byte{"odd": odd, "huge": huge, "many": many} {
		var rep reply
		var err error
		n := damage.Allocated(func() { rep, err = parseReply(msg, "a.test", typeA, nil, 1) })
		if err != nil || len(rep.addrs) != 1 || rep.addrs[0] != netip.MustParseAddr("192.0.2.1") || n > 1<<20 {
			t.Errorf("%s, %d bytes: got %+v, %v, %d bytes of memory; want the address", name, len(msg), rep, err, n)
		}
	}
	if byLibrary < 10<<20 {
		t.Errorf("the library unpacks %d bytes; are our bounds needed?", byLibrary)
	}
	t.Logf("the library unpacks %d bytes", byLibrary)
}

// TestTimers compares the lists with a map under random scheduling and stopping. Each list is in order and
// complete.
func TestTimers(t *testing.T) {
	rnd := testRand(t)
	r := &Resolver{kick: make(chan struct{}, 1)}
	base := time.Unix(1e9, 0)
	lists := []*timerList{&r.timers.tries[0], &r.timers.tries[2], &r.timers.tcp, &r.timers.paced}
	queries := make([]query, 50)
	type place struct {
		list *timerList
		due  time.Time
	}
	model := make(map[*query]place)
	for i := range 20_000 {
		q := &queries[rnd.IntN(len(queries))]
		if rnd.IntN(3) == 0 {
			q.stop()
			delete(model, q)
		} else {
			l, due := lists[rnd.IntN(len(lists))], base.Add(time.Duration(i+rnd.IntN(20))*time.Millisecond)
			r.schedule(q, l, due)
			model[q] = place{l, due}
		}
		n := 0
		r.timers.all(func(l *timerList) {
			var prev *query
			for q := l.Front(); q != nil; prev, q = q, l.Next(q) {
				n++
				if model[q] != (place{l, q.timer.due}) || l.Prev(q) != prev ||
					prev != nil && q.timer.due.Before(prev.timer.due) {
					t.Fatalf("step %d: out of place", i)
				}
			}
			if l.Back() != prev {
				t.Fatalf("step %d: wrong tail", i)
			}
		})
		if n != len(model) {
			t.Fatalf("step %d: %d timers, want %d", i, n, len(model))
		}
	}
}
