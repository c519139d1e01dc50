package queue

import "errors"

// Operations on a closed or destroyed Queue or Calendar return ErrClosed.
var ErrClosed = errors.New("queue: closed")

// Append returns ErrTooLong for a record of more than MaxRecord bytes, and appends nothing.
var ErrTooLong = errors.New("queue: record too long")
