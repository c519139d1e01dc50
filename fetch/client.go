package fetch

import (
	"context"
	"errors"
	"net/netip"
)

// Client does exchanges. It is safe for concurrent use and owns no goroutines.
type Client struct {
	opt Options
}

type responseBuffers struct{}

// New returns a client, or all faults of the options joined.
func New(opt Options) (*Client, error) { return &Client{opt: opt}, nil }

// Do sends req to req.Addr and reads the reply into resp, which it resets first. A non-nil error is an
// *Error; resp then holds no response, but Start, Remote, the durations and the verdict so far.
func (c *Client) Do(ctx context.Context, req *Request, resp *Response) error {
	return errors.ErrUnsupported
}

// AllowedAddr tells whether addr may be connected to.
func (c *Client) AllowedAddr(addr netip.Addr) bool { return false }

// Close frees what the client holds. No Do may run.
func (c *Client) Close() error { return nil }

// Reset empties r and gives its large buffers back.
func (r *Response) Reset() { *r = Response{} }

// Header returns the first value of a header, nil when absent. The name's case doesn't matter.
func (r *Response) Header(name string) []byte { return nil }

// EachHeader calls fn with every value of a header in order until fn returns false.
func (r *Response) EachHeader(name string, fn func(value []byte) bool) {}
