package fetch

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// TLSOptions are the TLS options of a client.
type TLSOptions struct {
	// Require rejects a certificate that is not good with KindCertificate, or with KindTLS if it cannot be
	// parsed. Otherwise the verdict is only recorded in Response.TLSVerdict, unless Request.Verified is set.
	Require bool
	// Old also offers TLS 1.0 and 1.1 and the cipher suites of their time (oldSuites), except for requests with
	// Verified. Otherwise the minimum is 1.2.
	Old bool
	// Roots are the trusted roots; nil: the system's.
	Roots *x509.CertPool
	// Sessions bounds the session cache in entries; default 2048. An entry takes about 3 KiB with its chain,
	// at most 30 KiB, because sessions with longer chains or tickets are not cached. A negative value
	// disables resumption.
	Sessions int
	// Verdicts bounds the cache of verdicts in entries of about 100 bytes; default 65536.
	Verdicts int
}

// Values of Response.TLSVerdict.
const (
	VerdictOK          = "ok"
	VerdictExpired     = "expired"
	VerdictNotYetValid = "not yet valid"
	VerdictName        = "name mismatch"
	VerdictSelfSigned  = "self-signed"
	VerdictUnknown     = "unknown authority"
	VerdictInvalid     = "invalid"
)

const (
	defaultSessions = 2048
	defaultVerdicts = 64 << 10
	// verdictLife bounds how long a verdict is cached. VerdictOK expires with the chain if that is earlier.
	verdictLife = 24 * time.Hour
	// Sessions with larger chains or tickets are not cached, so a farm of sites cannot fill the memory: a
	// handshake may carry a chain of 256 KiB and tickets of 64 KiB. A chain of four RSA certificates takes 6
	// KB, and about three times as much when parsed.
	sessionChainBytes  = 8 << 10
	sessionTicketBytes = 4 << 10
)

// tlsState is shared by all handshakes of a client.
type tlsState struct {
	opt      TLSOptions
	sessions tls.ClientSessionCache
	verdicts verdictCache
	judged   atomic.Int64 // number of chains verified, not found in the cache
}

func (s *tlsState) init(opt TLSOptions) error {
	s.opt = opt
	if opt.Sessions >= 0 {
		s.sessions = tls.NewLRUClientSessionCache(orInt(opt.Sessions, defaultSessions))
	}
	s.verdicts.half = max(orInt(opt.Verdicts, defaultVerdicts)/2, 1)
	return nil
}

// errCertificate aborts a handshake whose certificate Require or Request.Verified rejects.
var errCertificate = errors.New("bad certificate")

// handshake starts TLS on the conn. It disables the library's verification and verifies in VerifyConnection,
// which also runs for resumed sessions, through a cache of verdicts.
func (x *exchange) handshake() *Error {
	begin, slept := time.Now(), x.throttle.slept
	// The closure below lives as long as the connection. It captures c but not x, which holds the response's
	// buffers.
	c := x.conn
	c.arm(x.lim.TLS)
	name := strings.TrimSuffix(strings.Trim(x.req.Host, "[]"), ".")
	s := &x.c.tls
	require := s.opt.Require || x.req.Verified
	cfg := &tls.Config{
		ServerName:         name,
		InsecureSkipVerify: true,
		CurvePreferences:   curves(),
		NextProtos:         x.protocols(),
		MinVersion:         minVersion,
		MaxVersion:         maxVersion,
		CipherSuites:       suites(),
		VerifyConnection: func(cs tls.ConnectionState) error {
			c.tls.heavy = sessionBytes(&cs) > sessionChainBytes
			c.tls.verdict = s.verdict(cs.PeerCertificates, name, time.Now())
			if require && c.tls.verdict != VerdictOK {
				return errCertificate
			}
			return nil
		},
	}
	if s.sessions != nil {
		cfg.ClientSessionCache = connSessions{s.sessions, &c.tls}
	}
	if s.opt.Old && !x.req.Verified {
		cfg.MinVersion, cfg.CipherSuites = oldVersion, oldSuites()
	}
	h := &heldConn{conn: c, shaking: true}
	var below net.Conn = h
	var stand *standIn
	if x.standIn {
		stand = newStandIn(h, cfg)
		below = stand
		cfg.VerifyConnection = func(tls.ConnectionState) error {
			c.tls.verdict = VerdictInvalid
			return nil
		}
	}
	conn := tls.Client(below, cfg)
	err := conn.HandshakeContext(context.Background()) // bounded by the conn's deadlines and watcher
	h.shaking = false
	x.resp.TLS, x.resp.TLSVerdict = time.Since(begin)-(x.throttle.slept-slept), c.tls.verdict
	if err != nil {
		_ = h.flush() // sends the alert; the connection is over
		return x.tlsFault(err)
	}
	cs := conn.ConnectionState()
	c.tls.version, c.tls.cipher, c.tls.resumed = cs.Version, cs.CipherSuite, cs.DidResume
	if stand != nil {
		c.tls.cipher = stand.negotiated
	}
	c.tls.old = cs.Version < minVersion || cs.Version == tls.VersionTLS12 && !slices.Contains(suites(), cs.CipherSuite)
	x.resp.TLSVersion, x.resp.CipherSuite, x.resp.Resumed = c.tls.version, c.tls.cipher, c.tls.resumed
	c.tls.conn, c.stream = conn, conn
	if cs.NegotiatedProtocol == ProtoHTTP2 {
		x.startHTTP2(h)
	}
	return nil
}

// heldConn is the conn below TLS. During a handshake, once the server has answered, it holds back writes
// until the next read or the end of the handshake. The last handshake message thus goes out with the
// request, which saves a packet and a system call.
type heldConn struct {
	*conn
	shaking, heard bool
	held           []byte
	waits          func() error // nil, or called before a Read that may wait
	room           [512]byte    // for the held bytes and the request
}

// Read implements net.Conn.
func (h *heldConn) Read(p []byte) (int, error) {
	if err := h.flush(); err != nil {
		return 0, err
	}
	h.heard = true
	if h.waits != nil && !h.conn.probing {
		_ = h.waits() // it fails again before the connection is kept; the server may have replied
	}
	return h.conn.Read(p)
}

// Write implements net.Conn.
func (h *heldConn) Write(p []byte) (int, error) {
	switch {
	case h.shaking && h.heard:
		if h.held == nil {
			h.held = h.room[:0]
		}
		h.held = append(h.held, p...)
		return len(p), nil
	case len(h.held) == 0:
		return h.conn.Write(p)
	}
	before := len(h.held)
	n, err := h.conn.Write(append(h.held, p...))
	h.held = nil
	return max(0, n-before), err
}

// flush writes the held bytes.
func (h *heldConn) flush() error {
	if len(h.held) == 0 {
		return nil
	}
	_, err := h.conn.Write(h.held)
	h.held = nil
	return err
}

// connSessions is the session cache for one connection. It does not cache sessions that take too much
// memory. The key is the host name. If a session of one port is offered on another, a server that does not
// know it declines it at no cost, and the chain is verified again.
type connSessions struct {
	tls.ClientSessionCache
	facts *tlsFacts
}

// Put implements tls.ClientSessionCache.
func (c connSessions) Put(key string, state *tls.ClientSessionState) {
	if state != nil {
		ticket, _, err := state.ResumptionState()
		if err != nil || c.facts.heavy || len(ticket) > sessionTicketBytes {
			return
		}
	}
	c.ClientSessionCache.Put(key, state)
}

// sessionBytes returns the size of what a session keeps of a handshake, without its ticket.
func sessionBytes(cs *tls.ConnectionState) int {
	n := len(cs.OCSPResponse)
	for _, b := range cs.SignedCertificateTimestamps {
		n += len(b)
	}
	for _, c := range cs.PeerCertificates {
		n += len(c.Raw)
	}
	return n
}

func (x *exchange) tlsFault(err error) *Error {
	e := x.fault(StageTLS, err)
	switch {
	case e.Kind == KindOther, e.Kind == KindEmptyReply:
		e.Kind = KindTLS
	}
	if errors.Is(err, errCertificate) {
		e.Kind, e.Err = KindCertificate, errors.New(x.resp.TLSVerdict)
	}
	return e
}

// verdict verifies a chain or returns its cached verdict.
func (s *tlsState) verdict(chain []*x509.Certificate, name string, now time.Time) string {
	if len(chain) == 0 {
		return VerdictInvalid
	}
	h := sha256.New()
	h.Write([]byte(name))
	for _, c := range chain {
		sum := sha256.Sum256(c.Raw)
		h.Write(sum[:])
	}
	var sum [sha256.Size]byte
	key := [16]byte(h.Sum(sum[:0]))
	if v, ok := s.verdicts.get(key, now); ok {
		return v
	}
	s.judged.Add(1)
	v := judge(chain, name, s.opt.Roots, now)
	until := now.Add(verdictLife)
	for _, c := range chain {
		if v == VerdictOK && c.NotAfter.Before(until) {
			until = c.NotAfter
		}
		if v == VerdictNotYetValid && c.NotBefore.After(now) && c.NotBefore.Before(until) {
			until = c.NotBefore
		}
	}
	s.verdicts.put(key, v, until)
	return v
}

// leastRSABits is the size of RSA keys below which a certificate is not good. go.mod lets the library take
// smaller keys.
const leastRSABits = 1024

// judge verifies a chain as a browser does, but without revocation.
func judge(chain []*x509.Certificate, name string, roots *x509.CertPool, now time.Time) string {
	opt := x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now}
	if len(chain) > 1 {
		opt.Intermediates = x509.NewCertPool()
		for _, c := range chain[1:] {
			opt.Intermediates.AddCert(c)
		}
	}
	for _, c := range chain {
		if key, ok := c.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() < leastRSABits {
			return VerdictInvalid
		}
	}
	_, err := chain[0].Verify(opt)
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var unknown x509.UnknownAuthorityError
	switch {
	case err == nil:
		return VerdictOK
	case errors.As(err, &host):
		return VerdictName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		if invalid.Cert != nil && now.Before(invalid.Cert.NotBefore) {
			return VerdictNotYetValid
		}
		return VerdictExpired
	case errors.As(err, &unknown):
		if bytes.Equal(chain[0].RawIssuer, chain[0].RawSubject) {
			return VerdictSelfSigned
		}
		return VerdictUnknown
	}
	return VerdictInvalid
}

// verdictCache is a bounded map in two generations. When the young one is full it becomes the old one, and
// the previous old one is dropped. Lookups move entries from the old one to the young one.
type verdictCache struct {
	half       int // entries per generation
	mu         sync.Mutex
	young, old map[[16]byte]verdictEntry
}

type verdictEntry struct {
	verdict string
	until   int64 // unix seconds
}

func (c *verdictCache) get(key [16]byte, now time.Time) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.young[key]
	if !ok {
		if e, ok = c.old[key]; ok {
			c.add(key, e)
		}
	}
	return e.verdict, ok && now.Unix() < e.until
}

func (c *verdictCache) put(key [16]byte, v string, until time.Time) {
	c.mu.Lock()
	c.add(key, verdictEntry{v, until.Unix()})
	c.mu.Unlock()
}

// add inserts into the young generation. mu must be held.
func (c *verdictCache) add(key [16]byte, e verdictEntry) {
	if len(c.young) >= c.half {
		c.old, c.young = c.young, nil
	}
	if c.young == nil {
		c.young = make(map[[16]byte]verdictEntry)
	}
	c.young[key] = e
}
