package drum

import "errors"

// Calls on a closed Drum return ErrClosed.
var ErrClosed = errors.New("drum: closed")

// Add returns ErrTuple for a batch with a tuple that the store cannot hold, and takes nothing of the batch.
var ErrTuple = errors.New("drum: invalid tuple")
