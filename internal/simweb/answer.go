package simweb

import "strings"

// request is the part of an HTTP request that the generator needs.
type request struct {
	https bool
	host  string // lower case, without port
	port  uint16
	path  []byte // path and query as sent
}

// answer answers a request; the result is valid until the next call.
func (p *painter) answer(q *request) *answer {
	a := &p.ans
	*a = answer{location: a.location[:0], node: node{host: -1}}
	i, sub, ok := p.w.find(q.host)
	if !ok || p.w.hosts[i].kind.dead() {
		a.status, a.ctype, a.body = 421, "text/plain", []byte("no such host here\n")
		return a
	}
	h := &p.w.hosts[i]
	if scheme := h.scheme == "https"; scheme != q.https || q.port != h.port {
		a.status, a.ctype, a.node = 301, "text/plain", node{host: i, sub: sub}
		a.robots = isRobotsPath(q.path)
		_, a.fallback = p.w.parsePath(i, sub, q.path, &p.scratch)
		a.location = append(append(a.location, h.origin...), q.path...)
		if h.kind == spamHost {
			a.location = append(append(append(a.location[:0], "http://"...), q.host...), q.path...)
		}
		return a
	}
	if isRobotsPath(q.path) {
		a.robots, a.node = true, node{host: i, sub: sub}
		a.body = p.body[:0]
		p.w.answerRobots(a, a.node, q.path)
		p.body = a.body
		return a
	}
	n, ok := p.w.parsePath(i, sub, q.path, &p.scratch)
	if !ok {
		a.status, a.ctype, a.node = 404, "text/plain", n
		a.body = append(p.body[:0], "no such page; no link of this web leads here\n"...)
		p.body = a.body
		return a
	}
	p.answerNode(a, n)
	return a
}

// Page is one response of the web as a value.
type Page struct {
	Status   int
	Kind     Kind
	Known    bool   // false: no link of the web leads there (or a request for robots rules)
	Type     string // Content-Type
	Location string // as sent, possibly relative
	Body     []byte // never compressed
}

// Page returns the response to a URL without a server, from the same pure function that the servers use.
// Every URL with the host's scheme and port has a response; ok is false for unknown names and dead hosts.
func (w *Web) Page(url string) (page Page, ok bool) {
	scheme, rest, _ := strings.Cut(url, "://")
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return Page{}, false
	}
	q := request{https: scheme == "https", path: []byte(rest[slash:])}
	q.host, q.port = splitHost([]byte(rest[:slash]), q.https)
	p := &painter{w: w}
	a := p.answer(&q)
	if a.node.host < 0 {
		return Page{}, false
	}
	return Page{
		Status: a.status, Kind: a.kind, Known: a.known, Type: a.ctype, Location: string(a.location), Body: a.body,
	}, true
}

// splitHost splits a Host header; the port defaults by scheme.
func splitHost(b []byte, https bool) (host string, port uint16) {
	port = 80
	if https {
		port = 443
	}
	name := b
	for i := len(b) - 1; i >= 0 && len(b)-i <= 6; i-- {
		if b[i] == ':' {
			var x uint32
			for _, c := range b[i+1:] {
				if !isDigit(c) {
					return strings.ToLower(string(b)), port
				}
				x = x*10 + uint32(c-'0')
			}
			name = b[:i]
			if len(b) > i+1 {
				port = uint16(x)
			}
			break
		}
	}
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			return strings.ToLower(string(name)), port
		}
	}
	return string(name), port
}
