package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"drumbeat/cluster"
)

// Bounds of the waiting requests of one kind at the answering node; the client drops further ones.
const (
	maxWaiting      = 1024
	maxWaitingBytes = 16 << 20
)

// Ask implements cluster.Transport.
func (e *Transport) Ask(ctx context.Context, to int, kind string, data []byte) ([]byte, error) {
	if err := checkAsk(to, kind, data); err != nil {
		return nil, err
	}
	most := callTime
	if end, limited := ctx.Deadline(); limited {
		most = time.Until(end) + time.Second // the answer may take as long as ctx allows
	}
	ctx, cancel, err := e.call(ctx, most)
	if err != nil {
		return nil, err
	}
	defer cancel()
	msg, err := e.nc.RequestWithContext(ctx, e.askSubject(to, kind), data)
	if errors.Is(err, natsgo.ErrNoResponders) {
		return nil, fmt.Errorf("cluster/nats: ask node %d for %s: %w", to, kind, cluster.ErrNoAnswer)
	}
	if err != nil {
		return nil, e.explain(ctx, "ask", err)
	}
	return msg.Data, nil
}

// Tell implements cluster.Transport.
func (e *Transport) Tell(ctx context.Context, to int, kind string, data []byte) error {
	if err := checkAsk(to, kind, data); err != nil {
		return err
	}
	ctx, cancel, err := e.call(ctx, callTime)
	if err != nil {
		return err
	}
	defer cancel()
	return e.explain(ctx, "tell", e.nc.Publish(e.askSubject(to, kind), data))
}

func (e *Transport) askSubject(to int, kind string) string {
	return fmt.Sprintf("db.%s.ask.%d.%d.%s", e.o.Crawl, to, e.o.Node, kind)
}

func checkAsk(to int, kind string, data []byte) error {
	if err := errors.Join(cluster.CheckNode(to), cluster.CheckKind(kind)); err != nil {
		return err
	}
	if len(data) > cluster.MaxMessageBytes {
		return fmt.Errorf("cluster/nats: ask: %d bytes: %w", len(data), cluster.ErrTooLarge)
	}
	return nil
}

// Answer implements cluster.Transport.
func (e *Transport) Answer(kind string, f func(ctx context.Context, from int, data []byte) []byte) (func(), error) {
	if err := cluster.CheckKind(kind); err != nil {
		return nil, err
	}
	e.mu.Lock()
	closed, taken := e.closed, e.answered[kind]
	e.answered[kind] = true
	e.mu.Unlock()
	if closed {
		return nil, cluster.ErrClosed
	}
	if taken {
		panic("BUG: cluster/nats: two functions answer " + kind)
	}
	a := &answerer{e: e, f: f, places: make(chan struct{}, cluster.MaxAnswers)}
	ctx, cancel := context.WithCancel(e.run)
	// The client renews the subscription with each connection.
	sub, err := e.nc.Subscribe(fmt.Sprintf("db.%s.ask.%d.*.%s", e.o.Crawl, e.o.Node, kind), func(msg *natsgo.Msg) {
		a.take(ctx, msg)
	})
	if err == nil {
		err = sub.SetPendingLimits(maxWaiting, maxWaitingBytes)
	}
	if err != nil {
		cancel()
		e.free(kind)
		return nil, e.explain(ctx, "answer "+kind, err)
	}
	return func() {
		cancel()
		_ = sub.Unsubscribe() // fails after Close
		a.stop()
		e.free(kind)
	}, nil
}

func (e *Transport) free(kind string) {
	e.mu.Lock()
	delete(e.answered, kind)
	e.mu.Unlock()
}

// answerer runs the calls of one function. The client calls take from one goroutine.
type answerer struct {
	e       *Transport
	f       func(ctx context.Context, from int, data []byte) []byte
	places  chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex // guards stopped; no call begins after stopped is set
	stopped bool
}

func (a *answerer) take(ctx context.Context, msg *natsgo.Msg) {
	tokens := strings.Split(msg.Subject, ".")
	from, err := strconv.Atoi(tokens[len(tokens)-2])
	if err != nil || cluster.CheckNode(from) != nil {
		a.e.warn("a request from no node: " + msg.Subject)
		return
	}
	select {
	case a.places <- struct{}{}:
	case <-ctx.Done():
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped || !a.e.begin() {
		return
	}
	a.running.Add(1)
	go func() {
		defer a.e.running.Done()
		defer a.running.Done()
		answer := a.f(ctx, from, msg.Data)
		if msg.Reply != "" { // Tell does not wait for an answer
			if err := msg.Respond(answer); err != nil && ctx.Err() == nil {
				a.e.warn("an answer is lost: " + err.Error())
			}
		}
		<-a.places
	}()
}

func (a *answerer) stop() {
	a.mu.Lock()
	a.stopped = true
	a.mu.Unlock()
	a.running.Wait()
}
