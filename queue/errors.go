package queue

import "errors"

// ErrClosed is returned by operations on a closed or destroyed Queue or Calendar.
var ErrClosed = errors.New("queue: closed")

// ErrTooLong is returned by Append for a record of more than MaxRecord bytes. Nothing was appended.
var ErrTooLong = errors.New("queue: record too long")
