package simweb

import (
	"strconv"
	"strings"
)

// hostileSite is a host of small pages with misbehaving robots rules; "/" links to the other pages.
func hostileSite(name string, paths []string, robots func(s *session, q *wish) bool) hostileHost {
	return hostileHost{name: name, robots: robots, serve: func(s *session, q *wish) bool {
		body := marker(name, string(q.path))
		if string(q.path) == "/" {
			for _, p := range paths {
				body += "<a href=" + p + "></a>"
			}
		}
		return s.reply(htmlHead, body)
	}}
}

// robotsGiant: endless rules: as lines, as one line, compressed, as rules that all apply, broken off late.
// /no is disallowed near the beginning. /late is too, except in the first, third and last case, where its
// rule is just before the 500 KiB that RFC 9309 asks to read. /far is beyond them.
func robotsGiant(w *Web, add func(hostileHost)) {
	rules := "User-agent: *\nDisallow: /no\n"
	filler := strings.Repeat("# a comment of thirty-two bytes\n", 14<<10) // 448 KiB
	far := strings.Repeat("# a comment of thirty-two bytes\n", 1<<10)     // two of them exceed 500 KiB
	all := rules + filler + "Disallow: /late\n" + strings.Repeat(far, 3) + "Disallow: /far\n"
	paths := []string{"/no", "/late", "/far", "/ok"}
	packed := zipped([]byte(all + strings.Repeat(far, 2000)))
	for i, robots := range []func(s *session, q *wish) bool{
		func(s *session, q *wish) bool { return s.flood(textHead+"Content-Length: 1000000000\r\n\r\n"+all, far) },
		func(s *session, q *wish) bool {
			return s.flood(textHead+"\r\n"+rules+"Disallow: /late\n", "Disallow: /x*")
		},
		func(s *session, q *wish) bool {
			return s.reply(textHead+"Content-Encoding: gzip\r\n", string(packed))
		},
		func(s *session, q *wish) bool {
			return s.flood(textHead+"\r\n"+rules+"Disallow: /late\n", "Disallow: /n\nAllow: /ok*a$\nCrawl-delay: 0.1\n")
		},
		func(s *session, q *wish) bool { // broken off after the part that counts
			s.writeString(textHead + "Content-Length: 1000000000\r\n\r\n" + all[:510<<10])
			abort(s.conn)
			return false
		},
	} {
		add(hostileSite(w.hostileName("robots-giant", i), paths, robots))
	}
}

// robotsPatterns: rules that cost a backtracking matcher exponential time, thousands of wildcards, endless
// patterns, endless groups. /no/1 is disallowed; /aaa…, as long as a URL may be, is allowed.
func robotsPatterns(w *Web, add func(hostileHost)) {
	long := "/" + strings.Repeat("a", 1900)
	paths := []string{long, long + "?" + strings.Repeat("a=a&", 20), "/no/1"}
	var many, groups strings.Builder
	for i := range 5000 {
		many.WriteString("Disallow: /" + strings.Repeat("a*", i%200+1) + "b" + strconv.Itoa(i) + "$\n")
		groups.WriteString("User-agent: bot" + strconv.Itoa(i) + "\nUser-agent: *\nDisallow: /*" +
			strconv.Itoa(i) + "*a*b$\n")
	}
	for i, rules := range []string{
		"Disallow: /" + strings.Repeat("*a", 500) + "b\nDisallow: " + strings.Repeat("/*", 2000) + "x$\n",
		many.String(),
		"Disallow: /" + strings.Repeat("a", 300_000) + "\nAllow: /" + strings.Repeat("*", 100_000) + "zz\n",
		groups.String(),
	} {
		text := "User-agent: *\nDisallow: /no/\n" + rules
		add(hostileSite(w.hostileName("robots-patterns", i), paths,
			func(s *session, q *wish) bool { return s.reply(textHead, text) }))
	}
}

// robotsCircles: rules that redirect to themselves, to each other, in an endless chain, and to an endless
// body.
func robotsCircles(w *Web, add func(hostileHost)) {
	name := func(i int) string { return w.hostileName("robots-circles", i) }
	to := func(url func(path string) string, body string) func(s *session, q *wish) bool {
		return func(s *session, q *wish) bool {
			head := "HTTP/1.1 302 Found\r\nLocation: " + url(string(q.path)) + "\r\n"
			if body == "" {
				return s.reply(head, "")
			}
			return s.flood(head+"\r\n", body)
		}
	}
	fixed := func(url string) func(string) string { return func(string) string { return url } }
	paths := []string{"/1", "/2"}
	add(hostileSite(name(0), paths, to(fixed(robotsPath), "")))
	add(hostileSite(name(1), paths, to(fixed("http://"+name(2)+robotsPath), "")))
	add(hostileSite(name(2), paths, to(fixed("http://"+name(1)+robotsPath), "")))
	add(hostileSite(name(3), paths, to(func(p string) string { // robots rules by isRobotsPath
		return robotsForHost + strconv.Itoa(len(p)) + strings.TrimPrefix(p, robotsForHost)
	}, "")))
	add(hostileSite(name(4), paths, to(fixed("//"+name(0)+"/robots.txt"), string(w.text[:4096]))))
}

// robotsBroken: unreadable rules: one byte per second, no response, a truncated response, an endless head,
// 500, a truncated compressed response, a response in chunks of one byte. The last is a truncated 404,
// which means that there are no rules.
func robotsBroken(w *Web, add func(hostileHost)) {
	for i, robots := range []func(s *session, q *wish) bool{
		func(s *session, q *wish) bool { return s.drip(textHead+"\r\n", "Disallow: /") },
		func(s *session, q *wish) bool { return s.hold("") },
		func(s *session, q *wish) bool {
			s.writeString(textHead + "Content-Length: 1000\r\n\r\nUser-agent: *\nAllow: /\n")
			abort(s.conn)
			return false
		},
		func(s *session, q *wish) bool { return s.flood("HTTP/1.1 200 OK\r\n", "A: b\r\n") },
		func(s *session, q *wish) bool {
			return s.reply("HTTP/1.1 500 No\r\nContent-Type: text/plain\r\n", "User-agent: *\nAllow: /\n")
		},
		func(s *session, q *wish) bool {
			b := zipped([]byte(strings.Repeat("Allow: /\n", 1000)))
			return s.reply(textHead+"Content-Encoding: gzip\r\n", string(b[:len(b)/2]))
		},
		func(s *session, q *wish) bool {
			return s.flood(textHead+"Transfer-Encoding: chunked\r\n\r\n", strings.Repeat("1\r\n#\r\n", 1000))
		},
		func(s *session, q *wish) bool {
			s.writeString("HTTP/1.1 404 No\r\nContent-Length: 1000\r\n\r\nno")
			abort(s.conn)
			return false
		},
	} {
		add(hostileSite(w.hostileName("robots-broken", i), []string{"/1"}, robots))
	}
}
