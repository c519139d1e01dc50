package simweb

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// logged records requests without a connection.
type logged struct {
	t *testing.T
	w *Web
	p *painter
}

func (l *logged) begin(c *connLog, url string) running {
	l.t.Helper()
	scheme, rest, _ := strings.Cut(url, "://")
	slash := strings.IndexByte(rest, '/')
	q := request{https: scheme == "https", path: []byte(rest[slash:])}
	q.host, q.port = splitHost([]byte(rest[:slash]), q.https)
	return c.begin(q.host, l.p.answer(&q), &q)
}

// plain is a web of http hosts on one address.
func plain(hosts int) Options {
	return Options{
		Seed: *seedFlag, PLDs: hosts, Hosts: hosts, Pages: 20 * hosts, LinksPerPage: 5, LogRequests: 4,
	}
}

func TestGapsAndConnectionsOfTheLog(t *testing.T) {
	w := mustNew(t, plain(3))
	l := &logged{t, w, &painter{w: w}}
	ip := w.addrs[0]
	a, b := w.hosts[0].origin, w.hosts[1].origin
	synctest.Test(t, func(t *testing.T) {
		c1 := w.log.openConn(ip)
		r := l.begin(c1, a+"/robots.txt") // 0 s
		time.Sleep(2 * time.Second)
		c1.end(r, false)
		time.Sleep(time.Second)
		r = l.begin(c1, a+"/") // 3 s
		c1.end(r, false)
		time.Sleep(500 * time.Millisecond)
		c2 := w.log.openConn(ip)
		r = l.begin(c2, b+"/") // 3.5 s
		time.Sleep(9 * time.Second)
		c2.end(r, true)
		c2.close()
		c1.close()
	})
	s := w.log.Snapshot()
	want := Tracked{2, 1, 3 * time.Second, time.Second, -1, 0, 1, 1}
	if got := s.Hosts[w.hosts[0].name]; got != want {
		t.Errorf("first host: got %+v, want %+v", got, want)
	}
	if got, want := s.Hosts[w.hosts[1].name], (Tracked{1, 0, -1, -1, -1, 1, 1, 1}); got != want {
		t.Errorf("second host: got %+v, want %+v", got, want)
	}
	want = Tracked{3, 1, 500 * time.Millisecond, 500 * time.Millisecond, 500 * time.Millisecond, 0, 1, 2}
	if got := s.Servers[ip.String()]; got != want {
		t.Errorf("server: got %+v, want %+v", got, want)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{s.CheckGaps(3*time.Second, 500*time.Millisecond, 0), ""},
		{s.CheckGaps(4*time.Second, 0, 0), "host " + w.hosts[0].name},
		{s.CheckGaps(4*time.Second, 0, time.Second), ""},
		{s.CheckGaps(0, time.Second, 0), "server " + ip.String()},
		{s.CheckEndGaps(time.Second, 0), ""},
		{s.CheckEndGaps(2*time.Second, 0), "host " + w.hosts[0].name},
		{s.CheckOnce(), ""},
		{s.CheckRobotsFirst(), "host " + w.hosts[1].name + " got 1 "},
	} {
		if (c.want == "") != (c.err == nil) || c.err != nil && !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("got %v, want %q", c.err, c.want)
		}
	}
}

func TestTwoConnectionsToOneHostAreSeen(t *testing.T) {
	w := mustNew(t, plain(2))
	l := &logged{t, w, &painter{w: w}}
	a := w.hosts[0].origin
	c1, c2 := w.log.openConn(w.addrs[0]), w.log.openConn(w.addrs[0])
	c1.end(l.begin(c1, a+"/"), true)
	c2.end(l.begin(c2, a+"/robots.txt"), true)
	if n, _ := w.log.Snapshot().MaxHostConns(); n != 1 {
		t.Errorf("one after the other: got %d, want 1", n)
	}
	c3, c4 := w.log.openConn(w.addrs[0]), w.log.openConn(w.addrs[0])
	r3 := l.begin(c3, a+"/")
	r4 := l.begin(c4, a+"/robots.txt")
	c3.end(r3, true)
	c4.end(r4, true)
	if n, host := w.log.Snapshot().MaxHostConns(); n != 2 || host != w.hosts[0].name {
		t.Errorf("at once: got %d at %s, want 2 at %s", n, host, w.hosts[0].name)
	}
	s := w.log.Snapshot()
	if got := s.Hosts[w.hosts[0].name]; got.MaxBusy != 2 || got.EndToStart != 0 {
		t.Errorf("at once: got %+v, want two busy and no gap", got)
	}
	if err := s.CheckGaps(0, 0, 0); err == nil || !strings.Contains(err.Error(), "2 connections") {
		t.Errorf("CheckGaps: got %v, want the two connections", err)
	}
	if err := s.CheckOnce(); err == nil || !strings.Contains(err.Error(), "fetched 2 times") {
		t.Errorf("CheckOnce: got %v, want the root twice", err)
	}
	w.log.Reset()
	if n, _, _ := w.log.Totals(); n != 0 || len(w.log.Requests()) != 0 {
		t.Errorf("after Reset: got %d requests", n)
	}
}

func TestLogKeepsTheLastRequestsAndCountsAll(t *testing.T) {
	w := mustNew(t, plain(2))
	l := &logged{t, w, &painter{w: w}}
	c := w.log.openConn(w.addrs[0])
	urls := []string{}
	for u := range w.Expected("x").FetchedURLs() {
		urls = append(urls, u)
		c.end(l.begin(c, u), false)
	}
	got := w.log.Requests()
	if len(got) != 4 {
		t.Fatalf("got %d requests, want 4", len(got))
	}
	for i, r := range got {
		if want := urls[len(urls)-4+i]; r.URL != want || r.Conn != 1 || r.Status == 0 || r.End < r.Start {
			t.Errorf("request %d: got %+v, want %s", i, r, want)
		}
	}
	e := w.Expected("x")
	if err := w.log.Snapshot().CheckFetched(e, 1); err != nil {
		t.Error(err)
	}
	c.end(l.begin(c, urls[0]), false)
	if err := w.log.Snapshot().CheckFetched(e, 1); err == nil {
		t.Error("a URL twice: got no complaint")
	}
	if err := w.log.Snapshot().CheckFetched(e, 2); err != nil {
		t.Error(err)
	}
	part, err := w.ExpectedFrom("x", w.Seeds()[:1], func(host, _ string) bool { return host == w.hosts[0].name })
	if err != nil || part.Fetched != int(w.hosts[0].pages) {
		t.Errorf("one host in scope: got %d, %v; want %d", part.Fetched, err, w.hosts[0].pages)
	}
	if err := w.log.Snapshot().CheckFetched(part, 2); err == nil {
		t.Error("URLs beyond the scope: got no complaint")
	}
}

func TestRequestsAtTheWrongAddressAreSeen(t *testing.T) {
	o := plain(2)
	o.IPs = 2
	w := mustNew(t, o)
	l := &logged{t, w, &painter{w: w}}
	wrong := w.addrs[0]
	if w.hosts[0].addrs[0] == wrong {
		wrong = w.addrs[1]
	}
	c := w.log.openConn(wrong)
	c.end(l.begin(c, w.hosts[0].origin+"/"), true)
	if err := w.log.Snapshot().CheckOnce(); err == nil || !strings.Contains(err.Error(), "address") {
		t.Errorf("got %v, want the address", err)
	}
}

func TestChainOfPages(t *testing.T) {
	w := mustNew(t, Options{Seed: *seedFlag, ChainPages: 1000, PageBytes: 500})
	e := w.Expected("drumbeat")
	if e.Fetched != 1000 || len(w.Seeds()) != 1 || w.Root(w.ChainHost()) != w.Seeds()[0] {
		t.Errorf("got %d URLs from %v, want 1000 from the chain's root", e.Fetched, w.Seeds())
	}
	page, ok := w.Page("http://" + w.ChainHost() + "/c999.html")
	if !ok || !page.Known || strings.Contains(string(page.Body), "<a") {
		t.Errorf("last page: got %v %+v, want one without links", ok, page)
	}
	if page, ok := w.Page("http://" + w.ChainHost() + "/c1000.html"); !ok || page.Known || page.Status != 404 {
		t.Errorf("beyond the last page: got %+v", page)
	}
}

func TestSpamIsEndlessAndKnownFromFewPLDs(t *testing.T) {
	o := Defaults(*seedFlag)
	o.Hosts, o.PLDs, o.Pages = 200, 50, 2000
	without := mustNew(t, o).Expected("drumbeat")
	o.Spam = Spam{On: true, InLinks: 3, Links: 50, OutLinks: 0.02}
	w := mustNew(t, o)
	e := w.Expected("drumbeat")
	if e.Fetched != without.Fetched {
		t.Errorf("other URLs with spam: got %d, want %d as without", e.Fetched, without.Fetched)
	}
	plds := map[int32]bool{}
	var links []node
	for i := range w.hosts {
		for page := range w.hosts[i].pages {
			links = w.appendTargets(links[:0], node{host: int32(i), page: page}, w.kind(&w.hosts[i], page))
			for _, l := range links {
				if l.host == w.spam {
					plds[w.hosts[i].pld] = true
				}
			}
		}
	}
	if len(plds) != 3 {
		t.Errorf("PLDs that link to spam: got %d, want 3", len(plds))
	}
	seen := map[string]bool{}
	queue := []string{"http://s0." + w.SpamPLD() + "/"}
	own, other := 0, 0
	for i := 0; i < 200; i++ {
		p, ok := w.Page(queue[i])
		if !ok || !p.Known || p.Status != 200 {
			t.Fatalf("%s: got %v %+v", queue[i], ok, p)
		}
		found, err := htmlLinks(queue[i], p.Body)
		must(t, err)
		for _, u := range found {
			n, err := w.parseURL(u)
			must(t, err)
			if n.host != w.spam {
				other++
				if n.page != 0 || !e.fetched.has(w.number(n)) {
					t.Errorf("spam links to %s, which is not a reachable root", u)
				}
				continue
			}
			own++
			if !seen[u] {
				seen[u] = true
				queue = append(queue, u)
			}
		}
	}
	if len(seen) < own*99/100 || other == 0 || own < 200*45 {
		t.Errorf("spam links: got %d own, %d of them distinct, and %d others", own, len(seen), other)
	}
	addr := w.spamAddr(5)
	c := w.log.openConn(addr)
	l := &logged{t, w, &painter{w: w}}
	c.end(l.begin(c, "http://s5."+w.SpamPLD()+"/c7.html"), true)
	c.end(l.begin(c, "http://sx."+w.SpamPLD()+"/"), true)
	s := w.log.Snapshot()
	if len(s.Fetches) != 1 || len(s.Wrong) != 1 || s.Hosts["s5."+w.SpamPLD()].Requests != 1 {
		t.Errorf("log: got %+v", s)
	}
}

func TestBigHostAndDeadHosts(t *testing.T) {
	o := Defaults(*seedFlag)
	o.Hosts, o.PLDs, o.Pages, o.BigPages = 50, 20, 500, 10_000
	o.Dead = DeadHosts{NXDomain: 200, ServFail: 100, Refused: 100, ConnectTimeout: 50, Links: 0.5}
	w := mustNew(t, o)
	e := w.Expected("drumbeat")
	if got := e.ByPLD[w.PLD(w.BigHost())]; got < 9_000 {
		t.Errorf("URLs of the big host: got %d, want nearly 10,000", got)
	}
	if hosts := e.ByHost(); e.Dead < 450 || len(hosts) < 495 {
		t.Errorf("dead URLs: got %d on %d hosts, want each of 450 hosts", e.Dead, len(hosts))
	}
	for u := range e.DeadURLs() {
		if _, _, dead := e.Has(u); !dead {
			t.Fatalf("Has(%s): got not dead", u)
		}
		break
	}
	if netip.MustParseAddr("127.255.0.1") != deadAddr(refusedNet, 0) {
		t.Errorf("first refusing address: got %v", deadAddr(refusedNet, 0))
	}
}

// TestGapsOfHostileHosts: a server that learns late that a client has left finds no gap too small, and no second
// connection. What it can prove it finds.
func TestGapsOfHostileHosts(t *testing.T) {
	const delay = 5 * time.Millisecond
	for _, c := range []struct {
		name  string
		open  time.Duration // when the first connection was last open
		begin time.Duration // of the second request
		after time.Duration // the first connection is found open once more then; 0: never
		gap   time.Duration
		want  string
	}{
		{"left, noticed late", 20 * time.Millisecond, 30 * time.Millisecond, 0, 10 * time.Millisecond, ""},
		{"left, too soon", 20 * time.Millisecond, 23 * time.Millisecond, 0, 3 * time.Millisecond,
			"asked again after 3ms"},
		{"both open", 20 * time.Millisecond, 30 * time.Millisecond, 40 * time.Millisecond, 0, "2 connections"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := mustNew(t, plain(1))
			request := func(conn *connLog) running {
				return conn.begin("h.test", &answer{node: node{host: -1}, hostile: true}, &request{path: []byte("/")})
			}
			begin := time.Now()
			at := func(d time.Duration) time.Time { time.Sleep(time.Until(begin.Add(d))); return time.Now() }
			c1, c2 := w.log.openConn(w.addrs[0]), w.log.openConn(w.addrs[0])
			r1 := request(c1)
			c1.alive(&r1, at(c.open))
			at(c.begin)
			r2 := request(c2)
			if c.after > 0 {
				c1.alive(&r1, at(c.after))
			}
			at(50 * time.Millisecond)
			c1.endHostile(r1, "h.test", 0, 200)
			c2.endHostile(r2, "h.test", 0, 200)
			s := w.log.Snapshot()
			if got := s.Hosts["h.test"]; got.EndToStart != c.gap {
				t.Errorf("%s: %+v, want a gap of %v", c.name, got, c.gap)
			}
			err := s.CheckEndGaps(delay, 0)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", c.name, err, c.want)
			}
		})
	}
}

// TestGapsOfThreeHostileRequests: what the second and third of three overlapping requests breach is not lost because
// the second began before the first had ended.
func TestGapsOfThreeHostileRequests(t *testing.T) {
	for _, open := range []time.Duration{49 * time.Millisecond, 60 * time.Millisecond} { // the second one
		synctest.Test(t, func(t *testing.T) {
			w := mustNew(t, plain(1))
			begin := time.Now()
			at := func(d time.Duration) time.Time { time.Sleep(time.Until(begin.Add(d))); return time.Now() }
			request := func(conn *connLog) running {
				return conn.begin("h.test", &answer{node: node{host: -1}, hostile: true}, &request{path: []byte("/")})
			}
			c1, c2, c3 := w.log.openConn(w.addrs[0]), w.log.openConn(w.addrs[0]), w.log.openConn(w.addrs[0])
			r1 := request(c1)
			c1.alive(&r1, at(5*time.Millisecond))
			at(30 * time.Millisecond)
			r2 := request(c2)
			at(35 * time.Millisecond)
			c1.endHostile(r1, "h.test", 0, 200) // noticed late
			c2.alive(&r2, at(min(open, 49*time.Millisecond)))
			at(50 * time.Millisecond)
			r3 := request(c3)
			if open > 50*time.Millisecond {
				c2.alive(&r2, at(open))
			}
			at(80 * time.Millisecond)
			c2.endHostile(r2, "h.test", 0, 200)
			c3.endHostile(r3, "h.test", 0, 200)
			want := max(0, 50*time.Millisecond-open)
			s := w.log.Snapshot()
			if got := s.Hosts["h.test"].EndToStart; got != want || s.CheckEndGaps(10*time.Millisecond, 0) == nil {
				t.Errorf("open until %v: a gap of %v, want %v", open, got, want)
			}
		})
	}
}
