package crawl

import (
	"errors"
	"fmt"

	"drumbeat/internal/linktrace"
)

// openTrace begins, or goes on with, the trace of links if one was asked for. It is no part of the state: it knows nothing of
// checkpoints, and after its beginning no fault of it stops the crawl.
func (r *ring) openTrace() error {
	if r.opt.TraceLinks == "" {
		return nil
	}
	w, err := linktrace.Create(linktrace.Options{FS: r.Meter, Path: r.opt.TraceLinks, LimitBytes: r.opt.TraceLimit, Ended: func(why error) {
		if errors.Is(why, linktrace.ErrLimit) {
			r.opt.Log.Warn("the trace of links has reached its limit and ends; the crawl goes on", "file", r.opt.TraceLinks, "bytes", r.opt.TraceLimit)
			return
		}
		r.opt.Log.Warn("the trace of links ends; the crawl goes on", "file", r.opt.TraceLinks, "error", why)
	}})
	if err != nil {
		return fmt.Errorf("crawl: trace of links: %w", err)
	}
	r.trace = w
	return nil
}

// closeTrace ends the trace.
func (r *ring) closeTrace() {
	if err := r.trace.Close(); err != nil {
		r.opt.Log.Warn("trace of links", "error", err)
	}
	recorded, lost := r.trace.Links()
	if lost > 0 {
		r.opt.Log.Warn("trace of links: some are missing", "file", r.opt.TraceLinks, "recorded", recorded, "lost", lost)
		return
	}
	r.opt.Log.Info("trace of links", "file", r.opt.TraceLinks, "recorded", recorded)
}
