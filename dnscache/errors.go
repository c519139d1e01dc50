package dnscache

import (
	"errors"
	"strconv"
	"time"
)

// ErrClosed is the cause of lookups that Close ended or that came after it.
var ErrClosed = errors.New("dnscache: closed")

// Kind is why a host has no address.
type Kind uint8

const (
	// KindNXDomain: the name doesn't exist.
	KindNXDomain Kind = iota + 1
	// KindNoData: the name exists, but has no address of the families asked for.
	KindNoData
	// KindServFail: the servers tried and failed.
	KindServFail
	// KindRefused: the servers won't answer, or answered with a code that makes no sense.
	KindRefused
	// KindTimeout: no server answered in time. The fault may be ours.
	KindTimeout
	// KindChain: the aliases don't end.
	KindChain
	// KindBadName: not a name that the DNS can hold.
	KindBadName
	// KindBusy: too many lookups wait already. Ours.
	KindBusy
)

// String returns the kind's name for logs and counters, in lower case with hyphens.
func (k Kind) String() string {
	names := [...]string{"", "nxdomain", "no-data", "servfail", "refused", "timeout", "chain",
		"bad-name", "busy"}
	if int(k) < len(names) {
		return names[k]
	}
	return "kind-" + strconv.Itoa(int(k))
}

// Permanent tells whether asking again soon is pointless: the DNS has said so.
func (k Kind) Permanent() bool {
	return k == KindNXDomain || k == KindNoData || k == KindChain || k == KindBadName
}

// Error is why a host has no address.
type Error struct {
	Kind Kind
	Host string
	// Expires is when asking again makes sense; zero: any time.
	Expires time.Time
	// Cached: it was known already.
	Cached bool
}

// Error returns "dnscache: look up <host>: <kind>".
func (e *Error) Error() string { return "dnscache: look up " + e.Host + ": " + e.Kind.String() }
