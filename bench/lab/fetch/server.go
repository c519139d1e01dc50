package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	gosync "sync"
	"time"

	"drumbeat/bench/measure"
)

// The server of lab fetch writes precomputed bytes to connections. It lies in a process of its own, so that getrusage
// of the client's process counts the client alone, and on many addresses of 127/8: a server that closes first keeps a
// pair of address and port for a minute, and there are 28,000 ports.

const (
	// fetchAddresses times 28,232 ports are enough for 25,000 connections/s in all the 60 s that each stays closed.
	fetchAddresses = 64
	// serverReads is the most that a request takes.
	serverReads = 4 << 10
	// holdMost is how long slow replies are held for want of the connections that should come.
	holdMost = 60 * time.Second
	// trickleEvery is when a slow reply sends its next byte.
	trickleEvery = time.Second
	// The paths that are served.
	pathPlain, pathGzip, pathSlow = "/page", "/page.gz", "/slow"
)

// fetchSchemes are what the server speaks.
var fetchSchemes = []string{schemeHTTP, schemeHTTPS, schemeHTTPSRSA}

// fetchServerJob is what the server's process reads first; fetchServerSays what it answers when it listens. The server
// ends when its input does.
type fetchServerJob struct {
	PageBytes int
	// Schemes are what it speaks.
	Schemes []string
	// Hold is how many slow replies are begun before the first of them goes on.
	Hold int
}

type fetchServerSays struct {
	// Ports are those of each scheme, by address.
	Ports map[string][]uint16
	// Roots are the root certificates of those with TLS.
	Roots map[string][]byte
	// GzipBytes is the size of the page in gzip.
	GzipBytes int
}

// Serve is the server's side of lab fetch, in a process of its own. It ends when in does.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	s := pageServer{held: make(chan struct{})}
	return measure.Serve(ctx, in, out, func(job *fetchServerJob) (any, error) {
		s.job = *job
		return &s.says, s.listen(ctx)
	}, func() any { return nil }, func() error {
		stop()
		for _, l := range s.listeners {
			l.Close()
		}
		return nil
	})
}

// pageServer is the server.
type pageServer struct {
	job       fetchServerJob
	says      fetchServerSays
	listeners []net.Listener
	replies   map[string]fetchReply
	mu        gosync.Mutex // guards slow
	slow      int          // slow replies begun
	held      chan struct{}
}

// fetchReply is a reply as it is written, by whether the connection stays.
type fetchReply struct{ closed, kept []byte }

func (s *pageServer) listen(ctx context.Context) error {
	page := fetchPage(s.job.PageBytes)
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write(page)
	if err := errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("bench: fetch: gzip: %w", err)
	}
	s.says.GzipBytes = z.Len()
	s.replies = map[string]fetchReply{
		pathPlain: newFetchReply(page, ""),
		pathGzip:  newFetchReply(z.Bytes(), "Content-Encoding: gzip\r\n"),
		pathSlow:  newFetchReply(page, ""),
	}
	s.says.Ports, s.says.Roots = map[string][]uint16{}, map[string][]byte{}
	for _, scheme := range s.job.Schemes {
		if err := s.listenFor(ctx, scheme); err != nil {
			return err
		}
	}
	return nil
}

// listenFor listens for one scheme on all addresses.
func (s *pageServer) listenFor(ctx context.Context, scheme string) error {
	var cfg *tls.Config
	if scheme != schemeHTTP {
		var err error
		if cfg, s.says.Roots[scheme], err = serverTLS(scheme); err != nil {
			return err
		}
	}
	for i := range fetchAddresses {
		l, err := net.Listen("tcp4", netip.AddrPortFrom(fetchAddress(i), 0).String())
		if err != nil {
			return fmt.Errorf("bench: fetch: listen: %w", err)
		}
		s.says.Ports[scheme] = append(s.says.Ports[scheme], l.Addr().(*net.TCPAddr).AddrPort().Port())
		if cfg != nil {
			l = tls.NewListener(l, cfg)
		}
		s.listeners = append(s.listeners, l)
		s.start(ctx, l)
	}
	return nil
}

// fetchAddress is the i-th address of the server.
func fetchAddress(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 77, byte(i >> 8), byte(i + 1)})
}

// newFetchReply puts a head of a usual size before a body.
func newFetchReply(body []byte, more string) fetchReply {
	head := "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nServer: bench\r\nContent-Type: text/html; charset=utf-8\r\n" +
		"Content-Length: " + strconv.Itoa(len(body)) + "\r\n" + more + "Last-Modified: Sun, 31 Dec 2023 00:00:00 GMT\r\n" +
		"ETag: \"6590a700-61a8\"\r\nCache-Control: max-age=3600\r\nAccept-Ranges: bytes\r\n"
	return fetchReply{
		closed: append([]byte(head+"Connection: close\r\n\r\n"), body...),
		kept:   append([]byte(head+"Connection: keep-alive\r\n\r\n"), body...),
	}
}

// start accepts until the listener is closed. Connections end with the process.
func (s *pageServer) start(ctx context.Context, l net.Listener) {
	go func() {
		for {
			conn, err := l.Accept()
			switch {
			case err == nil:
				go s.serve(ctx, conn)
			case errors.Is(err, net.ErrClosed):
				return
			default:
				time.Sleep(time.Millisecond) // no descriptors at this moment
			}
		}
	}()
}

// serve answers the requests of one connection.
func (s *pageServer) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	buf := make([]byte, serverReads)
	for n := 0; ; {
		m, err := conn.Read(buf[n:])
		if n += m; err != nil || n == len(buf) {
			return
		}
		if !bytes.HasSuffix(buf[:n], []byte("\r\n\r\n")) {
			continue
		}
		path, _, _ := bytes.Cut(bytes.TrimPrefix(buf[:n], []byte("GET ")), []byte{' '})
		r, ok := s.replies[string(path)]
		if !ok {
			return
		}
		if string(path) == pathSlow {
			s.trickle(ctx, conn, r.closed)
			return
		}
		closes := bytes.Contains(buf[:n], []byte("Connection: close"))
		if n = 0; closes {
			_, _ = conn.Write(r.closed)
			return
		}
		if _, err := conn.Write(r.kept); err != nil {
			return
		}
	}
}

// trickle sends a byte now and then until all the replies that should be held are, and then the rest.
func (s *pageServer) trickle(ctx context.Context, conn net.Conn, reply []byte) {
	s.mu.Lock()
	if s.slow++; s.slow == s.job.Hold {
		close(s.held)
	}
	s.mu.Unlock()
	every := time.NewTicker(trickleEvery)
	defer every.Stop()
	most := time.After(holdMost)
	for i := range reply {
		if _, err := conn.Write(reply[i : i+1]); err != nil {
			return
		}
		select {
		case <-every.C:
			continue
		case <-ctx.Done():
			return
		case <-most:
		case <-s.held:
		}
		_, _ = conn.Write(reply[i+1:])
		return
	}
}

// fetchPage is a page of HTML that gzip makes some four times smaller, as it does real ones.
func fetchPage(n int) []byte {
	b := []byte("<!DOCTYPE html><html><head><title>A page</title></head><body>\n")
	x := uint64(1)
	for i := 0; len(b) < n; i++ {
		x = x*6364136223846793005 + 1442695040888963407 // Knuth's
		word := x >> 56 * (x >> 48 & 0xff) >> 8 * 7919  // one of 256, the first more often than the last
		if i%24 == 0 {
			b = fmt.Appendf(b, "</p>\n<p class=\"text\"><a href=\"/section-%d/%x.html\">", i/240, x>>52)
		}
		b = append(strconv.AppendUint(b, word, 36), ' ')
		if i%24 == 4 {
			b = append(b, "</a>"...)
		}
	}
	return b[:n]
}

// fetchServer is the process of the server as its parent sees it.
type fetchServer struct {
	*measure.Server
	fetchServerSays
	page int
}

// startFetchServer runs the command and waits until it listens.
func startFetchServer(ctx context.Context, command []string, job fetchServerJob) (s *fetchServer, err error) {
	s = &fetchServer{page: job.PageBytes}
	if s.Server, err = measure.Start(ctx, command, job, &s.fetchServerSays); err != nil {
		return nil, fmt.Errorf("bench: fetch: %w", err)
	}
	return s, nil
}

// address is where worker i finds the server for its n-th request.
func (s *fetchServer) address(scheme string, i int) netip.AddrPort {
	i %= fetchAddresses
	return netip.AddrPortFrom(fetchAddress(i), s.Ports[scheme][i])
}
