package crawl

import (
	"errors"
	"fmt"
	"runtime/debug"

	"drumbeat/crawl/state"
	"drumbeat/internal/bug"
	"drumbeat/polite"
	"drumbeat/weburl"
)

// maxStacks bounds the panics of a run that are logged with their stacks; those behind are counted alone.
const maxStacks = 20

// logBug logs a panic that something of a site caused.
func (e *engine) logBug(of string, err error) {
	var p *bug.Error
	if !errors.As(err, &p) || e.bugs.Add(1) > maxStacks {
		return
	}
	e.opt.Log.Error("a bug: this program panicked while it read what a site had sent; please report it", "url", of, "panic", fmt.Sprint(p.Value),
		"stack", string(p.Stack))
}

// endByBug ends a URL that made this program panic, so that no later run meets it again. It tells nothing about the host.
func (p *pageStage) endByBug(g *polite.Grant, rec *weburl.Record, panicked error, result *ending) error {
	p.logBug(string(rec.URL), panicked)
	return p.settle(g, result, func(tx *transaction) error {
		tx.count(state.CountAttempts, 1)
		tx.count(state.CountInternalErrors, 1)
		return p.deferrals.refuse(tx, rec, state.PlaceRAM, state.ReasonInternal)
	})
}

// asPanic returns err if it is a panic, else nil.
func asPanic(err error) error {
	var p *bug.Error
	if errors.As(err, &p) {
		return err
	}
	return nil
}

// fatal is deferred first by every goroutine of the crawl: a panic that nothing contained ends the process in Options.Panicked,
// which doesn't return. Nothing is undone and no lock taken before: to the files it is a kill -9.
func (e *engine) fatal() {
	if p := recover(); p != nil {
		if e.opt.Panicked != nil {
			e.opt.Panicked(p, debug.Stack())
		}
		panic(p)
	}
}
