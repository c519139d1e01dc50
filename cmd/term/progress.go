package term

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"drumbeat/internal/human"
	"drumbeat/state"
)

// LogEvery is the time between two lines of progress if the output is not a terminal.
const LogEvery = 10 * time.Second

// Progress prints the progress of reading files: on a terminal by rewriting a line, elsewhere as a line each
// LogEvery.
type Progress struct {
	out      io.Writer
	terminal bool
	printed  time.Time
	Last     state.Progress
}

// NewProgress returns a Progress that prints to out, and detects whether out is a terminal.
func NewProgress(out io.Writer) *Progress { return &Progress{out: out, terminal: Columns(out) > 0} }

// showAfter is how long a command runs before it shows progress: a short one has no line that appears and vanishes.
const showAfter = time.Second

// Show prints the state now, unless the command has just begun or, in a log, the last line is too recent.
func (p *Progress) Show(now state.Progress) {
	p.Last = now
	if now.Elapsed < showAfter ||
		!p.terminal && (now.Elapsed < LogEvery || time.Since(p.printed) < LogEvery) {
		return
	}
	p.printed = time.Now()
	rate := float64(now.Done) / max(now.Elapsed.Seconds(), 1e-3)
	text := fmt.Sprintf("%s of %s, %s/s", human.Bytes(now.Done), human.Bytes(max(now.Total, now.Done)),
		human.Bytes(rate))
	if now.Total > now.Done && rate > 0 {
		text += fmt.Sprintf(", %s left", human.Seconds(float64(now.Total-now.Done)/rate))
	}
	if now.What != "" {
		text += ": " + now.What
	}
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%s", text)
		return
	}
	fmt.Fprintln(p.out, text)
}

// Say prints what the command does now.
func (p *Progress) Say(what string) {
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%s", what)
		return
	}
	fmt.Fprintln(p.out, what)
}

// Update replaces the line on a terminal; elsewhere it prints nothing.
func (p *Progress) Update(what string) {
	if p.terminal {
		p.Say(what)
	}
}

// Clear erases the line on the terminal.
func (p *Progress) Clear() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// Width returns the number of columns of the terminal f; 0 if f is not a terminal.
func Width(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	if size.Col == 0 {
		return 80 // the terminal does not report its size
	}
	return int(size.Col)
}

// Columns returns the number of columns of w; 0 if w is not a terminal.
func Columns(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		return Width(f)
	}
	return 0
}

// WriteJSON prints v as indented JSON.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
