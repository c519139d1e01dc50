package simweb

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// A hostile scenario is one kind of misbehaviour and the hosts that show it. Its names, addresses and
// handlers are outside the generator's tables, so it doesn't change the ordinary web, its Expected or the
// checks of its log. Nothing links to these hosts; HostileSeeds leads to them. Options.Hostile selects
// scenarios.
type scenario struct {
	name  string
	hosts func(w *Web, add func(hostileHost))
}

// scenarios is the registry of all scenarios.
func scenarios() []scenario {
	return slices.Concat(httpScenarios(), nameScenarios(), politeScenarios(), welcomeScenarios(), linksScenario())
}

// hostileHost is one host of a scenario. Handlers run in the goroutine of the connection; they must end
// soon after the client closes it, which makes writes fail.
type hostileHost struct {
	name string     // in lower case; see also hostileName
	wild bool       // every name below it gets the same answers
	addr netip.Addr // zero: an address of its own, on which it alone listens
	// seeds are the canonical URLs of its seeds; nil: "http://name/".
	seeds []string
	// resolve returns the name server's answer for the name; nil: addr.
	resolve func(name string) names
	// accept gets the raw connection to addr before anything is read. If it returns true it has served the
	// connection, which is then closed. nil: the connection is served as usual (port 443 with TLS).
	accept func(conn net.Conn, port uint16) bool
	// serve answers a request with s.write, including all framing. It returns false to end the connection.
	serve func(s *session, q *wish) bool
	// robots answers requests for robots rules (isRobotsPath); nil: 404.
	robots func(s *session, q *wish) bool

	scenario string
}

// hostile holds the active scenarios.
type hostile struct {
	hosts  []*hostileHost
	byName map[string]*hostileHost
	byAddr map[netip.Addr]*hostileHost // the only host on an address; nil if there are several
	addrs  []netip.Addr
}

// hostileNet is the network of hostile hosts' own addresses, 127.253/16.
const hostileNet = 253

// firstOwn is the number of the first address that a host without a chosen one gets: scenarios choose lower
// ones and those from 10,000 on.
const firstOwn = 1000

// HostileScenarios returns the names of all scenarios, for Options.Hostile.
func HostileScenarios() []string {
	var list []string
	for _, s := range scenarios() {
		list = append(list, s.name)
	}
	return list
}

// HostileKind describes a scenario of hosts that attack crawlers.
type HostileKind struct{ Name, Does string }

// HostileKinds returns the scenarios of hosts that attack crawlers, with what their hosts do. The other
// scenarios test politeness.
func HostileKinds() []HostileKind {
	return []HostileKind{
		{"endless-body", "pages and trailers without end"},
		{"endless-head", "response heads without end"},
		{"trickle", "one byte a second, or silence within a response"},
		{"slow-farm", "a hundred hosts with endless pages at 400 bytes per second"},
		{"bombs", "small bodies that decompress to huge ones"},
		{"huge-pages", "pages with very many links, tags or attributes"},
		{"redirects", "loops, long chains, and redirects to nowhere"},
		{"robots-giant", "robots.txt without end"},
		{"robots-patterns", "robots.txt with rules that are costly to match"},
		{"robots-circles", "robots.txt that redirects in circles"},
		{"robots-broken", "robots.txt that cannot be read"},
		{"desync", "responses with a second, forged response behind them"},
		{"resets", "connections that break at every stage"},
		{"bad-http2", "HTTP/2 against its rules"},
		{"calendar", "a page for every day, for ever"},
		{"alike", "a calendar and a shop that repeat themselves, and a wiki, in one domain"},
		{"session-ids", "links with a new session id on each page"},
		{"repeated-segments", "relative links that make paths grow for ever"},
		{"wildcard-dns", "new host names without end"},
		{"link-farm", "120 domains that link to each other"},
		{"star-farm", "120 domains: one links to all, and all link to it"},
		{"chain-farm", "120 domains that each link to the next"},
		{"ring-farm", "120 domains in rings of ten, whose first ones are a ring"},
		{"endless-farm", "new domains without end"},
		{"hoster", "a domain of 40 blogs and 4,000 hosts of a farm"},
		{"hoster-directories", "a host of 40 blogs and 4,000 directories of a farm"},
		{"colliding-urls", "URLs with equal hashes"},
		{"dns-slow", "name servers that answer late"},
		{"dns-silent", "name servers that do not answer"},
		{"dns-inside", "names at addresses of private networks"},
		{"dns-many", "names with very many addresses"},
		{"dns-victim", "many names at the address of another site"},
		{"tls-stalls", "TLS handshakes that stop, babble or trickle"},
		{"tls-chains", "certificates that are expired, forged or huge"},
	}
}

// HostileSeeds returns the seed URLs of the hosts of Options.Hostile, which are not in Seeds.
func (w *Web) HostileSeeds() []string {
	var urls []string
	for _, h := range w.hostile.hosts {
		urls = append(urls, h.seeds...)
	}
	return urls
}

// HostileScenario returns the scenario of a host; "" for a name that isn't hostile.
func (w *Web) HostileScenario(host string) string {
	if h := w.hostileHost(host); h != nil {
		return h.scenario
	}
	return ""
}

// hostileName returns the name of the i-th host of a scenario; each is in a PLD of its own.
func (w *Web) hostileName(scenario string, i int) string {
	return fmt.Sprintf("www.%s-%d.%s", scenario, i, w.opt.Suffixes[0])
}

// makeHostile adds the hosts of the active scenarios.
func (w *Web) makeHostile() error {
	w.hostile = hostile{byName: map[string]*hostileHost{}, byAddr: map[netip.Addr]*hostileHost{}}
	all := scenarios()
	for _, name := range w.opt.Hostile {
		found := false
		for _, s := range all {
			if s.name == name {
				found = true
				s.hosts(w, func(h hostileHost) { h.scenario = s.name; w.addHostile(&h) })
			}
		}
		if !found {
			return fmt.Errorf("simweb: no hostile scenario %q; there are %s", name,
				strings.Join(HostileScenarios(), ", "))
		}
	}
	return nil
}

func (w *Web) addHostile(h *hostileHost) {
	x := &w.hostile
	if h.seeds == nil {
		h.seeds = []string{"http://" + h.name + "/"}
	}
	if !h.addr.IsValid() {
		h.addr = deadAddr(hostileNet, firstOwn+len(x.addrs))
		x.addrs = append(x.addrs, h.addr)
		x.byAddr[h.addr] = h
	}
	x.hosts = append(x.hosts, h)
	x.byName[h.name] = h
}

// hostileHost finds a host by its name, or the wild host above the name.
func (w *Web) hostileHost(name string) *hostileHost {
	if len(w.hostile.hosts) == 0 {
		return nil
	}
	if h := w.hostile.byName[name]; h != nil {
		return h
	}
	for {
		_, rest, ok := strings.Cut(name, ".")
		if !ok {
			return nil
		}
		if h := w.hostile.byName[rest]; h != nil && h.wild {
			return h
		}
		name = rest
	}
}

// hostileAccept lets the host that owns an address handle a connection; it returns true if the host did.
func (w *Web) hostileAccept(conn net.Conn, addr netip.Addr, port uint16) bool {
	h := w.hostile.byAddr[addr]
	if h == nil || h.accept == nil {
		return false
	}
	c := w.log.openConn(addr)
	done := h.accept(conn, port)
	c.close()
	return done
}

// respondHostile answers one request to a hostile host; it returns false to end the connection.
func (s *session) respondHostile(h *hostileHost, q *wish) bool {
	a := &s.p.ans
	*a = answer{location: a.location[:0], node: node{host: -1}, hostile: true, robots: isRobotsPath(q.path)}
	run := s.log.begin(q.host, a, &q.request)
	s.run, s.sent, s.code = &run, 0, a.status
	keep := false
	switch {
	case a.robots && h.robots == nil:
		a.status, a.ctype, a.body = 404, "text/plain", []byte("no robots rules here\n")
		s.frame(a, q)
		keep = s.write(s.out)
	case a.robots:
		keep = h.robots(s, q)
	default:
		keep = h.serve(s, q)
	}
	s.run = nil
	s.log.endHostile(run, q.host, s.sent, s.code)
	return keep
}

// write sends and counts bytes; it returns false if the client has closed the connection.
func (s *session) write(p []byte) bool {
	begin := time.Now()
	n, err := s.conn.Write(p)
	s.sent += int64(n)
	if err == nil && s.run != nil {
		s.log.alive(s.run, begin)
	}
	return err == nil
}

func (s *session) writeString(p string) bool { return s.write([]byte(p)) }
