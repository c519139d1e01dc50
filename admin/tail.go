package admin

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Line is a line of the log.
type Line struct {
	Time  time.Time `json:"time"`
	Level string    `json:"level" doc:"DEBUG, INFO, WARN or ERROR."`
	Text  string    `json:"text"`
}

// The bounds of a Tail.
const (
	tailLines = 1000
	tailBytes = 1000 // of a line
)

// Tail keeps the last lines of a log. It is safe for concurrent use. The nil Tail keeps nothing.
type Tail struct {
	mu    sync.Mutex // guards the fields below
	lines []Line
	total int64 // lines so far
}

// Add adds a line.
func (t *Tail) Add(at time.Time, level, text string) {
	if t == nil {
		return
	}
	if len(text) > tailBytes {
		text = strings.ToValidUTF8(text[:tailBytes], "") + "…"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) >= 2*tailLines {
		t.lines = slices.Clone(t.lines[len(t.lines)-tailLines:])
	}
	t.lines = append(t.lines, Line{at.UTC(), level, text})
	t.total++
}

// Last returns the last lines, at most n, oldest first.
func (t *Tail) Last(n int) []Line {
	lines, _ := t.since(-1, n)
	return lines
}

// since returns the lines after the first seen ones, at most the last n, and how many there are in all.
func (t *Tail) since(seen int64, n int) ([]Line, int64) {
	if t == nil {
		return nil, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if seen >= 0 {
		n = int(min(int64(n), t.total-seen))
	}
	n = max(0, min(n, len(t.lines), tailLines))
	return slices.Clone(t.lines[len(t.lines)-n:]), t.total
}

// Handler returns a slog handler that passes records on to next and keeps them in t: those from Info on even
// if next drops them.
func (t *Tail) Handler(next slog.Handler) slog.Handler { return &tailHandler{t, next, ""} }

type tailHandler struct {
	tail  *Tail
	next  slog.Handler
	attrs string
}

func (h *tailHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelInfo || h.next.Enabled(ctx, l)
}

func (h *tailHandler) Handle(ctx context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message + h.attrs)
	r.Attrs(func(a slog.Attr) bool { b.WriteString(" " + a.String()); return true })
	h.tail.Add(r.Time, r.Level.String(), b.String())
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (h *tailHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := *h
	n.next = h.next.WithAttrs(attrs)
	for _, a := range attrs {
		n.attrs += " " + a.String()
	}
	return &n
}

func (h *tailHandler) WithGroup(name string) slog.Handler {
	n := *h
	n.next = h.next.WithGroup(name)
	return &n
}
