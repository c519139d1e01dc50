package crawl

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/state"
)

// TestRobotsWaitTLS: URLs of a server whose handshake fails for good wait a day and not --robots-wait, and
// are refused with that reason. A seed without scheme is tried by HTTP at once. A connection that ends in the
// handshake has the usual wait.
func TestRobotsWaitTLS(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: func(_, path string) answer {
			if path == "/robots.txt" {
				return noRobots
			}
			return answer{200, "", "<html>x"}
		}}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), "https://a.test/1", "https://a.test/2", "b.test")
		atOnce(&opt)
		withHealth(&opt)
		client := newClient(t, fetch.Options{
			Dial: func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
				if addr.Port() != 443 {
					return w.Dial(ctx, addr)
				}
				ours, theirs := net.Pipe()
				go func() {
					defer theirs.Close()
					_, _ = theirs.Read(make([]byte, 4096))
					_, _ = io.WriteString(theirs, "\x15\x03\x03\x00\x02\x02\x46") // an alert: protocol version
				}()
				return ours, nil
			}})
		opt.Network.Fetcher, opt.Limits.Linger = client, 40*aDay
		began := time.Now()
		res := mustRun(t, t.Context(), opt)
		if n := res.Snapshot.Refused["tls"]; n != 2 || len(w.Pages("b")) != 1 {
			t.Errorf("refused %v, %d pages of the seed without scheme; %s", res.Snapshot.Refused,
				len(w.Pages("b")), res.Stop)
		}
		if took := time.Since(began); took < aDay || took > 2*aDay {
			t.Errorf("refused after %v, want a day, and the time to the next try", took)
		}
		checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
	})
}

// TestUnreadableCertificate: a page is fetched in spite of a certificate that cannot be parsed, and the
// verdict is counted. Where that fails, with a server of TLS 1.3 alone, explain says what is wrong with the
// certificate.
func TestUnreadableCertificate(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	twice := pkix.Extension{Id: asn1.ObjectIdentifier{1, 2, 3, 4}, Value: []byte{5, 0}}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), ExtraExtensions: []pkix.Extension{twice, twice}}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	must(t, err)
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: func(_, path string) answer {
			if path == "/robots.txt" {
				return noRobots
			}
			return answer{200, "", "<html>x"}
		}}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), "https://a.test/1", "https://b.test/1")
		atOnce(&opt)
		client := newClient(t, fetch.Options{
			Dial: func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() {
					defer theirs.Close()
					s := tls.Server(theirs,
						&tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
							GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
								if h.ServerName != "b.test" {
									return nil, nil
								}
								return &tls.Config{MinVersion: tls.VersionTLS13,
									Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, nil
							}})
					req, err := http.ReadRequest(bufio.NewReader(s))
					if err != nil {
						return
					}
					a := w.Serve(req.Host, req.URL.Path)
					fmt.Fprintf(s, "HTTP/1.1 %d X\r\nContent-Type: text/html\r\nContent-Length: "+
						"%d\r\nConnection: close\r\n\r\n%s", a.Status, len(a.Body), a.Body)
					s.Close()
				}()
				return ours, nil
			}})
		opt.Network.Fetcher, opt.Limits.Linger, opt.Limits.MaxTime = client, 40*aDay, 3*time.Hour
		res := mustRun(t, t.Context(), opt)
		bad, _ := state.TLSBadOf(fetch.VerdictInvalid)
		if n := res.Snapshot.Count(state.CountResponses); n != 1 || res.Snapshot.Count(bad) == 0 {
			t.Errorf("%d pages fetched, want 1; %d exchanges with the verdict", n, res.Snapshot.Count(bad))
		}
		x := explainer(t, opt.Disk.FS, opt.Disk.Dirs)
		hosts, err := x.Hosts([]string{"b.test"})
		if want := "TLS: unreadable certificate: "; err != nil ||
			!strings.Contains(strings.Join(hosts[0].Why, "\n"), want) {
			t.Errorf("explain host: %+v, %v, want %q", hosts, err, want)
		}
	})
}
