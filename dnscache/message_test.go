package dnscache

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// randomName is a name that the DNS can hold, with labels and a length up to what it allows.
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

// TestQuestion: the library reads what we pack, and our reader takes its reply and none that differs in a bit of the question.
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
		if m.Id != 0xabcd || !m.RecursionDesired || m.Response || len(m.Question) != 1 || (m.IsEdns0() != nil) != edns ||
			got.Qtype != qtype || got.Qclass != dns.ClassINET || !strings.EqualFold(got.Name, name+".") || !mix && got.Name != name+"." {
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
		onlyCase := lower(reply[bit/8]) == lower(was)
		if repeats(&q, reply, mix) != (onlyCase && !mix) {
			t.Fatalf("%q: %q in place of %q at %d: taken: %v", name, reply[bit/8], was, bit/8, repeats(&q, reply, mix))
		}
	}
}

// repeats tells whether msg is a reply to q, letter by letter if exact.
func repeats(q *question, msg []byte, exact bool) bool {
	ok, sameCase := q.answers(msg)
	return ok && (sameCase || !exact)
}

// TestMixedCase: the bits that are drawn show in the letters, others for each question.
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

// TestReadingCosts: packing a question, comparing a reply with it and reading that allocates nothing.
func TestReadingCosts(t *testing.T) {
	q := newQuestion("www.example.test", typeA, true, true)
	var m dns.Msg
	if err := m.Unpack(q.append(nil, 1)); err != nil {
		t.Fatal(err)
	}
	reply := packed(t, replyTo(&m, 0, rr(t, "www.example.test. 60 IN CNAME b.test."), rr(t, "b.test. 60 IN A 192.0.2.1")))
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
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestTimers compares the lists with a map under random scheduling and stopping: each is in order and holds what it should.
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
			q.timer.stop()
			delete(model, q)
		} else {
			l, due := lists[rnd.IntN(len(lists))], base.Add(time.Duration(i+rnd.IntN(20))*time.Millisecond)
			r.schedule(q, l, due)
			model[q] = place{l, due}
		}
		n := 0
		r.timers.all(func(l *timerList) {
			var prev *query
			for q := l.head; q != nil; prev, q = q, q.timer.next {
				n++
				if model[q] != (place{l, q.timer.due}) || q.timer.prev != prev || prev != nil && q.timer.due.Before(prev.timer.due) {
					t.Fatalf("step %d: out of place", i)
				}
			}
			if l.tail != prev {
				t.Fatalf("step %d: wrong tail", i)
			}
		})
		if n != len(model) {
			t.Fatalf("step %d: %d timers, want %d", i, n, len(model))
		}
	}
}
