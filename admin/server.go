package admin

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"drumbeat/crawl"
	"drumbeat/crawl/explain"
	"drumbeat/internal/bug"
)

// The bounds of the server.
const (
	maxConns     = 64       // open connections; further ones wait in the kernel
	maxStreams   = 16       // event streams at a time
	maxExplains  = 2        // answers that read the crawl's files at a time
	maxHeader    = 16 << 10 // bytes
	maxBody      = 2 << 20  // bytes: the seeds of one change
	headerTime   = 5 * time.Second
	requestTime  = 30 * time.Second
	answerTime   = 60 * time.Second
	idleTime     = 60 * time.Second
	stopTime     = 2 * time.Second // for requests under way when the server stops
	portsTried   = 20              // ports from that of the address on, then any port
	tokenBytes   = 32
	explainReads = 45 * time.Second // longest wait for one of maxExplains
)

// DefaultAddr is the default address.
const DefaultAddr = "127.0.0.1:7878"

// The files of a crawl's first directory: where the server listens, and the token for changes.
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
	// Dirs and Out are the directories of the crawl. The first one gets AddressName and TokenName.
	Dirs, Out []string
	// Version, Agent, Contact and Host identify the crawler and the machine.
	Version, Agent, Contact, Host string
	// Log holds the last lines of the log; nil for none.
	Log *Tail
	// Page is the dashboard, at /. It needs no token: it asks for one. nil for none.
	Page http.Handler
	// Handlers are further handlers by pattern of http.ServeMux, such as "GET /metrics". They may be read
	// like the operations. Those whose pattern begins with a path of Secret need the token.
	Handlers map[string]http.Handler
	Secret   []string
}

// Server is the admin server of a crawl.
type Server struct {
	opt       Options
	listener  net.Listener
	loopback  bool
	name      string // host name of Options.Addr, if it has one
	url       string
	token     atomic.Pointer[string] // nil until the crawl runs
	tokenName string
	started   time.Time
	http      *http.Server
	streams   chan struct{}
	explains  chan *explain.Explainer // idle ones

	pldLists [3]pldList // by star.Order
}

// Listen opens the port.
func Listen(opt Options) (*Server, error) {
	s := &Server{opt: opt, started: time.Now(), streams: make(chan struct{}, maxStreams), explains: make(chan *explain.Explainer, maxExplains)}
	if err := s.listen(); err != nil {
		return nil, err
	}
	s.tokenName = filepath.Join(opt.Dirs[0], TokenName)
	var err error
	for range maxExplains {
		x, bad := explain.NewExplainer(explain.Options{Dirs: opt.Dirs, Out: separate(opt.Dirs, opt.Out)})
		err = errors.Join(err, bad)
		s.explains <- x
	}
	if err != nil {
		return nil, errors.Join(err, s.listener.Close())
	}
	s.http = &http.Server{Handler: s.routes(), ReadHeaderTimeout: headerTime, ReadTimeout: requestTime,
		WriteTimeout: answerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader}
	return s, nil
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
		return fmt.Errorf("admin: %s is not a loopback address: the token would travel unencrypted; give --admin-cert and --admin-key, or --admin-plain",
			s.opt.Addr)
	}
	for try := range portsTried + 1 {
		at := int(port) + try
		if try == portsTried || at > 65535 {
			at = 0
		}
		if s.listener, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(at))); err == nil || !s.loopback {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("admin: listen: %w", err)
	}
	scheme := "http"
	if s.opt.CertFile != "" {
		scheme = "https"
		cert, err := tls.LoadX509KeyPair(s.opt.CertFile, s.opt.KeyFile)
		if err != nil {
			return errors.Join(fmt.Errorf("admin: certificate: %w", err), s.listener.Close())
		}
		s.listener = tls.NewListener(netutil.LimitListener(s.listener, maxConns), &tls.Config{
			Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	} else {
		s.listener = netutil.LimitListener(s.listener, maxConns)
	}
	if host == "" {
		host = "localhost"
	}
	_, real, _ := net.SplitHostPort(s.listener.Addr().String())
	s.url = scheme + "://" + net.JoinHostPort(host, real)
	return nil
}

// makeToken reads the token of the crawl, or makes one.
func (s *Server) makeToken() error {
	data, err := os.ReadFile(s.tokenName)
	switch {
	case err == nil && len(strings.TrimSpace(string(data))) >= 16:
		token := strings.TrimSpace(string(data))
		s.token.Store(&token)
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("admin: token: %w", err)
	}
	var secret [tokenBytes]byte
	_, _ = rand.Read(secret[:]) // never fails
	token := hex.EncodeToString(secret[:])
	if err := writeFile(s.tokenName, []byte(token+"\n"), 0o600); err != nil {
		return fmt.Errorf("admin: token: %w", err)
	}
	s.token.Store(&token)
	return nil
}

// Address is the content of the file admin.json.
type Address struct {
	URL     string    `json:"url"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
}

func (s *Server) writeAddress() error {
	data, err := json.Marshal(Address{URL: s.url, PID: os.Getpid(), Started: s.started.UTC()})
	if err == nil {
		err = writeFile(filepath.Join(s.opt.Dirs[0], AddressName), append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("admin: write the address: %w", err)
	}
	return nil
}

// writeFile replaces a file.
func writeFile(name string, data []byte, mode fs.FileMode) error {
	temp := name + ".tmp"
	if err := os.WriteFile(temp, data, mode); err != nil {
		return err
	}
	if err := os.Chmod(temp, mode); err != nil {
		return err
	}
	return os.Rename(temp, name)
}

// URL returns the address of the server.
func (s *Server) URL() string { return s.url }

// Serve answers requests until ctx ends. When the crawl runs, it writes the address and the token to the
// first directory. At the end it waits a moment for requests under way, and removes AddressName.
func (s *Server) Serve(ctx context.Context) error {
	s.http.BaseContext = func(net.Listener) context.Context { return ctx }
	ended := make(chan error, 1)
	go func() {
		defer bug.Fatal()
		ended <- s.http.Serve(s.listener)
	}()
	var failed error
	select {
	case err := <-ended:
		return fmt.Errorf("admin: %w", err)
	case <-s.opt.Control.Started():
		failed = errors.Join(s.makeToken(), s.writeAddress())
		if failed == nil {
			select {
			case err := <-ended:
				return fmt.Errorf("admin: %w", err)
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
	<-ended
	if err := os.Remove(filepath.Join(s.opt.Dirs[0], AddressName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		failed = errors.Join(failed, fmt.Errorf("admin: %w", err))
	}
	return failed
}

// routes returns the handler of all operations.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for i := range operations {
		op := &operations[i]
		mux.Handle(op.Method+" "+op.Path, s.guarded(op.Change, s.operation(op)))
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
	return s.contain(withProblems(mux))
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
			writeProblem(w, problem(http.StatusNotFound, "nothing is at this path: /openapi.json has the list"))
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		writeProblem(w, problem(http.StatusMethodNotAllowed, "this path takes "+strings.Join(allowed, ", ")))
	})
}

// pagePattern is the pattern of Options.Page.
const pagePattern = "GET /"

// contain turns a panic of a handler into an answer and a line in the log: the crawl goes on.
func (s *Server) contain(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if v := recover(); v != nil {
				if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(v)
				}
				stack := make([]byte, 8<<10)
				stack = stack[:runtime.Stack(stack, false)]
				s.opt.Log.Add(time.Now(), "ERROR", fmt.Sprintf("a bug in this program, please report it: the admin server panicked: %v\n%s", v, stack))
				writeProblem(w, problem(http.StatusInternalServerError, "a bug in this program: see the log"))
			}
		}()
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
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

// healthz answers 200 while the process works.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }

// readyz answers 200 while the crawl runs.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if _, err := s.opt.Control.CrawlID(); err != nil {
		writeProblem(w, err)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}
