package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/disk/memfs"
)

// faultyEngine is a stream that refuses messages, or does not acknowledge them, by chance.
type faultyEngine struct {
	Transport
	rng    *rand.Rand
	faults float64

	mu      sync.Mutex // guards the fields below
	stored  [][]byte
	open    int // messages without a result
	most    int
	refused int
}

func (e *faultyEngine) State() State { return State{Connected: true, Connects: 1} }

func (e *faultyEngine) Publish(_ context.Context, _, _ int, _ string, data []byte) <-chan error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open++
	e.most = max(e.most, e.open)
	result := make(chan error, 1)
	var err error
	if e.rng.Float64() < e.faults {
		err = errors.New("no place")
		e.refused++
	}
	if err == nil || e.rng.IntN(4) == 0 { // some are stored nevertheless
		e.stored = append(e.stored, data)
	}
	go func() {
		time.Sleep(10 * time.Millisecond)
		e.mu.Lock()
		e.open--
		e.mu.Unlock()
		result <- err
	}()
	return result
}

// receiver takes what is stored as a node does, and returns its mark.
type receiver struct {
	next   int // in stored
	taken  Taken
	want   uint64
	double int
}

func (r *receiver) take(t *testing.T, e *faultyEngine) *Mark {
	e.mu.Lock()
	defer e.mu.Unlock()
	for ; r.next < len(e.stored); r.next++ {
		h, err := ReadHeader(e.stored[r.next])
		must(t, err)
		switch {
		case h.Number <= r.taken.Number:
			r.double++
		case h.Number > r.taken.Number+1:
			r.want++
		default:
			if h.Before != r.taken.Totals {
				t.Fatalf("message %d has other totals", h.Number)
			}
			r.taken = Taken{Number: h.Number, Totals: h.After}
		}
	}
	m := wholeMark(1, 2)
	m.Taken[0], m.ResendRequests[0] = r.taken, r.want
	return m
}

// TestPublisher: messages are in flight together, and all arrive in order, however many the transport refuses.
func TestPublisher(t *testing.T) {
	for _, faults := range []float64{0, 0.02, 0.3} {
		synctest.Test(t, func(t *testing.T) {
			b := newBox(t, memfs.New(1))
			const messages = 200
			for m := range messages {
				link := string(rune('a' + m%26))
				must(t, b.AddLink(keyOf(link), []byte(link)))
				must(t, b.Flush())
			}
			b.save(true)
			e := &faultyEngine{rng: rand.New(rand.NewPCG(1, 2)), faults: faults}
			p := NewPublisher()
			p.Outbox, p.Transport, p.ResendAfter = b.Outbox, e, time.Minute
			var tx sync.Mutex
			p.Transact = func(f func() error) error {
				tx.Lock()
				defer tx.Unlock()
				return f()
			}
			p.Waits = func(error, time.Duration) {}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- p.Run(ctx) }()
			var r receiver
			began := time.Now()
			for b.Figures().TakenNumber < messages {
				if time.Since(began) > time.Hour {
					t.Fatalf("%d of %d messages arrived", r.taken.Number, messages)
				}
				time.Sleep(time.Second)
				p.Mark(r.take(t, e))
			}
			took := time.Since(began)
			cancel()
			must(t, <-ended)
			published, resends := p.Figures()
			t.Logf("faults %v: %v, %d refused, %d published, %d resends, %d doubles, %d in flight at most", faults,
				took, e.refused, published, resends, r.double, e.most)
			if e.most > window || faults < 0.1 && e.most < window {
				t.Errorf("%d messages were in flight", e.most)
			}
			if faults == 0 && (r.double > 0 || published != messages || took > 4*time.Second) {
				t.Errorf("%d published, %d doubles, in %v", published, r.double, took)
			}
			if faults == 0.02 && resends > 0 { // the messages in flight are given again, and no others
				t.Errorf("%d resends after %d refusals", resends, e.refused)
			}
			if f := b.Figures(); f.Sent != 0 || f.Unpublished != 0 || f.Gone != f.Added {
				t.Errorf("left: %+v", f)
			}
		})
	}
}

// TestPublisherOlder: nothing is published before the receiver's version is known. A message of a later version than
// the receiver reads, and all after it, wait until it reads them; those before it arrive. So does a resend.
func TestPublisherOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, memfs.New(1))
		version := FirstVersion
		b.opt.Version = func() int { return version }
		const early, all = 3, 8
		for n := range all {
			if n == early {
				version++
			}
			must(t, b.AddLink(keyOf("a"), []byte("a")))
			must(t, b.Flush())
		}
		b.save(true)
		e := &faultyEngine{rng: rand.New(rand.NewPCG(1, 2))}
		p := NewPublisher()
		ready := make(chan struct{})
		p.Outbox, p.Transport, p.ResendAfter, p.Ready = b.Outbox, e, time.Minute, ready
		p.Transact = func(f func() error) error { return f() }
		p.Waits = func(error, time.Duration) {}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Run(ctx) }()
		var r receiver
		mark := func(reads int) {
			t.Helper()
			m := r.take(t, e)
			m.ReadsTo = reads
			p.Mark(m)
			time.Sleep(time.Hour)
		}
		check := func(want uint64, held bool) {
			t.Helper()
			if r.take(t, e); r.taken.Number != want || p.Held() != held {
				t.Errorf("message %d arrived, held %v; want %d, %v", r.taken.Number, p.Held(), want, held)
			}
		}
		time.Sleep(time.Hour)
		check(0, false)
		close(ready)
		for _, reads := range []int{0, FirstVersion} {
			mark(reads)
			check(early, true)
		}
		durable := r.taken
		mark(FirstVersion + 1)
		check(all, false)
		// It is killed before its next checkpoint, starts with the older program, and asks for what it lacks.
		r.next, r.taken, r.want = len(e.stored), durable, r.want+1
		mark(0)
		check(early, true)
		mark(FirstVersion + 5)
		check(all, false)
		cancel()
		must(t, <-ended)
	})
}

// TestPublisherPatience: what a receiver does not take for a day is sent again, ever less often.
func TestPublisherPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, memfs.New(1))
		must(t, b.AddLink(keyOf("a"), []byte("a")))
		b.save(true)
		e := &faultyEngine{rng: rand.New(rand.NewPCG(1, 2))}
		p := NewPublisher()
		p.Outbox, p.Transport, p.ResendAfter = b.Outbox, e, time.Minute
		p.Transact = func(f func() error) error { return f() }
		p.Waits = func(error, time.Duration) {}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		must(t, p.Run(ctx))
		if n := len(e.stored); n < 24 || n > 60 {
			t.Errorf("a message was published %d times in a day", n)
		}
	})
}
