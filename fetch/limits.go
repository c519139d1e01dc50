package fetch

import (
	"errors"
	"fmt"
	"time"
)

// Defaults of Limits. The paper gives none; these keep a slot of a slow host below two minutes.
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

// Bounds that nobody needs to set.
const (
	// maxHeaderLines bounds what is parsed of a head; Chrome and nginx stop at 100..1000. Later lines
	// are dropped and MarkRepaired set.
	maxHeaderLines = 256
	// maxInterim bounds 1xx replies before the response.
	maxInterim = 8
	// maxBlank bounds the blank lines before a status line, in bytes.
	maxBlank = 64
	// maxCRs bounds the CRs before an LF that are taken for one line end: what stands before it is looked at again with
	// each read.
	maxCRs = 3
	// maxChunkLine bounds a line of chunked framing with its extensions.
	maxChunkLine = 4 << 10
	// maxCodings bounds the content codings decoded in a row.
	maxCodings = 2
	// maxEmptyReads bounds reads in a row that bring neither a byte nor an error.
	maxEmptyReads = 16
	// slowSilence: who sent something within this time before time ran out is slow, not silent.
	slowSilence = 5 * time.Second
	// lastChunkWait is how long the empty line after the last chunk is waited for.
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

// resolved returns l with the defaults put in. Limits that can't be switched off fall back to their
// defaults when negative.
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
	l.DecodedBytes = orInt(max(l.DecodedBytes, 0), defaultDecodedBytes)
	l.Ratio = orInt(l.Ratio, defaultRatio)
	return l
}

// Validate returns all faults of the options joined.
func (o *Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("fetch: "+format, args...)) }
	l := &o.Limits
	if l.Total < 0 || l.Grace < 0 || l.BodyBytes < 0 || l.DecodedBytes < 0 || l.HeaderBytes < 0 {
		bad("limits of total time, grace, header, body and decoded bytes can't be switched off")
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
			bad("allowed net %v is no prefix", p)
		}
	}
	for _, p := range o.Ports {
		if p == 0 {
			bad("port 0 can't be allowed")
		}
	}
	if least := o.Limits.MemoryBytes(); o.BufferBytes != 0 && o.BufferBytes < least {
		bad("%d bytes for buffers, but one exchange may need %d", o.BufferBytes, least)
	}
	if o.IdleConns < 0 {
		bad("%d idle connections: can't be switched off, but no request need ask for it", o.IdleConns)
	}
	if o.TLS.Verdicts < 0 {
		bad("verdict cache of %d entries", o.TLS.Verdicts)
	}
	return errors.Join(errs...)
}
