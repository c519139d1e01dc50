package ctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"drumbeat/admin"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

type topCmd struct{ atDir }

// Run shows the state until q is pressed.
func (topCmd) Run(a *term.App, w *Where) error {
	c, err := w.client()
	if err != nil {
		return w.classify(err)
	}
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM) // restore the screen
	defer release()
	if _, err := admin.Get[admin.Status](ctx, c, "/api/v1/status"); err != nil {
		return w.classify(err)
	}
	screen, err := a.OpenScreen()
	if errors.Is(err, term.ErrNoTerminal) {
		return term.Usage(fmt.Errorf("ctl top: %w: drumbeat ctl status prints the same", err))
	}
	if err != nil {
		return err
	}
	t := &top{client: c}
	t.run(ctx, screen)
	screen.Close()
	return nil
}

const (
	topEvery = time.Second     // between two looks at the crawl
	topWait  = 5 * time.Second // for an answer
)

// top is what the screen shows.
type top struct {
	client *admin.Client

	status *admin.Status
	slots  *admin.Slots
	rates  term.Trend // pages per second of the last looks
	err    error
	note   string // why the last key failed
}

// look is an answer of the server.
type look struct {
	status *admin.Status
	slots  *admin.Slots
	err    error
	key    bool   // a key asked for it
	note   string // why that key failed
}

// run shows the state until a key or ctx ends it.
func (t *top) run(ctx context.Context, screen *term.Screen) {
	live := term.Live[look]{Every: topEvery, Wait: topWait, Look: t.look, Lines: t.lines,
		Key: func(key rune) func(context.Context) look {
			if key == 'p' {
				return t.toggle(t.status)
			}
			return nil
		},
		Take: func(l look) { t.take(&l) }}
	live.Run(ctx, screen)
}

// look asks the server.
func (t *top) look(ctx context.Context) look {
	status, err := admin.Get[*admin.Status](ctx, t.client, "/api/v1/status")
	if err != nil {
		return look{err: err}
	}
	slots, err := admin.Get[*admin.Slots](ctx, t.client, "/api/v1/slots")
	return look{status: status, slots: slots, err: err}
}

// toggle returns a function that pauses the crawl or, if its status was paused, resumes it, and looks at it.
func (t *top) toggle(status *admin.Status) func(context.Context) look {
	path := "/api/v1/pause"
	if status != nil && status.State == "paused" {
		path = "/api/v1/resume"
	}
	return func(ctx context.Context) look {
		_, err := t.client.Do(ctx, http.MethodPost, path, nil)
		l := t.look(ctx)
		l.key = true
		if err != nil {
			l.note = err.Error()
		}
		return l
	}
}

// take takes an answer.
func (t *top) take(l *look) {
	if t.err = l.err; l.key {
		t.note = l.note
	}
	if l.err != nil {
		return
	}
	t.status, t.slots = l.status, l.slots
	t.rates.Add(l.status.Rates.Pages)
}

// lines returns the text of the screen.
func (t *top) lines(columns int) []string {
	var b bytes.Buffer
	if s := t.status; s != nil {
		fmt.Fprintf(&b, "drumbeat %s  %s  %s  q: quit  p: pause or resume\n", s.Version, s.Host,
			s.Time.Local().Format(time.TimeOnly))
	}
	if t.err != nil {
		fmt.Fprintf(&b, "NO ANSWER: %v\n", t.err)
	}
	if t.note != "" {
		fmt.Fprintf(&b, "%s\n", t.note)
	}
	if t.status != nil {
		fmt.Fprintf(&b, "pages/s  %s\n", t.rates.Spark(max(10, columns-10)))
		t.table(&b)
	}
	var lines []string
	for line := range strings.Lines(strings.TrimRight(b.String(), "\n")) {
		lines = append(lines, wrapHealth(strings.TrimSuffix(line, "\n"), columns)...)
	}
	return lines
}

// wrapHealth breaks the line of the condition, whose end names the cause. Other lines are cut at the edge.
func wrapHealth(line string, columns int) []string {
	text, ok := strings.CutPrefix(line, "health ")
	text = strings.TrimLeft(text, " ")
	indent := len(line) - len(text)
	if !ok || columns-indent < 20 {
		return []string{line}
	}
	lines := flags.Wrap(text, columns-indent)
	for i := range lines {
		lines[i] = strings.Repeat(" ", indent) + lines[i]
	}
	lines[0] = line[:indent] + strings.TrimLeft(lines[0], " ")
	return lines
}

// table prints the state and the use of slots.
func (t *top) table(b *bytes.Buffer) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	printStatus(w, t.status)
	if t.slots != nil && t.slots.Total > 0 {
		for _, u := range t.slots.Uses {
			if u.Now >= 0.5 {
				fmt.Fprintf(w, "slots: %s\t%s %.0f\n", u.Name, bar(u.Now/float64(t.slots.Total), 30), u.Now)
			}
		}
	}
	_ = w.Flush() // writes to memory
}

// bar draws a share of width.
func bar(share float64, width int) string {
	n := int(min(1, max(0, share))*float64(width) + 0.5)
	return strings.Repeat("█", n) + strings.Repeat("░", width-n)
}
