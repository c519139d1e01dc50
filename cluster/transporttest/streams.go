package transporttest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"drumbeat/cluster"
)

// order: messages of each of three senders keep the order of their calls, though no call waits for a result.
func order(t *testing.T, b Broker) {
	s := begin(t, b)
	const each = 100
	var wg sync.WaitGroup
	for from := 1; from <= 3; from++ {
		e := s.open(from)
		wg.Go(func() {
			var results []<-chan error
			for n := 1; n <= each; n++ {
				results = append(results, e.Publish(s.ctx, 0, from, fmt.Sprintf("%d-%d", from, n), body(from, n)))
			}
			for _, r := range results {
				if err := <-r; err != nil {
					t.Error(err)
				}
			}
		})
	}
	r := s.read(s.open(0), 0, 1)
	var seq uint64
	sent := map[int]int{}
	for range 3 * each {
		m := s.next(r)
		sent[m.From]++
		if want := body(m.From, sent[m.From]); m.Seq <= seq || !bytes.Equal(m.Data, want) {
			t.Fatalf("message %d after %d: %q, want %q", m.Seq, seq, m.Data, want)
		}
		seq = m.Seq
	}
	wg.Wait()
	s.silent(r)
}

// read: a Reader begins at the given sequence, waits for new messages, and survives the end of a context.
// Streams of two nodes are apart.
func read(t *testing.T, b Broker) {
	s := begin(t, b)
	e, other := s.open(1), s.open(2)
	empty := s.read(other, 0, 0)
	if st := empty.Stream(); st.First != 1 || st.Last != 0 || st.Epoch == 0 {
		t.Fatalf("empty stream: %+v", st)
	}
	s.silent(empty)
	s.publish(e, 0, 1, 1, 10)
	s.publish(e, 2, 1, 100, 100)
	s.expect(empty, 1, 1, 10)
	s.silent(empty)

	r := s.read(other, 0, 7)
	if st := r.Stream(); st.First != 1 || st.Last != 10 || st.Epoch != empty.Stream().Epoch {
		t.Fatalf("stream %+v, want 1 to 10 and epoch %d", st, empty.Stream().Epoch)
	}
	s.expect(r, 1, 7, 10)
	s.expect(s.read(e, 2, 1), 1, 100, 100)
	s.expect(s.read(e, 0, 1), 1, 1, 10)

	// A message with the id of a stored one may be dropped or not.
	s.publish(e, 0, 1, 10, 11)
	m := s.next(r)
	if bytes.Equal(m.Data, body(1, 10)) {
		m = s.next(r)
	}
	if !bytes.Equal(m.Data, body(1, 11)) {
		t.Fatalf("got %q, want %q", m.Data, body(1, 11))
	}
	// Beyond the end: from the oldest message on.
	ahead := s.read(other, 0, 50)
	if st := ahead.Stream(); st.Last >= 49 {
		t.Fatalf("stream %+v", st)
	}
	s.expect(ahead, 1, 1, 10)
	r.Close()
	r.Close()
	if _, err := r.Next(s.ctx); err == nil {
		t.Fatal("a closed reader delivers")
	}
}

// purge: purged messages are gone, the rest keep their sequences, and sequences continue.
func purge(t *testing.T, b Broker) {
	s := begin(t, b)
	e := s.open(0)
	s.do("purge of an empty stream", e.Purge(s.ctx, 0, 1))
	s.publish(e, 0, 3, 1, 10)
	for range 2 {
		s.do("purge", e.Purge(s.ctx, 0, 6))
	}
	r := s.read(e, 0, 1)
	if st := r.Stream(); st.First != 6 || st.Last != 10 {
		t.Fatalf("stream %+v, want 6 to 10", st)
	}
	if last := s.expect(r, 3, 6, 10); last != 10 {
		t.Fatalf("last sequence %d, want 10", last)
	}
	s.do("purge of all", e.Purge(s.ctx, 0, 11))
	none := s.read(e, 0, 11)
	if st := none.Stream(); st.First != 11 || st.Last != 10 {
		t.Fatalf("stream %+v, want none after 10", st)
	}
	s.publish(e, 0, 3, 11, 12)
	for _, reader := range []cluster.Reader{r, none} {
		if last := s.expect(reader, 3, 11, 12); last != 12 {
			t.Fatalf("last sequence %d, want 12", last)
		}
	}
	// A purge by numbers of a stream that was longer.
	s.do("purge beyond the end", e.Purge(s.ctx, 0, 100))
	s.expect(s.read(e, 0, 11), 3, 11, 12)
	// A reader below the purged messages continues after them.
	behind := s.read(e, 0, 11)
	s.do("purge", e.Purge(s.ctx, 0, 12))
	s.publish(e, 0, 3, 13, 13)
	m := s.next(behind)
	if m.Seq == 11 { // it was read ahead
		m = s.next(behind)
	}
	if m.Seq != 12 {
		t.Fatalf("message %d, want 12", m.Seq)
	}
}

// full: a full stream refuses new messages, keeps its own, and takes more after a purge.
func full(t *testing.T, b Broker) {
	s := begin(t, b)
	e := s.open(0)
	size := b.StreamBytes / 8
	var err error
	n := 0
	for ; err == nil; n++ {
		if n == 9 {
			t.Fatalf("a stream of %d bytes takes %d messages of %d", b.StreamBytes, n, size)
		}
		err = <-e.Publish(s.ctx, 0, 1, fmt.Sprint(n), bytes.Repeat([]byte{byte(n)}, size))
	}
	s.want("publish to a full stream", err, cluster.ErrFull)
	n-- // the refused one
	if n < 6 {
		t.Fatalf("a stream of %d bytes takes only %d messages of %d", b.StreamBytes, n, size)
	}
	r := s.read(e, 0, 1)
	for i := range n {
		if m := s.next(r); !bytes.Equal(m.Data, bytes.Repeat([]byte{byte(i)}, size)) {
			t.Fatalf("message %d is changed", m.Seq)
		}
	}
	s.silent(r)
	s.do("purge", e.Purge(s.ctx, 0, 3))
	// It has the id of the refused message, which is in no stream.
	s.do("publish after the purge", <-e.Publish(s.ctx, 0, 1, fmt.Sprint(n), []byte("more")))
	if m := s.next(r); string(m.Data) != "more" {
		t.Fatalf("got %d bytes, want more", len(m.Data))
	}
}

// sizes: the largest message, value and request pass; one byte more is refused, and so is an empty one.
func sizes(t *testing.T, b Broker) {
	s := begin(t, b)
	e := s.open(0)
	stop, err := e.Answer("echo", func(_ context.Context, _ int, data []byte) []byte { return data })
	s.do("answer", err)
	defer stop()
	long := bytes.Repeat([]byte("0123456789abcdef"), cluster.MaxMessageBytes/16)
	key := fmt.Sprintf("k%0*d", cluster.MaxKeyBytes-1, 0)
	for _, data := range [][]byte{long, {}} {
		s.do("publish", <-e.Publish(s.ctx, 0, 0, "", data))
		_, err = e.Put(s.ctx, cluster.BucketCrawl, key, data)
		s.do("put", err)
		v, err := e.Get(s.ctx, cluster.BucketCrawl, key)
		s.do("get", err)
		answer, err := e.Ask(s.ctx, 0, "echo", data)
		s.do("ask", err)
		if !bytes.Equal(v.Data, data) || !bytes.Equal(answer, data) {
			t.Fatalf("a value of %d bytes has %d, an answer %d", len(data), len(v.Data), len(answer))
		}
	}
	r := s.read(e, 0, 1)
	for _, data := range [][]byte{long, {}} {
		if m := s.next(r); !bytes.Equal(m.Data, data) {
			t.Fatalf("a message of %d bytes has %d", len(data), len(m.Data))
		}
	}
	more := append(long, 0)
	s.want("publish", <-e.Publish(s.ctx, 0, 0, "", more), cluster.ErrTooLarge)
	_, err = e.Put(s.ctx, cluster.BucketCrawl, "k", more)
	s.want("put", err, cluster.ErrTooLarge)
	_, err = e.Create(s.ctx, cluster.BucketCrawl, "k", more)
	s.want("create", err, cluster.ErrTooLarge)
	_, err = e.Update(s.ctx, cluster.BucketCrawl, key, more, 1)
	s.want("update", err, cluster.ErrTooLarge)
	_, err = e.Ask(s.ctx, 0, "echo", more)
	s.want("ask", err, cluster.ErrTooLarge)
	s.silent(r)
}

// calls runs each call of a transport once, and hands its error to f. It leaves out what needs no broker.
func (s *suite) calls(e cluster.Transport, ctx context.Context, f func(what string, err error)) {
	f("publish", <-e.Publish(ctx, 0, 0, "", []byte("x")))
	r, err := e.Read(ctx, 0, 1)
	if err == nil {
		r.Close()
	}
	f("read", err)
	f("purge", e.Purge(ctx, 0, 2))
	_, err = e.Get(ctx, cluster.BucketCrawl, "k")
	f("get", err)
	_, err = e.Put(ctx, cluster.BucketCrawl, "k", nil)
	f("put", err)
	_, err = e.Create(ctx, cluster.BucketCrawl, "k2", nil)
	f("create", err)
	_, err = e.Update(ctx, cluster.BucketCrawl, "k", nil, 1)
	f("update", err)
	f("delete", e.Delete(ctx, cluster.BucketCrawl, "k", 0))
	_, err = e.Last(ctx, cluster.BucketCrawl)
	f("last", err)
	w, err := e.Watch(ctx, cluster.BucketCrawl, ">")
	if err == nil {
		w.Close()
	}
	f("watch", err)
	_, err = e.Ask(ctx, 0, "nothing", nil)
	f("ask", err)
}

// contexts: a context that has ended ends every call with its error.
func contexts(t *testing.T, b Broker) {
	s := begin(t, b)
	e := s.open(0)
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	s.calls(e, ended, func(what string, err error) { s.want(what, err, context.Canceled) })
	r := s.read(e, 0, 1)
	_, err := r.Next(ended)
	s.want("next", err, context.Canceled)
	s.publish(e, 0, 1, 1, 1)
	s.expect(r, 1, 1, 1)
	s.silent(r)
	w, err := e.Watch(s.ctx, cluster.BucketCrawl, ">")
	s.do("watch", err)
	defer w.Close()
	_, _, err = w.Next(ended)
	s.want("next", err, context.Canceled)
	if _, ok, err := w.Next(s.ctx); ok || err != nil {
		t.Fatalf("a bucket that nobody wrote to has a value (%v), %v", ok, err)
	}
}
