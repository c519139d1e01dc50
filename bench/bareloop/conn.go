package bareloop

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// conn is a connection to a server.
type conn struct {
	net.Conn
	in *bufio.Reader
}

// response is what a goroutine read last, in buffers that it reuses.
type response struct {
	status int
	head   []byte // with its empty line
	body   []byte // as received
	mime   string // Content-Type
	coded  bool   // the body is in gzip
	last   bool   // the server closes the connection
}

// fetch sends a request and reads the response.
func (w *worker) fetch(r *Request) error {
	c, err := w.loop.connect(r)
	if err != nil {
		return err
	}
	w.request = fmt.Appendf(w.request[:0], "GET %s HTTP/1.1\r\nHost: %s\r\nAccept-Encoding: gzip\r\n\r\n",
		r.Target, r.Host)
	if _, err = c.Write(w.request); err == nil {
		err = w.response.read(c.in)
	}
	if err != nil || w.response.last {
		return errors.Join(err, c.Close())
	}
	l := w.loop
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle[r.Addr] = append(l.idle[r.Addr], c)
	return nil
}

// connect returns the connection to the server that became idle last, or else a new one.
func (l *loop) connect(r *Request) (*conn, error) {
	l.mu.Lock()
	list := l.idle[r.Addr]
	if n := len(list) - 1; n >= 0 {
		c := list[n] // before Unlock: fetch reuses the array
		l.idle[r.Addr] = list[:n]
		l.mu.Unlock()
		return c, nil
	}
	l.mu.Unlock()
	c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(r.Addr))
	if err != nil {
		return nil, err
	}
	return &conn{c, bufio.NewReaderSize(c, 16<<10)}, nil
}

// hangUp closes the idle connections.
func (l *loop) hangUp() {
	for _, list := range l.idle {
		for _, c := range list {
			c.Close()
		}
	}
}

// read reads one response, which must have a length.
func (r *response) read(in *bufio.Reader) error {
	*r = response{head: r.head[:0], body: r.body[:0], mime: r.mime}
	length := -1
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		first := len(r.head) == 0
		r.head = append(r.head, line...)
		line = bytes.TrimRight(line, "\r\n")
		if first {
			version, rest, _ := bytes.Cut(line, []byte(" "))
			code, _, _ := bytes.Cut(rest, []byte(" "))
			if r.status, err = strconv.Atoi(string(code)); err != nil || string(version) != "HTTP/1.1" {
				return fmt.Errorf("reply %q", line)
			}
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch string(name) {
		case "Content-Length":
			if length, err = strconv.Atoi(string(value)); err != nil {
				return err
			}
		case "Content-Type":
			if r.mime != string(value) { // no allocation where all pages have one type
				r.mime = string(value)
			}
		case "Connection":
			r.last = string(value) == "close"
		case "Content-Encoding":
			r.coded = string(value) == "gzip"
		}
	}
	if length < 0 {
		return errors.New("no Content-Length")
	}
	if cap(r.body) < length {
		r.body = make([]byte, 0, length)
	}
	r.body = r.body[:length]
	_, err := io.ReadFull(in, r.body)
	return err
}
