package resolve

import (
	"context"
	"errors"
	"testing"
)

// TestError: an error of a lookup names the host, and wraps its cause.
func TestError(t *testing.T) {
	var e *Error
	err := error(&Error{Host: "a.test", NoAnswer: true, Err: context.DeadlineExceeded})
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || !e.NoAnswer ||
		err.Error() != "crawl: look up a.test: context deadline exceeded" {
		t.Errorf("got %v", err)
	}
}
