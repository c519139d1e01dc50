package crawl

import (
	"errors"
	"fmt"

	"drumbeat/internal/linktrace"
)

// openTrace begins, or goes on with, the trace of links if one was asked for. It is no part of the state: it knows nothing of
// checkpoints, and after its beginning no fault of it stops the crawl.
func (s *seenStage) openTrace() error {
	if s.opt.TraceLinks == "" {
		return nil
	}
	w, err := linktrace.Create(linktrace.Options{FS: s.Meter, Path: s.opt.TraceLinks, LimitBytes: s.opt.TraceLimit, Ended: func(why error) {
		if errors.Is(why, linktrace.ErrLimit) {
			s.opt.Log.Warn("the trace of links has reached its limit and ends; the crawl goes on", "file", s.opt.TraceLinks, "bytes", s.opt.TraceLimit)
			return
		}
		s.opt.Log.Warn("the trace of links ends; the crawl goes on", "file", s.opt.TraceLinks, "error", why)
	}})
	if err != nil {
		return fmt.Errorf("crawl: trace of links: %w", err)
	}
	s.trace = w
	return nil
}

// closeTrace ends the trace.
func (s *seenStage) closeTrace() {
	if err := s.trace.Close(); err != nil {
		s.opt.Log.Warn("trace of links", "error", err)
	}
	recorded, lost := s.trace.Links()
	if lost > 0 {
		s.opt.Log.Warn("trace of links: some are missing", "file", s.opt.TraceLinks, "recorded", recorded, "lost", lost)
		return
	}
	s.opt.Log.Info("trace of links", "file", s.opt.TraceLinks, "recorded", recorded)
}
