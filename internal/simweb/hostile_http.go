package simweb

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// httpScenarios are hosts whose HTTP or pages misbehave. A correct crawler fetches each URL once, or ends
// it with the reason in crawl/hostile_test.go.
func httpScenarios() []scenario {
	return []scenario{
		{"endless-body", endlessBody},
		{"endless-head", endlessHead},
		{"trickle", trickle},
		{"slow-farm", slowFarm},
		{"bombs", bombs},
		{"huge-pages", hugePages},
		{"redirects", redirects},
		{"robots-giant", robotsGiant},
		{"robots-patterns", robotsPatterns},
		{"robots-circles", robotsCircles},
		{"robots-broken", robotsBroken},
		{"desync", desync},
		{"resets", resets},
		{"bad-http2", badHTTP2},
	}
}

const (
	htmlHead = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	textHead = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
)

// flood repeats piece until the client closes.
func (s *session) flood(head, piece string) bool {
	if s.writeString(head) {
		for p := []byte(piece); s.write(p); {
		}
	}
	return false
}

// drip sends one byte per second until the client closes.
func (s *session) drip(head, text string) bool {
	if !s.writeString(head) {
		return false
	}
	for i := 0; ; i++ {
		s.conn.SetDeadline(time.Now().Add(idleTimeout))
		if !s.wait(time.Second) || !s.write([]byte{text[i%len(text)]}) {
			return false
		}
	}
}

// hold sends text, then nothing until the client closes.
func (s *session) hold(text string) bool {
	ok := s.writeString(text)
	for ok {
		ok = s.wait(time.Minute)
	}
	return false
}

// reply sends one whole response and keeps the connection open.
func (s *session) reply(head, body string) bool {
	return s.writeString(head + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// addEach adds one host per handler.
func addEach(w *Web, add func(hostileHost), scenario string, handlers ...func(s *session, q *wish) bool) {
	for i, h := range handlers {
		add(hostileHost{name: w.hostileName(scenario, i), serve: h})
	}
}

// endlessBody: pages without end: one with a declared length, one chunked, one that ends with the
// connection, one with endless trailers.
func endlessBody(w *Web, add func(hostileHost)) {
	text := string(w.text[:16<<10])
	body := func(head, piece string) func(s *session, q *wish) bool {
		return func(s *session, q *wish) bool { return s.flood(htmlHead+head+"\r\n", piece) }
	}
	addEach(w, add, "endless-body", body("Content-Length: 9223372036854775807\r\n", text),
		body("Transfer-Encoding: chunked\r\n", "4000\r\n"+text+"\r\n"), body("", text),
		body("Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX: y", "\r\nX: "+text))
}

// endlessHead: an endless header line, endless header lines, endless interim responses, endless blank lines.
func endlessHead(w *Web, add func(hostileHost)) {
	long := strings.Repeat("x", 8<<10)
	head := func(start, piece string) func(s *session, q *wish) bool {
		return func(s *session, q *wish) bool { return s.flood(start, piece) }
	}
	addEach(w, add, "endless-head", head("HTTP/1.1 200 OK\r\nX: ", long),
		head("HTTP/1.1 200 OK\r\n", strings.Repeat("A: b\r\n", 1000)),
		head("", "HTTP/1.1 103 Early Hints\r\nLink: <"+long+">\r\n\r\n"), head("", strings.Repeat("\r\n", 1000)))
}

// trickle: one byte per second in the head and in the body, silence before the head and in the body, and an
// endless body at a rate just above the minimum.
func trickle(w *Web, add func(hostileHost)) {
	addEach(w, add, "trickle",
		func(s *session, q *wish) bool { return s.drip("HTTP/1.1 200 OK\r\nX: ", "y") },
		func(s *session, q *wish) bool { return s.drip(htmlHead+"\r\n", "<a href=/x>") },
		func(s *session, q *wish) bool { return s.hold("") },
		func(s *session, q *wish) bool { return s.hold(htmlHead + "Content-Length: 1000\r\n\r\n<p>") },
		func(s *session, q *wish) bool {
			ok := s.writeString(htmlHead + "\r\n")
			for ok {
				s.conn.SetDeadline(time.Now().Add(idleTimeout))
				ok = s.wait(time.Second) && s.write(w.text[:400])
			}
			return false
		})
}

// slowFarm: one PLD of a hundred hosts (times HostileScale), each on an address of its own, with endless
// pages at a rate just above the minimum: each occupies a connection for the maximum time of an exchange.
func slowFarm(w *Web, add func(hostileHost)) {
	hub := w.hostileName("slow-farm", 0)
	n := 100 * w.opt.HostileScale
	var page strings.Builder
	for i := range n {
		name := "h" + strconv.Itoa(i) + strings.TrimPrefix(hub, "www")
		page.WriteString("<a href=http://" + name + "/></a>")
		add(hostileHost{name: name, seeds: []string{}, serve: func(s *session, q *wish) bool {
			ok := s.writeString(htmlHead + "\r\n")
			for ok {
				s.conn.SetDeadline(time.Now().Add(idleTimeout))
				ok = s.wait(time.Second) && s.write(w.text[:400])
			}
			return false
		}})
	}
	add(hostileHost{name: hub, serve: func(s *session, q *wish) bool { return s.reply(htmlHead, page.String()) }})
}

// redirects: a loop of one URL, a loop over two hosts, a chain of 30 hops over five hosts that ends at a
// page, targets of other schemes, a target that is too long, a redirect with an endless body.
func redirects(w *Web, add func(hostileHost)) {
	name := func(i int) string { return w.hostileName("redirects", i) }
	to := func(s *session, url string) bool {
		return s.reply("HTTP/1.1 302 Found\r\nLocation: "+url+"\r\n", "")
	}
	for i := range 5 {
		seeds := []string{}
		if i == 0 {
			for _, p := range [...]string{"/self", "/two", "/chain/0", "/ftp", "/script", "/long",
				"/endless", "/nowhere"} {
				seeds = append(seeds, "http://"+name(0)+p)
			}
		}
		add(hostileHost{name: name(i), seeds: seeds, serve: func(s *session, q *wish) bool {
			path := string(q.path)
			switch path {
			case "/self":
				return to(s, "/self")
			case "/two":
				return to(s, "http://"+name((i+1)%2)+"/two")
			case "/ftp":
				return to(s, "ftp://"+name(1)+"/x")
			case "/script":
				return to(s, "javascript:alert(1)")
			case "/long":
				return to(s, "/"+strings.Repeat("x", 50<<10))
			case "/nowhere":
				return to(s, "http://")
			case "/endless":
				return s.flood("HTTP/1.1 302 Found\r\nLocation: /end\r\n\r\n", strings.Repeat(path, 1000))
			}
			if n, err := strconv.Atoi(strings.TrimPrefix(path, "/chain/")); err == nil && n < 30 {
				return to(s, "http://"+name((n+1)%5)+"/chain/"+strconv.Itoa(n+1))
			}
			return s.reply(htmlHead, "<p>the end")
		}})
	}
}

// resets: the connection ends after accept, after the request, in the status line, in the head, in a body
// of known length, in a chunk, between two chunks.
func resets(w *Web, add func(hostileHost)) {
	add(hostileHost{name: w.hostileName("resets", 7), accept: func(conn net.Conn, _ uint16) bool {
		abort(conn)
		return true
	}})
	for i, text := range [...]string{
		"", "HTTP/1.", htmlHead + "Content-Le",
		htmlHead + "Content-Length: 1000\r\n\r\n<p>he", htmlHead + "Transfer-Encoding: chunked\r\n\r\n64\r\n<p>he",
		htmlHead + "Transfer-Encoding: chunked\r\n\r\n5\r\n<p>he\r\n",
	} {
		add(hostileHost{name: w.hostileName("resets", i), serve: func(s *session, q *wish) bool {
			s.writeString(text)
			abort(s.conn)
			return false
		}})
	}
}

// abort ends a connection; on a socket, with a reset.
func abort(conn net.Conn) {
	if c, ok := conn.(*net.TCPConn); ok {
		c.SetLinger(0)
	}
	conn.Close()
}

// marker is the title of a desync host's page, to distinguish it from a forged one.
func marker(host, path string) string { return "<title>" + host + path + "</title>" }

// desync: responses whose end client and server may see at different places. All hosts share one address.
// Each has five pages and hides a forged response after or in place of its own: a client that takes it for
// a page follows its link to /forged.
func desync(w *Web, add func(hostileHost)) {
	forged := htmlHead + "Content-Length: 20\r\n\r\n<a href=/forged>x</a>"
	length := func(n int) string { return "Content-Length: " + strconv.Itoa(n) + "\r\n" }
	forms := [...]func(body string) string{
		func(b string) string { return htmlHead + length(len(b)) + "\r\n" + b + forged },
		func(b string) string { return htmlHead + length(len(b)) + length(5) + "\r\n" + b + forged },
		func(b string) string { return htmlHead + length(5) + length(len(b)) + "\r\n" + b + forged },
		func(b string) string {
			return htmlHead + length(5) + "Transfer-Encoding: chunked\r\n\r\n" + chunk(b, "") + "0\r\n\r\n" + forged
		},
		func(b string) string {
			return htmlHead + "Transfer-Encoding: chunked\r\n" + length(3) + "\r\n" + chunk(b, ";x=\"\r") +
				"0;y\r\nZ: 1\r\n\r\n" + forged
		},
		func(b string) string {
			return strings.ReplaceAll(htmlHead+"Transfer-Encoding: chunked\r\n\r\n", "\r\n", "\n") +
				strings.ReplaceAll(chunk(b, ""), "\r\n", "\n") + "0\n\n" + forged
		},
		func(b string) string {
			return htmlHead + "X: a\rContent-Length: 5\r\n" + length(len(b)) + "\r\n" + b + forged
		},
		func(b string) string {
			return htmlHead + "X: a\r\n Content-Length: 5\r\n" + length(len(b)) + "\r\n" + b + forged
		},
		func(b string) string {
			return htmlHead + "X: \x00\r\nContent-Length : " + strconv.Itoa(len(b)) + "\r\n\r\n" + b + forged
		},
		func(b string) string {
			return strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 5) + htmlHead + length(len(b)) + "\r\n" + b + forged
		},
		func(b string) string {
			return "HTTP/1.1 204 No Content\r\n" + length(len(forged)) + "\r\n" + forged
		},
		func(b string) string {
			return htmlHead + "Transfer-Encoding: chunked\r\n\r\n" + chunk(b, "") + "-1\r\n" + forged
		},
		func(b string) string {
			return htmlHead + "Transfer-Encoding: chunked\r\n\r\n" + chunk(b, "") + "fffffffffffffffff\r\n" + forged
		},
		func(b string) string {
			return "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n" + length(len(b)) + "\r\n" + b + forged
		},
	}
	addr := deadAddr(hostileNet, 60_000)
	w.hostile.addrs, w.hostile.byAddr[addr] = append(w.hostile.addrs, addr), nil
	for i, form := range forms {
		name := w.hostileName("desync", i)
		add(hostileHost{name: name, addr: addr, serve: func(s *session, q *wish) bool {
			path := string(q.path)
			b := marker(name, path)
			if path == "/" {
				b += "<a href=/1></a><a href=/2></a><a href=/3></a><a href=/4></a>"
			}
			return s.writeString(form(b))
		}})
	}
	// The last one, on an address of its own, responds before the request.
	early := w.hostileName("desync", len(forms))
	silent := func(s *session, q *wish) bool { return s.hold("") }
	add(hostileHost{name: early, accept: func(conn net.Conn, _ uint16) bool {
		// The goroutine ends with the connection.
		go io.WriteString(conn, strings.Replace(forged, "forged", "first!", 1))
		return false
	}, serve: silent, robots: silent})
}

// chunk encodes a body as one chunk with an extension.
func chunk(body, ext string) string { return fmt.Sprintf("%x%s\r\n%s\r\n", len(body), ext, body) }
