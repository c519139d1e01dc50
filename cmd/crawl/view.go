package crawl

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
)

// View shows a running crawl: on a terminal as a block of lines that is rewritten each second, elsewhere as
// a line every 10 s. All other output goes through Write, which keeps the block last. With --log-format json
// all output is JSON lines and there is no block. Output never waits for its reader (logQueue).
type View struct {
	quiet bool
	json  bool
	width func() int // columns of the terminal; nil for lines
	log   *slog.Logger
	Watch func(*crawl.Snapshot) // gets each snapshot; nil: nobody
	RAM   int64                 // limit of the process, if it does more than crawl; 0: the crawl's

	mu    sync.Mutex // guards the fields below
	out   logQueue
	block []byte // the block on the terminal
	lines int    // of it
	lost  int    // messages dropped since the last one that was taken
	last  time.Time
}

// NewView returns a View that prints to out, and detects whether out is a terminal.
func NewView(out io.Writer, l *flags.Logging) *View {
	v := &View{out: logQueue{out: out}, quiet: l.Quiet, json: l.JSON(), last: time.Now()}
	if f, ok := out.(*os.File); ok && !v.json && !l.Quiet && term.Width(f) > 0 {
		v.width = func() int { return max(20, term.Width(f)) }
	}
	v.log = slog.New(v.handler(v, &slog.HandlerOptions{Level: l.Level()}))
	return v
}

// handler returns the handler of the log's format.
func (v *View) handler(w io.Writer, options *slog.HandlerOptions) slog.Handler {
	if v.json {
		return slog.NewJSONHandler(w, options)
	}
	if v.width == nil {
		return slog.NewTextHandler(w, options)
	}
	var clock slog.HandlerOptions // a reader of the terminal knows the date
	if options != nil {
		clock = *options
	}
	clock.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && len(groups) == 0 {
			return slog.String(a.Key, a.Value.Time().UTC().Format(time.TimeOnly))
		}
		return a
	}
	return slog.NewTextHandler(wrapper{w, v.width}, &clock)
}

// wrapper breaks lines at spaces where the terminal would break them within words.
type wrapper struct {
	out   io.Writer
	width func() int
}

// Write implements io.Writer; p is whole lines.
func (w wrapper) Write(p []byte) (int, error) {
	var b bytes.Buffer
	width := w.width()
	for line := range strings.Lines(string(p)) {
		if utf8.RuneCountInString(line) > width {
			line = strings.Join(flags.Wrap(line, width-3), "\n  ") + "\n"
		}
		b.WriteString(line)
	}
	if _, err := w.out.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Say prints lines of text, unless the view is quiet. In JSON each is a message of the log.
func (v *View) Say(text string) {
	switch {
	case v.quiet:
	case v.json:
		for line := range strings.Lines(text) {
			v.log.Info(strings.TrimPrefix(strings.TrimRight(line, "\n"), "# "))
		}
	default:
		_, _ = v.Write([]byte(text)) // a log line that fails is not an error either
	}
	v.out.wait()
}

// Write prints whole lines above the block. If the log's reader has stopped, they may be lost; the next line that is
// taken says so.
func (v *View) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var text bytes.Buffer
	if v.lines > 0 {
		text.Write(v.erase())
	}
	if v.lost > 0 {
		slog.New(v.handler(&text, nil)).Warn("messages of the log were lost: nothing read it", "messages", v.lost)
	}
	text.Write(p)
	if v.lines > 0 {
		text.Write(v.block)
	}
	if _, err := v.out.Write(text.Bytes()); err != nil {
		v.lost++
		return 0, err
	}
	v.lost = 0
	return len(p), nil
}

// erase moves to the block's first line and clears to the end of the screen.
func (v *View) erase() []byte { return fmt.Appendf(nil, "\x1b[%dF\x1b[J", v.lines) }

// Note logs a message, as a warning if it begins with "WARNING: ".
func (v *View) Note(text string) {
	defer v.out.wait()
	if rest, ok := strings.CutPrefix(text, "WARNING: "); ok {
		v.log.Warn(rest)
		return
	}
	v.log.Info(text)
}

// show prints a snapshot; it is called once a second.
func (v *View) show(s *crawl.Snapshot) {
	if v.Watch != nil {
		v.Watch(s)
	}
	if v.quiet {
		return
	}
	if v.width == nil {
		if s.Time.Sub(v.last) >= term.LogEvery {
			v.last = s.Time
			v.log.Info("progress", progressFields(s)...)
		}
		return
	}
	width := v.width()
	var block bytes.Buffer
	var lines []string
	for _, line := range progressLines(s, cmp.Or(v.RAM, s.RAM.Limit)) {
		lines = append(lines, fit(line, width)...)
	}
	for _, line := range lines {
		block.WriteString(line + "\n")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	text := block.Bytes()
	if v.lines > 0 {
		text = append(v.erase(), text...)
	}
	if _, err := v.out.Write(text); err == nil {
		v.block, v.lines = block.Bytes(), len(lines)
	}
}

// fitIndent indents the continuation of a line of the block.
const fitIndent = "            "

// maxFitLines is the largest number of terminal lines for one line of the block; the rest is cut.
const maxFitLines = 4

// fit breaks a line at spaces into at most maxFitLines lines shorter than width.
func fit(line string, width int) (lines []string) {
	rest := []rune(line)
	for len(rest) >= width {
		cut := width - 1
		if len(lines) == maxFitLines-1 {
			return append(lines, string(rest[:cut]))
		}
		for i := cut; i > max(width/2, len(fitIndent)); i-- {
			if rest[i] == ' ' {
				cut = i
				break
			}
		}
		lines = append(lines, strings.TrimRight(string(rest[:cut]), " "))
		next := strings.TrimLeft(string(rest[cut:]), " ")
		if width > 2*len(fitIndent) {
			next = fitIndent + next
		}
		rest = []rune(next)
	}
	return append(lines, string(rest))
}

// Close leaves the last block on the terminal, and waits for output, at most logPatience.
func (v *View) Close() {
	v.mu.Lock()
	v.lines = 0
	v.mu.Unlock()
	v.out.wait()
}
