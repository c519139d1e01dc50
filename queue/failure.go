package queue

import (
	"fmt"
	"sync/atomic"
)

// failure holds the error that ended the use of a structure: that of the first failed write, or ErrClosed.
// The zero value is none. Safe for concurrent use.
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

// set makes err the failure unless there is one, and returns it with its context.
func (f *failure) set(action, name string, err error) error {
	err = fmt.Errorf("queue: %s %s: %w", action, name, err)
	f.p.CompareAndSwap(nil, &err)
	return err
}

// close makes ErrClosed the failure, whatever it was; it returns ErrClosed if it was that already.
func (f *failure) close() error {
	closed := ErrClosed
	if old := f.p.Swap(&closed); old != nil && *old == ErrClosed {
		return ErrClosed
	}
	return nil
}
