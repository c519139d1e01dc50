package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"drumbeat/bench/measure"
)

// The server of BenchmarkFetch writes precomputed bytes. It listens on many addresses of 127/8, because a
// server that closes first keeps a pair of address and port for a minute, and there are 28,000 ports.

const (
	// fetchAddresses times 28,232 ports suffice for 25,000 connections/s, each of which stays in TIME_WAIT
	// for 60 s.
	fetchAddresses = 64
	// pageBytes is the mean page size of IRLbot's crawl.
	pageBytes = 25_000
)

// The served paths and schemes.
const (
	pathPlain, pathGzip     = "/page", "/page.gz"
	schemeHTTP, schemeHTTPS = "http", "https"
)

// fetchServer is the clients' view of the server.
type fetchServer struct {
	Ports map[string][]uint16 // by scheme and address
	Root  []byte              // the certificate to trust
	// Replies are the lengths of whole replies, by path and by whether the connection stays open.
	Replies map[string]int
}

func fetchAddress(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 77, 0, byte(i + 1)}) }

// fetchHost returns the name of the host at address i; the certificate covers all of them.
func fetchHost(i int) string { return fmt.Sprintf("host-%d.bench.test", i) }

// address returns the address of the n-th request.
func (s *fetchServer) address(scheme string, n int) netip.AddrPort {
	n %= fetchAddresses
	return netip.AddrPortFrom(fetchAddress(n), s.Ports[scheme][n])
}

// startFetchServer starts the server in a process of its own, until the test ends.
func startFetchServer(tb testing.TB) *fetchServer {
	tb.Helper()
	s := new(fetchServer)
	p, err := measure.Start(tb.Context(), []string{os.Args[0], serveFetchArg}, struct{}{}, s)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = p.Close() }) // its context has ended by now
	return s
}

// serveFetch is the server's process.
func serveFetch() error {
	return measure.Serve(context.Background(), os.Stdin, os.Stdout, func(*struct{}) (any, error) {
		page := madePage(1)
		for len(page) < pageBytes {
			page = append(page, page...)
		}
		page = page[:pageBytes]
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, err := w.Write(page)
		if err := errors.Join(err, w.Close()); err != nil {
			return nil, err
		}
		replies := map[string][]byte{}
		for path, body := range map[string][]byte{pathPlain: page, pathGzip: z.Bytes()} {
			more := ""
			if path == pathGzip {
				more = "Content-Encoding: gzip\r\n"
			}
			replies[path+" close"], replies[path+" keep-alive"] = fetchReply(body, more+"Connection: close\r\n"), fetchReply(body, more)
		}
		s := &fetchServer{Ports: map[string][]uint16{}, Replies: map[string]int{}}
		for name, reply := range replies {
			s.Replies[name] = len(reply)
		}
		return s, s.listen(replies)
	}, func() any { return nil }, func() error { return nil })
}

func (s *fetchServer) listen(replies map[string][]byte) error {
	cfg, root, err := serverTLS()
	if err != nil {
		return err
	}
	s.Root = root
	for _, scheme := range []string{schemeHTTP, schemeHTTPS} {
		for i := range fetchAddresses {
			l, err := net.Listen("tcp4", netip.AddrPortFrom(fetchAddress(i), 0).String())
			if err != nil {
				return err
			}
			s.Ports[scheme] = append(s.Ports[scheme], l.Addr().(*net.TCPAddr).AddrPort().Port())
			if scheme == schemeHTTPS {
				l = tls.NewListener(l, cfg)
			}
			go func() { // ends with the process, like the connections
				for {
					conn, err := l.Accept()
					if err != nil {
						return // out of descriptors: a fetch fails with an error
					}
					go serveFetches(conn, replies)
				}
			}()
		}
	}
	return nil
}

// fetchReply puts a head of typical size before a body.
func fetchReply(body []byte, more string) []byte {
	return append([]byte("HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nServer: bench\r\nContent-Type: text/html; charset=utf-8\r\n"+
		"Content-Length: "+strconv.Itoa(len(body))+"\r\n"+more+"Last-Modified: Sun, 31 Dec 2023 00:00:00 GMT\r\n"+
		"ETag: \"6590a700-61a8\"\r\nCache-Control: max-age=3600\r\nAccept-Ranges: bytes\r\n\r\n"), body...)
}

// serveFetches answers the requests of one connection.
func serveFetches(conn net.Conn, replies map[string][]byte) {
	defer conn.Close()
	buf := make([]byte, 4<<10)
	for n := 0; ; {
		m, err := conn.Read(buf[n:])
		if n += m; err != nil || n == len(buf) {
			return
		}
		if !bytes.HasSuffix(buf[:n], []byte("\r\n\r\n")) {
			continue
		}
		path, _, _ := bytes.Cut(bytes.TrimPrefix(buf[:n], []byte("GET ")), []byte{' '})
		if bytes.Contains(buf[:n], []byte("Connection: close")) {
			_, _ = conn.Write(replies[string(path)+" close"])
			return
		}
		n = 0
		if _, err := conn.Write(replies[string(path)+" keep-alive"]); err != nil {
			return
		}
	}
}

// serverTLS returns the server's configuration with a leaf and an intermediate certificate below a root,
// with P-256 keys, and the root.
func serverTLS() (cfg *tls.Config, root []byte, err error) {
	var chain [][]byte // root first
	var parent *x509.Certificate
	var parentKey, key *ecdsa.PrivateKey
	for i, name := range []string{"root", "intermediate", "leaf"} {
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, nil, err
		}
		t := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: "bench " + name}, BasicConstraintsValid: true,
			IsCA: i < 2, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
			KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		}
		if i == 2 {
			t.DNSNames, t.ExtKeyUsage = []string{"*.bench.test"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}
		if parent == nil {
			parent, parentKey = t, key
		}
		der, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), parentKey)
		if err != nil {
			return nil, nil, err
		}
		if parent, err = x509.ParseCertificate(der); err != nil {
			return nil, nil, err
		}
		parentKey, chain = key, append(chain, der)
	}
	cert := tls.Certificate{Certificate: [][]byte{chain[2], chain[1]}, PrivateKey: key, Leaf: parent}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}, chain[0], nil
}

// exchange writes a request and reads want bytes: the minimum work of a client.
func exchange(conn io.ReadWriter, request, buf []byte, want int) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	for want > 0 {
		n, err := conn.Read(buf)
		if want -= n; err != nil && want > 0 {
			return err
		}
	}
	return nil
}
