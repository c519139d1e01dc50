package term

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gdamore/tcell/v2"

	"drumbeat/internal/bug"
)

// Screen is the full screen of a terminal.
type Screen struct {
	screen tcell.Screen
	keys   chan rune
	events chan tcell.Event
	done   chan struct{} // closed by Close
	ended  chan struct{} // closed when the goroutine that reads keys has ended
}

// ErrNoTerminal means that standard input or output is not a terminal.
var ErrNoTerminal = errors.New("standard input or output is not a terminal")

// These keys have no character. KeyRedraw is none: the size of the terminal has changed.
const (
	KeyEscape rune = -1 - iota
	KeyInterrupt
	KeyRedraw
)

// OpenScreen switches the terminal to the alternate screen, and its input to single keys without signals.
// Close undoes both.
func (a *App) OpenScreen() (*Screen, error) {
	in, _ := a.Stdin.(*os.File)
	out, _ := bare(a.Stdout).(*os.File)
	if in == nil || out == nil || Width(out) == 0 {
		return nil, ErrNoTerminal
	}
	tty, err := tcell.NewDevTtyFromDev(in.Name())
	if err != nil {
		return nil, ErrNoTerminal
	}
	screen, err := tcell.NewTerminfoScreenFromTty(tty)
	if err == nil {
		err = screen.Init()
	}
	if err != nil { // TERM is unknown
		return nil, fmt.Errorf("terminal: %w", err)
	}
	s := &Screen{screen: screen, keys: make(chan rune), events: make(chan tcell.Event), done: make(chan struct{}),
		ended: make(chan struct{})}
	go func() {
		defer bug.Fatal()
		screen.ChannelEvents(s.events, s.done) // closes events
	}()
	go s.readKeys()
	return s, nil
}

// bare returns the writer under a Plain.
func bare(w io.Writer) io.Writer {
	if p, ok := w.(*Plain); ok {
		return p.out
	}
	return w
}

// readKeys sends keys until Close.
func (s *Screen) readKeys() {
	defer bug.Fatal()
	defer close(s.ended)
	for event := range s.events {
		key := KeyRedraw
		switch event := event.(type) {
		case *tcell.EventKey:
			switch event.Key() {
			case tcell.KeyRune:
				key = event.Rune()
			case tcell.KeyEscape:
				key = KeyEscape
			case tcell.KeyCtrlC:
				key = KeyInterrupt
			}
		case *tcell.EventResize:
			s.screen.Sync()
		}
		select {
		case s.keys <- key:
		case <-s.done:
		}
	}
}

// Keys returns the keys that are pressed.
func (s *Screen) Keys() <-chan rune { return s.keys }

// Width returns the width of the terminal in columns.
func (s *Screen) Width() int {
	columns, _ := s.screen.Size()
	return columns
}

// Draw shows lines from the top of the screen, without control characters, as far as they fit.
func (s *Screen) Draw(lines []string) {
	columns, rows := s.screen.Size()
	for i := range rows {
		line := ""
		if i < len(lines) {
			line = PlainText(lines[i])
		}
		s.screen.PutStr(0, i, line+strings.Repeat(" ", max(0, columns-len([]rune(line)))))
	}
	s.screen.Show()
}

// Close restores the terminal.
func (s *Screen) Close() {
	close(s.done)
	<-s.ended
	s.screen.Fini()
}
