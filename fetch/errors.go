package fetch

import (
	"errors"
	"net/netip"
	"strconv"
)

// Stage is the stage at which an exchange failed.
type Stage uint8

const (
	// StagePrepare precedes any sending: the request is invalid or the address forbidden.
	StagePrepare Stage = iota
	// StageDial is the TCP connect.
	StageDial
	// StageTLS is the handshake.
	StageTLS
	// StageWrite is writing the request.
	StageWrite
	// StageFirstByte is waiting for the reply.
	StageFirstByte
	// StageHead is reading the status line and the header lines.
	StageHead
	// StageBody is reading and decoding the body. Only a cancelled context, or a lack of memory within
	// Options.BufferBytes, is an error here. All other faults yield a marked Response.
	StageBody
)

// Kind is the kind of a fault.
type Kind uint8

const (
	// KindOther is none of the kinds below.
	KindOther Kind = iota
	// KindCanceled: the context ended. Ours.
	KindCanceled
	// KindBadRequest: the Request is invalid; retrying cannot help.
	KindBadRequest
	// KindForbiddenAddress: AllowedAddr refuses the address. The fault is the site's: a name that resolves
	// to such an address is not a public site.
	KindForbiddenAddress
	// KindForbiddenPort: the port is not one of Client.Ports.
	KindForbiddenPort
	// KindResources: this machine lacks descriptors, ports or memory, or Options.BufferBytes is exhausted.
	// Ours.
	KindResources
	// KindNoRoute: this machine has no route to the network, or its packet filter forbids it. Ours.
	KindNoRoute
	// KindUnreachable: a router reported that the host or its network is unreachable. A failed gateway on
	// our side looks the same; only many such errors at once reveal it.
	KindUnreachable
	// KindRefused: no process listens on the port.
	KindRefused
	// KindTimeout: a limit of time or rate was exceeded; Stage says which.
	KindTimeout
	// KindReset: the connection was reset.
	KindReset
	// KindEmptyReply: the server closed the connection before the first byte of a reply.
	KindEmptyReply
	// KindBadHead: the reply does not begin with an HTTP/1 response head.
	KindBadHead
	// KindHeadTooLarge: the head exceeds Limits.HeaderBytes or has more than 5000 fields, or there are too many
	// interim replies.
	KindHeadTooLarge
	// KindTLS: the handshake failed (no common version, an alert, no TLS at all).
	KindTLS
	// KindCertificate: the certificate is not good, and TLSOptions.Require or Request.Verified demands a good
	// one.
	KindCertificate
	// KindProxy: the Proxy cannot be reached or refuses. Ours.
	KindProxy
	kinds
)

// Error is the type of all errors that Do returns.
type Error struct {
	Stage Stage
	Kind  Kind
	// Addr is the address of the exchange; Host the request's host.
	Addr netip.AddrPort
	Host string
	// Err is the cause; it may be nil.
	Err error
}

var (
	errHead      = errors.New("not an HTTP/1 response head")
	errEmpty     = errors.New("connection closed without a reply")
	errHeadLarge = errors.New("response head exceeds its limit")
	errHeadLines = errors.New("response head has too many fields")
	errUpgrade   = errors.New("unsolicited 101 Switching Protocols")
	errLimits    = errors.New("the request's limits need more memory than Options.BufferBytes allows one exchange")
	errInterim   = errors.New("too many interim replies")
)

// Error returns "fetch: <stage> <host> at <addr>: <kind>: <cause>".
func (e *Error) Error() string {
	s := "fetch: " + e.Stage.String() + " " + e.Host + " at " + e.Addr.String() + ": " + e.Kind.String()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Ours reports whether the fault is on our side: it must not count against the host, and the URL must be
// retried. A Timeout at StageDial may also be ours; only many of them at once reveal it.
func (e *Error) Ours() bool {
	switch e.Kind {
	case KindCanceled, KindResources, KindNoRoute, KindProxy:
		return true
	}
	return false
}

// String returns the stage's name for logs and counters, in lower case with hyphens.
func (s Stage) String() string {
	switch s {
	case StagePrepare:
		return "prepare"
	case StageDial:
		return "dial"
	case StageTLS:
		return "tls"
	case StageWrite:
		return "write"
	case StageFirstByte:
		return "first-byte"
	case StageHead:
		return "head"
	case StageBody:
		return "body"
	}
	return "stage-" + strconv.Itoa(int(s))
}

// String returns the kind's name for logs and counters, in lower case with hyphens.
func (k Kind) String() string {
	names := [kinds]string{"other", "canceled", "bad-request", "forbidden-address", "forbidden-port",
		"resources", "no-route", "unreachable", "refused", "timeout", "reset", "empty-reply", "bad-head",
		"head-too-large", "tls", "certificate", "proxy"}
	if k < kinds {
		return names[k]
	}
	return "kind-" + strconv.Itoa(int(k))
}

// String returns the value of WARC-Truncated; "" for a whole body.
func (r Reason) String() string {
	switch r {
	case NotTruncated:
		return ""
	case TruncatedLength:
		return "length"
	case TruncatedTime:
		return "time"
	case TruncatedDisconnect:
		return "disconnect"
	}
	return "unspecified"
}
