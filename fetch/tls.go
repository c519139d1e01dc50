package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// TLSOptions are the TLS part of Options.
type TLSOptions struct {
	// Require makes a certificate that isn't good an error of KindCertificate. Otherwise the verdict
	// is recorded in Response.TLSVerdict and the page fetched.
	Require bool
	// Old offers TLS 1.0 and 1.1 and the cipher suites of their time as well; otherwise 1.2 is the
	// minimum.
	Old bool
	// Roots are trusted; nil: the system's.
	Roots *x509.CertPool
	// Sessions bounds the session cache in entries (some 3 KiB each with the chain, 30 KiB at most, as those of longer chains
	// and tickets aren't kept); default 2048. Negative switches resumption off.
	Sessions int
	// Verdicts bounds the cache of chain verdicts in entries (some 100 bytes each); default 65536.
	Verdicts int
}

// Verdicts of a certificate, in Response.TLSVerdict.
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
	// verdictLife bounds how long a verdict is believed; a good one no longer than the chain lasts.
	verdictLife = 24 * time.Hour
	// Sessions with more than that aren't kept, lest a farm of sites fill the memory: a handshake may have a chain of 256 KiB and
	// tickets of 64 KiB. Chains of four RSA certificates take 6 KB, and parsed some three times as much.
	sessionChainBytes  = 8 << 10
	sessionTicketBytes = 4 << 10
)

// tlsState is what all handshakes of a client share.
type tlsState struct {
	opt      TLSOptions
	sessions tls.ClientSessionCache
	suites   []uint16 // nil: the library's
	verdicts verdictCache
	judged   atomic.Int64 // chains that were verified, not recalled
}

func (s *tlsState) init(opt TLSOptions) error {
	s.opt = opt
	if opt.Sessions >= 0 {
		s.sessions = tls.NewLRUClientSessionCache(orInt(opt.Sessions, defaultSessions))
	}
	if opt.Old {
		for _, c := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
			s.suites = append(s.suites, c.ID)
		}
	}
	s.verdicts.half = max(orInt(opt.Verdicts, defaultVerdicts)/2, 1)
	return nil
}

// curves leads with X25519 and leaves the hybrid with ML-KEM out: it nearly doubles the cost of a
// handshake and adds 2.3 KB, and a crawler has no secrets to keep for decades. A key and a secret of P-256 cost some 10 % less than
// X25519's 100 us (1 to 2 % of a fetch), but servers that prefer X25519 would ask for it in a round trip of their own.
func curves() []tls.CurveID {
	return []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}
}

// errCertificate carries the verdict out of a handshake that Require ended.
var errCertificate = errors.New("certificate not good")

// handshake lays TLS over the conn. The library's verification is off; ours runs in VerifyConnection,
// also for resumed sessions, through a cache.
func (x *exchange) handshake() *Error {
	begin, slept := time.Now(), x.throttle.slept
	w := x.wire // which the closure below keeps as long as the connection lives; not x, which has the response's buffers
	w.arm(x.lim.TLS)
	name := strings.TrimSuffix(strings.Trim(x.req.Host, "[]"), ".")
	s := &x.c.tls
	cfg := &tls.Config{
		ServerName:         name,
		InsecureSkipVerify: true,
		CurvePreferences:   curves(),
		NextProtos:         []string{"http/1.1"},
		MinVersion:         tls.VersionTLS12,
		VerifyConnection: func(cs tls.ConnectionState) error {
			w.tls.heavy = sessionBytes(&cs) > sessionChainBytes
			w.tls.verdict = s.verdict(cs.PeerCertificates, name, time.Now())
			if s.opt.Require && w.tls.verdict != VerdictOK {
				return errCertificate
			}
			return nil
		},
	}
	if s.sessions != nil {
		cfg.ClientSessionCache = connSessions{s.sessions, &w.tls}
	}
	if s.opt.Old {
		cfg.MinVersion, cfg.CipherSuites = tls.VersionTLS10, s.suites
	}
	h := &heldConn{conn: w, shaking: true}
	conn := tls.Client(h, cfg)
	err := conn.HandshakeContext(context.Background()) // the conn's deadlines and its watcher bound it
	h.shaking = false
	x.resp.TLS, x.resp.TLSVerdict = time.Since(begin)-(x.throttle.slept-slept), w.tls.verdict
	if err != nil {
		_ = h.flush() // an alert; the connection is at its end
		return x.tlsFault(err)
	}
	cs := conn.ConnectionState()
	w.tls.version, w.tls.resumed = cs.Version, cs.DidResume
	x.resp.TLSVersion, x.resp.Resumed = w.tls.version, w.tls.resumed
	w.stream = conn
	return nil
}

// heldConn is the conn below TLS. What is written in a handshake once the server was heard waits until the server is to speak
// again, or until the handshake's end. So its last flight goes out with the request: a packet and a system call less.
type heldConn struct {
	*conn
	shaking, heard bool
	held           []byte
	room           [512]byte // for what is held, and the request
}

// Read implements net.Conn.
func (h *heldConn) Read(p []byte) (int, error) {
	if err := h.flush(); err != nil {
		return 0, err
	}
	h.heard = true
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

// flush writes what is held.
func (h *heldConn) flush() error {
	if len(h.held) == 0 {
		return nil
	}
	_, err := h.conn.Write(h.held)
	h.held = nil
	return err
}

// wireSessions is the session cache as one connection sees it: what would take too much memory isn't kept. The key is the
// host's name; a session of one port that is offered at another is refused by a server that doesn't know it, which costs
// nothing, and its chain is judged again by that name.
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

// sessionBytes is what a session keeps of a handshake, but for its ticket.
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

// verdict judges a chain, or recalls what it said before.
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

// judge verifies a chain as a browser would, without revocation.
func judge(chain []*x509.Certificate, name string, roots *x509.CertPool, now time.Time) string {
	opt := x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now}
	if len(chain) > 1 {
		opt.Intermediates = x509.NewCertPool()
		for _, c := range chain[1:] {
			opt.Intermediates.AddCert(c)
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

// verdictCache is a bounded map in two generations: when the young one is full it becomes the old one,
// and what was in the old one is forgotten. An entry that is used moves to the young one.
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

// add puts into the young generation; mu is held.
func (c *verdictCache) add(key [16]byte, e verdictEntry) {
	if len(c.young) >= c.half {
		c.old, c.young = c.young, nil
	}
	if c.young == nil {
		c.young = make(map[[16]byte]verdictEntry)
	}
	c.young[key] = e
}
