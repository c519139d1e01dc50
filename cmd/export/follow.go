package export

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"drumbeat/cmd/term"
	"drumbeat/state"
	"drumbeat/state/export"
)

// maxNotes bounds the notes of --follow that are remembered, in order to say each once.
const maxNotes = 100

// follow writes rows as the crawl makes checkpoints, until a signal, or until nobody reads them.
func (r *run) follow() error {
	ctx, release := r.app.StopOnSignal(context.Background())
	defer release()
	r.opt.RAMBytes = term.HeapBytes(r.opt.RAMBytes)
	defer term.LimitMemory(r.opt.RAMBytes)()
	said := map[string]bool{}
	say := func(text string) {
		if !said[text] && len(said) < maxNotes {
			said[text] = true
			fmt.Fprintf(r.app.Stderr, "%s: %s\n", r.command, text)
		}
	}
	r.opt.Begin = func(rep *export.Report) {
		if rep.Activity != state.StateRunning && rep.Activity != state.StateUnknown {
			say("the crawl is not running; its changes follow when it is resumed. Ctrl-C ends this command")
		}
	}
	err := export.Follow(ctx, r.opt, func(rep *export.Report) {
		for _, note := range rep.Notes {
			say(note)
		}
	})
	switch {
	case errors.Is(err, term.ErrSignal), errors.Is(err, syscall.EPIPE):
		return nil
	case errors.Is(err, export.ErrToken):
		return term.Usage(err)
	}
	return err
}
