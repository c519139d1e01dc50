package simweb

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// benchRequests returns raw requests for fetched pages of the default web, with their addresses.
func benchRequests(w *Web, s *Server, scheme, connection string) (raw []string, to []string) {
	for u := range w.Expected("drumbeat").FetchedURLs() {
		rest, ok := strings.CutPrefix(u, scheme+"://")
		if !ok || len(raw) == 5000 {
			continue
		}
		slash := strings.IndexByte(rest, '/')
		addrs, err := w.LookupHost(rest[:slash])
		if err != nil {
			continue
		}
		raw = append(raw, "GET "+rest[slash:]+" HTTP/1.1\r\nHost: "+rest[:slash]+
			"\r\nUser-Agent: bench\r\nAccept-Encoding: gzip\r\nConnection: "+connection+"\r\n\r\n")
		if s != nil {
			to = append(to, s.Map(netip.AddrPortFrom(addrs[0], 80)).String())
		}
	}
	return raw, to
}

// BenchmarkPage measures the generator alone: one page from its URL.
func BenchmarkPage(b *testing.B) {
	w := mustNew(b, Defaults(1))
	urls := slices.Collect(w.Expected("drumbeat").FetchedURLs())
	var reqs []request
	for _, u := range urls {
		rest := strings.TrimPrefix(strings.TrimPrefix(u, "https://"), "http://")
		slash := strings.IndexByte(rest, '/')
		q := request{https: strings.HasPrefix(u, "https"), path: []byte(rest[slash:])}
		q.host, q.port = splitHost([]byte(rest[:slash]), q.https)
		reqs = append(reqs, q)
	}
	p := &painter{w: w}
	b.ReportAllocs()
	i, bytes := 0, int64(0)
	for b.Loop() {
		bytes += int64(len(p.answer(&reqs[i%len(reqs)]).body))
		i++
	}
	b.ReportMetric(float64(bytes)/float64(i), "B/page")
}

// BenchmarkSession measures one request on a connection without cost: parsing, generation, log, framing,
// gzip.
func BenchmarkSession(b *testing.B) {
	for _, zip := range []float64{0, 0.25, 1} {
		b.Run(fmt.Sprintf("gzip=%v", zip), func(b *testing.B) {
			o := Defaults(1)
			o.Page.Gzip, o.HTTPS = zip, 0
			w := mustNew(b, o)
			raw, _ := benchRequests(w, nil, "http", "keep-alive")
			s := w.newSession(nil, netip.Addr{}, nil)
			s.log = w.log.openConn(netip.Addr{})
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				q, err := s.parseHead([]byte(raw[i%len(raw)]))
				must(b, err)
				a := s.p.answer(&q.request)
				run := s.log.begin(q.host, a, &q.request)
				s.frame(a, &q)
				s.log.end(run, q.close)
				i++
			}
		})
	}
}

// BenchmarkServer measures one exchange over loopback sockets, client included.
func BenchmarkServer(b *testing.B) {
	for _, c := range []string{"close", "keep-alive"} {
		b.Run("connection="+c, func(b *testing.B) {
			w := mustNew(b, Defaults(1))
			s := mustStart(b, w, ServerOptions{})
			raw, to := benchRequests(w, s, "http", c)
			var conn net.Conn
			r := bufio.NewReaderSize(nil, 64<<10)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if conn == nil || c == "close" {
					var err error
					if conn, err = net.Dial("tcp", to[i%len(to)]); err != nil {
						b.Fatal(err)
					}
					r.Reset(conn)
				}
				if _, err := io.WriteString(conn, raw[i%len(raw)]); err != nil {
					b.Fatal(err)
				}
				resp, err := http.ReadResponse(r, nil)
				must(b, err)
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					b.Fatal(err)
				}
				if c == "close" {
					conn.Close()
				}
				i++
			}
			conn.Close()
		})
	}
}

func BenchmarkExpected(b *testing.B) {
	w := mustNew(b, Defaults(1))
	for b.Loop() {
		w.Expected("drumbeat")
	}
}

func BenchmarkStart(b *testing.B) {
	w := mustNew(b, Defaults(1))
	for b.Loop() {
		s, err := w.Start(context.Background(), ServerOptions{})
		must(b, err)
		s.Close()
	}
}
