package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Client asks the admin server of a crawl, by its Unix socket (NewClient) or by TCP (NewRemote).
type Client struct {
	Who string // name of the operator, for the journal of changes

	url   string
	token string
	http  http.Client
	reads bool // the token is needed for reading, too
	local bool // by the Unix socket
}

// ErrNoServer means that no admin server of the crawl could be found or reached.
var ErrNoServer = errors.New("admin: no running crawl with an admin server")

// ErrNoAnswer means that the server has a connection, and did not answer in time.
var ErrNoAnswer = errors.New("admin: the crawl has not answered")

const (
	maxAnswer = 64 << 20 // bytes of an answer
	// answerWait bounds Do: the server ends an answer after requestTime and answerTime.
	answerWait = requestTime + answerTime + 10*time.Second
	// connectWait bounds a connection by TCP, and its handshake of TLS.
	connectWait = 10 * time.Second
)

// NewClient returns a client for the crawl in dir. It uses the crawl's Unix socket alone, and no token: who is at the
// other end, each side learns from the kernel.
func NewClient(dir string) *Client {
	c := &Client{url: "http://localhost", local: true}
	c.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialSocket(ctx, dir)
	},
		MaxIdleConns: 1}
	c.http.CheckRedirect = noRedirect
	return c
}

// NewRemote returns a client for the server at a URL, which whoever calls it must have from the operator: a server
// at the address of a crawl that was killed may be anybody's. The token, if it is not "", goes with changes; to
// servers that are not on a loopback address, which need it, and by TLS, also with other requests.
func NewRemote(server, token string) (*Client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" ||
		u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("admin: %q is not a server address: want one such as http://127.0.0.1:7878", server)
	}
	addr, err := netip.ParseAddr(u.Hostname())
	loopback := strings.EqualFold(u.Hostname(), "localhost") || err == nil && addr.IsLoopback()
	c := &Client{url: strings.TrimSuffix(u.String(), "/"), token: token, reads: !loopback || u.Scheme == "https"}
	proxy := http.ProxyFromEnvironment
	if u.Scheme == "http" {
		proxy = nil // it would see the token
	}
	c.http.Transport = &http.Transport{Proxy: proxy, MaxIdleConns: 1, TLSHandshakeTimeout: connectWait,
		DialContext: (&net.Dialer{Timeout: connectWait}).DialContext}
	c.http.CheckRedirect = noRedirect
	return c, nil
}

// noRedirect follows no redirect: the server sends none.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// request sends a request. The caller closes the body of the response, whose status is 200.
func (c *Client) request(ctx context.Context, method, path, kind string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if c.token != "" && (c.reads || method != http.MethodGet) {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.Who != "" {
		req.Header.Set("X-Operator", c.Who)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var of *url.Error
		if c.local && errors.As(err, &of) { // dialSocket tells ErrNoServer from other errors, and names the socket
			return nil, of.Err
		}
		return nil, fmt.Errorf("%w: %w", ErrNoServer, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	p := problem(resp.StatusCode, resp.Status)
	if data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err == nil {
		_ = json.Unmarshal(data, p) // another program's answer has no problem
	}
	return nil, p
}

// Do sends a request with an optional JSON body, and returns the JSON text of the answer. The errors are
// *Problem, ErrNoServer, and ErrNoAnswer after answerWait.
func (c *Client) Do(ctx context.Context, method, path string, body any) (json.RawMessage, error) {
	var data []byte
	kind := ""
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("admin: %w", err)
		}
		kind = "application/json"
	}
	wait, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	resp, err := c.request(wait, method, path, kind, data)
	var answer []byte
	if err == nil {
		defer resp.Body.Close()
		if answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
			err = fmt.Errorf("admin: read the answer: %w", err)
		}
	}
	switch {
	case err != nil && wait.Err() != nil && ctx.Err() == nil:
		return nil, fmt.Errorf("%w in %v; a change may have been made", ErrNoAnswer, answerWait)
	case err != nil:
		return nil, err
	}
	return bytes.TrimSpace(answer), nil
}

// Get asks for a value.
func Get[T any](ctx context.Context, c *Client, path string) (v T, err error) {
	data, err := c.Do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("admin: the answer to %s: %w", path, err)
	}
	return v, nil
}

// Events calls f with the name and the JSON text of each event until ctx ends, f fails or the server stops.
func (c *Client) Events(ctx context.Context, f func(name string, data []byte) error) error {
	resp, err := c.request(ctx, http.MethodGet, "/api/v1/events", "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxAnswer)
	name := ""
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			name = text
		} else if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if err := f(name, []byte(text)); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil || lines.Err() == nil {
		return ctx.Err()
	}
	return fmt.Errorf("admin: events: %w", lines.Err())
}

// WaitStopped waits until nobody listens any more, which is when the crawl has stopped.
func (c *Client) WaitStopped(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := c.request(ctx, http.MethodGet, "/healthz", "", nil)
		var p *Problem
		switch {
		case err == nil:
			_ = resp.Body.Close() // an answer, whatever it says
		case errors.Is(err, ErrNoServer):
			return nil
		case !errors.As(err, &p) && !errors.Is(err, io.EOF):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
