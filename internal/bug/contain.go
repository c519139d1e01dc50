package bug

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Error is a panic over data from a site. It is a bug of this program, but it fails only the URL, not the
// crawl.
type Error struct {
	Value any
	Stack []byte
}

func (e *Error) Error() string { return fmt.Sprintf("crawl: BUG: panic: %v", e.Value) }

// Contained calls f and turns a panic into an *Error. f must only read external data and change no shared
// state: a panic would leave that state inconsistent.
func Contained(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Error{p, debug.Stack()}
		}
	}()
	return f()
}

// As returns err if it is a contained panic, else nil.
func As(err error) error {
	var p *Error
	if errors.As(err, &p) {
		return err
	}
	return nil
}
