package queue

import (
	"fmt"
	"sync/atomic"
)

// failure holds the error that ended the use of a structure: the error of the first failed write, or
// ErrClosed. The zero value holds none. It is safe for concurrent use.
type failure struct {
	p atomic.Pointer[error]
}

// get returns the error, or nil.
func (f *failure) get() error {
	if p := f.p.Load(); p != nil {
		return *p
	}
	return nil
}

// set adds context to err and returns it. It stores the result if failure holds no error yet.
func (f *failure) set(action, name string, err error) error {
	err = fmt.Errorf("queue: %s %s: %w", action, name, err)
	f.p.CompareAndSwap(nil, &err)
	return err
}

// close stores ErrClosed, whatever the error was before. It returns ErrClosed if it was ErrClosed already.
func (f *failure) close() error {
	closed := ErrClosed
	if old := f.p.Swap(&closed); old != nil && *old == ErrClosed {
		return ErrClosed
	}
	return nil
}
