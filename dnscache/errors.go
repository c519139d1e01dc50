package dnscache

import (
	"errors"
	"strconv"
	"time"
)

// ErrClosed is the cause of errors of lookups that Close ended or that began after it.
var ErrClosed = errors.New("dnscache: closed")

// Kind says why a host has no address.
type Kind uint8

const (
	// KindNXDomain: the name does not exist.
	KindNXDomain Kind = iota + 1
	// KindNoData: the name exists, but has no address of the requested families.
	KindNoData
	// KindServFail: the servers tried to resolve the name and failed.
	KindServFail
	// KindRefused: the servers refuse to answer, or answered with an unexpected code.
	KindRefused
	// KindTimeout: no server answered in time. The fault may be on our side.
	KindTimeout
	// KindChain: the alias chain is a loop, too long, or leads to an invalid name.
	KindChain
	// KindBadName: the name is not a valid host name.
	KindBadName
	// KindBusy: too many lookups are waiting. Ours.
	KindBusy
)

// String returns the kind's name for logs and counters, in lower case with hyphens.
func (k Kind) String() string {
	names := [...]string{"", "nxdomain", "no-data", "servfail", "refused", "timeout", "chain", "bad-name", "busy"}
	if int(k) < len(names) {
		return names[k]
	}
	return "kind-" + strconv.Itoa(int(k))
}

// Permanent reports whether retrying soon is pointless, because the answer came from the DNS.
func (k Kind) Permanent() bool {
	return k == KindNXDomain || k == KindNoData || k == KindChain || k == KindBadName
}

// Error is the error of a lookup that found no address.
type Error struct {
	Kind Kind
	Host string
	// Expires is the earliest time at which a retry makes sense; zero: now.
	Expires time.Time
	// Cached says that the result came from the cache.
	Cached bool
}

// Error returns "dnscache: look up <host>: <kind>".
func (e *Error) Error() string { return "dnscache: look up " + e.Host + ": " + e.Kind.String() }
