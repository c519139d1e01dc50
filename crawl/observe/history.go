package observe

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/state/history"
	"drumbeat/state/metrics"
	"drumbeat/state/snapshot"
)

// History keeps the history of the crawl on disk (package history) if HistoryOptions.Bytes is set. Its
// goroutine "history" takes a sample every history.Interval. An error loses samples, never the crawl: the
// first one is logged, all are counted, and the next sample tries again.
type History struct {
	saved *state.Saved
	opt   HistoryOptions

	take   func() *snapshot.Snapshot
	wake   account.Signal
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

// HistoryOptions are the options of a History.
type HistoryOptions struct {
	Log     *slog.Logger
	FS      disk.FS
	Bytes   int64 // of the history on disk; 0: none is kept
	Version string
}

// NewHistory returns a History. take takes a snapshot of the crawl.
func NewHistory(saved *state.Saved, opt HistoryOptions, take func() *snapshot.Snapshot) *History {
	return &History{saved: saved, opt: opt, take: take, wake: account.NewSignal()}
}

// maxEventsWaiting bounds the events that wait for the goroutine.
const maxEventsWaiting = 1000

// thinEvery is how often old samples are thinned.
const thinEvery = 10 * time.Minute

// event records something that happened. It never blocks.
func (h *History) event(what, format string, args ...any) {
	if h.opt.Bytes <= 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.events) == maxEventsWaiting {
		h.errors.Add(1)
		return
	}
	h.events = append(h.events, history.Event{Time: time.Now(), What: what, Text: fmt.Sprintf(format, args...)})
	h.wake.Raise()
}

// Started records how the run begins.
func (h *History) Started(m *state.Manifest) {
	if m != nil && !m.Clean {
		h.event("crash",
			"The last run ended without its last checkpoint. The crawl continues from checkpoint %d of %s.", m.Gen,
			time.Unix(m.Time, 0).UTC().Format(time.RFC3339))
	}
	h.event("start", "drumbeat %s", h.opt.Version)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun = true
}

// Made records a change of the operator.
func (h *History) Made(c *changes.Change) {
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
		text += " " + human.Counted(c.Budget, "page", "pages")
	}
	if c.Function != nil {
		text += fmt.Sprintf(" %s %d %d", c.Function.Name, c.Function.Default, c.Function.Max)
	}
	if len(c.Seeds) > 0 {
		text += " " + human.Counted(len(c.Seeds), "line", "lines")
	}
	h.event("change", "%s by %s", text, c.Who)
}

// Run takes samples and writes events.
func (h *History) Run(ctx context.Context) error {
	if h.opt.Bytes <= 0 {
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

// End writes the last sample and why the run ended: an error, or else a reason to stop. The stages have ended.
func (h *History) End(stop string, err error) {
	h.mu.Lock()
	begun := h.begun
	h.mu.Unlock()
	if h.opt.Bytes <= 0 || !begun {
		return
	}
	if err != nil {
		h.event("stop", "error: %v", err)
	} else {
		h.event("stop", "%s", stop)
	}
	h.write(true)
	if h.w != nil {
		h.note(h.w.Close(), 0)
		h.w = nil
	}
}

// write writes the events that wait, and a sample.
func (h *History) write(sample bool) {
	if h.w == nil {
		w, err := history.Open(history.Options{FS: h.opt.FS, Dir: h.saved.Set.Path(0, state.HistoryName),
			Bytes: h.opt.Bytes})
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
func (h *History) note(err error, lost int64) {
	if err == nil {
		return
	}
	h.errors.Add(lost)
	if !h.logged {
		h.logged = true
		h.opt.Log.Warn("the history is losing samples; the crawl continues", "error", err)
	}
}

// Show adds the figures of the history to a snapshot.
func (h *History) Show(s *snapshot.Snapshot) { s.HistoryErrors = h.errors.Load() }
