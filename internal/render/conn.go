package render

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// ErrLost says that the connection to the browser has ended, or that the browser has hung.
var ErrLost = errors.New("the browser has exited or hangs")

const (
	// maxMessage bounds a message of the browser in bytes: a piece of a DOM, with all characters escaped.
	maxMessage = 512 << 10
	// writeTime bounds the sending of one message, and commandTime the wait for the answer to a command that a
	// healthy browser answers at once.
	writeTime   = 10 * time.Second
	commandTime = 20 * time.Second
	// versionBytes bounds the answer of the browser's /json/version.
	versionBytes = 64 << 10
)

// RAM is what a connection takes of the Go heap, in bytes: a message as it arrives, and two that were taken apart.
const RAM = 3 * maxMessage

// Browser is a connection to a browser. It is safe for concurrent use.
type Browser struct {
	wire    wire
	product string
	done    chan struct{} // closed when no more message can come
	stop    context.CancelFunc
	writing sync.Mutex

	mu       sync.Mutex // guards the fields below
	next     int
	calls    map[int]chan message
	sessions map[string]*page
}

// wire carries messages to a browser and back.
type wire interface {
	// next reads a message into buf. n is more than maxMessage if the message was, and its rest was skipped. One
	// goroutine calls it; it ends with ctx or with close.
	next(ctx context.Context, buf []byte) (n int, err error)
	// send writes a message, within writeTime. One goroutine at a time calls it.
	send(data []byte) error
	close()
}

// message is a command, an answer or an event.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

type object = map[string]any

// ParseEndpoint checks the address of a browser: ws://HOST:PORT, or the whole address of its DevTools.
func ParseEndpoint(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("must be auto or an address such as ws://127.0.0.1:9222")
	}
	// Whoever reads DevTools controls the browser, and ws:// is not encrypted.
	addr, err := netip.ParseAddr(u.Hostname())
	if u.Scheme == "ws" && u.Hostname() != "localhost" && (err != nil || !addr.Unmap().IsLoopback()) {
		return nil, errors.New("ws:// needs a loopback address; use wss:// or a tunnel for another machine")
	}
	return u, nil
}

// Dial connects to the browser at an endpoint, for which ParseEndpoint has the form. It is an error if the
// browser lacks one of Flags. Close ends the connection.
func Dial(ctx context.Context, endpoint string) (*Browser, error) {
	b, err := connect(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	if err := b.checkFlags(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// connect is Dial for a browser with any flags.
func connect(ctx context.Context, endpoint string) (*Browser, error) {
	u, err := ParseEndpoint(endpoint)
	if err != nil {
		return nil, fmt.Errorf("render: %s: %w", endpoint, err)
	}
	// No proxy, whatever the environment says.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if u.Path == "" || u.Path == "/" {
		if u.Path, err = browserPath(ctx, client, *u); err != nil {
			return nil, fmt.Errorf("render: ask %s for its DevTools: %w", endpoint, err)
		}
	}
	conn, _, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		return nil, fmt.Errorf("render: connect to %s: %w", endpoint, err)
	}
	conn.SetReadLimit(-1) // next bounds each message, and skips larger ones
	return attach(ctx, socket{conn})
}

// attach begins to talk to a browser, and asks for its version. An error closes the wire.
func attach(ctx context.Context, w wire) (*Browser, error) {
	running, stop := context.WithCancel(context.Background())
	b := &Browser{wire: w, done: make(chan struct{}), stop: stop, calls: map[int]chan message{},
		sessions: map[string]*page{}}
	go b.read(running)
	var version struct{ Product string }
	if err := b.call(ctx, "", "Browser.getVersion", nil, &version); err != nil {
		b.Close()
		return nil, err
	}
	b.product = version.Product
	return b, nil
}

// browserPath asks a browser for the path of its DevTools.
func browserPath(ctx context.Context, client *http.Client, u url.URL) (string, error) {
	u.Scheme = map[string]string{"ws": "http", "wss": "https"}[u.Scheme]
	u.Path = "/json/version"
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var v struct {
		URL string `json:"webSocketDebuggerUrl"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, versionBytes)).Decode(&v); err != nil {
		return "", fmt.Errorf("status %d: %w", resp.StatusCode, err)
	}
	at, err := url.Parse(v.URL)
	if err != nil || at.Path == "" {
		return "", fmt.Errorf("status %d: no webSocketDebuggerUrl", resp.StatusCode)
	}
	return at.Path, nil
}

// Product returns the browser's name and version.
func (b *Browser) Product() string { return b.product }

// Done returns a channel that is closed when the connection has ended.
func (b *Browser) Done() <-chan struct{} { return b.done }

// Close ends the connection, and with it all pages. It returns once the connection's goroutine has ended.
func (b *Browser) Close() {
	b.stop()
	b.wire.close()
	<-b.done
}

// read hands on answers and events until the connection ends.
func (b *Browser) read(ctx context.Context) {
	defer close(b.done)
	buf := make([]byte, maxMessage+1)
	for {
		n, err := b.wire.next(ctx, buf)
		if err != nil {
			return
		}
		var m message
		if n > maxMessage || json.Unmarshal(buf[:n], &m) != nil {
			continue // its page ends at its time limit
		}
		b.mu.Lock()
		answer, session := b.calls[m.ID], b.sessions[m.SessionID]
		delete(b.calls, m.ID)
		b.mu.Unlock()
		switch {
		case answer != nil:
			answer <- m
		case session != nil && m.ID == 0:
			session.note(event{m.Method, m.Params})
		}
	}
}

// send sends a command. Its answer, if wanted, goes to the channel answer, which has room for it.
func (b *Browser) send(session, method string, params any, answer chan message) (id int, _ error) {
	return b.sendBody(session, method, params, nil, answer)
}

// sendBody is send with a body, which becomes the last of the parameters, in Base64. params is then an object with
// another one.
func (b *Browser) sendBody(session, method string, params any, body []byte, answer chan message) (id int, _ error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return 0, fmt.Errorf("render: %s: %w", method, err)
	}
	b.mu.Lock()
	b.next++
	m := message{ID: b.next, SessionID: session, Method: method}
	if answer != nil {
		b.calls[m.ID] = answer
	}
	b.mu.Unlock()
	head, err := json.Marshal(m)
	if err != nil {
		return m.ID, fmt.Errorf("render: %s: %w", method, err)
	}
	// Appended by hand, so that RAM holds a large body once in Base64, not three times.
	data := make([]byte, 0, len(head)+len(raw)+base64.StdEncoding.EncodedLen(len(body))+32)
	data = append(data, head[:len(head)-1]...)
	if params != nil {
		data = append(append(data, `,"params":`...), raw...)
	}
	if len(body) > 0 {
		data = append(data[:len(data)-1], `,"body":"`...)
		data = append(base64.StdEncoding.AppendEncode(data, body), `"}`...)
	}
	data = append(data, '}')
	b.writing.Lock()
	defer b.writing.Unlock()
	if err := b.wire.send(data); err != nil {
		return m.ID, fmt.Errorf("render: %s: %w: %w", method, ErrLost, err)
	}
	return m.ID, nil
}

// call sends a command, waits for its answer, at most commandTime, and decodes the result into result, unless that
// is nil. Without an answer in time the error wraps ErrLost.
func (b *Browser) call(ctx context.Context, session, method string, params, result any) error {
	return b.callFor(ctx, commandTime, session, method, params, result)
}

// callFor is call with another limit.
func (b *Browser) callFor(ctx context.Context, d time.Duration, session, method string, params, result any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d, ErrLost)
	defer cancel()
	answer := make(chan message, 1)
	id, err := b.send(session, method, params, answer)
	if err != nil {
		return err
	}
	var m message
	select {
	case m = <-answer:
	case <-b.done:
		return fmt.Errorf("render: %s: %w", method, ErrLost)
	case <-ctx.Done():
		b.mu.Lock()
		delete(b.calls, id)
		b.mu.Unlock()
		return fmt.Errorf("render: %s: no answer: %w", method, context.Cause(ctx))
	}
	if m.Error != nil {
		return fmt.Errorf("render: %s: %s", method, m.Error.Message)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		return fmt.Errorf("render: %s: %w", method, err)
	}
	return nil
}
