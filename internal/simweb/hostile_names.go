package simweb

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// nameScenarios are hosts with misbehaving names or certificates, or endless URLs.
func nameScenarios() []scenario {
	return []scenario{
		{"calendar", calendar}, {"session-ids", sessionIDs}, {"repeated-segments", repeatedSegments},
		{"wildcard-dns", wildcardDNS}, {"alike", alike}, {"link-farm", linkFarm}, {"endless-farm", endlessFarm},
		{"star-farm", starFarm}, {"chain-farm", chainFarm}, {"ring-farm", ringFarm}, {"hoster", hosterForms[0].scene},
		{"hoster-directories", hosterForms[1].scene},
		{"colliding-urls", collidingURLs},
		{"dns-slow", dnsSlow}, {"dns-silent", dnsSilent}, {"dns-inside", dnsInside}, {"dns-many", dnsMany},
		{"dns-victim", dnsVictim}, {"tls-stalls", tlsStalls}, {"tls-chains", tlsChains},
	}
}

// page answers with an HTML page; it returns false to end the connection.
func (s *session) page(q *wish, body string) bool {
	a := answer{status: 200, ctype: "text/html", body: []byte(body)}
	s.frame(&a, q)
	return s.write(s.out) && !q.close
}

// links returns the HTML of links.
func links(refs ...string) string {
	var b strings.Builder
	b.WriteString("<html><title>more</title>")
	for _, r := range refs {
		b.WriteString(`<a href="` + r + `">x</a>`)
	}
	return b.String()
}

// pathNumber draws a number from a path.
func pathNumber(seed uint64, path []byte) uint64 {
	x := seed
	for _, c := range path {
		x = mix(x + uint64(c) + golden)
	}
	return x
}

// calendar: a page for every past and future day, with links to the days, months and years around it.
func calendar(w *Web, add func(hostileHost)) {
	add(hostileHost{name: w.hostileName("calendar", 0), serve: func(s *session, q *wish) bool {
		day, err := time.Parse("/2006/01/02", string(q.path))
		if err != nil {
			day = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
		}
		var refs []string
		for _, d := range [][3]int{{0, 0, 1}, {0, 0, -1}, {0, 0, 7}, {0, 0, -7}, {0, 1, 0}, {0, -1, 0},
			{1, 0, 0}, {-1, 0, 0}} {
			refs = append(refs, day.AddDate(d[0], d[1], d[2]).Format("/2006/01/02"))
		}
		return s.page(q, links(refs...))
	}})
}

// sessionIDs: ten pages; every link to them has a new session id.
func sessionIDs(w *Web, add func(hostileHost)) {
	add(hostileHost{name: w.hostileName("session-ids", 0), serve: func(s *session, q *wish) bool {
		r := rng(pathNumber(w.opt.Seed, q.path))
		var refs []string
		for i := range 10 {
			refs = append(refs, fmt.Sprintf("/page%d.php?PHPSESSID=%016x%016x", i, r.next(), r.next()))
		}
		return s.page(q, links(refs...))
	}})
}

// repeatedSegments: relative links on pages that answer under any path, so paths grow forever.
func repeatedSegments(w *Web, add func(hostileHost)) {
	add(hostileHost{name: w.hostileName("repeated-segments", 0), serve: func(s *session, q *wish) bool {
		return s.page(q,
			links("about/", "en/", "../about/en/", "./en/about/index.php/", "?p="+strconv.Itoa(len(q.path))))
	}})
}

// wildcardDNS: every name below the host exists, and every page links to twenty new names; four addresses.
func wildcardDNS(w *Web, add func(hostileHost)) {
	name := w.hostileName("wildcard-dns", 0)
	add(hostileHost{name: name, wild: true, serve: func(s *session, q *wish) bool {
		r := rng(pathNumber(w.opt.Seed, []byte(q.host)))
		var refs []string
		for range 20 {
			refs = append(refs, fmt.Sprintf("http://h%x.%s/", r.next(), name))
		}
		return s.page(q, links(refs...))
	}})
}

// farmServers is the number of addresses of a farm.
const farmServers = 2

// farmPLDs is the number of PLDs of the closed farm, times HostileScale.
const farmPLDs = 120

// linkFarm: many PLDs under a suffix of their own. Each page links to fifteen other PLDs and to three more
// pages of its own, so every PLD has a large in-degree that looks genuine.
func linkFarm(w *Web, add func(hostileHost)) {
	plds := w.farmPLDs()
	farm(w, add, "linkfarm", func(r *rng, _ uint64) uint64 { return r.below(plds) })
}

func (w *Web) farmPLDs() uint64 { return uint64(farmPLDs * max(1, w.opt.HostileScale)) }

// endlessFarm: like linkFarm, but each link leads to a PLD without other in-links.
func endlessFarm(w *Web, add func(hostileHost)) {
	farm(w, add, "endlessfarm", func(r *rng, _ uint64) uint64 { return r.below(1 << 40) })
}

// starFarm: like linkFarm, but all its PLDs link to the first, which alone links to the others.
func starFarm(w *Web, add func(hostileHost)) {
	plds := w.farmPLDs()
	farm(w, add, "starfarm", func(r *rng, from uint64) uint64 {
		if from > 0 {
			return 0
		}
		return r.below(plds)
	})
}

// chainFarm: like linkFarm, but each PLD links to the next one only.
func chainFarm(w *Web, add func(hostileHost)) {
	last := w.farmPLDs() - 1
	farm(w, add, "chainfarm", func(_ *rng, from uint64) uint64 { return min(from+1, last) })
}

// ringFarm: like linkFarm, but ten PLDs each are a ring, and the first ones of the rings are a ring.
func ringFarm(w *Web, add func(hostileHost)) {
	plds := w.farmPLDs()
	farm(w, add, "ringfarm", func(r *rng, from uint64) uint64 {
		if from%10 == 0 && r.below(2) == 0 {
			return (from + 10) % plds
		}
		return from - from%10 + (from+1)%10
	})
}

// bought is the place of a PLD among those that sell links; -1 for others.
func (w *Web) bought(pld int32) int {
	n := w.opt.Bought
	for i := range n {
		if int(pld) == (i+1)*w.opt.PLDs/(n+1) {
			return i
		}
	}
	return -1
}

// expired reports whether a host's PLD has expired and belongs to a farm now.
func (w *Web) expired(host int32) bool {
	pld := int(w.hosts[host].pld)
	return int(host) < w.ordinary && pld >= w.opt.SeedURLs && pld < w.opt.SeedURLs+w.opt.Expired
}

// farmLinks appends the links of an ordinary host's page to farms.
func (w *Web) farmLinks(dst []byte, host int32, page uint32) []byte {
	if w.opt.Bought+w.opt.Expired == 0 || int(host) >= w.ordinary {
		return dst
	}
	var to []uint64
	if i := w.bought(w.hosts[host].pld); i >= 0 {
		to = append(to, uint64(i))
	}
	if w.expired(host) {
		r := rng(hash(w.hosts[host].key, uint64(page), saltLinks))
		for range 15 {
			to = append(to, r.below(farmPLDs))
		}
	}
	for _, name := range w.opt.Hostile {
		suffix, ok := farmSuffix(name)
		for _, i := range to {
			if ok && suffix == "starfarm" && w.bought(w.hosts[host].pld) >= 0 {
				i = 0
			}
			if ok {
				dst = fmt.Appendf(dst, "<p><a href=\"http://www.p%d.%s/\">offers</a></p>\n", i, suffix)
			}
		}
	}
	return dst
}

// farmSuffix returns the public suffix of the PLDs of a farm, by scenario.
func farmSuffix(scenario string) (suffix string, ok bool) {
	switch scenario {
	case "link-farm", "endless-farm", "star-farm", "chain-farm", "ring-farm":
		return strings.ReplaceAll(scenario, "-", ""), true
	}
	return "", false
}

// farm adds a farm whose PLD number from has links to the PLDs that to draws.
func farm(w *Web, add func(hostileHost), suffix string, to func(r *rng, from uint64) uint64) {
	addr := func(host string) netip.Addr {
		return deadAddr(hostileNet, int(200+pathNumber(1, []byte(host))%farmServers))
	}
	var seeds []string
	for i := range 5 {
		seeds = append(seeds, fmt.Sprintf("http://www.p%d.%s/", i, suffix))
	}
	h := hostileHost{name: suffix, wild: true, seeds: seeds, addr: addr("x"), serve: func(s *session, q *wish) bool {
		r := rng(pathNumber(w.opt.Seed, []byte(q.host+string(q.path))))
		var refs []string
		from, _, _ := strings.Cut(strings.TrimPrefix(string(q.host), "www.p"), ".")
		self, _ := strconv.ParseUint(from, 10, 64) // of a name that no link has: as PLD 0
		for range 15 {
			refs = append(refs, fmt.Sprintf("http://www.p%d.%s/", to(&r, self), suffix))
		}
		for range 3 {
			refs = append(refs, fmt.Sprintf("/%x", r.next()))
		}
		return s.page(q, links(append(refs, w.hosterFarmLinks(&r)...)...))
	}}
	h.resolve = func(name string) names { return names{v4: []netip.Addr{addr(name)}} }
	add(h)
	for i := range farmServers {
		a := deadAddr(hostileNet, 200+i)
		if _, ok := w.hostile.byAddr[a]; !ok {
			w.hostile.addrs = append(w.hostile.addrs, a)
			w.hostile.byAddr[a] = w.hostile.byName[suffix]
		}
	}
}

// collidingURLs: a page with 64 URLs of equal xxhash64, for any seed.
func collidingURLs(w *Web, add func(hostileHost)) {
	name := w.hostileName("colliding-urls", 0)
	colliding := sync.OnceValue(func() []string { return CollidingURLs("http://"+name+"/", 6) })
	add(hostileHost{name: name, serve: func(s *session, q *wish) bool {
		if string(q.path) == "/" {
			return s.page(q, links(colliding()...))
		}
		return s.page(q, "<html>"+string(q.path))
	}})
}

// dnsSlow: names whose answers take four seconds.
func dnsSlow(w *Web, add func(hostileHost)) {
	for i := range 20 {
		addr := deadAddr(hostileNet, 100+i%5)
		add(hostileHost{name: w.hostileName("dns-slow", i), serve: func(s *session, q *wish) bool {
			return s.page(q, links("/a", "/b"))
		},
			resolve: func(string) names { return names{v4: []netip.Addr{addr}, wait: 4 * time.Second} }, addr: addr})
		w.hostile.own(addr)
	}
}

// dnsSilent: a PLD with two hundred names, and forty PLDs with one name each, whose name servers never
// answer; the caller gives up after 7 s.
func dnsSilent(w *Web, add func(hostileHost)) {
	add(silent(w.hostileName("dns-silent", 0), 200, func(i int) string {
		return fmt.Sprintf("http://h%d.%s/", i, w.hostileName("dns-silent", 0))
	}))
	add(silent("silent", 40, func(i int) string { return fmt.Sprintf("http://www.p%d.silent/", i) }))
}

func silent(name string, n int, seed func(i int) string) hostileHost {
	h := hostileHost{name: name, wild: true,
		resolve: func(string) names { return names{fail: DNSTimeout, wait: 7 * time.Second} }}
	for i := range n {
		h.seeds = append(h.seeds, seed(i))
	}
	return h
}

// dnsInside: names that resolve to private networks, alone and mixed with an address of their own. The
// latter serve pages.
func dnsInside(w *Web, add func(hostileHost)) {
	inside := []string{"10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
		"255.255.255.255", "198.18.0.1", "192.0.2.1"}
	for i, text := range inside {
		a := netip.MustParseAddr(text)
		add(hostileHost{name: w.hostileName("dns-inside", i), resolve: func(string) names {
			return names{v4: []netip.Addr{a}}
		}})
		own := deadAddr(hostileNet, 110+i)
		add(hostileHost{name: w.hostileName("dns-mixed", i), addr: own, serve: func(s *session, q *wish) bool {
			return s.page(q, "<html>x")
		},
			resolve: func(string) names { return names{v4: []netip.Addr{a, own, a}} }})
		w.hostile.own(own)
	}
}

// dnsMany: names with five thousand addresses: unused, private, and one that serves.
func dnsMany(w *Web, add func(hostileHost)) {
	for i := range 4 {
		own := deadAddr(hostileNet, 130+i)
		n := names{v4: []netip.Addr{own}}
		for k := range 5000 {
			a := netip.AddrFrom4([4]byte{10, 1, byte(k >> 8), byte(k)})
			if i%2 == 1 {
				a = deadAddr(refusedNet, k)
			}
			n.v4 = append(n.v4, a)
		}
		add(hostileHost{name: w.hostileName("dns-many", i), addr: own, resolve: func(string) names { return n },
			serve: func(s *session, q *wish) bool { return s.page(q, links("/a", "/b", "/c")) }})
		w.hostile.own(own)
	}
}

// dnsVictim: a PLD with endless hosts that all resolve to the server of an ordinary host.
func dnsVictim(w *Web, add func(hostileHost)) {
	name := w.hostileName("dns-victim", 0)
	victim := names{}
	if len(w.hosts) > 0 {
		victim.v4 = w.hosts[0].addrs
	}
	add(hostileHost{name: name, wild: true, resolve: func(string) names {
		return victim
	}, serve: func(s *session, q *wish) bool {
		r := rng(pathNumber(w.opt.Seed, []byte(q.host+string(q.path))))
		var refs []string
		for range 5 {
			refs = append(refs, fmt.Sprintf("http://v%x.%s/", r.next(), name), fmt.Sprintf("/%x", r.next()))
		}
		return s.page(q, links(refs...))
	}})
}

// own makes the host added last the owner of the address that the scenario chose.
func (x *hostile) own(a netip.Addr) {
	if _, ok := x.byAddr[a]; !ok {
		x.addrs = append(x.addrs, a)
		x.byAddr[a] = x.hosts[len(x.hosts)-1]
	}
}
