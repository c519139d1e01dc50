// Package resolve has the answer and the error of a lookup, as a crawl needs them of any resolver.
//
// Package crawl takes a resolver as an interface (crawl.Resolver) whose method returns a Lookup or an *Error. The
// program's implementation joins crawl and dnscache: package dnscache has answers of its own, because it also serves
// programs without a crawl. The types stand here, below crawl, so that a package that answers lookups or judges them
// need not import the running crawl.
//
// The flags of an Error decide what a crawl does with a URL of the host. NotFound and Certain are answers: the URL
// ends, or waits for confirmation. Without them there was no usable answer, so the URL waits. NoAnswer counts for
// the suspicion that the network of this machine is down. Busy tells nothing about the host, so the crawl asks again.
// Cached answers tell nothing about name servers.
//
// # Resources
//
// Values only: no state, no goroutines, no files. A Lookup holds the addresses of one answer, 24 B each. The values
// are not changed after they are returned, so goroutines may share them.
package resolve

import (
	"fmt"
	"net/netip"
	"time"
)

// Lookup is a positive answer of a resolver.
type Lookup struct {
	Addrs   []netip.Addr
	Expires time.Time
	// TTL is the TTL of the name server's answer, or 0. Server is the server that answered, or the zero Addr.
	TTL    time.Duration
	Server netip.Addr
	// Cached reports that the answer came from a cache. It tells nothing about the name servers.
	Cached bool
}

// Error is a negative answer or a failure of a resolver.
type Error struct {
	Host string
	// NotFound is true if the name does not exist or has no address (an answer), and false if there was no
	// usable answer (SERVFAIL, timeout).
	NotFound bool
	// Certain is true if the result needs no name server, because the name is not valid in the DNS.
	Certain bool
	// Cached reports that the answer came from a cache.
	Cached bool
	// NoAnswer is true if no name server answered at all. If that happens for all names, the fault is ours.
	NoAnswer bool
	// Busy is true if the question was not asked because too many others wait. It tells nothing about the
	// host.
	Busy bool
	// Expires is the time until which the answer is valid.
	Expires time.Time
	Err     error
}

func (e *Error) Error() string { return fmt.Sprintf("crawl: look up %s: %v", e.Host, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
