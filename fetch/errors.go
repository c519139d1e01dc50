package fetch

import (
	"errors"
	"net/netip"
	"strconv"
)

// Stage is where an exchange failed.
type Stage uint8

const (
	// StagePrepare is before anything was sent: a request that can't be, a forbidden address.
	StagePrepare Stage = iota
	// StageDial is the TCP connect.
	StageDial
	// StageTLS is the handshake.
	StageTLS
	// StageWrite is writing the request.
	StageWrite
	// StageFirstByte is waiting for the reply.
	StageFirstByte
	// StageHead is reading the status line and the headers.
	StageHead
	// StageBody is reading and decoding the body. Only a cancelled context, and a lack of memory
	// within Options.BufferBytes, end here with an error: every other fault leaves a marked Response.
	StageBody
)

// Kind is what went wrong.
type Kind uint8

const (
	// KindOther is none of those below.
	KindOther Kind = iota
	// KindCanceled: the context ended. Ours.
	KindCanceled
	// KindBadRequest: the Request can't be sent as it is, now or later.
	KindBadRequest
	// KindForbiddenAddress: the address isn't one that may be connected to. Theirs: a name that
	// leads there isn't a public site.
	KindForbiddenAddress
	// KindForbiddenPort: the port isn't among those allowed.
	KindForbiddenPort
	// KindResources: this machine lacks descriptors, ports or memory, be it only that of
	// Options.BufferBytes. Ours.
	KindResources
	// KindNoRoute: this machine has no way to that network (or its filter forbids it). Ours.
	KindNoRoute
	// KindUnreachable: a router said that the host or its network can't be reached. A dead gateway of
	// ours looks the same; only many of them at once tell.
	KindUnreachable
	// KindRefused: nobody listens there.
	KindRefused
	// KindTimeout: a limit of time or of rate was exceeded; Stage says which.
	KindTimeout
	// KindReset: the connection was reset.
	KindReset
	// KindEmptyReply: the connection was closed without a byte of reply.
	KindEmptyReply
	// KindBadHead: what came isn't an HTTP/1 response head.
	KindBadHead
	// KindHeadTooLarge: the head exceeds Limits.HeaderBytes, or the interim replies don't end.
	KindHeadTooLarge
	// KindTLS: the handshake failed (no common version, alert, not TLS at all).
	KindTLS
	// KindCertificate: the certificate isn't good and TLSOptions.Require asks for one.
	KindCertificate
	kinds
)

// Error is every error that Do returns.
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
	errHead      = errors.New("no HTTP/1 response head")
	errEmpty     = errors.New("connection closed without a reply")
	errHeadLarge = errors.New("response head exceeds its limit")
	errUpgrade   = errors.New("101 Switching Protocols that nobody asked for")
	errLimits    = errors.New("the limits of this request ask for more memory than Options.BufferBytes has for one")
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

// Ours reports whether the fault lies on this side: it must not count against the host, and the URL
// must be tried again. A Timeout of StageDial may be ours as well; only many of them at once tell.
func (e *Error) Ours() bool {
	switch e.Kind {
	case KindCanceled, KindResources, KindNoRoute:
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
		"head-too-large", "tls", "certificate"}
	if k < kinds {
		return names[k]
	}
	return "kind-" + strconv.Itoa(int(k))
}

// String returns the value of WARC-Truncated, "" for a whole body.
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
