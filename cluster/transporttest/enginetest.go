package transporttest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"drumbeat/cluster"
)

// Broker is the broker of the transports of a crawl.
type Broker struct {
	// Open returns a new, connected transport for a node. The caller closes it.
	Open func(node int) cluster.Transport
	// Break stops the broker without notice, like a kill, and Restart restarts it with its files. They are nil
	// if that is not possible.
	Break, Restart func()
	// Wipe empties the stopped broker; nil: not possible.
	Wipe func()
	// Keeps says that the broker has all that it acknowledged after Break and Restart.
	Keeps bool
	// Lags says that one node may see another's values late.
	Lags bool
	// StreamBytes is the limit of a stream.
	StreamBytes int
}

// Test is one test of the contract.
type Test struct {
	Name string
	Run  func(t *testing.T, b Broker)
}

// Tests returns all tests.
func Tests() []Test {
	return []Test{
		{"Order", order}, {"Read", read}, {"Purge", purge}, {"Full", full}, {"Sizes", sizes}, {"Contexts", contexts},
		{"Values", values}, {"Races", races}, {"Watch", watch}, {"Bad", bad},
		{"Ask", ask}, {"AskMany", askMany}, {"Close", closing},
		{"Away", away}, {"Wiped", wiped}, {"BreakWhilePublishing", breaking},
	}
}

// Run runs all tests as parallel subtests, each with a broker of its own.
func Run(t *testing.T, start func(t *testing.T) Broker) {
	for _, test := range Tests() {
		t.Run(test.Name, func(t *testing.T) {
			t.Parallel()
			test.Run(t, start(t))
		})
	}
}

// limit is the longest wait of a test for an event.
const limit = time.Minute

// suite is a broker with the helpers of one test.
type suite struct {
	*testing.T
	b   Broker
	ctx context.Context
}

func begin(t *testing.T, b Broker) *suite {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return &suite{t, b, ctx}
}

// open opens a transport that is closed at the end of the test.
func (s *suite) open(node int) cluster.Transport {
	s.Helper()
	e := s.b.Open(node)
	s.Cleanup(func() {
		if err := e.Close(); err != nil {
			s.Error(err)
		}
	})
	return e
}

// do fails the test at an error.
func (s *suite) do(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// want fails the test unless err is of.
func (s *suite) want(what string, err, of error) {
	s.Helper()
	if !errors.Is(err, of) {
		s.Fatalf("%s returns %v, want %v", what, err, of)
	}
}

// until waits until f returns true.
func (s *suite) until(what string, f func() bool) {
	s.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			s.Fatalf("no %s within %v", what, limit)
		}
	}
}

// pause waits a moment before a retry.
func (s *suite) pause() {
	select {
	case <-time.After(time.Millisecond):
	case <-s.ctx.Done():
	}
}

// body returns the bytes of message n of a sender.
func body(from, n int) []byte { return fmt.Appendf(nil, "%d:%d", from, n) }

// publish publishes messages first to last of a sender and waits for all.
func (s *suite) publish(e cluster.Transport, to, from, first, last int) {
	s.Helper()
	var results []<-chan error
	for n := first; n <= last; n++ {
		results = append(results, e.Publish(s.ctx, to, from, fmt.Sprintf("%d-%d", from, n), body(from, n)))
	}
	for i, r := range results {
		s.do(fmt.Sprintf("publish %d from %d to %d", first+i, from, to), <-r)
	}
}

func (s *suite) read(e cluster.Transport, to int, seq uint64) cluster.Reader {
	s.Helper()
	r, err := e.Read(s.ctx, to, seq)
	s.do("read", err)
	s.Cleanup(r.Close)
	return r
}

func (s *suite) next(r cluster.Reader) cluster.Message {
	s.Helper()
	m, err := r.Next(s.ctx)
	s.do("next message", err)
	return m
}

// expect reads messages first to last of one sender.
func (s *suite) expect(r cluster.Reader, from, first, last int) (seq uint64) {
	s.Helper()
	for n := first; n <= last; n++ {
		m := s.next(r)
		if m.From != from || string(m.Data) != string(body(from, n)) || m.Seq <= seq {
			s.Fatalf("after sequence %d: got %d from %d: %q, want %q", seq, m.Seq, m.From, m.Data, body(from, n))
		}
		seq = m.Seq
	}
	return seq
}

// silent checks that the reader delivers nothing more for a moment.
func (s *suite) silent(r cluster.Reader) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
	defer cancel()
	if m, err := r.Next(ctx); err == nil {
		s.Fatalf("message %d (%q), want none", m.Seq, m.Data)
	} else if !errors.Is(err, context.DeadlineExceeded) {
		s.Fatal(err)
	}
}
