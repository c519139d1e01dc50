package fetch

import (
	"bytes"
	"strconv"

	"github.com/valyala/fasthttp"
)

// template is the head of a client's requests as fasthttp's codec encodes it, split where requests differ.
// Nearly all requests differ only in path and host, and joining the pieces takes a tenth of the codec's time.
type template struct {
	line []byte // from the end of the path to the host
	rest []byte // from the end of the host to the conditional headers

	codings string // the value of Accept-Encoding
}

const (
	hostLine  = "\r\nHost: "
	closeLine = "Connection: close\r\n"
)

// gzipOnly is the default Accept-Encoding.
const gzipOnly = "gzip"

// newTemplate splits a head encoded by the codec, with this Accept-Encoding or the default.
func (c *Client) newTemplate(codings string) *template {
	if codings == "" {
		codings = gzipOnly
	}
	head := c.encodeRequest(nil,
		&Request{Scheme: "http", Host: "host", PathQuery: "/", KeepAlive: 1, AcceptEncoding: codings})
	line, rest, ok := bytes.Cut(bytes.TrimPrefix(head, []byte("GET /")), []byte(hostLine+"host\r\n"))
	if !ok || !bytes.HasSuffix(rest, []byte("\r\n")) {
		panic("BUG: fetch: the codec's request can't be cut: " + string(head))
	}
	return &template{line: append(bytes.Clone(line), hostLine...), rest: bytes.TrimSuffix(rest, []byte("\r\n")),
		codings: codings}
}

// appendRequest appends the request head to dst, with these Fields instead of the request's.
func (c *Client) appendRequest(dst []byte, r *Request, fields []Field) []byte {
	if dst = c.appendPlain(dst, r); len(fields) > 0 {
		dst = appendFields(dst[:len(dst)-len("\r\n")], fields, false)
	}
	return dst
}

// appendPlain appends the request head without Request.Fields to dst.
func (c *Client) appendPlain(dst []byte, r *Request) []byte {
	if r.UserAgent != "" || r.From != "" || r.Accept != "" || r.AcceptLanguage != "" || r.AcceptEncoding != "" {
		return c.encodeRequest(dst, r)
	}
	dst = append(dst, "GET "...)
	if r.PathQuery == "" {
		dst = append(dst, '/')
	}
	dst = append(dst, r.PathQuery...)
	t := c.template.Load()
	dst = append(dst, t.line...)
	dst = appendHost(dst, r)
	dst = append(append(dst, "\r\n"...), t.rest...)
	if r.IfNoneMatch != "" {
		dst = append(append(append(dst, "If-None-Match: "...), r.IfNoneMatch...), "\r\n"...)
	}
	if r.IfModifiedSince != "" {
		dst = append(append(append(dst, "If-Modified-Since: "...), r.IfModifiedSince...), "\r\n"...)
	}
	if r.KeepAlive <= 0 {
		dst = append(dst, closeLine...)
	}
	return append(dst, "\r\n"...)
}

// appendHost appends the value of the Host line to dst.
func appendHost(dst []byte, r *Request) []byte {
	dst = append(dst, r.Host...)
	if r.Port != 0 && r.Port != defaultPort(r.Scheme) {
		dst = strconv.AppendUint(append(dst, ':'), uint64(r.Port), 10)
	}
	return dst
}

// Authority returns the host, with the port unless it is the scheme's default: the value of the Host line.
func (r *Request) Authority() string {
	if r.Port == 0 || r.Port == defaultPort(r.Scheme) {
		return r.Host
	}
	return string(appendHost(nil, r))
}

// encodeRequest encodes the request head with fasthttp's codec. It never calls req.URI(), so the path goes
// out byte for byte.
func (c *Client) encodeRequest(dst []byte, r *Request) []byte {
	req := fasthttp.AcquireRequest()
	defer fasthttp.ReleaseRequest(req)
	h := &req.Header
	h.DisableNormalizing()
	path := r.PathQuery
	if path == "" {
		path = "/"
	}
	h.SetRequestURI(path)
	h.SetHostBytes(appendHost(nil, r))
	set := func(key, v, def string) {
		if v == "" {
			v = def
		}
		if v != "" {
			h.Set(key, v)
		}
	}
	set("User-Agent", r.UserAgent, c.opt.UserAgent)
	set("From", r.From, c.opt.From)
	set("Accept", r.Accept, c.opt.Accept)
	set("Accept-Language", r.AcceptLanguage, c.opt.AcceptLanguage)
	codings := r.AcceptEncoding
	if codings == "" {
		codings = c.template.Load().codings
	}
	set("Accept-Encoding", codings, "")
	set("If-None-Match", r.IfNoneMatch, "")
	set("If-Modified-Since", r.IfModifiedSince, "")
	if r.KeepAlive <= 0 {
		h.SetConnectionClose()
	}
	return h.AppendBytes(dst)
}
