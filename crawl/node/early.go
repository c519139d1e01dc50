package node

import (
	"context"
	"sync/atomic"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/state"
)

// Bounds of early checkpoints: a record can be published only after one.
const (
	earlyEvery = 2 * time.Second
	earlyBytes = 64 << 20
)

// earlySaver makes a checkpoint early if other nodes would wait for it. Its goroutine is "exchange". idling and
// urge are safe for concurrent use.
type earlySaver struct {
	run         *account.Run
	opt         *Options
	heard       *heard
	outs        *outboxes
	checkpoints Checkpoints
	idle        atomic.Bool // this node only waits for others
	urgent      atomic.Bool // a checkpoint should be made soon
	wake        account.Signal
}

// idling notes that this node only waits for others.
func (e *earlySaver) idling() {
	e.idle.Store(true)
	e.wake.Raise()
}

// urge asks for a checkpoint within earlyEvery.
func (e *earlySaver) urge() {
	e.urgent.Store(true)
	e.wake.Raise()
}

// saveEarly makes a checkpoint early if many records await publication, or if this node is idle and its mark does
// not say so.
func (e *earlySaver) saveEarly(ctx context.Context) error {
	for account.Sleep(ctx, earlyEvery) {
		e.run.Await(ctx, e.wake, earlyEvery)
		idle := e.idle.Swap(false)
		waiting, bytes := e.outs.unpublished()
		m := e.heard.mark(e.opt.Node)
		short := e.run.Accounts.In(state.PlaceReady, state.PlaceRAM) < int64(e.opt.Connections)
		switch {
		case bytes >= earlyBytes, e.urgent.Swap(false), waiting > 0 && (idle || short):
		case idle && (m == nil || !m.Idle || e.checkpoints.Unsaved()):
		default:
			continue
		}
		if err := e.checkpoints.Save(); err != nil {
			return err
		}
	}
	return nil
}
