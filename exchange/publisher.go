package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Publisher publishes the messages of one outbox, drops those that their receiver has for good, and resends
// after a gap. Run is its only goroutine.
//
// At most window messages are on their way to the engine at once.
type Publisher struct {
	Outbox    *Outbox
	Transport Transport
	// Transact runs f in a transaction of the crawl.
	Transact func(f func() error) error
	// Waits is told of an error of the engine, after which Run pauses and tries again.
	Waits func(err error, pause time.Duration)
	// ResendAfter is after how long without progress of the receiver all that it has not taken is sent again. The
	// time doubles with each resend without progress, up to mostResendAfter times ResendAfter.
	ResendAfter time.Duration
	// Ready is closed when the marks are known that the broker had at the start; nil: they are. Before, Run publishes
	// nothing, since the receiver may be older than the messages.
	Ready <-chan struct{}
	// Doubt is told of a mark that says that other records were taken than were sent. Run ignores the mark and
	// continues if it returns nil. It is told of each mark that was good, too, by a nil error. Doubt may be nil: then
	// Run ends with the error.
	Doubt func(m *Mark, err error) error

	wake           chan struct{}
	doubted        *Mark // the last mark that Doubt was told of; of Run
	idleFor        int   // resends without progress; of Run
	held           atomic.Bool
	mark           atomic.Pointer[Mark]
	resendRequests uint64 // of the last mark that was seen
	connects       uint64 // State.Connects when the last resend began

	flight  []inFlight // the oldest first; of Run
	failed  bool       // the engine did not take a message of flight
	retries uint64
	excused bool // the receiver may have seen a gap that a retry fills; until it has taken more

	published, resends atomic.Int64 // messages, and how often all was sent again
}

// window is the number of messages in flight. With 430 links in each and acknowledgements after 10 ms, it allows
// 340,000 links/s to one node. They take 1 MiB of RAM at most, and usually a quarter.
const window = 8

// inFlight is a message that was given to the engine. It stands in the queue sent.
type inFlight struct {
	number uint64
	data   []byte
	result <-chan error
}

// NewPublisher returns a publisher whose fields are still to be set.
func NewPublisher() *Publisher { return &Publisher{wake: make(chan struct{}, 1)} }

// mostResendAfter bounds the time between two resends to a receiver that takes nothing: it may be away for days, and
// each resend writes the whole queue of what was sent.
const mostResendAfter = 32

// Bounds of the pause after an error of the engine.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// Wake makes Run look for work: a manifest is durable, or the connection is back. It never blocks.
func (p *Publisher) Wake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Mark gives the publisher the receiver's mark.
func (p *Publisher) Mark(m *Mark) {
	p.mark.Store(m)
	p.Wake()
}

// Figures returns how many messages were published, and how often all that was not taken was sent again.
func (p *Publisher) Figures() (published, resends int64) { return p.published.Load(), p.resends.Load() }

// Held reports whether nothing is published because the receiver does not read the messages of this version.
func (p *Publisher) Held() bool { return p.held.Load() }

// Run publishes until ctx ends. It waits for an engine that is away as long as it takes. The error is that of a
// queue, or a *SetBackError.
func (p *Publisher) Run(ctx context.Context) error {
	p.awaitReady(ctx)
	pause := time.Duration(0)
	p.connects = p.Transport.State().Connects
	resend := true // the engine may have lost what was published before this process began
	progress := time.Now()
	for ctx.Err() == nil {
		if pause > 0 {
			p.sleep(ctx, pause, false)
		}
		dropped, err := p.drop()
		if err != nil {
			return err
		}
		if dropped {
			progress, p.idleFor = time.Now(), 0
		}
		if p.held.Store(p.outdated()); p.Held() {
			p.sleep(ctx, p.ResendAfter, true)
			resend = true
			continue
		}
		if p.gap() {
			resend = true
		}
		if dropped {
			p.excused = false
		}
		if f := p.Outbox.Figures(); f.Sent == 0 {
			progress, p.idleFor = time.Now(), 0
		} else if time.Since(progress) > p.patience() {
			resend, progress = true, time.Now()
			p.idleFor++
		}
		var more bool
		if resend {
			more, err = p.resendAll(ctx)
			resend = err != nil
			progress = time.Now()
		} else {
			more, err = p.publish(ctx)
		}
		switch {
		case errors.Is(err, errTransport):
			pause = min(max(2*pause, firstPause), lastPause)
			p.Waits(err, pause)
			continue
		case err != nil:
			return err
		}
		if pause = 0; !more {
			p.sleep(ctx, p.ResendAfter, true)
		}
	}
	return nil
}

// awaitReady waits for Ready.
func (p *Publisher) awaitReady(ctx context.Context) {
	if p.Ready == nil {
		return
	}
	select {
	case <-p.Ready:
	case <-ctx.Done():
	}
}

// outdated reports whether the receiver does not read the messages of this version.
func (p *Publisher) outdated() bool {
	m := p.mark.Load()
	return m != nil && !m.ReadsAll()
}

// patience returns after how long without progress all is sent again.
func (p *Publisher) patience() time.Duration {
	return p.ResendAfter * time.Duration(min(mostResendAfter, 1<<min(p.idleFor, 10)))
}

// errTransport marks errors of the engine, after which the publisher tries again.
var errTransport = errors.New("engine")

// sleep waits for d, or until Wake if wakes is set.
func (p *Publisher) sleep(ctx context.Context, d time.Duration, wakes bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	wake := p.wake
	if !wakes {
		wake = nil
	}
	select {
	case <-t.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// gap reports whether the receiver has missed messages, or the connection broke, since the last resend.
func (p *Publisher) gap() (found bool) {
	if m := p.mark.Load(); m != nil {
		if want := m.ResendRequests[p.Outbox.opt.From]; want != p.resendRequests {
			p.resendRequests, found = want, !p.excused // a gap that a retry does not fill stops the receiver, which ends in a resend, too
		}
	}
	if c := p.Transport.State().Connects; c != p.connects {
		p.connects, found = c, true
	}
	return found
}

// drop drops what the receiver has for good.
func (p *Publisher) drop() (dropped bool, _ error) {
	m := p.mark.Load()
	if m == nil || m == p.doubted {
		return false, nil
	}
	t := m.Taken[p.Outbox.opt.From]
	before := p.Outbox.Figures().TakenNumber
	if t.Number <= before {
		return false, nil
	}
	if err := p.order(); err != nil {
		return false, err
	}
	for all := false; !all; {
		var doubt error // it has changed nothing, and an error of a transaction is final
		err := p.Transact(func() (err error) {
			all, err = p.Outbox.Taken(t.Number, t.Totals)
			if back := (*SetBackError)(nil); p.Doubt != nil && errors.As(err, &back) {
				doubt, err = err, nil
			}
			return err
		})
		if err != nil {
			return false, err
		}
		if doubt != nil {
			p.doubted = m
			return false, p.Doubt(m, doubt)
		}
	}
	if p.Doubt != nil {
		return true, p.Doubt(m, nil)
	}
	return true, nil
}

// order restores the order of the messages that were published, if a crash interrupted a resend.
func (p *Publisher) order() error {
	for range p.Outbox.Figures().Sent {
		_, number, ok, err := p.Outbox.Oldest()
		if err != nil || !ok || number == p.Outbox.Figures().TakenNumber+1 {
			return err
		}
		if err := p.Transact(p.Outbox.Resent); err != nil {
			return err
		}
	}
	return nil
}

// resendAll sends all messages again that were given to the engine and that the receiver has not taken for good.
func (p *Publisher) resendAll(ctx context.Context) (more bool, err error) {
	p.land() // all of them stand in the queue sent, too
	if err := p.order(); err != nil {
		return false, err
	}
	n := p.Outbox.Figures().Sent
	if n > 0 {
		p.resends.Add(1)
	}
	defer p.land()
	for range n {
		msg, number, ok, err := p.Outbox.Oldest()
		if err != nil || !ok {
			return false, err
		}
		p.send(ctx, bytes.Clone(msg), number, fmt.Sprintf("-%d", p.resends.Load()))
		if err := p.Transact(p.Outbox.Resent); err != nil {
			return false, err
		}
		if len(p.flight) == window {
			if err := p.arrive(); err != nil {
				return false, err
			}
		}
	}
	for len(p.flight) > 0 {
		if err := p.arrive(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// publish gives one message to the engine, or waits for the oldest of those in flight; more says that there may be
// another.
func (p *Publisher) publish(ctx context.Context) (more bool, _ error) {
	if p.failed {
		return p.retry(ctx)
	}
	if len(p.flight) < window {
		msg, number, ok, err := p.Outbox.Next()
		if err != nil {
			return false, err
		}
		if ok {
			p.send(ctx, bytes.Clone(msg), number, "")
			return true, p.Transact(p.Outbox.Published)
		}
	}
	if len(p.flight) == 0 {
		return false, nil
	}
	if err := p.arrive(); err != nil {
		return false, err
	}
	p.published.Add(1)
	return true, nil
}

// retry gives all messages in flight to the engine again, and waits for it. So they keep their order.
func (p *Publisher) retry(ctx context.Context) (more bool, _ error) {
	p.failed = false
	p.retries++
	again := p.flight
	p.flight = nil
	for _, m := range again {
		p.send(ctx, m.data, m.number, fmt.Sprintf("-again-%d", p.retries))
	}
	for len(p.flight) > 0 {
		if err := p.arrive(); err != nil {
			return false, err
		}
		p.published.Add(1)
	}
	return true, nil
}

// send gives a message to the engine. again tells a message that is sent again from the first one: the engine may
// remember that one, and have lost it.
func (p *Publisher) send(ctx context.Context, data []byte, number uint64, resend string) {
	from, to := p.Outbox.opt.From, p.Outbox.opt.To
	result := p.Transport.Publish(ctx, to, from, fmt.Sprintf("%d-%d%s", from, number, resend), data)
	p.flight = append(p.flight, inFlight{number, data, result})
}

// arrive waits until the engine has the oldest message in flight. After an error all stay in flight.
func (p *Publisher) arrive() error {
	m := &p.flight[0]
	if err := <-m.result; err != nil {
		for _, later := range p.flight[1:] {
			<-later.result
		}
		p.failed, p.excused = true, true
		return fmt.Errorf("exchange: message %d to node %d: %w: %w", m.number, p.Outbox.opt.To, errTransport, err)
	}
	p.flight = slices.Delete(p.flight, 0, 1)
	return nil
}

// land waits for the results of all messages in flight, and forgets the messages.
func (p *Publisher) land() {
	if !p.failed {
		for _, m := range p.flight {
			<-m.result
		}
	}
	p.flight, p.failed = nil, false
}
