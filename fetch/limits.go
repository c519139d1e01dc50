package fetch

import (
	"errors"
	"fmt"
	"time"

	"drumbeat/internal/nat64"
)

// Defaults of Limits. The paper gives none. With these a slow host occupies a connection for at most two
// minutes.
const (
	defaultConnect      = 10 * time.Second
	defaultTLS          = 10 * time.Second
	defaultFirstByte    = 20 * time.Second
	defaultTotal        = 120 * time.Second
	defaultGrace        = 10 * time.Second
	defaultMinRate      = 256
	maxHeaderBytes      = 64 << 10
	defaultBodyBytes    = 2 << 20
	defaultDecodedBytes = 8 << 20
	defaultRatio        = 200
)

// Fixed bounds.
const (
	// maxHeaderLines bounds the fields of a head; a head with more is refused, with KindHeadTooLarge. curl has the
	// same limit. Each takes 12 bytes of RAM, so all take 60 KB; 64 KiB of the shortest would take 262 KB.
	maxHeaderLines = 5000
	// maxInterim bounds the number of 1xx replies before the response.
	maxInterim = 8
	// maxBlank bounds the blank bytes before a status line.
	maxBlank = 64
	// maxChunkLine bounds a line of chunked framing in bytes, extensions included.
	maxChunkLine = 4 << 10
	// maxCodings bounds the number of content codings on one body.
	maxCodings = 2
	// maxEmptyReads bounds consecutive reads that return neither bytes nor an error.
	maxEmptyReads = 16
	// slowSilence: a server that sent something within this time before the timeout is slow, not silent.
	slowSilence = 5 * time.Second
	// lastChunkWait bounds the wait for the empty line after the last chunk.
	lastChunkWait = 2 * time.Second
)

func orDuration(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

func orInt(n, def int) int {
	if n == 0 {
		return def
	}
	return n
}

// resolved returns l with defaults. Negative values of limits that cannot be switched off also become
// defaults.
func (l Limits) resolved() Limits {
	l.Connect = orDuration(l.Connect, defaultConnect)
	l.TLS = orDuration(l.TLS, defaultTLS)
	l.FirstByte = orDuration(l.FirstByte, defaultFirstByte)
	l.Total = orDuration(max(l.Total, 0), defaultTotal)
	l.Grace = orDuration(max(l.Grace, 0), defaultGrace)
	if l.MinRate == 0 {
		l.MinRate = defaultMinRate
	}
	l.HeaderBytes = min(orInt(max(l.HeaderBytes, 0), maxHeaderBytes), maxHeaderBytes)
	l.BodyBytes = orInt(max(l.BodyBytes, 0), defaultBodyBytes)
	l.HeldBytes = min(orInt(max(l.HeldBytes, 0), l.BodyBytes), l.BodyBytes)
	l.DecodedBytes = orInt(max(l.DecodedBytes, 0), defaultDecodedBytes)
	l.Ratio = orInt(l.Ratio, defaultRatio)
	return l
}

// Validate returns all faults of the options, joined.
func (o *Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("fetch: "+format, args...)) }
	l := &o.Limits
	if l.Total < 0 || l.Grace < 0 || l.BodyBytes < 0 || l.HeldBytes < 0 || l.DecodedBytes < 0 || l.HeaderBytes < 0 {
		bad("the limits on total time, grace, header, body, kept and decoded bytes cannot be switched off")
	}
	if l.HeaderBytes > maxHeaderBytes {
		bad("header limit %d exceeds %d bytes", l.HeaderBytes, maxHeaderBytes)
	}
	for _, v := range []string{o.UserAgent, o.From, o.Accept, o.AcceptLanguage, o.AcceptEncoding} {
		if !validValue(v) {
			bad("header value %q holds control characters", v)
		}
	}
	for _, p := range o.AllowNets {
		if !p.IsValid() {
			bad("allowed net %v is not a valid prefix", p)
		}
	}
	for _, p := range o.NAT64 {
		if err := nat64.Check(p); err != nil {
			bad("NAT64 prefix %w", err)
		}
	}
	for _, r := range o.Ports {
		if !r.Valid() {
			bad("ports %v are not a range from 1 to 65535", r)
		}
	}
	if least := o.Limits.MemoryBytes(); o.BufferBytes != 0 && o.BufferBytes < least {
		bad("buffer limit of %d bytes is below the %d bytes that one exchange may need", o.BufferBytes, least)
	}
	if o.IdleConns < 0 {
		bad("idle connection limit %d is negative", o.IdleConns)
	}
	if o.TLS.Verdicts < 0 {
		bad("verdict cache size %d is negative", o.TLS.Verdicts)
	}
	return errors.Join(errs...)
}
