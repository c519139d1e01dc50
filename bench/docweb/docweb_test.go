package docweb

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// tiny is a web for tests. Its robots.txt and its slow host answer at once.
func tiny() Options {
	return Options{Hosts: 12, Addrs: 3, Largest: 1500, Skew: 2, MeanBytes: 4000, Seed: 7, Bad: true, Vast: 10_000}
}

// TestSizes: the sizes of hosts fall by the power law from Largest to 1, each kind of robots.txt is there, a
// third of the bytes is plain, and the addresses are shared.
func TestSizes(t *testing.T) {
	for name, c := range map[string]struct {
		opt   Options
		pages int
	}{"discover": {Discover(), 131_292}, "discover-full": {DiscoverFull(), 209_157},
		"discover-small": {DiscoverSmall(), 2998}} {
		w := outline(c.opt)
		hosts, plain, sum := w.Hosts(), 0, 0
		if first, last := hosts[0].Pages, hosts[len(hosts)-1].Pages; first != c.opt.Largest || last != 1 {
			t.Errorf("%s: got hosts of %d to %d pages, want %d to 1", name, first, last, c.opt.Largest)
		}
		if !slices.IsSortedFunc(hosts, func(a, b *Host) int { return b.Pages - a.Pages }) {
			t.Errorf("%s: sizes rise", name)
		}
		kinds, addrs := map[Robots]int{}, map[string]int{}
		for _, h := range hosts {
			kinds[h.Robots]++
			addrs[h.Addr.String()]++
			sum += h.Pages
			if h.Plain {
				plain += h.Pages
			}
		}
		if len(kinds) != int(RobotsFails)+1 || len(addrs) != c.opt.Addrs || len(hosts) != c.opt.Hosts ||
			len(w.byName) != len(hosts) {
			t.Errorf("%s: got %d kinds of robots.txt, %d addresses, %d hosts, %d names", name, len(kinds), len(addrs),
				len(hosts), len(w.byName))
		}
		if sum != c.pages || plain < sum*3/10 || plain > sum/3 {
			t.Errorf("%s: got %d pages, %d of them plain, want %d, a third of them plain", name, sum, plain, c.pages)
		}
		for _, seeds := range []int{1, 3} {
			if testing.Short() && sum > 10_000 { // a second each
				continue
			}
			if e := w.Expected(seeds); e.Pages < sum*9/10 || e.Pages > sum || e.Hosts != len(hosts)-kinds[RobotsFails] {
				t.Errorf("%s: got %d of %d pages and %d hosts from %d seeds, want nearly all, and all but %d hosts",
					name, e.Pages, sum, e.Hosts, seeds, kinds[RobotsFails])
			}
		}
		for _, h := range w.seeds {
			if h.Robots >= RobotsSlow || h.Pages == 1 {
				t.Errorf("%s: seed %s has robots.txt %d, %d pages", name, h.Name, h.Robots, h.Pages)
			}
		}
	}
}

// TestPaths: a path leads to its URL and no other path does.
func TestPaths(t *testing.T) {
	w := outline(tiny())
	for _, h := range w.hosts {
		seen := map[string]bool{}
		for k, n := range map[kind]int{page: min(h.Pages, 3000), gone: h.gone, moved: h.moved} {
			for i := range n {
				want := node{h, k, i}
				p := w.path(want)
				if got, ok := w.nodeOf(h, p); !ok || got != want || seen[p] {
					t.Fatalf("%s%s: got %v, %v, seen %v, want %v", h.Name, p, got, ok, seen[p], want)
				}
				seen[p] = true
			}
		}
		for _, p := range []string{"", "/x", "//", "/-1.html", "/a-b-.html", "/the/x-y-5.html", w.path(node{h, gone,
			h.gone}), w.path(node{h, page, h.Pages}),
			"/archive" + w.path(node{h, page, 1}), "/the/x-y-99999999999999999999.html"} {
			if n, ok := w.nodeOf(h, p); ok {
				t.Errorf("%s %q: got %v, want nothing", h.Name, p, n)
			}
		}
	}
}

// TestListsLeadToAMillion: the pages of lists link to each page of vast once.
func TestListsLeadToAMillion(t *testing.T) {
	o := tiny()
	o.Vast = 1_000_000
	w := outline(o)
	list, to := w.hosts[12], w.hosts[13]
	seen := make([]bool, to.Pages)
	for i := range list.Pages {
		w.linksOf(list, i).all(func(n node) {
			if i > 0 && (n.host != to || seen[n.n]) {
				t.Fatalf("page %d links to %s again", i, w.url(n))
			}
			if i > 0 {
				seen[n.n] = true
			}
		})
	}
	if len(seen) != 1_000_000 || slices.Contains(seen, false) {
		t.Errorf("got links to some of %d pages, want all of a million", len(seen))
	}
}

// TestServer runs the tests that need a server.
func TestServer(t *testing.T) {
	s, err := Serve(tiny())
	must(t, err)
	for name, test := range map[string]func(*testing.T, *Server){"pages": testPages, "answers": testAnswers,
		"bad hosts": testBadHosts, "log": testLog} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// ask sends text to a host, with HOST for its name and port, and returns all of the answer.
func ask(t *testing.T, s *Server, h *Host, text string) string {
	t.Helper()
	name := fmt.Sprintf("%s:%d", h.Name, s.web.opt.Port)
	c, err := net.Dial("tcp", net.JoinHostPort(h.Addr.String(), strconv.Itoa(s.web.opt.Port)))
	must(t, err)
	defer c.Close()
	if _, err := io.WriteString(c, strings.ReplaceAll(text, "HOST", name)); err != nil {
		t.Fatal(err)
	}
	must(t, c.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(c)
	must(t, err)
	return string(got)
}

// get returns head and body of the answer to a GET.
func get(t *testing.T, s *Server, h *Host, path, fields string) (head, body string) {
	t.Helper()
	text := ask(t, s, h, "GET "+path+" HTTP/1.1\r\nHost: HOST\r\n"+fields+"\r\n")
	head, body, found := strings.Cut(text, "\r\n\r\n")
	if !found || !strings.Contains(head, fmt.Sprintf("\r\nContent-Length: %d", len(body))) {
		t.Fatalf("%s%s: got %q with %d bytes, want its length", h.Name, path, head, len(body))
	}
	return head, body
}

// testPages: a page comes in gzip or as it is, with links to what the graph says.
func testPages(t *testing.T, s *Server) {
	w := s.web
	plain := 0
	for _, h := range w.ordinary {
		for _, i := range []int{0, h.Pages / 2, h.Pages - 1} {
			path := w.path(node{host: h, n: i})
			head, body := get(t, s, h, path, "Accept-Encoding: gzip, br\r\n")
			if strings.Contains(head, "Content-Encoding: gzip") == h.Plain {
				t.Fatalf("%s%s: got %q, want gzip: %v", h.Name, path, head, !h.Plain)
			}
			if h.Plain {
				plain++
			} else {
				z, err := gzip.NewReader(strings.NewReader(body))
				must(t, err)
				raw, err := io.ReadAll(z) // with checksum and length
				if err != nil || !bytes.Equal(raw, w.Body(h, i)) {
					t.Fatalf("%s%s: got %d bytes, %v", h.Name, path, len(raw), err)
				}
				body = string(raw)
			}
			if head, same := get(t, s, h, path, ""); same != body || strings.Contains(head, "gzip") {
				t.Errorf("%s%s without Accept-Encoding: got %q", h.Name, path, head)
			}
			w.linksOf(h, i).all(func(n node) {
				if !strings.Contains(body, `href="`+w.href(h, n)+`"`) {
					t.Errorf("%s%s lacks %s", h.Name, path, w.href(h, n))
				}
			})
			if len(body) < 1000 || !strings.HasSuffix(body, "</html>\n") {
				t.Errorf("%s%s: got %d bytes", h.Name, path, len(body))
			}
		}
	}
	if plain == 0 || plain == 3*len(w.ordinary) {
		t.Errorf("%d plain pages", plain)
	}
}

// testAnswers: what is not a page, and the connection.
func testAnswers(t *testing.T, s *Server) {
	w := s.web
	kinds := map[Robots]bool{}
	for _, h := range w.hosts[:len(w.hosts)-1] { // not silent
		kinds[h.Robots] = true
		want := map[Robots]string{RobotsAbsent: "404", RobotsEmpty: "200", RobotsDisallow: "200", RobotsDelay0: "200",
			RobotsHTML: "200", RobotsForbids: "403", RobotsMoved: "301", RobotsSlow: "200", RobotsFails: "500",
			robotsHour: "200"}[h.Robots]
		head, body := get(t, s, h, "/robots.txt", "")
		if !strings.HasPrefix(head, "HTTP/1.1 "+want) {
			t.Errorf("robots.txt of kind %d: got %q, want %s", h.Robots, head, want)
		}
		for text, kind := range map[string]Robots{"Disallow: /internal/": RobotsDisallow,
			"Crawl-delay: 0": RobotsDelay0, "<title>Nothing": RobotsHTML,
			"Crawl-delay: 3600": robotsHour} {
			if strings.Contains(body, text) != (h.Robots == kind) {
				t.Errorf("robots.txt of kind %d: got %q", h.Robots, body)
			}
		}
		if head, _ := get(t, s, h, robotsMoved, ""); strings.HasPrefix(head,
			"HTTP/1.1 200") != (h.Robots == RobotsMoved) {
			t.Errorf("%s of kind %d: got %q", robotsMoved, h.Robots, head)
		}
	}
	if len(kinds) != int(robotsHour)+1 {
		t.Errorf("got %d kinds of robots.txt", len(kinds))
	}
	h := w.hosts[0]
	move := node{h, moved, 3}
	if head, _ := get(t, s, h, w.path(move), ""); !strings.Contains(head, "301") || !strings.Contains(head+"\r\n",
		"\r\nLocation: "+w.url(w.target(move))+"\r\n") {
		t.Errorf("moved page: got %q, want %s", head, w.url(w.target(move)))
	}
	for _, path := range []string{w.path(node{h, gone, 1}), "/_static/basic.css"} {
		if head, _ := get(t, s, h, path, ""); !strings.HasPrefix(head, "HTTP/1.1 404") {
			t.Errorf("%s: got %q", path, head)
		}
	}
	const one = "GET / HTTP/1.1\r\nHost: HOST\r\n\r\n"
	for text, want := range map[string]int{one + one + one: 3, one + strings.Replace(one, "\r\n\r\n",
		"\r\nConnection: close\r\n\r\n", 1) + one: 2,
		strings.Replace(one, "1.1", "1.0", 1) + one: 1, "POST / HTTP/1.1\r\nHost: HOST\r\n\r\n" + one: 0,
		"GET /\r\n\r\n": 0, "GET / HTTP/1.1\r\nHost: x": 0,
		"GET /" + strings.Repeat("a", 20_000) + " HTTP/1.1\r\n\r\n": 0} {
		if n := strings.Count(ask(t, s, h, text), "HTTP/1.1 200"); n != want {
			t.Errorf("%.60q: got %d answers, want %d", text, n, want)
		}
	}
	if got := ask(t, s, h, "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 421") {
		t.Errorf("another host: got %q", got)
	}
	if got := ask(t, s, h, strings.Replace(one, "GET", "HEAD", 1)); !strings.HasSuffix(got, "\r\n\r\n") ||
		strings.Contains(got, "<html") {
		t.Errorf("HEAD: got %d bytes", len(got))
	}
}

// testBadHosts: names exist as far as SetBad says, and the silent host reads but never answers.
func testBadHosts(t *testing.T, s *Server) {
	w := s.web
	for bad, want := range map[Bad]int{BadNone: 12, BadLists: 13, BadAll: 16} {
		w.SetBad(bad)
		known := 0
		for _, h := range w.hosts {
			if addr, ok := w.Lookup(strings.ToUpper(h.Name)); ok {
				known++
				if addr != h.Addr {
					t.Errorf("%s is at %s, want %s", h.Name, addr, h.Addr)
				}
			}
		}
		if known != want {
			t.Errorf("with %d: got %d hosts, want %d", bad, known, want)
		}
	}
	for _, name := range append(w.DeadNames(), "", "test", "other.test") {
		if _, ok := w.Lookup(name); ok {
			t.Errorf("%q exists", name)
		}
	}
	for _, h := range w.hosts[13:] {
		got := ask(t, s, h, "GET / HTTP/1.1\r\nHost: HOST\r\n\r\n")
		if strings.HasPrefix(got, "HTTP/1.1 200") != (h.role != silent) || h.role == silent && got != "" {
			t.Errorf("%s: got %q", h.Name, got)
		}
	}
}

// testLog: the log counts pages once, those of bad hosts not at all, and knows which are missing or needless.
func testLog(t *testing.T, s *Server) {
	w := s.web
	e := w.Expected(1)
	s.Log().Restart(e)
	var unwanted *Host
	for _, h := range w.ordinary {
		if h.Robots == RobotsFails {
			unwanted = h
		}
	}
	h := w.hosts[0]
	for _, n := range []node{{host: h}, {host: h}, {host: h, n: 1}, {host: h, kind: gone}, {host: h, kind: moved},
		{host: unwanted}, {host: w.hosts[13]}} {
		get(t, s, n.host, w.path(n), "")
	}
	get(t, s, h, "/robots.txt", "")
	c := s.Log().Counts()
	if c.Pages != 3 || c.Missing != e.Pages-2 || c.Extra != 1 || c.Twice != 1 || c.Gone != 1 || c.Moved != 1 ||
		c.Other != 2 || len(c.Ends) != 3 ||
		len(c.MissedOf) != 3 || !strings.HasPrefix(c.MissedOf[0], w.url(node{host: h})) {
		t.Errorf("got %+v", c)
	}
	if answers, left := s.Log().Progress(); answers != 8 || left != e.Pages-2 {
		t.Errorf("got %d answers and %d pages left, want 8 and %d", answers, left, e.Pages-2)
	}
	s.Log().Restart(e)
	if c := s.Log().Counts(); c.Pages != 0 || c.Missing != e.Pages || c.Other != 0 {
		t.Errorf("after a restart: got %+v", c)
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
