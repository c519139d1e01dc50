package transporttest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/cluster"
)

func ask(t *testing.T, b Broker) {
	s := begin(t, b)
	e, other := s.open(0), s.open(5)
	_, err := other.Ask(s.ctx, 0, "robots", []byte("q"))
	s.want("ask nobody", err, cluster.ErrNoAnswer)
	stop, err := e.Answer("robots", func(_ context.Context, from int, data []byte) []byte {
		return fmt.Appendf(nil, "%d asks %s", from, data)
	})
	s.do("answer", err)
	s.until("answer", func() bool { // the broker may learn of it later
		answer, err := other.Ask(s.ctx, 0, "robots", []byte("q"))
		if err == nil && string(answer) != "5 asks q" {
			t.Fatalf("answer %q", answer)
		}
		return err == nil
	})
	_, err = other.Ask(s.ctx, 0, "else", nil)
	s.want("ask for another kind", err, cluster.ErrNoAnswer)
	told := make(chan string, 1)
	stopTold, err := e.Answer("told", func(_ context.Context, from int, data []byte) []byte {
		told <- fmt.Sprintf("%d tells %s", from, data)
		return []byte("nobody reads this")
	})
	s.do("answer what is told", err)
	s.until("answer", func() bool { _, err := other.Ask(s.ctx, 0, "told", []byte("it")); return err == nil })
	<-told
	s.do("tell", other.Tell(s.ctx, 0, "told", []byte("t")))
	if got := <-told; got != "5 tells t" {
		t.Errorf("%q was told", got)
	}
	stopTold()
	s.do("tell nobody", other.Tell(s.ctx, 0, "told", nil))
	_, err = e.Ask(s.ctx, 5, "robots", nil)
	s.want("ask another node", err, cluster.ErrNoAnswer)
	stop()
	s.until("end of answers", func() bool {
		short, cancel := context.WithTimeout(s.ctx, 200*time.Millisecond) // for a request that was under way
		defer cancel()
		_, err := other.Ask(short, 0, "robots", []byte("q"))
		return errors.Is(err, cluster.ErrNoAnswer)
	})
	// An answer that takes too long, and ends with stop.
	began := make(chan struct{})
	stop, err = e.Answer("robots", func(ctx context.Context, _ int, _ []byte) []byte {
		close(began)
		<-ctx.Done()
		return nil
	})
	s.do("answer again", err)
	short, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.until("start of an answer", func() bool {
		go func() {
			select {
			case <-began:
				cancel()
			case <-short.Done():
			}
		}()
		_, err = other.Ask(short, 0, "robots", nil)
		return !errors.Is(err, cluster.ErrNoAnswer)
	})
	s.want("ask", err, context.Canceled)
	stop()
}

// askMany: MaxAnswers requests are answered at once, and more wait.
func askMany(t *testing.T, b Broker) {
	s := begin(t, b)
	e, other := s.open(0), s.open(1)
	const asked = cluster.MaxAnswers + 8
	var running, most, answered atomic.Int32
	enough := make(chan struct{})
	stop, err := e.Answer("work", func(_ context.Context, _ int, data []byte) []byte {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		<-enough
		running.Add(-1)
		return data
	})
	s.do("answer", err)
	defer stop()
	var wg sync.WaitGroup
	for i := range asked {
		wg.Go(func() {
			data := fmt.Append(nil, i)
			for {
				answer, err := other.Ask(s.ctx, 0, "work", data)
				if errors.Is(err, cluster.ErrNoAnswer) {
					s.pause() // the broker has not heard of it yet
					continue
				}
				if err != nil || string(answer) != string(data) {
					t.Errorf("answer %q, %v, want %q", answer, err, data)
				}
				answered.Add(1)
				return
			}
		})
	}
	s.until("answers at once", func() bool { return running.Load() == cluster.MaxAnswers })
	close(enough)
	wg.Wait()
	if most.Load() != cluster.MaxAnswers || answered.Load() != asked {
		t.Errorf("%d at once, want %d; %d answered, want %d", most.Load(), cluster.MaxAnswers, answered.Load(), asked)
	}
}

// closing: Close ends waiting calls; later calls return ErrClosed.
func closing(t *testing.T, b Broker) {
	s := begin(t, b)
	e := s.open(0)
	r := s.read(e, 0, 1)
	w := s.watch(e, cluster.BucketNet, ">")
	s.all(w)
	ended := make(chan struct{})
	_, err := e.Answer("wait", func(ctx context.Context, _ int, _ []byte) []byte {
		<-ctx.Done()
		close(ended)
		return nil
	})
	s.do("answer", err)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := r.Next(s.ctx)
		if !errors.Is(err, cluster.ErrClosed) {
			t.Errorf("next message returns %v", err)
		}
	})
	wg.Go(func() {
		_, _, err := w.Next(s.ctx)
		if !errors.Is(err, cluster.ErrClosed) {
			t.Errorf("next value returns %v", err)
		}
	})
	asked := make(chan struct{})
	wg.Go(func() {
		for err := cluster.ErrNoAnswer; errors.Is(err, cluster.ErrNoAnswer); {
			ctx, cancel := context.WithTimeout(s.ctx, 200*time.Millisecond)
			_, err = e.Ask(ctx, 0, "wait", nil)
			cancel()
			s.pause()
		}
		close(asked)
	})
	<-asked
	s.do("close", e.Close())
	<-ended
	wg.Wait()
	s.do("close again", e.Close())
	if e.State().Connected {
		t.Error("a closed transport says that it is connected")
	}
	s.calls(e, s.ctx, func(what string, err error) { s.want(what, err, cluster.ErrClosed) })
	_, err = e.Answer("wait", nil)
	s.want("answer", err, cluster.ErrClosed)
	_, err = r.Next(s.ctx)
	s.want("next message", err, cluster.ErrClosed)
	_, _, err = w.Next(s.ctx)
	s.want("next value", err, cluster.ErrClosed)
	r.Close()
	w.Close()
}

// lose stops the broker and waits until the transports notice.
func (s *suite) lose(transports ...cluster.Transport) {
	s.Helper()
	s.b.Break()
	for _, e := range transports {
		s.until("end of the connection", func() bool { return !e.State().Connected })
	}
}

func (s *suite) restart(transports ...cluster.Transport) {
	s.Helper()
	s.b.Restart()
	for _, e := range transports {
		s.until("connection", func() bool { return e.State().Connected })
	}
}

// away: without the broker, calls return ErrAway and readers end; afterwards everything continues.
func away(t *testing.T, b Broker) {
	if b.Break == nil {
		t.Skip("this broker cannot be taken away")
	}
	s := begin(t, b)
	e, other := s.open(1), s.open(2)
	s.publish(e, 1, 1, 1, 5)
	_, err := e.Put(s.ctx, cluster.BucketCrawl, "k", []byte("v"))
	s.do("put", err)
	stop, err := other.Answer("name", func(context.Context, int, []byte) []byte { return []byte("two") })
	s.do("answer", err)
	defer stop()
	r, w := s.read(e, 1, 1), s.watch(e, cluster.BucketCrawl, ">")
	last := s.expect(r, 1, 1, 5)
	s.all(w)
	before := e.State()
	if !before.Connected || before.Connects != 1 {
		t.Fatalf("state %+v, want the first connection", before)
	}

	s.lose(e, other)
	if st := e.State(); st.Connects != before.Connects || st.Since.Before(before.Since) {
		t.Fatalf("state %+v after %+v", st, before)
	}
	s.calls(e, s.ctx, func(what string, err error) { s.want(what, err, cluster.ErrAway) })
	for range 2 {
		_, err = r.Next(s.ctx)
		s.want("next message", err, cluster.ErrInterrupted)
		_, _, err = w.Next(s.ctx)
		s.want("next value", err, cluster.ErrInterrupted)
	}

	s.restart(e, other)
	if st := e.State(); st.Connects != before.Connects+1 {
		t.Fatalf("state %+v, want a second connection", st)
	}
	_, err = r.Next(s.ctx)
	s.want("next message of the old reader", err, cluster.ErrInterrupted)
	s.until("publish", func() bool {
		return <-e.Publish(s.ctx, 1, 1, "1-6", body(1, 6)) == nil
	})
	if b.Keeps {
		again := s.read(e, 1, last+1)
		if again.Stream().Epoch != r.Stream().Epoch {
			t.Errorf("epoch %d, was %d", again.Stream().Epoch, r.Stream().Epoch)
		}
		s.expect(again, 1, 6, 6)
		if got := s.all(s.watch(e, cluster.BucketCrawl, ">")); !maps.Equal(got, map[string]string{"k": "v"}) {
			t.Errorf("values %v", got)
		}
	}
	s.until("answer", func() bool {
		short, cancel := context.WithTimeout(s.ctx, time.Second)
		defer cancel()
		answer, err := e.Ask(short, 2, "name", nil)
		return err == nil && string(answer) == "two"
	})
}

// wiped: streams and buckets that the broker lost are made again, with a new epoch or revision 0.
func wiped(t *testing.T, b Broker) {
	if b.Wipe == nil {
		t.Skip("this broker cannot be emptied")
	}
	s := begin(t, b)
	e := s.open(1)
	s.publish(e, 1, 1, 1, 5)
	_, err := e.Put(s.ctx, cluster.BucketNet, "k", []byte("v"))
	s.do("put", err)
	r := s.read(e, 1, 1)
	last := s.expect(r, 1, 1, 5)
	s.lose(e)
	b.Wipe()
	s.restart(e)
	var again cluster.Reader
	s.until("read", func() bool {
		again, err = e.Read(s.ctx, 1, last+1)
		return err == nil
	})
	defer again.Close()
	if st := again.Stream(); st.Epoch == r.Stream().Epoch || st.First != 1 || st.Last != 0 {
		t.Errorf("stream %+v, was %+v", st, r.Stream())
	}
	_, err = e.Get(s.ctx, cluster.BucketNet, "k")
	s.want("get", err, cluster.ErrNotFound)
	if n, err := e.Last(s.ctx, cluster.BucketNet); err != nil || n != 0 {
		t.Errorf("last revision %d, %v, want 0", n, err)
	}
	s.publish(e, 1, 1, 6, 8)
	if last := s.expect(again, 1, 6, 8); last != 3 {
		t.Errorf("last sequence %d, want 3", last)
	}
}

// breaking: the broker stops three times while a node publishes, reads and purges. Like a crawl's node, this
// one repeats unacknowledged messages in order, and continues to read from its sequence.
func breaking(t *testing.T, b Broker) {
	if b.Break == nil || !b.Keeps {
		t.Skip("this broker does not keep what it acknowledged")
	}
	s := begin(t, b)
	sender, receiver := s.open(1), s.open(2)
	const all, window = 600, 8
	var wg sync.WaitGroup
	wg.Go(func() {
		for first := 1; first <= all; {
			var results []<-chan error
			for n := first; n < min(first+window, all+1); n++ {
				results = append(results, sender.Publish(s.ctx, 2, 1, fmt.Sprint("1-", n), body(1, n)))
			}
			for ok := true; len(results) > 0; results = results[1:] {
				if ok = <-results[0] == nil && ok; ok {
					first++
				} else {
					s.pause()
				}
			}
			if s.ctx.Err() != nil {
				t.Errorf("published %d of %d", first-1, all)
				return
			}
		}
	})
	// A refused message may come after later ones, so the receiver looks for each.
	var taken atomic.Int32
	wg.Go(func() {
		seen := map[int]bool{}
		for seq := uint64(0); len(seen) < all && s.ctx.Err() == nil; {
			r, err := receiver.Read(s.ctx, 2, seq+1)
			for err == nil && len(seen) < all {
				var m cluster.Message
				if m, err = r.Next(s.ctx); err != nil {
					break
				}
				if m.Seq <= seq {
					t.Errorf("message %d after %d", m.Seq, seq)
				}
				seq = m.Seq
				var n int
				if _, err := fmt.Sscanf(string(m.Data), "1:%d", &n); err != nil {
					t.Errorf("message %q", m.Data)
				}
				seen[n] = true
				taken.Store(int32(len(seen)))
				if seq%50 == 0 {
					_ = receiver.Purge(s.ctx, 2, seq) // may fail while the broker is stopped
				}
			}
			if r != nil {
				r.Close()
			}
			s.pause()
		}
	})
	for i := int32(1); i <= 3; i++ {
		s.until("messages", func() bool { return taken.Load() >= i*all/4 || t.Failed() })
		s.lose(sender, receiver)
		s.restart(sender, receiver)
	}
	wg.Wait()
	if taken.Load() != all {
		t.Errorf("%d of %d messages arrived", taken.Load(), all)
	}
}
