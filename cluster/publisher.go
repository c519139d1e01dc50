package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Publisher publishes the messages of one outbox, drops those that the receiver has made durable, and resends
// after a gap. Run is its only goroutine.
//
// At most window messages await their acknowledgement.
type Publisher struct {
	Outbox    *Outbox
	Transport Transport
	// Transact runs f in a transaction of the crawl.
	Transact func(f func() error) error
	// Waits receives an error of the transport; Run then pauses and tries again.
	Waits func(err error, pause time.Duration)
	// ResendAfter is the time without progress of the receiver after which Run resends all untaken messages.
	// It doubles with each resend without progress, up to mostResendAfter times ResendAfter.
	ResendAfter time.Duration
	// Ready is closed when the marks that the broker had at the start are known; nil: they are known. Run
	// publishes nothing before, since the receiver may run a release that cannot read the messages.
	Ready <-chan struct{}
	// Doubt receives each mark, with an error if the mark disagrees with the sent records, else nil. If it
	// returns nil, Run ignores a bad mark and continues. If Doubt is nil, Run ends with the error.
	Doubt func(m *Mark, err error) error

	wake           chan struct{}
	doubted        *Mark // the last mark passed to Doubt; of Run
	idleFor        int   // resends without progress; of Run
	held           atomic.Bool
	unread         int // version of a message that the receiver did not read; 0: none; of Run
	mark           atomic.Pointer[Mark]
	resendRequests uint64 // of the last mark that was seen
	incarnation    uint64 // of that mark
	connects       uint64 // State.Connects when the last resend began

	flight  []inFlight // the oldest first; of Run
	failed  bool       // the transport refused a message of flight
	retries uint64
	excused bool // a retry may fill the gap that the receiver saw; until it has taken more

	published, resends atomic.Int64 // messages, and resends of all messages
}

// window limits the messages in flight. With 430 links a message and acknowledgements after 10 ms, it allows
// 340,000 links/s to one node. The messages take up to 1 MiB of RAM, usually a quarter of that.
const window = 8

// inFlight is a message handed to the transport. It is in the queue sent.
type inFlight struct {
	number uint64
	data   []byte
	result <-chan error
}

// NewPublisher returns a publisher whose fields are still to be set.
func NewPublisher() *Publisher { return &Publisher{wake: make(chan struct{}, 1)} }

// mostResendAfter bounds the time between two resends to a receiver that takes nothing. The receiver may be
// down for days, and each resend publishes the whole queue sent.
const mostResendAfter = 32

// Bounds of the pause after an error of the transport.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// Wake makes Run look for work: after a durable manifest, or a new connection. It never blocks.
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

// Void forgets the receiver's mark: the receiver lost its directories, and continues from older ones. The caller holds
// the transaction lock exclusively. From then on nothing is dropped until the next Mark.
func (p *Publisher) Void() { p.mark.Store(nil) }

// Figures returns the number of published messages, and the number of resends.
func (p *Publisher) Figures() (published, resends int64) { return p.published.Load(), p.resends.Load() }

// Held reports whether Run publishes nothing because the receiver cannot read the next message.
func (p *Publisher) Held() bool { return p.held.Load() }

// Run publishes until ctx ends. It waits for an unreachable transport without limit. The error is that of a
// queue, or a *SetBackError.
func (p *Publisher) Run(ctx context.Context) error {
	p.awaitReady(ctx)
	pause := time.Duration(0)
	p.connects = p.Transport.State().Connects
	resend := true // the transport may have lost messages of an earlier process
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
			progress, p.idleFor, p.unread = time.Now(), 0, 0
		}
		if p.held.Store(!p.reads(p.unread)); p.Held() {
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
			resend = err != nil || p.unread != 0
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

// reads reports whether the receiver reads messages of a version. All nodes read a version before one writes it
// (Common), so it does unless its program was replaced by an older one.
func (p *Publisher) reads(version int) bool {
	m := p.mark.Load()
	return version <= FirstVersion || m != nil && version <= m.Reads()
}

// patience returns the time without progress after which Run resends.
func (p *Publisher) patience() time.Duration {
	return p.ResendAfter * time.Duration(min(mostResendAfter, 1<<min(p.idleFor, 10)))
}

// errTransport marks errors of the transport, after which the publisher tries again.
var errTransport = errors.New("transport")

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

// gap reports whether the receiver missed messages, or the connection broke, since the last resend.
func (p *Publisher) gap() (found bool) {
	if m := p.mark.Load(); m != nil {
		if m.Incarnation > p.incarnation { // it lacks messages that it once had
			p.incarnation, found = m.Incarnation, true
		}
		if want := m.With(p.Outbox.opt.From).Resends; want != p.resendRequests {
			// A gap that no retry fills stops the receiver, which ends in a resend, too.
			p.resendRequests, found = want, found || !p.excused
		}
	}
	if c := p.Transport.State().Connects; c != p.connects {
		p.connects, found = c, true
	}
	return found
}

// drop drops the messages that the receiver has made durable.
func (p *Publisher) drop() (dropped bool, _ error) {
	m := p.mark.Load()
	if m == nil || m == p.doubted {
		return false, nil
	}
	t := m.With(p.Outbox.opt.From).Taken
	before := p.Outbox.Figures().TakenNumber
	if t.Number <= before {
		return false, nil
	}
	if err := p.Outbox.Order(p.Transact); err != nil {
		return false, err
	}
	for all := false; !all; {
		var doubt error // it has changed nothing, and an error of a transaction is final
		err := p.Transact(func() (err error) {
			if p.mark.Load() == nil { // Void
				all = true
				return nil
			}
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

// resendAll resends all published messages that the receiver has not made durable.
func (p *Publisher) resendAll(ctx context.Context) (more bool, err error) {
	p.land() // the queue sent has all of them
	p.unread = 0
	if err := p.Outbox.Order(p.Transact); err != nil {
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
		if !p.reads(versionOf(msg)) {
			p.unread = versionOf(msg)
			return true, nil
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

// publish hands one message to the transport, or waits for the oldest in flight; more says that there may be
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
		if ok && p.reads(versionOf(msg)) {
			p.send(ctx, bytes.Clone(msg), number, "")
			return true, p.Transact(p.Outbox.Published)
		}
		if ok && len(p.flight) == 0 {
			p.unread = versionOf(msg)
			return true, nil
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

// retry hands all messages in flight to the transport again, in order, and waits for the results.
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

// send hands a message to the transport. resend marks a resend: the transport must not drop it as a
// duplicate, since it may have lost the original.
func (p *Publisher) send(ctx context.Context, data []byte, number uint64, resend string) {
	o := &p.Outbox.opt
	// Crawl has the incarnation, and another incarnation gives the number to other records.
	result := p.Transport.Publish(ctx, o.To, o.From, fmt.Sprintf("%d-%x-%d%s", o.From, o.Crawl, number, resend), data)
	p.flight = append(p.flight, inFlight{number, data, result})
}

// arrive waits until the transport has acknowledged the oldest message in flight. After an error all stay in
// flight.
func (p *Publisher) arrive() error {
	m := &p.flight[0]
	if err := <-m.result; err != nil {
		for _, later := range p.flight[1:] {
			<-later.result
		}
		p.failed, p.excused = true, true
		return fmt.Errorf("cluster: message %d to node %d: %w: %w", m.number, p.Outbox.opt.To, errTransport, err)
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
