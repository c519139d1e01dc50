package main

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
)

// botPageCmd is the table of bot-page's flags: what a crawl has of them, and the page's own.
type botPageCmd struct {
	whoFlags
	Purpose   string      `group:"what" placeholder:"TEXT" help:"What the crawl is for, in a sentence or two. Site owners ask that first; there is no page without it."`
	Addresses []netPrefix `group:"what" placeholder:"CIDR" help:"Addresses that the crawl comes from, so that site owners can tell it from others that use its name. Repeatable."`
	Out       string      `group:"what" placeholder:"FILE" help:"Write into FILE, which appears in one piece. Default: standard output."`
	JSON      bool        `group:"what" name:"json" xor:"form" help:"Print the --addresses as JSON, in the form in which search engines publish theirs (creationTime, prefixes)."`
	Text      bool        `group:"what" xor:"form" help:"Print the page as plain text."`
	Serve     string      `group:"what" placeholder:"ADDR" xor:"form" help:"Serve the page over HTTP at an address such as :8080 until a signal comes: /, /ip-ranges.json and /robots.txt."`
	delayFlags
	healthFlags
	Nofollow string `group:"manners" enum:"obey,ignore" default:"obey" help:"As for crawl."`
}

// Run prints or serves the page.
func (c *botPageCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return usageError{err}
	}
	page := c.page(time.Now())
	if c.Serve != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return a.serveBotPage(ctx, c.Serve, page)
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
		_, err = a.stdout.Write(data)
		return err
	}
	return publish(c.Out, data)
}

func (c *botPageCmd) check() error {
	if err := c.whoFlags.check(); err != nil {
		return err
	}
	if c.Purpose = strings.TrimSpace(c.Purpose); c.Purpose == "" {
		return errors.New("--purpose is missing: say in a sentence what the crawl is for")
	}
	if c.JSON && len(c.Addresses) == 0 {
		return errors.New("--json prints the --addresses, and there are none")
	}
	if c.Serve != "" && c.Out != "" {
		return errors.New("--serve and --out: one or the other")
	}
	c.whoFlags.complete()
	if c.HostDelay == nil {
		c.HostDelay = new(defaultHostDelay)
	}
	return c.delayFlags.complete()
}

// publish writes a file that others read: it appears in one piece.
func publish(name string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".tmp*")
	if err != nil {
		return fmt.Errorf("--out %s: %w", name, err)
	}
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(0o644) // it is to be published
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

// Bounds of the server: it has three small answers, and anybody may ask.
const (
	pageConnections = 128
	pageHeadBytes   = 16 << 10
	pageTimeout     = 10 * time.Second
	pageIdle        = 30 * time.Second
	pageGrace       = 5 * time.Second // for answers under way when it ends
	pageMaxAge      = "public, max-age=3600"
)

// serveBotPage serves the page until ctx ends.
func (a *app) serveBotPage(ctx context.Context, addr string, page *botPage) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return usageError{fmt.Errorf("--serve: %w", err)}
	}
	handler, err := page.handler()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: pageTimeout, ReadTimeout: pageTimeout, WriteTimeout: pageTimeout,
		IdleTimeout: pageIdle, MaxHeaderBytes: pageHeadBytes}
	fmt.Fprintf(a.stderr, "drumbeat: serving http://%s/ , /ip-ranges.json and /robots.txt until a signal comes\n", listener.Addr())
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
		_ = server.Close() // who is still reading has had its time
	}
	<-ended
	return nil
}

// handler answers GET and HEAD for the page, the addresses and a robots.txt that lets everybody in.
func (p *botPage) handler() (http.Handler, error) {
	page, err := p.html()
	if err != nil {
		return nil, err
	}
	files := map[string]struct {
		kind string
		data []byte
	}{"/": {"text/html; charset=utf-8", page}, "/robots.txt": {"text/plain; charset=utf-8", []byte("User-agent: *\nDisallow:\n")}}
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
