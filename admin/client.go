package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Client asks the admin server of a crawl.
type Client struct {
	URL   string
	Token string // "" if it is not known; then changes are refused
	Who   string // name of the operator, for the journal of changes
	HTTP  http.Client
}

// ErrNoServer means that no admin server of the crawl could be found or reached.
var ErrNoServer = errors.New("admin: no crawl with an admin server runs here")

// maxAnswer limits an answer.
const maxAnswer = 64 << 20

// NewClient returns a client for the crawl in dir, by the files that its server wrote there.
func NewClient(dir string) (*Client, error) {
	data, err := os.ReadFile(filepath.Join(dir, AddressName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s does not exist: the crawl is stopped, or runs with --admin none", ErrNoServer,
			filepath.Join(dir, AddressName))
	}
	var at Address
	if err == nil {
		err = json.Unmarshal(data, &at)
	}
	if err != nil {
		return nil, fmt.Errorf("admin: read the address: %w", err)
	}
	c := &Client{URL: at.URL}
	if token, err := os.ReadFile(filepath.Join(dir, TokenName)); err == nil {
		c.Token = strings.TrimSpace(string(token))
	}
	return c, nil
}

// request sends a request. The caller closes the body of the response, whose status is 200.
func (c *Client) request(ctx context.Context, method, path, kind string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if c.Who != "" {
		req.Header.Set("X-Operator", c.Who)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
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
// *Problem and ErrNoServer.
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
	resp, err := c.request(ctx, method, path, kind, data)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("admin: read the answer: %w", err)
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

// WaitStopped waits until the crawl's server has removed its address, which is when the crawl has stopped.
func WaitStopped(ctx context.Context, dir string) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(filepath.Join(dir, AddressName)); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
