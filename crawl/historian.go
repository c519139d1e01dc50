package crawl

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/state/history"
	"drumbeat/state/metrics"
	"drumbeat/state/snapshot"
)

// historian keeps the history of the crawl on disk (package history) if Options.HistoryBytes is set. Its
// goroutine "history" takes a sample every history.Interval. An error loses samples, never the crawl: the
// first one is logged, all are counted, and the next sample tries again.
type historian struct {
	*engine
	take   func() *Snapshot
	wake   signal
	errors atomic.Int64 // samples and events lost

	mu     sync.Mutex // guards the fields below
	begun  bool
	events []history.Event

	// Only the goroutine uses the fields below, and end after it.
	w      *history.Writer
	logged bool // an error has been logged since the last sample
	sample []history.Value
	thinAt time.Time
}

// maxEventsWaiting bounds the events that wait for the goroutine.
const maxEventsWaiting = 1000

// thinEvery is how often old samples are thinned.
const thinEvery = 10 * time.Minute

// event records something that happened. It never blocks.
func (h *historian) event(what, format string, args ...any) {
	if h.opt.HistoryBytes <= 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.events) == maxEventsWaiting {
		h.errors.Add(1)
		return
	}
	h.events = append(h.events, history.Event{Time: time.Now(), What: what, Text: fmt.Sprintf(format, args...)})
	h.wake.raise()
}

// started records how the run begins.
func (h *historian) started(m *state.Manifest) {
	if m != nil && !m.Clean {
		h.event("crash", "The last run ended without its last checkpoint. The crawl continues from checkpoint %d of %s.",
			m.Gen, time.Unix(m.Time, 0).UTC().Format(time.RFC3339))
	}
	h.event("start", "drumbeat %s", h.opt.Version)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun = true
}

// made records a change of the operator.
func (h *historian) made(c *changes.Change) {
	text := string(c.Op)
	for _, v := range []string{c.Rate, c.Bandwidth, c.Connections, c.Host, c.Rule, c.PLD} {
		if v != "" {
			text += " " + v
		}
	}
	if c.Delay > 0 {
		text += fmt.Sprintf(" %v s", c.Delay)
	}
	if c.Budget > 0 {
		text += fmt.Sprintf(" %d pages", c.Budget)
	}
	if c.Function != nil {
		text += fmt.Sprintf(" %s %d %d", c.Function.Name, c.Function.Default, c.Function.Max)
	}
	if len(c.Seeds) > 0 {
		text += fmt.Sprintf(" %d lines", len(c.Seeds))
	}
	h.event("change", "%s by %s", text, c.Who)
}

// keepHistory takes samples and writes events.
func (h *historian) keepHistory(ctx context.Context) error {
	if h.opt.HistoryBytes <= 0 {
		return nil
	}
	t := time.NewTicker(history.Interval)
	defer t.Stop()
	h.write(true)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.wake:
			h.write(false)
		case <-t.C:
			h.write(true)
		}
	}
}

// end writes the last sample and why the run ended. The stages have ended.
func (h *historian) end(res *Result, err error) {
	h.mu.Lock()
	begun := h.begun
	h.mu.Unlock()
	if h.opt.HistoryBytes <= 0 || !begun {
		return
	}
	if err != nil {
		h.event("stop", "error: %v", err)
	} else {
		h.event("stop", "%s", res.Stop)
	}
	h.write(true)
	if h.w != nil {
		h.note(h.w.Close(), 0)
		h.w = nil
	}
}

// write writes the events that wait, and a sample.
func (h *historian) write(sample bool) {
	if h.w == nil {
		w, err := history.Open(history.Options{FS: h.opt.FS, Dir: h.Set.Path(0, state.HistoryName), Bytes: h.opt.HistoryBytes})
		if h.note(err, 1); err != nil {
			return
		}
		h.w = w
	}
	h.mu.Lock()
	events := h.events
	h.events = nil
	h.mu.Unlock()
	for i := range events {
		h.note(h.w.Event(events[i]), 1)
	}
	if !sample {
		return
	}
	s := h.take()
	h.sample = h.sample[:0]
	metrics.Series(s, func(name string, fraction bool, v float64) {
		h.sample = append(h.sample, history.Value{Name: name, V: v, Fraction: fraction})
	})
	err := h.w.Append(s.Time, h.sample)
	if h.note(err, 1); err == nil {
		h.logged = false
	}
	if s.Time.Sub(h.thinAt) >= thinEvery {
		h.thinAt = s.Time
		h.note(h.w.Thin(s.Time), 0)
	}
}

// note counts what an error has lost and logs the first error after a sample.
func (h *historian) note(err error, lost int64) {
	if err == nil {
		return
	}
	h.errors.Add(lost)
	if !h.logged {
		h.logged = true
		h.opt.Log.Warn("the history of figures loses samples; the crawl continues", "error", err)
	}
}

// show adds the figures of the history to a snapshot.
func (h *historian) show(s *snapshot.Snapshot) { s.HistoryErrors = h.errors.Load() }
