package term

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"drumbeat/internal/bug"
)

// Screen is the full screen of a terminal (ECMA-48, and xterm's alternate screen).
type Screen struct {
	in, out *os.File
	before  unix.Termios
	keys    chan string
	done    chan struct{} // closed by Close
	ended   chan struct{} // closed when the goroutine that reads keys has ended
}

// ErrNoTerminal means that standard input or output is no terminal.
var ErrNoTerminal = errors.New("standard input or output is no terminal")

// keyWait is the longest time until the reader of keys notices Close, in milliseconds.
const keyWait = 50

// OpenScreen switches the terminal to the alternate screen, and its input to single keys without signals.
// Close undoes both.
func (a *App) OpenScreen() (*Screen, error) {
	in, _ := a.Stdin.(*os.File)
	out, _ := bare(a.Stdout).(*os.File)
	if in == nil || out == nil || Width(out) == 0 {
		return nil, ErrNoTerminal
	}
	before, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS)
	if err != nil {
		return nil, ErrNoTerminal
	}
	s := &Screen{in: in, out: out, before: *before, keys: make(chan string), done: make(chan struct{}), ended: make(chan struct{})}
	single := *before
	single.Lflag &^= unix.ICANON | unix.ECHO | unix.ISIG
	if err := unix.IoctlSetTermios(int(in.Fd()), unix.TCSETS, &single); err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	go s.readKeys()
	if _, err := io.WriteString(out, "\x1b[?1049h\x1b[?25l"); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// bare returns the writer under a Plain.
func bare(w io.Writer) io.Writer {
	if p, ok := w.(*Plain); ok {
		return p.out
	}
	return w
}

// readKeys sends keys until Close, or until the terminal is gone.
func (s *Screen) readKeys() {
	defer bug.Fatal()
	defer close(s.ended)
	buf := make([]byte, 16)
	for {
		select {
		case <-s.done:
			return
		default:
		}
		ready := []unix.PollFd{{Fd: int32(s.in.Fd()), Events: unix.POLLIN}}
		if n, err := unix.Poll(ready, keyWait); n <= 0 && (err == nil || errors.Is(err, unix.EINTR)) {
			continue
		}
		n, err := unix.Read(int(s.in.Fd()), buf)
		if err != nil || n == 0 {
			return
		}
		for _, key := range splitKeys(string(buf[:n])) {
			select {
			case s.keys <- key:
			case <-s.done:
				return
			}
		}
	}
}

// splitKeys returns the keys of one read. A function key is a sequence that begins with ESC.
func splitKeys(text string) []string {
	if strings.HasPrefix(text, "\x1b") {
		return []string{text}
	}
	return strings.Split(text, "")
}

// Keys returns the keys that are pressed: a character each, or the sequence of a function key.
func (s *Screen) Keys() <-chan string { return s.keys }

// Size returns the size of the terminal.
func (s *Screen) Size() (columns, rows int) {
	size, err := unix.IoctlGetWinsize(int(s.out.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return 80, 24 // the terminal does not report its size
	}
	return int(size.Col), int(size.Row)
}

// Draw shows lines from the top of the screen, without control characters, as far as they fit.
func (s *Screen) Draw(lines []string) error {
	columns, rows := s.Size()
	var b strings.Builder
	for i, line := range lines[:min(len(lines), rows)] {
		r := []rune(PlainText(line))
		fmt.Fprintf(&b, "\x1b[%d;1H%s\x1b[K", i+1, string(r[:min(len(r), columns)]))
	}
	if len(lines) < rows {
		fmt.Fprintf(&b, "\x1b[%d;1H\x1b[J", len(lines)+1)
	}
	_, err := io.WriteString(s.out, b.String())
	return err
}

// Close restores the terminal.
func (s *Screen) Close() error {
	close(s.done)
	<-s.ended
	_, err := io.WriteString(s.out, "\x1b[?25h\x1b[?1049l")
	return errors.Join(err, unix.IoctlSetTermios(int(s.in.Fd()), unix.TCSETS, &s.before))
}
