package bug

import (
	"fmt"
	"runtime/debug"
)

// Error is a panic while something was read that a site had sent: a bug of this program, which the site's URL pays for, not the
// crawl.
type Error struct {
	Value any
	Stack []byte
}

func (e *Error) Error() string { return fmt.Sprintf("crawl: BUG: panic: %v", e.Value) }

// Contained calls f and turns a panic into an *Error. It is for code that reads what comes from outside and changes nothing
// that others see: never around what a panic would leave half done.
func Contained(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Error{p, debug.Stack()}
		}
	}()
	return f()
}
