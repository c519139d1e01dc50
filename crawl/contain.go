package crawl

import (
	"errors"
	"fmt"
	"runtime/debug"

	"drumbeat/internal/bug"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/weburl"
)

// maxStacks limits the panics of a run that are logged with their stacks. Later ones are only counted.
const maxStacks = 20

// logBug logs a panic caused by data of a site.
func (e *engine) logBug(of string, err error) {
	var p *bug.Error
	if !errors.As(err, &p) || e.bugs.Add(1) > maxStacks {
		return
	}
	e.opt.Observe.Log.Error("a bug: this program panicked while it read data of a site; please report it",
		"url", of, "panic", fmt.Sprint(p.Value), "stack", string(p.Stack))
}

// endByBug refuses a URL whose response made this program panic, so that no later run fetches it again. The
// panic does not count against the host.
func (p *pageStage) endByBug(g *polite.Grant, rec *weburl.Record, panicked error, result *ending) error {
	p.logBug(string(rec.URL), panicked)
	return p.settle(g, result, func(tx *transaction) error {
		tx.attemptFailed(state.ReasonInternal)
		tx.count(state.CountInternalErrors, 1)
		return p.deferrals.refuse(tx, rec, state.PlaceRAM, state.ReasonInternal)
	})
}

// asPanic returns err if it is a contained panic, else nil.
func asPanic(err error) error {
	var p *bug.Error
	if errors.As(err, &p) {
		return err
	}
	return nil
}

// fatal must be the first deferred call of every goroutine of the crawl. A panic that was not contained
// ends the process through Options.Observe.Panicked, which does not return. fatal undoes nothing and takes no lock,
// so the files are as after kill -9.
func (e *engine) fatal() {
	if p := recover(); p != nil {
		if e.opt.Observe.Panicked != nil {
			e.opt.Observe.Panicked(p, debug.Stack())
		}
		panic(p)
	}
}
