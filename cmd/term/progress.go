package term

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"drumbeat/crawl/state"
)

// LogEvery is the time between two lines of progress where there is no terminal.
const LogEvery = 10 * time.Second

// Progress prints how far a reading of files is: on a terminal a line that is written anew, elsewhere one now and then.
type Progress struct {
	out      io.Writer
	terminal bool
	printed  time.Time
	Last     state.Progress
}

// NewProgress prints to out, and knows a terminal when it sees one.
func NewProgress(out io.Writer) *Progress {
	return &Progress{out: out, terminal: isTerminal(out)}
}

// Show takes how far it is.
func (p *Progress) Show(now state.Progress) {
	p.Last = now
	if !p.terminal && (now.Elapsed < LogEvery || time.Since(p.printed) < LogEvery) {
		return
	}
	p.printed = time.Now()
	rate := float64(now.Done) / max(now.Elapsed.Seconds(), 1e-3)
	text := fmt.Sprintf("%s of %s, %s/s", BytesOf(now.Done), BytesOf(max(now.Total, now.Done)), BytesOf(int64(rate)))
	if now.Total > now.Done && rate > 0 {
		text += fmt.Sprintf(", %v left", time.Duration(float64(now.Total-now.Done)/rate*1e9).Round(time.Second))
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

// Clear leaves the terminal's line to what comes.
func (p *Progress) Clear() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// Width is the number of columns of the terminal that f is; 0 if it is none.
func Width(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	if size.Col == 0 {
		return 80 // a terminal that doesn't know its size
	}
	return int(size.Col)
}

// isTerminal tells whether w is one.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && Width(f) > 0
}

// BytesOf is a number of bytes for a person, in binary units.
func BytesOf(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// WriteJSON prints v for a person to read.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
