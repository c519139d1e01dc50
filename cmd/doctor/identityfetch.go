package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/internal/human"
)

// Bounds of a request of --identity. Each file is asked for once.
const (
	fetchTime  = 5 * time.Second
	fetchBytes = 1 << 20  // a page; the other files are smaller
	fetchHead  = 64 << 10 // of a response
	// skew is how far two clocks may differ.
	skew = time.Minute
)

// webPage is a response with status 200.
type webPage struct {
	header http.Header
	body   []byte
}

// newClient returns a client that looks names up as others do, by DNS alone, and follows no redirects.
func newClient(dns *resolver) *http.Client {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		addrs, err := dns.lookup(ctx, host)
		if err != nil {
			return nil, err
		}
		var d net.Dialer
		var last error
		for _, a := range addrs[:min(len(addrs), 4)] {
			conn, err := d.DialContext(ctx, network, net.JoinHostPort(a.String(), port))
			if err == nil {
				return conn, nil
			}
			last = err
		}
		return nil, last
	}
	return &http.Client{Timeout: fetchTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DialContext: dial, MaxResponseHeaderBytes: fetchHead, MaxConnsPerHost: 1,
			DisableCompression: true, // Content-Digest is that of the body as sent
		}}
}

// get fetches a file of at most limit bytes with status 200.
func (i *identity) get(ctx context.Context, at *url.URL, accept string, limit int) (*webPage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%s is not a URL", at)
	}
	req.Header.Set("User-Agent", fmt.Sprintf("%s-doctor/%s (+%s)", i.who.Agent, term.Version(), i.who.Contact))
	req.Header.Set("Accept", accept)
	resp, err := i.client.Do(req)
	if err != nil {
		return nil, errors.New(netCause(err))
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return nil, fmt.Errorf("status %d, a redirect to %.200q, which verifiers do not follow", resp.StatusCode,
			resp.Header.Get("Location"))
	case resp.StatusCode != http.StatusOK:
		return nil, &statusError{resp.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	switch {
	case err != nil:
		return nil, errors.New(netCause(err))
	case len(body) > limit:
		return nil, fmt.Errorf("more than %s", human.Bytes(limit))
	}
	return &webPage{header: resp.Header, body: body}, nil
}

// statusError is a status other than 200 and 3xx.
type statusError struct{ status int }

func (e *statusError) Error() string { return fmt.Sprintf("status %d", e.status) }

// absent reports whether an error says that there is no such file.
func absent(err error) bool {
	var s *statusError
	return errors.As(err, &s) && (s.status == http.StatusNotFound || s.status == http.StatusGone)
}

// netCause returns the cause of a failed request in words.
func netCause(err error) string {
	var dns *lookupError
	var op *net.OpError
	var call *os.SyscallError
	switch {
	case errors.As(err, &dns):
		return dns.Error()
	case errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err):
		return "no answer within " + human.Duration(fetchTime)
	case errors.As(err, &call):
		return "no connection: " + call.Err.Error()
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return "the connection was closed before the end"
	case errors.As(err, &op):
		return "no connection: " + op.Err.Error()
	}
	text := err.Error()
	for e := err; e != nil; e = errors.Unwrap(e) {
		text = e.Error()
	}
	return strings.TrimPrefix(strings.TrimPrefix(text, "tls: "), "x509: ")
}

// outward returns the addresses of this machine from which it sends, at most one of each family, without sending
// anything: the kernel chooses them for a connection by UDP.
func outward() (list []netip.Addr) {
	for _, to := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} { // reserved for documentation
		conn, err := net.Dial("udp", to)
		if err != nil {
			continue // no route
		}
		if a, ok := conn.LocalAddr().(*net.UDPAddr); ok {
			list = append(list, a.AddrPort().Addr().Unmap())
		}
		_ = conn.Close() // nothing was sent
	}
	return list
}
