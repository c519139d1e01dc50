// Package botpage is the command bot-page: it prints or serves a page for site owners, which the operator of
// a crawl publishes. The page says who crawls and why, how to stop the crawler or slow it down, what it
// obeys, and which addresses it uses.
//
// Command is its flags: those of a crawl that the page describes (flags.Who, Delays, Health), so that equal
// values give the page of that crawl, and its own: the purpose, the addresses, and the form. page.go has the
// text and its forms: HTML in one file without external resources, plain text, and the addresses as JSON in
// the form that search engines publish. html/template escapes all values of flags.
//
// --out replaces a file atomically. --serve answers GET and HEAD for the page, /ip-ranges.json and a
// /robots.txt that allows everything. Connections, headers and times are bounded, since anybody may send
// requests; after a signal, responses in flight have five seconds.
//
// Exit codes: 0, also after a signal; term.ExitUsage (2) for a bad flag or an address that cannot be used.
//
// The server has a goroutine per connection, at most 128; they share the page, which does not change.
package botpage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// Command is the table of bot-page's flags: some of a crawl's, and the page's own.
type Command struct {
	flags.Who
	Purpose   string            `group:"what" common:"" placeholder:"TEXT"`
	Addresses []flags.NetPrefix `group:"what" common:"" placeholder:"CIDR"`
	Out       string            `group:"what" common:"" placeholder:"FILE"`
	JSON      bool              `group:"what" common:"" name:"json" xor:"form"`
	Text      bool              `group:"what" common:"" xor:"form"`
	Serve     string            `group:"what" common:"" placeholder:"ADDR" xor:"form"`
	flags.Delays
	flags.Health
	flags.RobotsMeta
	flags.Sources
}

// Run prints or serves the page.
func (c *Command) Run(a *term.App) error {
	if err := c.check(); err != nil {
		return term.Usage(err)
	}
	page := c.page(time.Now())
	if c.Serve != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return serveBotPage(ctx, a, c.Serve, page)
	}
	var data []byte
	var err error
	switch {
	case c.JSON:
		data, err = page.ranges()
	case c.Text:
		data = page.text()
	default:
		data, err = page.html()
	}
	if err != nil {
		return err
	}
	if c.Out == "" {
		_, err = a.Stdout.Write(data)
		return err
	}
	return publish(c.Out, data)
}

func (c *Command) check() error {
	if err := c.Who.Check(); err != nil {
		return err
	}
	if c.Purpose = strings.TrimSpace(c.Purpose); c.Purpose == "" {
		return errors.New("--purpose is missing: describe the purpose of the crawl in a sentence")
	}
	if c.JSON && len(c.Addresses) == 0 {
		return errors.New("--json prints the --addresses, but none are given")
	}
	if c.Serve != "" && c.Out != "" {
		return errors.New("give either --serve or --out, not both")
	}
	c.Who.Complete()
	if c.HostDelay.Usual == nil {
		c.HostDelay.Usual = new(flags.DefaultHostDelay)
	}
	return c.Delays.Complete()
}

// publish replaces a file atomically, so its readers never see a part of it.
func publish(name string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".tmp*")
	if err != nil {
		return fmt.Errorf("--out %s: %w", name, err)
	}
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(0o644) // for a web server of another user
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("--out %s: %w", name, errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}

// Limits of the server: it has three small files, and anybody may send requests.
const (
	pageConnections = 128
	pageHeadBytes   = 16 << 10
	pageTimeout     = 10 * time.Second
	pageIdle        = 30 * time.Second
	pageGrace       = 5 * time.Second // for responses in flight when it ends
	pageMaxAge      = "public, max-age=3600"
)

// serveBotPage serves the page until ctx ends.
func serveBotPage(ctx context.Context, a *term.App, addr string, page *botPage) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return term.Usage(fmt.Errorf("--serve: %w", err))
	}
	handler, err := page.handler()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: pageTimeout, ReadTimeout: pageTimeout,
		WriteTimeout: pageTimeout, IdleTimeout: pageIdle, MaxHeaderBytes: pageHeadBytes}
	fmt.Fprintf(a.Stderr, "drumbeat: serving http://%s/ , /ip-ranges.json and /robots.txt until a signal\n",
		listener.Addr())
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

// handler answers GET and HEAD for the page, the addresses and a robots.txt that allows everything.
func (p *botPage) handler() (http.Handler, error) {
	page, err := p.html()
	if err != nil {
		return nil, err
	}
	files := map[string]struct {
		kind string
		data []byte
	}{"/": {"text/html; charset=utf-8", page},
		"/robots.txt": {"text/plain; charset=utf-8", []byte("User-agent: *\nDisallow:\n")}}
	if len(p.Addresses) > 0 {
		data, err := p.ranges()
		if err != nil {
			return nil, err
		}
		f := files["/ip-ranges.json"]
		f.kind, f.data = "application/json", data
		files["/ip-ranges.json"] = f
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := files[r.URL.Path]
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		switch {
		case !ok:
			http.Error(w, "not found", http.StatusNotFound)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		default:
			h.Set("Content-Type", f.kind)
			h.Set("Cache-Control", pageMaxAge)
			h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
			http.ServeContent(w, r, "", p.made, bytes.NewReader(f.data))
		}
	}), nil
}
