package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"drumbeat/internal/ports"
)

// Client runs exchanges. It is safe for concurrent use and owns no goroutines.
//
// An exchange either opens a connection (dial, handshake) and makes a round trip on it, or makes a round
// trip on a connection kept from an earlier exchange.
type Client struct {
	opt      Options
	pool     bufferPool
	budget   *budget
	decoders decoders
	tls      tlsState
	ports    ports.Set
	idle     idlePool
	own      ownNets
	addrs    addrRules
	template atomic.Pointer[template]
}

// New returns a client, or an error that joins all faults of the options.
func New(opt Options) (*Client, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	opt.Limits = opt.Limits.resolved()
	opt.AllowNets, opt.NAT64 = slices.Clone(opt.AllowNets), slices.Clone(opt.NAT64)
	if opt.Accept == "" {
		opt.Accept = "text/html,application/xhtml+xml,*/*;q=0.8"
	}
	c := &Client{opt: opt, decoders: newDecoders(), ports: ports.New(append(ports.Of(80, 443), opt.Ports...)...),
		budget: newBudget(opt.BufferBytes, opt.Limits.MemoryBytes())}
	if err := c.own.init(opt.ownNets()); err != nil {
		return nil, fmt.Errorf("fetch: list the networks of this machine's interfaces: %w", err)
	}
	c.addrs = addrRules{allow: opt.AllowNets, nat64: opt.NAT64, own: c.own.has}
	c.template.Store(c.newTemplate(opt.AcceptEncoding))
	c.idle.most = orInt(opt.IdleConns, defaultIdle)
	if opt.BufferBytes > 0 {
		c.pool.most = int(min(poolBytes, opt.BufferBytes/2))
	}
	if err := c.tls.init(opt.TLS); err != nil {
		return nil, err
	}
	return c, nil
}

// Close closes the idle connections. A connection that a Do still uses is closed when that Do returns.
func (c *Client) Close() error {
	c.idle.close()
	return nil
}

// Do sends req to req.Addr and reads the reply into resp, which it resets first. A non-nil error is an
// *Error; resp then holds no response, but RequestHead, Start, Remote, the durations, the byte counts and
// the TLS verdict are set as far as the exchange got. No goroutine outlives Do. When ctx ends, Do returns at
// once.
func (c *Client) Do(ctx context.Context, req *Request, resp *Response) error {
	resp.Reset()
	resp.buf.pool, resp.buf.lease.b = &c.pool, c.budget
	resp.Start = time.Now()
	if resp.buf.x == nil {
		resp.buf.x = new(exchange)
	}
	x := resp.buf.x
	*x = exchange{c: c, ctx: ctx, req: req, resp: resp, lim: &c.opt.Limits}
	if c.opt.Limiter.Limits() {
		x.throttle.Begin(c.opt.Limiter)
	}
	later := false
	defer func() {
		if x.conn != nil { // Do is panicking
			x.closeConn()
		}
		x.endThrottle()
		if later {
			x.ctx, x.throttle = nil, throttle{}
		} else {
			*x = exchange{} // an idle Response must not retain the context
		}
	}()
	if req.Limits != nil {
		l := req.Limits.resolved()
		x.lim = &l
	}
	e := x.prepare()
	if e == nil {
		e = x.run()
	}
	resp.Total, resp.Waited = time.Since(resp.Start)-x.throttle.slept, x.waited
	if later = e == nil && req.DecodeLater; later {
		return nil
	}
	if e == nil {
		e = x.decode()
	}
	return x.result(e)
}

// result returns the error of an exchange, after which its response is empty.
func (x *exchange) result(e *Error) error {
	if e == nil {
		return nil
	}
	r := x.resp
	e.Host, e.Addr = x.req.Host, x.req.Addr
	r.Status, r.Truncated, r.Flaws = 0, NotTruncated, 0
	r.Raw, r.RawHead, r.RawBody, r.PayloadRaw, r.Body = nil, nil, nil, nil, nil
	r.dropSpool()
	return e
}

// Undecoded reports whether the body waits for Decode.
func (r *Response) Undecoded() bool { return r.buf.x != nil && r.buf.x.c != nil }

// Decode decodes the body if the request's DecodeLater left it undecoded. Otherwise it does nothing. It can
// wait up to 30 s for memory. A non-nil error is an *Error, for lack of memory or because ctx ended; r then
// holds no response. The caller of Decode need not be the caller of Do.
func (r *Response) Decode(ctx context.Context) error {
	if !r.Undecoded() {
		return nil
	}
	x := r.buf.x
	x.ctx, x.waited = ctx, 0
	defer func() { *x = exchange{} }()
	return x.result(x.decode())
}

// exchange is the state of one Do.
type exchange struct {
	c       *Client
	ctx     context.Context
	req     *Request
	resp    *Response
	lim     *Limits
	own     Limits // *lim, once Request.BodyLimit has narrowed it
	port    uint16 // of the URL
	f       framing
	head    int // length of the head in buf.raw
	conn    *conn
	fields  []Field       // of the request in the buffer
	http1   bool          // do not offer HTTP/2
	standIn bool          // the server's certificate is unreadable: see standIn
	keep    time.Duration // how long to keep the connection afterwards; 0: close it
	sockets sockets
	// throttle is used only if Options.Limiter is set.
	throttle throttle
	// waited is the time spent waiting for memory.
	waited time.Duration
}

// prepare checks the request and writes its head into the buffer.
func (x *exchange) prepare() *Error {
	r := x.req
	x.port = r.Port
	if x.port == 0 {
		x.port = defaultPort(r.Scheme)
	}
	port := r.Addr.Port()
	if port == 0 {
		port = x.port
	}
	switch {
	case x.ctx.Err() != nil:
		return &Error{Stage: StagePrepare, Kind: KindCanceled, Err: context.Cause(x.ctx)}
	case !r.valid() || port != x.port:
		return &Error{Stage: StagePrepare, Kind: KindBadRequest}
	case x.c.budget != nil && x.lim.MemoryBytes() > x.c.budget.reserve:
		return &Error{Stage: StagePrepare, Kind: KindBadRequest, Err: errLimits}
	case !x.c.AllowedAddr(r.Addr.Addr()):
		return &Error{Stage: StagePrepare, Kind: KindForbiddenAddress}
	case !x.c.ports.Contains(port):
		return &Error{Stage: StagePrepare, Kind: KindForbiddenPort}
	}
	if x.c.opt.MapPort != nil {
		port = x.c.opt.MapPort(port)
	}
	x.resp.Remote = netip.AddrPortFrom(r.Addr.Addr().Unmap(), port)
	x.compose(r.Fields)
	return nil
}

func defaultPort(scheme string) uint16 {
	if scheme == "https" {
		return 443
	}
	return 80
}

// valid reports whether the request can be sent unchanged.
func (r *Request) valid() bool {
	if r.Scheme != "http" && r.Scheme != "https" || r.Host == "" || !r.Addr.IsValid() {
		return false
	}
	for i := range len(r.Host) {
		if c := r.Host[i]; c <= ' ' || c >= 0x7f || c == '/' || c == '@' {
			return false
		}
	}
	for i := range len(r.PathQuery) {
		if c := r.PathQuery[i]; c <= ' ' || c == 0x7f {
			return false
		}
	}
	if r.PathQuery != "" && r.PathQuery[0] != '/' {
		return false
	}
	return r.Proxy.valid() && validValue(r.UserAgent) && validValue(r.From) && validValue(r.Accept) &&
		validValue(r.AcceptLanguage) && validValue(r.AcceptEncoding) && validValue(r.IfNoneMatch) &&
		validValue(r.IfModifiedSince) && validFields(r.Fields)
}

// validValue reports whether s is a valid header value.
func validValue(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// run makes a round trip on a kept connection if there is one, else on a new one. It makes a second one on a
// new connection if the server had closed the kept one, or says that it has not processed the request.
func (x *exchange) run() *Error {
	if x.reuse() {
		e := x.roundTrip()
		if !x.stale(e) && !x.unprocessed(e, true) {
			x.finish(e)
			return e
		}
		x.forget()
		return x.fresh(false)
	}
	return x.fresh(true)
}

// fresh makes a round trip on a new connection, and another one if the server wants HTTP/1.1, or if again is
// set and it says that it has not processed the request.
func (x *exchange) fresh(again bool) *Error {
	e := x.open()
	if e != nil && e.Kind == KindResources && x.c.idle.shed() {
		e = x.open() // shed freed the descriptors of the idle connections
	}
	if e != nil {
		return e
	}
	e = x.roundTrip()
	if x.unprocessed(e, again) {
		x.forget()
		return x.fresh(false)
	}
	x.finish(e)
	return e
}

// forget closes the connection and clears its traces in the response, before the next attempt.
func (x *exchange) forget() {
	x.closeConn()
	r := x.resp
	r.Reused, r.Flaws, r.FirstByte, r.BytesWritten = false, 0, 0, 0
	r.TLSVerdict, r.TLSVersion, r.CipherSuite, r.Resumed = "", 0, 0, false
	x.compose(x.req.Fields) // HTTP/2 has no Connection line
}

// roundTrip writes the request and reads the reply. It reads even if the write fails, because the server may
// have replied before it read the whole request, for instance with an early 4xx.
func (x *exchange) roundTrip() *Error {
	c := x.conn
	x.withhold()
	if x.req.BeforeWrite != nil {
		x.req.BeforeWrite()
	}
	c.arm(x.lim.FirstByte)
	n, werr := x.send()
	x.resp.BytesWritten = int64(n)
	if werr != nil {
		if e := x.canceled(StageWrite); e != nil {
			return e
		}
		if isTimeout(werr) {
			return &Error{Stage: StageWrite, Kind: KindTimeout, Err: werr}
		}
		x.resp.Flaws |= FlawEarly
	}
	e := x.readHead()
	if e != nil {
		if werr != nil && (e.Kind == KindEmptyReply || e.Kind == KindReset) {
			return x.fault(StageWrite, werr)
		}
		return e
	}
	return x.readBody()
}

// send writes the request.
func (x *exchange) send() (int, error) {
	c, b := x.conn, &x.resp.buf
	switch {
	case c.h2 != nil:
		b.req = withoutClose(b.req)
		x.record()
		return c.h2.Request(b.req)
	case c.tls.conn != nil:
		return c.tls.conn.Write(b.req)
	}
	return c.Write(b.req)
}

// canceled returns an error if the context has ended, else nil.
func (x *exchange) canceled(s Stage) *Error {
	if x.ctx.Err() == nil {
		return nil
	}
	return &Error{Stage: s, Kind: KindCanceled, Err: context.Cause(x.ctx)}
}

// fault converts a network error to an *Error.
func (x *exchange) fault(s Stage, err error) *Error {
	if e := x.canceled(s); e != nil {
		return e
	}
	var fe *Error
	if errors.As(err, &fe) {
		return fe
	}
	return &Error{Stage: s, Kind: kindOf(err), Err: err}
}
