package mem

import (
	"context"
	"fmt"
	"sync"
	"time"

	"drumbeat/cluster"
)

// Transport is the connection of a node to a Net. It is an cluster.Transport.
type Transport struct {
	net    *Net
	node   int
	number int // distinguishes transports of one node

	inFlight chan struct{}
	running  sync.WaitGroup // requests being answered
	run      context.Context
	stop     context.CancelFunc

	// Guarded by the Net's lock.
	closed  bool
	state   cluster.State
	posts   map[*post]bool // messages without a result
	feeds   map[*feed]bool // readers and watchers that have not ended
	asks    map[chan answer]bool
	answers map[string]*answerer // by kind
}

func newTransport(n *Net, node int) *Transport {
	e := &Transport{net: n, node: node, number: len(n.transports), inFlight: make(chan struct{}, cluster.MaxInFlight),
		state: cluster.State{Since: time.Now()}, posts: map[*post]bool{}, feeds: map[*feed]bool{},
		asks: map[chan answer]bool{}, answers: map[string]*answerer{}}
	e.run, e.stop = context.WithCancel(context.Background())
	return e
}

// breakAll ends all calls that wait for the broker.
func (e *Transport) breakAll(err error) {
	for p := range e.posts {
		if !p.done && e.net.rng.IntN(2) == 0 {
			p.dropped = true // else it arrives without its acknowledgement
		}
		p.finish(err)
	}
	for f := range e.feeds {
		if err == cluster.ErrClosed {
			f.end(err)
		} else {
			f.end(cluster.ErrInterrupted)
		}
	}
	for ask := range e.asks {
		ask <- answer{err: err}
		delete(e.asks, ask)
	}
}

// State implements cluster.Transport.
func (e *Transport) State() cluster.State {
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	return e.state
}

// Close implements cluster.Transport.
func (e *Transport) Close() error {
	n := e.net
	n.mu.Lock()
	if !e.closed {
		e.closed = true
		e.state.Connected, e.state.Since = false, time.Now()
		e.breakAll(cluster.ErrClosed)
		delete(n.transports, e)
		e.stop()
	}
	n.mu.Unlock()
	e.running.Wait()
	return nil
}

// limited gives a context without a deadline the usual one.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, callTime, cluster.ErrAway)
}

// usable returns the reason why a call cannot begin. The caller has the lock.
func (e *Transport) usable(ctx context.Context) error {
	switch {
	case e.closed:
		return cluster.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	case !e.state.Connected:
		return cluster.ErrAway
	}
	return nil
}

func (e *Transport) check(ctx context.Context) error {
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	return e.usable(ctx)
}

// call runs f under the lock after a delay, as a request to the broker, and returns after a second delay. It
// may take effect even if it returns an error.
func (e *Transport) call(ctx context.Context, f func() error) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	n := e.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := e.usable(ctx); err != nil {
		return err
	}
	d, back := n.delay(), n.delay()
	if d == 0 && back == 0 {
		return f()
	}
	reply := make(chan answer, 1)
	e.asks[reply] = true // so a broken connection answers
	defer delete(e.asks, reply)
	n.later(d, func() {
		if !e.asks[reply] {
			return
		}
		err := f()
		n.later(back, func() { e.reply(reply, answer{err: err}) })
	})
	n.mu.Unlock()
	defer n.mu.Lock()
	select {
	case a := <-reply:
		return a.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reply answers a waiting call, unless it has an answer.
func (e *Transport) reply(to chan answer, a answer) {
	if e.asks[to] {
		delete(e.asks, to)
		to <- a
	}
}

// feed is the common part of readers and watchers: their end.
type feed struct {
	e     *Transport
	of    any           // *stream or *bucket
	ended chan struct{} // closed with err
	err   error         // guarded by the Net's lock
}

func (e *Transport) feed(of any) *feed {
	f := &feed{e: e, of: of, ended: make(chan struct{})}
	e.feeds[f] = true
	return f
}

func (f *feed) end(err error) {
	if f.err == nil {
		f.err = fmt.Errorf("cluster/mem: read: %w", err)
		delete(f.e.feeds, f)
		close(f.ended)
	}
}

// Close ends the feed.
func (f *feed) Close() {
	f.e.net.mu.Lock()
	defer f.e.net.mu.Unlock()
	f.end(cluster.ErrInterrupted)
}

// wait calls take under the lock until it reports true. While it reports false, take returns a channel that
// is closed at the next change.
func (f *feed) wait(ctx context.Context, take func() (bool, <-chan struct{})) error {
	for {
		f.e.net.mu.Lock()
		err := f.err
		if err == nil {
			err = ctx.Err()
		}
		var done bool
		var news <-chan struct{}
		if err == nil {
			done, news = take()
		}
		f.e.net.mu.Unlock()
		if done || err != nil {
			return err
		}
		select {
		case <-news:
		case <-f.ended:
		case <-ctx.Done():
		}
	}
}

var _ cluster.Transport = (*Transport)(nil)
