package crawl

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"drumbeat/fetch"
	"drumbeat/internal/ports"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/warc"
)

// http2Dial returns a dialler to a web whose https hosts speak HTTP/2: the library's server in front of each
// connection passes its requests on, one connection to one connection.
func http2Dial(t *testing.T, web *simweb.Web) func(context.Context, netip.AddrPort) (net.Conn, error) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(200, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	must(t, err)
	cfg := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		NextProtos: []string{"h2"}}
	return func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		back, err := web.Dial(ctx, addr)
		if err != nil || addr.Port() != 443 {
			return back, err
		}
		near, far := net.Pipe()
		go func() {
			front := tls.Server(far, cfg)
			defer front.Close()
			defer back.Close()
			if front.Handshake() != nil {
				return
			}
			site := tls.Client(back,
				&tls.Config{ServerName: front.ConnectionState().ServerName, InsecureSkipVerify: true})
			in := bufio.NewReader(site)
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { passOn(w, r, site, in) })
			//lint:ignore SA1019 http.Server serves listeners, not a connection whose handshake is done
			new(http2.Server).ServeConn(front, &http2.ServeConnOpts{Handler: handler})
		}()
		return near, nil
	}
}

// passOn sends a request to a site and its reply back.
func passOn(w http.ResponseWriter, r *http.Request, site io.Writer, in *bufio.Reader) {
	out := &http.Request{Method: r.Method, URL: r.URL, Host: r.Host, Header: r.Header}
	if out.Write(site) != nil {
		panic(http.ErrAbortHandler)
	}
	resp, err := http.ReadResponse(in, out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	for name, values := range resp.Header {
		if name != "Connection" && name != "Keep-Alive" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(resp.StatusCode)
	io.Copy(w, resp.Body)
}

// TestHTTP2Crawl: a web half of which speaks HTTP/2 is crawled exactly, and its records are HTTP/1.1 to every
// reader.
func TestHTTP2Crawl(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web, fs, opt := smallCrawl(t, func(o *simweb.Options) { o.HTTPS, o.Pages = 0.5, 400 })
		client := newClient(t, fetch.Options{HTTP2: true, Dial: http2Dial(t, web), Ports: ports.Of(8080)})
		defer client.Close()
		opt.Network.Fetcher, opt.Output.ArchiveRobots = client, true
		res := mustRun(t, t.Context(), opt)
		checkFetched(t, web, &opt)
		count := map[string]int{}
		eachRecord(t, fs, opt.Disk.Dirs, func(r *warc.Record) {
			if r.Type() == "response" {
				checkRecord(t, r, count)
			}
		})
		if t.Logf("responses: %v", count); count["h2"] == 0 || count["http/1.1"] == 0 {
			t.Errorf("responses by protocol: %v, want both", count)
		}
		// The WARC files have those for robots.txt too.
		if n := res.Snapshot.Count(state.CountHTTP2); n < 1 || n >= int64(count["h2"]) {
			t.Errorf("%d responses over HTTP/2 counted, of %d stored with those for robots.txt", n, count["h2"])
		}
	})
}

// checkRecord reads a response as the standard library does and counts its protocol.
func checkRecord(t *testing.T, r *warc.Record, count map[string]int) {
	t.Helper()
	url, want := r.Get("WARC-Target-URI"), "http/1.1"
	if strings.HasPrefix(url, "https:") {
		want = "h2"
	}
	if got := r.Get("WARC-Protocol"); got != want {
		t.Errorf("%s: WARC-Protocol %q, want %q", url, got, want)
	}
	if got := r.Get("WARC-Cipher-Suite"); strings.HasPrefix(got, "TLS_") != strings.HasPrefix(url, "https:") {
		t.Errorf("%s: WARC-Cipher-Suite %q", url, got)
	}
	count[want]++
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(r.Block)), nil)
	if err != nil || resp.Proto != "HTTP/1.1" {
		t.Errorf("%s: %v", url, err)
		return
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("%s: body: %v", url, err)
	}
}
