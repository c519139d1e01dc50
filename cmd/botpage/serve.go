package botpage

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"drumbeat/cmd/term"
)

// Limits of the server: it has a few small files, and anybody may send requests.
const (
	pageConnections = 128
	pageHeadBytes   = 16 << 10
	pageTimeout     = 10 * time.Second
	pageIdle        = 30 * time.Second
	pageGrace       = 5 * time.Second // for responses in flight when it ends
	pageMaxAge      = "public, max-age=3600"

	// pageFresh is how long the same files are served, so that the date of the addresses stays that of the day.
	pageFresh = time.Minute
)

// serve serves the files until ctx ends. The server has a goroutine for each connection.
func (c *Command) serve(ctx context.Context, a *term.App) error {
	s := &server{c: c, say: func(text string) { fmt.Fprintln(a.Stderr, "drumbeat: "+text) }}
	files, _, err := s.current(time.Now())
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.Serve)
	if err != nil {
		return term.Usage(fmt.Errorf("--serve: %w", err))
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: pageTimeout, ReadTimeout: pageTimeout,
		WriteTimeout: pageTimeout, IdleTimeout: pageIdle, MaxHeaderBytes: pageHeadBytes}
	var names strings.Builder
	for _, name := range sortedNames(files) {
		if name != indexName {
			names.WriteString(" /" + name)
		}
	}
	fmt.Fprintf(a.Stderr, "drumbeat: serving http://%s/%s until a signal\n", listener.Addr(), names.String())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(netutil.LimitListener(listener, pageConnections)) }()
	select {
	case err = <-ended:
		return fmt.Errorf("--serve: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close() // cuts off clients that are still reading
	}
	<-ended
	return nil
}

// server answers GET and HEAD for the files. It is safe for concurrent use.
type server struct {
	c   *Command
	say func(text string)

	mu          sync.Mutex // guards the fields below
	files       map[string]file
	made, tried time.Time
	fault       string // the last one that was said
}

// current returns the files, made less than pageFresh ago, and when they were made. If they cannot be made again, for
// example because the key file is missing, it returns those that it has.
func (s *server) current(now time.Time) (files map[string]file, made time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files != nil && now.Sub(s.tried) < pageFresh {
		return s.files, s.made, nil
	}
	s.tried = now
	fresh, err := s.c.files(now)
	switch {
	case err == nil:
		s.files, s.made, s.fault = fresh, now, ""
	case s.files == nil:
		return nil, now, err
	case s.fault != err.Error():
		s.fault = err.Error()
		s.say("--serve still serves the files of " + s.made.UTC().Format(time.RFC3339) + ": " + s.fault)
	}
	return s.files, s.made, nil
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	files, made, err := s.current(time.Now())
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = indexName
	}
	f, ok := files[name]
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	switch {
	case err != nil:
		http.Error(w, "the files cannot be made", http.StatusInternalServerError)
	case !ok || !strings.HasPrefix(r.URL.Path, "/"):
		http.Error(w, "not found", http.StatusNotFound)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	default:
		if name == directoryName {
			for _, field := range f.fields() {
				h.Set(field[0], field[1])
			}
		}
		h.Set("Content-Type", f.kind)
		h.Set("Cache-Control", pageMaxAge)
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		http.ServeContent(w, r, "", made, bytes.NewReader(f.data))
	}
}
