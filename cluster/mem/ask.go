package mem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"drumbeat/cluster"
)

// answer is the result of a waiting call.
type answer struct {
	data []byte
	err  error
}

// answerer runs the calls of one function.
type answerer struct {
	f       func(ctx context.Context, from int, data []byte) []byte
	ctx     context.Context
	running sync.WaitGroup

	// Guarded by the Net's lock.
	active  int
	waiting []func()
}

// Ask implements cluster.Transport.
func (e *Transport) Ask(ctx context.Context, to int, kind string, data []byte) ([]byte, error) {
	if err := checkAsk(to, kind, data); err != nil {
		return nil, err
	}
	ctx, cancel := limited(ctx)
	defer cancel()
	n := e.net
	n.mu.Lock()
	if err := e.usable(ctx); err != nil {
		n.mu.Unlock()
		return nil, err
	}
	reply := make(chan answer, 1)
	e.asks[reply] = true
	data = bytes.Clone(data)
	n.later(n.delay(), func() { n.ask(e, reply, to, kind, data) })
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		delete(e.asks, reply)
		n.mu.Unlock()
	}()
	select {
	case a := <-reply:
		return a.data, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Tell implements cluster.Transport.
func (e *Transport) Tell(ctx context.Context, to int, kind string, data []byte) error {
	if err := checkAsk(to, kind, data); err != nil {
		return err
	}
	n := e.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := e.usable(ctx); err != nil {
		return err
	}
	data = bytes.Clone(data)
	n.later(n.delay(), func() { n.ask(e, nil, to, kind, data) })
	return nil
}

func checkAsk(to int, kind string, data []byte) error {
	if err := errors.Join(cluster.CheckNode(to), cluster.CheckKind(kind)); err != nil {
		return err
	}
	if len(data) > cluster.MaxMessageBytes {
		return fmt.Errorf("cluster/mem: ask: %w", cluster.ErrTooLarge)
	}
	return nil
}

// ask delivers a request to the node that answers.
func (n *Net) ask(from *Transport, reply chan answer, to int, kind string, data []byte) {
	if n.roll(n.o.Faults.NoAsk) {
		n.counts.AsksLost++
		return
	}
	for _, e := range n.sorted() {
		a := e.answers[kind]
		if e.node != to || a == nil || !e.state.Connected {
			continue
		}
		work := func() { n.answer(a, e, from, reply, data) }
		switch {
		case a.active < cluster.MaxAnswers:
			work()
		case len(a.waiting) < maxWaiting:
			a.waiting = append(a.waiting, work)
		}
		return
	}
	n.later(n.delay(), func() {
		from.reply(reply, answer{err: fmt.Errorf("cluster/mem: ask node %d for %s: %w", to, kind, cluster.ErrNoAnswer)})
	})
}

// answer runs one call of the function, then the next waiting one.
func (n *Net) answer(a *answerer, e, from *Transport, reply chan answer, data []byte) {
	a.active++
	a.running.Add(1)
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		defer a.running.Done()
		got := bytes.Clone(a.f(a.ctx, from.node, data))
		n.mu.Lock()
		defer n.mu.Unlock()
		if e.state.Connected && !n.roll(n.o.Faults.NoAsk) {
			n.later(n.delay(), func() { from.reply(reply, answer{data: got}) })
		}
		a.active--
		if len(a.waiting) > 0 && a.ctx.Err() == nil {
			next := a.waiting[0]
			a.waiting = a.waiting[1:]
			next()
		}
	}()
}

// Answer implements cluster.Transport.
func (e *Transport) Answer(kind string, f func(ctx context.Context, from int, data []byte) []byte) (func(), error) {
	if err := cluster.CheckKind(kind); err != nil {
		return nil, err
	}
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	if e.closed {
		return nil, cluster.ErrClosed
	}
	if e.answers[kind] != nil {
		panic("BUG: cluster/mem: two functions answer " + kind)
	}
	ctx, cancel := context.WithCancel(e.run)
	a := &answerer{f: f, ctx: ctx}
	e.answers[kind] = a
	return func() {
		cancel()
		e.net.mu.Lock()
		if e.answers[kind] == a {
			delete(e.answers, kind)
		}
		e.net.mu.Unlock()
		a.running.Wait()
	}, nil
}
