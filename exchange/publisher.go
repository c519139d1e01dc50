package exchange

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Publisher publishes the messages of one outbox, drops those that their receiver has for good, and resends
// after a gap. Run is its only goroutine.
//
// It publishes one message at a time: 128 KiB hold some 430 links with their edges, so acknowledgements after 10 ms
// allow 43,000 links/s to one node, and a message needs no other place than its queue.
type Publisher struct {
	Outbox *Outbox
	Engine Engine
	// Transact runs f in a transaction of the crawl.
	Transact func(f func() error) error
	// Waits is told of an error of the engine, after which Run pauses and tries again.
	Waits func(err error, pause time.Duration)
	// ResendAfter is after how long without progress of the receiver all that it has not taken is sent again.
	ResendAfter time.Duration

	wake     chan struct{}
	mark     atomic.Pointer[Mark]
	want     uint64 // of the last mark that was seen
	connects uint64 // State.Connects when the last resend began

	published, resends atomic.Int64 // messages, and how often all was sent again
}

// NewPublisher returns a publisher whose fields are still to be set.
func NewPublisher() *Publisher { return &Publisher{wake: make(chan struct{}, 1)} }

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

// Run publishes until ctx ends. It waits for an engine that is away as long as it takes. The error is that of a
// queue, or a *SetBackError.
func (p *Publisher) Run(ctx context.Context) error {
	pause := time.Duration(0)
	p.connects = p.Engine.State().Connects
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
			progress = time.Now()
		}
		if p.gap() {
			resend = true
		}
		if f := p.Outbox.Figures(); f.Sent == 0 {
			progress = time.Now()
		} else if time.Since(progress) > p.ResendAfter {
			resend, progress = true, time.Now()
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
		case errors.Is(err, errEngine):
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

// errEngine marks errors of the engine, after which the publisher tries again.
var errEngine = errors.New("engine")

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
		if want := m.Want[p.Outbox.opt.From]; want != p.want {
			p.want, found = want, true
		}
	}
	if c := p.Engine.State().Connects; c != p.connects {
		p.connects, found = c, true
	}
	return found
}

// drop drops what the receiver has for good.
func (p *Publisher) drop() (dropped bool, _ error) {
	m := p.mark.Load()
	if m == nil {
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
		if err := p.Transact(func() (err error) { all, err = p.Outbox.Taken(t.Number, t.Totals); return err }); err != nil {
			return false, err
		}
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

// resendAll sends all published messages again that the receiver has not taken for good.
func (p *Publisher) resendAll(ctx context.Context) (more bool, _ error) {
	if err := p.order(); err != nil {
		return false, err
	}
	n := p.Outbox.Figures().Sent
	if n > 0 {
		p.resends.Add(1)
	}
	for range n {
		msg, number, ok, err := p.Outbox.Oldest()
		if err != nil || !ok {
			return false, err
		}
		if err := p.send(ctx, msg, number, fmt.Sprintf("-%d", p.resends.Load())); err != nil {
			return false, err
		}
		if err := p.Transact(p.Outbox.Resent); err != nil {
			return false, err
		}
	}
	return true, nil
}

// publish publishes one message; more says that there may be another.
func (p *Publisher) publish(ctx context.Context) (more bool, _ error) {
	msg, number, ok, err := p.Outbox.Next()
	if err != nil || !ok {
		return false, err
	}
	if err := p.send(ctx, msg, number, ""); err != nil {
		return false, err
	}
	p.published.Add(1)
	return true, p.Transact(p.Outbox.Published)
}

// send publishes a message and waits for the acknowledgement. again tells a message that is sent again from the first
// one: the engine may remember that one, and have lost it.
func (p *Publisher) send(ctx context.Context, msg []byte, number uint64, again string) error {
	from, to := p.Outbox.opt.From, p.Outbox.opt.To
	data := append([]byte(nil), msg...) // the engine may need it after an error
	err := <-p.Engine.Publish(ctx, to, from, fmt.Sprintf("%d-%d%s", from, number, again), data)
	if err != nil {
		return fmt.Errorf("exchange: message %d to node %d: %w: %w", number, to, errEngine, err)
	}
	return nil
}
