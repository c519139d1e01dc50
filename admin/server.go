package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"drumbeat/crawl"
	"drumbeat/internal/bug"
	"drumbeat/state/condition"
	"drumbeat/state/explain"
)

// The bounds of the server.
const (
	maxConns     = 64       // open TCP connections
	maxPeer      = 32       // of them, of one address: a browser has 7, and several may share a tunnel
	maxLocal     = 32       // open connections of the Unix socket
	maxStreams   = 16       // event streams by TCP at a time, and as many by the socket
	maxExplains  = 2        // answers by TCP at a time that read the crawl's files; the socket has one of its own
	maxHeader    = 16 << 10 // bytes
	maxBody      = 2 << 20  // bytes: the seeds of one change
	headerTime   = 5 * time.Second
	requestTime  = 30 * time.Second
	answerTime   = 60 * time.Second
	idleTime     = 5 * time.Second // between two requests; a closed connection costs its peer only another handshake
	stopTime     = 2 * time.Second // for requests under way when the server stops
	portsTried   = 20              // ports from that of the address on, then any port
	tokenBytes   = 32
	explainReads = 45 * time.Second // longest wait for one of maxExplains
)

// DefaultAddr is the default address.
const DefaultAddr = "127.0.0.1:7878"

// The files of a crawl's first directory: where the server listens, and the token for changes by TCP.
const (
	AddressName = "admin.json"
	TokenName   = "admin-token"
)

// Options configure a Server.
type Options struct {
	Control *crawl.Control
	// Addr is the address to listen on, as HOST:PORT. If the port of a loopback address is taken, one of the
	// next ports is used, or any.
	Addr string
	// CertFile and KeyFile turn on TLS. Without them an address other than loopback needs Plain.
	CertFile, KeyFile string
	Plain             bool
	// TokenFile has the token; see ReadToken. "": each run makes a new one.
	TokenFile string
	// Dirs and Out are the directories of the crawl. The first one gets AddressName, TokenName and SocketName.
	Dirs, Out []string
	// Version, Agent, Contact and Host identify the crawler and the machine.
	Version, Agent, Contact, Host string
	// Log holds the last lines of the log; nil for none.
	Log *Tail
	// Warn tells the operator of something, with pairs of names and values as in slog; nil for nobody.
	Warn func(text string, pairs ...any)
	// Page is the dashboard, at /. It needs no token: it asks for one. nil for none.
	Page http.Handler
	// Handlers are further handlers by pattern of http.ServeMux, such as "GET /metrics". They may be read
	// like the operations. Those whose pattern begins with a path of Secret need the token.
	Handlers map[string]http.Handler
	Secret   []string
}

// Server is the admin server of a crawl.
type Server struct {
	opt      Options
	listener net.Listener
	loopback bool
	moved    bool   // the port of Options.Addr was taken
	name     string // host name of Options.Addr, if it has one
	url      string
	token    atomic.Pointer[string] // nil until the crawl runs
	given    string                 // the token of Options.TokenFile
	started  time.Time
	http     *http.Server
	byTCP    lane
	byUnix   lane

	pldLists [3]pldList // by star.Order
}

// lane has what requests that come one way share. Those by TCP take nothing from those by the Unix socket.
type lane struct {
	streams  chan struct{}           // taken by event streams
	explains chan *explain.Explainer // idle ones
}

// lane returns the lane of a request.
func (s *Server) lane(r *http.Request) *lane {
	if bySocket(r) {
		return &s.byUnix
	}
	return &s.byTCP
}

// newLane returns a lane with a number of explainers.
func newLane(opt *Options, explains int) (lane, error) {
	l := lane{streams: make(chan struct{}, maxStreams), explains: make(chan *explain.Explainer, explains)}
	for range explains {
		x, err := explain.NewExplainer(explain.Options{Dirs: opt.Dirs, Out: separate(opt.Dirs, opt.Out)})
		if err != nil {
			return l, err
		}
		l.explains <- x
	}
	return l, nil
}

// Listen opens the port. The Unix socket is opened when the crawl runs, under the lock of its directory.
func Listen(opt Options) (*Server, error) {
	s := &Server{opt: opt, started: time.Now()}
	if s.opt.Warn == nil {
		s.opt.Warn = func(string, ...any) {}
	}
	if opt.TokenFile != "" {
		var err error
		if s.given, err = ReadToken(opt.TokenFile); err != nil {
			return nil, fmt.Errorf("admin: token: %w", err)
		}
	}
	if err := s.listen(); err != nil {
		return nil, err
	}
	var err1, err2 error
	s.byTCP, err1 = newLane(&opt, maxExplains)
	s.byUnix, err2 = newLane(&opt, 1)
	if err := errors.Join(err1, err2); err != nil {
		return nil, errors.Join(err, s.listener.Close())
	}
	s.http = newHTTP(s.routes())
	return s, nil
}

// newHTTP returns a server for the connections of gates.
func newHTTP(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: headerTime, ReadTimeout: requestTime, WriteTimeout: answerTime,
		IdleTimeout: idleTime, MaxHeaderBytes: maxHeader, ConnContext: connContext, ConnState: connState}
}

// separate returns the output directories, nil if they are those of the crawl.
func separate(dirs, out []string) []string {
	if strings.Join(dirs, "\x00") == strings.Join(out, "\x00") {
		return nil
	}
	return out
}

func (s *Server) listen() error {
	host, portText, err := net.SplitHostPort(s.opt.Addr)
	if err != nil {
		return fmt.Errorf("admin: address %q: want HOST:PORT: %w", s.opt.Addr, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return fmt.Errorf("admin: address %q: the port is not a number up to 65535", s.opt.Addr)
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		s.name = host
	}
	s.loopback = strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
	if !s.loopback && s.opt.CertFile == "" && !s.opt.Plain {
		return fmt.Errorf("admin: %s is not a loopback address: the token would travel unencrypted; give "+
			"--admin-cert and --admin-key, or --admin-plain", s.opt.Addr)
	}
	for try := range portsTried + 1 {
		at := int(port) + try
		if try == portsTried || at > 65535 {
			at = 0
		}
		if s.listener, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(at))); err == nil || !s.loopback {
			s.moved = err == nil && at != int(port)
			break
		}
	}
	if err != nil {
		return fmt.Errorf("admin: listen: %w", err)
	}
	s.listener = newGate(s.listener, maxConns, maxPeer, nil)
	scheme := "http"
	if s.opt.CertFile != "" {
		scheme = "https"
		cert, err := tls.LoadX509KeyPair(s.opt.CertFile, s.opt.KeyFile)
		if err != nil {
			return errors.Join(fmt.Errorf("admin: certificate: %w", err), s.listener.Close())
		}
		s.listener = tls.NewListener(s.listener, &tls.Config{
			Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	}
	if host == "" {
		host = "localhost"
	}
	_, real, _ := net.SplitHostPort(s.listener.Addr().String())
	s.url = scheme + "://" + net.JoinHostPort(host, real)
	return nil
}

// URL returns the address of the server.
func (s *Server) URL() string { return s.url }

// Moved reports whether the port of Options.Addr was taken, so that URL has another one.
func (s *Server) Moved() bool { return s.moved }

// Serve answers requests until ctx ends. When the crawl runs, it opens the Unix socket and writes the address and the
// token to the first directory. At the end it waits a moment for requests under way, and removes socket and address.
func (s *Server) Serve(ctx context.Context) error {
	s.http.BaseContext = func(net.Listener) context.Context { return ctx }
	ended := make(chan error, 2)
	serving := 0
	serve := func(l net.Listener) {
		serving++
		go func() {
			defer bug.Fatal()
			ended <- s.http.Serve(l)
		}()
	}
	serve(s.listener)
	var failed error
	var socket [2]uint64
	select {
	case err := <-ended:
		return fmt.Errorf("admin: %w", err)
	case <-s.opt.Control.Started():
		if failed = s.makeToken(); failed == nil {
			local, name := s.openSocket()
			if local != nil {
				socket = socketID(s.opt.Dirs[0])
				serve(newGate(local, maxLocal, maxLocal, s.stranger))
			}
			failed = s.writeAddress(name)
		}
		if failed == nil {
			select {
			case err := <-ended:
				failed = fmt.Errorf("admin: %w", err)
				serving--
			case <-ctx.Done():
			}
		}
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if err := s.http.Shutdown(stop); err != nil {
		_ = s.http.Close() // what is left is cut off
	}
	for range serving {
		<-ended
	}
	return errors.Join(failed, s.removeFiles(socket))
}

// openSocket opens the Unix socket, in the directory or, if that cannot hold one, outside all of them.
func (s *Server) openSocket() (l net.Listener, name string) {
	dir := s.opt.Dirs[0]
	local, err := listenSocket(dir)
	if err == nil {
		return local, SocketName
	}
	abstract, bad := listenAbstract()
	if bad != nil {
		s.opt.Warn("there is no Unix socket: drumbeat ctl needs --url, and --token-file for changes", "directory", dir,
			"cause", errors.Join(err, bad))
		return nil, ""
	}
	s.opt.Warn("the directory cannot hold a Unix socket: drumbeat ctl uses an abstract one, which containers and "+
		"network namespaces do not share", "directory", dir, "cause", err)
	return abstract, abstract.Addr().String()
}

// stranger reports whether a connection of the socket comes from another user than this one and root.
func (s *Server) stranger(c net.Conn) bool {
	uid, err := peerUID(c.(*net.UnixConn))
	return err != nil || !mayAsk(uid)
}

// routes returns the handler of all operations.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for i := range operations {
		op := &operations[i]
		mux.Handle(op.Method+" "+op.Path, s.guarded(op.Changes(), s.operation(op)))
	}
	mux.Handle("GET /api/v1/events", s.guarded(false, http.HandlerFunc(s.events)))
	mux.Handle("GET /openapi.json", s.guarded(false, http.HandlerFunc(s.openAPI)))
	mux.Handle("GET /healthz", http.HandlerFunc(s.healthz))
	mux.Handle("GET /readyz", http.HandlerFunc(s.readyz))
	if s.opt.Page != nil {
		mux.Handle(pagePattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := s.guardSite(r); err != nil {
				writeProblem(w, err)
				return
			}
			s.opt.Page.ServeHTTP(w, r)
		}))
	}
	for pattern, h := range s.opt.Handlers {
		secret := false
		for _, path := range s.opt.Secret {
			_, at, _ := strings.Cut(pattern, " ")
			secret = secret || strings.HasPrefix(at, path)
		}
		mux.Handle(pattern, s.guarded(secret, h))
	}
	return s.contain(sameSite(withProblems(mux)))
}

// withProblems answers requests that no handler takes.
func withProblems(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		taken := func(r *http.Request) bool {
			_, pattern := mux.Handler(r)
			return pattern != "" && !(pattern == pagePattern && strings.HasPrefix(r.URL.Path, "/api/"))
		}
		if taken(r) {
			mux.ServeHTTP(w, r)
			return
		}
		var allowed []string
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			other := r.Clone(r.Context())
			other.Method = method
			if taken(other) {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 {
			writeProblem(w, problem(http.StatusNotFound, "no such path: /openapi.json lists all paths"))
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		writeProblem(w, problem(http.StatusMethodNotAllowed, "this path accepts only "+strings.Join(allowed, ", ")))
	})
}

// pagePattern is the pattern of Options.Page.
const pagePattern = "GET /"

// contain turns a panic of a handler into an answer and a line in the log: the crawl continues.
func (s *Server) contain(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if v := recover(); v != nil {
				if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(v)
				}
				stack := make([]byte, 8<<10)
				stack = stack[:runtime.Stack(stack, false)]
				s.opt.Log.Add(time.Now(), "ERROR",
					fmt.Sprintf("bug, please report it: the admin server panicked: %v\n%s", v, stack))
				writeProblem(w, problem(http.StatusInternalServerError, "internal error: see the log"))
			}
		}()
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("X-Frame-Options", "DENY")
		// The dashboard has its own.
		w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		h.ServeHTTP(w, r)
	})
}

// guarded checks a request before it passes it on.
func (s *Server) guarded(secret bool, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.guard(r, secret); err != nil {
			writeProblem(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// operation returns the handler of an operation.
func (s *Server) operation(op *Operation) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		result, err := op.handle(s, r)
		if err != nil {
			writeProblem(w, err)
			return
		}
		writeJSON(w, result)
	})
}

// healthz answers 200 while the process works, with the condition of the crawl. A restart fixes no site and no disk, so
// the condition does not change the status.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	status, err := s.status()
	if err != nil {
		_, _ = w.Write([]byte("ok\n")) // no crawl runs yet
		return
	}
	_, _ = w.Write([]byte(status.Health.line() + status.Health.others()))
	if snap, err := s.opt.Control.Snapshot(); err == nil && snap.Cluster.Nodes > 0 {
		_, _ = w.Write([]byte(clusterLine(snap)))
	}
}

// readyz answers 200 while the crawl runs and no fault is bad, else 503, with the condition.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if _, err := s.opt.Control.CrawlID(); err != nil {
		writeProblem(w, err)
		return
	}
	status, err := s.status()
	if err != nil {
		writeProblem(w, err)
		return
	}
	if status.Health.Level == string(condition.Bad) {
		writeProblem(w, problem(http.StatusServiceUnavailable, status.Health.Text))
		return
	}
	_, _ = w.Write([]byte(status.Health.line()))
}

// others returns the problems below the worst one, a line each.
func (h *Health) others() (text string) {
	for _, p := range h.Problems[min(1, len(h.Problems)):] {
		text += p.Level + ": " + p.Text + "\n"
	}
	return text
}

// line returns the condition in a line of text.
func (h *Health) line() string { return h.State + ": " + h.Text + "\n" }
