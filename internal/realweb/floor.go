package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
)

// floorCmd only fetches URLs, over connections that stay open: the minimum work of a crawler.
type floorCmd struct {
	List        string `required:"" help:"File of lines: address with port, host with port, target of the request."`
	Gunzip      bool   `help:"Decode the bodies."`
	Connections int    `default:"16" help:"Number of concurrent requests."`
}

// floorRequest is a line of the list.
type floorRequest struct{ addr, host, target string }

// Run is the command floor.
func (c floorCmd) Run(ctx context.Context) error {
	var list []floorRequest
	err := readLines(c.List, func(line string) error {
		f := strings.Fields(line)
		if len(f) != 3 {
			return fmt.Errorf("%d fields, want 3", len(f))
		}
		list = append(list, floorRequest{f[0], f[1], f[2]})
		return nil
	})
	if err != nil {
		return err
	}
	var next atomic.Int64
	errs := make([]error, c.Connections)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			f := floorFetcher{conns: map[string]*floorConn{}, gunzip: c.Gunzip}
			for n := next.Add(1) - 1; n < int64(len(list)) && errs[i] == nil && ctx.Err() == nil; n = next.Add(1) - 1 {
				errs[i] = f.fetch(list[n])
			}
			for _, conn := range f.conns {
				conn.c.Close()
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

// floorFetcher has one connection to each host.
type floorFetcher struct {
	conns   map[string]*floorConn
	gunzip  bool
	decoder *gzip.Reader
	body    []byte
	request []byte
	plain   [64 << 10]byte
}

type floorConn struct {
	c  net.Conn
	in *bufio.Reader
}

func (f *floorFetcher) fetch(r floorRequest) error {
	conn := f.conns[r.host]
	if conn == nil {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			return err
		}
		conn = &floorConn{c, bufio.NewReaderSize(c, 16<<10)}
		f.conns[r.host] = conn
	}
	f.request = fmt.Appendf(f.request[:0], "GET %s HTTP/1.1\r\nHost: %s\r\nAccept-Encoding: gzip\r\n\r\n", r.target, r.host)
	if _, err := conn.c.Write(f.request); err != nil {
		return err
	}
	last, err := f.read(conn.in)
	if err != nil {
		return fmt.Errorf("%s%s: %w", r.host, r.target, err)
	}
	if last {
		delete(f.conns, r.host)
		return conn.c.Close()
	}
	return nil
}

// read reads one response, which must have status 200 and a length. last reports whether the server closes
// the connection.
func (f *floorFetcher) read(in *bufio.Reader) (last bool, err error) {
	length, coded := -1, false
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return false, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
			return false, fmt.Errorf("reply %q", line)
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := strings.Cut(string(line), ": ")
		switch name {
		case "Content-Length":
			if length, err = strconv.Atoi(value); err != nil {
				return false, err
			}
		case "Connection":
			last = value == "close"
		case "Content-Encoding":
			coded = value == "gzip"
		}
	}
	if length < 0 {
		return false, errors.New("no Content-Length")
	}
	if cap(f.body) < length {
		f.body = make([]byte, length)
	}
	body := f.body[:length]
	if _, err := io.ReadFull(in, body); err != nil || !coded || !f.gunzip {
		return last, err
	}
	if f.decoder == nil {
		f.decoder = new(gzip.Reader)
	}
	if err := f.decoder.Reset(bytes.NewReader(body)); err != nil {
		return last, err
	}
	for err == nil {
		_, err = f.decoder.Read(f.plain[:])
	}
	if err == io.EOF {
		err = nil
	}
	return last, err
}
