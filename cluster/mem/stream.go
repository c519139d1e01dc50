package mem

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"drumbeat/cluster"
)

// stream holds the messages of a node, by sequence.
type stream struct {
	epoch   int64
	next    uint64 // sequence of the next message
	list    []stored
	bytes   int
	limit   int
	ids     []id          // of the last messages, oldest first
	changed chan struct{} // closed when a message comes
}

type stored struct {
	seq  uint64
	from int
	id   string
	data []byte
}

type id struct {
	id string
	at time.Time
}

func (s *stream) describe() cluster.Stream {
	st := cluster.Stream{Epoch: s.epoch, First: s.next, Last: s.next - 1}
	if len(s.list) > 0 {
		st.First = s.list[0].seq
	}
	return st
}

// knows reports whether a message with the id came within idTime.
func (s *stream) knows(name string) bool {
	return name != "" &&
		slices.ContainsFunc(s.ids, func(i id) bool { return i.id == name && time.Since(i.at) < idTime })
}

// add appends a message, unless the stream is full.
func (s *stream) add(from int, name string, data []byte) bool {
	size := len(data) + overhead
	if s.bytes+size > s.limit {
		return false
	}
	s.list = append(s.list, stored{s.next, from, name, data})
	s.bytes += size
	s.next++
	if name != "" {
		if len(s.ids) == maxIDs {
			s.ids = slices.Delete(s.ids, 0, 1)
		}
		s.ids = append(s.ids, id{name, time.Now()})
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return true
}

// purge drops the messages below a sequence, or nothing if the stream ends before it.
func (s *stream) purge(below uint64) {
	if below > s.next {
		return
	}
	i := s.find(below)
	for _, m := range s.list[:i] {
		s.bytes -= len(m.data) + overhead
	}
	s.list = slices.Delete(s.list, 0, i)
}

// find returns the place of the first message with a sequence of seq or more.
func (s *stream) find(seq uint64) int {
	i, _ := slices.BinarySearchFunc(s.list, seq, func(m stored, seq uint64) int {
		if m.seq < seq {
			return -1
		}
		return int(min(m.seq-seq, 1))
	})
	return i
}

// loseTail drops the newest messages with their ids and numbers.
func (s *stream) loseTail(count int) {
	for ; count > 0 && len(s.list) > 0; count-- {
		m := s.list[len(s.list)-1]
		s.list = s.list[:len(s.list)-1]
		s.bytes -= len(m.data) + overhead
		s.next = m.seq
		s.ids = slices.DeleteFunc(s.ids, func(i id) bool { return i.id == m.id })
	}
}

// post is a message in flight from a transport to the broker, or its acknowledgement.
type post struct {
	e       *Transport
	path    path
	id      string
	data    []byte
	dropped bool // it does not arrive
	done    bool
	result  chan error
	cleanup func()
}

// finish gives the result of Publish, once.
func (p *post) finish(err error) {
	if p.done {
		return
	}
	p.done = true
	delete(p.e.posts, p)
	<-p.e.inFlight
	p.result <- err
	p.cleanup()
}

// Publish implements cluster.Transport.
func (e *Transport) Publish(ctx context.Context, to, from int, id string, data []byte) <-chan error {
	p := &post{e: e, path: path{to, from}, id: id, data: bytes.Clone(data), result: make(chan error, 1)}
	ctx, cancel := limited(ctx)
	if err := e.enter(ctx, p); err != nil {
		cancel()
		p.result <- err
		return p.result
	}
	n := e.net
	defer n.mu.Unlock() // enter locked it
	unhook := context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		p.finish(context.Cause(ctx))
	})
	p.cleanup = func() { unhook(); cancel() }
	e.posts[p] = true
	posts := n.paths[p.path]
	if posts == nil {
		posts = new([]*post)
		n.paths[p.path] = posts
	}
	*posts = append(*posts, p)
	// Each timer, as it ends, moves the oldest message of the subject.
	d := n.delay()
	if len(*posts) > 1 {
		d = max(d, 1)
	}
	n.later(d, func() {
		next := (*posts)[0]
		*posts = slices.Delete(*posts, 0, 1)
		n.arrive(next)
	})
	return p.result
}

// enter checks a message and waits until it may be in flight. Without an error it returns with the lock held.
func (e *Transport) enter(ctx context.Context, p *post) error {
	if err := cluster.CheckNode(p.path.to); err != nil {
		return err
	}
	if err := cluster.CheckNode(p.path.from); err != nil {
		return err
	}
	if len(p.data) > cluster.MaxMessageBytes {
		return fmt.Errorf("cluster/mem: publish: %w", cluster.ErrTooLarge)
	}
	if err := e.check(ctx); err != nil {
		return err
	}
	select {
	case e.inFlight <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	e.net.mu.Lock()
	if err := e.usable(ctx); err != nil {
		<-e.inFlight
		e.net.mu.Unlock()
		return err
	}
	return nil
}

// arrive delivers a message to the broker.
func (n *Net) arrive(p *post) {
	if p.dropped {
		n.counts.Dropped++
		return
	}
	f := &n.o.Faults
	s := n.stream(p.path.to)
	switch {
	case s.knows(p.id):
		n.counts.Dropped++
	case n.isFull || n.roll(f.Lose):
		if n.isFull {
			n.counts.Full++
			n.later(n.delay(), func() { p.finish(cluster.ErrFull) })
			return
		}
		n.counts.Lost++
	case !s.add(p.path.from, p.id, p.data):
		n.counts.Full++
		n.later(n.delay(), func() { p.finish(cluster.ErrFull) })
		return
	default:
		n.counts.Stored++
		if n.roll(f.Double) {
			n.counts.Doubled++
			n.later(time.Duration(n.rng.IntN(2))*10*f.Delay, func() { // at once, or late
				if n.up {
					n.stream(p.path.to).add(p.path.from, "", p.data)
				}
			})
		}
	}
	if n.roll(f.NoAck) {
		n.counts.NotAcked++
		p.finish(cluster.ErrAway)
		return
	}
	n.later(n.delay(), func() { p.finish(nil) })
}

// Purge implements cluster.Transport.
func (e *Transport) Purge(ctx context.Context, to int, below uint64) error {
	if err := cluster.CheckNode(to); err != nil {
		return err
	}
	return e.call(ctx, func() error {
		e.net.stream(to).purge(below)
		return nil
	})
}

// Read implements cluster.Transport.
func (e *Transport) Read(ctx context.Context, to int, seq uint64) (cluster.Reader, error) {
	if err := cluster.CheckNode(to); err != nil {
		return nil, err
	}
	var r *reader
	err := e.call(ctx, func() error {
		s := e.net.stream(to)
		r = &reader{feed: e.feed(s), s: s, stream: s.describe(), seq: seq}
		if seq > s.next {
			r.seq = 0
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

type reader struct {
	*feed
	s      *stream
	stream cluster.Stream
	seq    uint64 // of the next message, at least; guarded by the Net's lock
}

func (r *reader) Stream() cluster.Stream { return r.stream }

// Next implements cluster.Reader.
func (r *reader) Next(ctx context.Context) (m cluster.Message, err error) {
	err = r.wait(ctx, func() (bool, <-chan struct{}) {
		i := r.s.find(r.seq)
		if i == len(r.s.list) {
			return false, r.s.changed
		}
		of := r.s.list[i]
		m = cluster.Message{Seq: of.seq, From: of.from, Data: bytes.Clone(of.data)}
		r.seq = of.seq + 1
		return true, nil
	})
	return m, err
}
