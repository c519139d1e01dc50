package crawl

import (
	"errors"
	"fmt"

	"drumbeat/internal/linktrace"
)

// openTrace begins, or goes on with, the trace of links if one was asked for. It is no part of the state: it knows nothing of
// checkpoints, and after its beginning no fault of it stops the crawl.
func (c *crawler) openTrace() error {
	if c.opt.TraceLinks == "" {
		return nil
	}
	w, err := linktrace.Create(linktrace.Options{FS: c.Meter, Path: c.opt.TraceLinks, LimitBytes: c.opt.TraceLimit, Ended: func(why error) {
		if errors.Is(why, linktrace.ErrLimit) {
			c.opt.Log.Warn("the trace of links has reached its limit and ends; the crawl goes on", "file", c.opt.TraceLinks, "bytes", c.opt.TraceLimit)
			return
		}
		c.opt.Log.Warn("the trace of links ends; the crawl goes on", "file", c.opt.TraceLinks, "error", why)
	}})
	if err != nil {
		return fmt.Errorf("crawl: trace of links: %w", err)
	}
	c.trace = w
	return nil
}

// closeTrace ends the trace.
func (c *crawler) closeTrace() {
	if err := c.trace.Close(); err != nil {
		c.opt.Log.Warn("trace of links", "error", err)
	}
	recorded, lost := c.trace.Links()
	if lost > 0 {
		c.opt.Log.Warn("trace of links: some are missing", "file", c.opt.TraceLinks, "recorded", recorded, "lost", lost)
		return
	}
	c.opt.Log.Info("trace of links", "file", c.opt.TraceLinks, "recorded", recorded)
}
