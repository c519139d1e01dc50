package drum

import "errors"

// ErrClosed is returned by calls on a closed Drum.
var ErrClosed = errors.New("drum: closed")

// ErrTuple is returned by Add for a batch with a tuple that the store can't hold; nothing of the batch is
// taken.
var ErrTuple = errors.New("drum: invalid tuple")
