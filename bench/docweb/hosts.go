package docweb

import (
	"fmt"
	"math"
	"net/netip"
)

// Robots is a kind of robots.txt.
type Robots int

// Kinds of robots.txt.
const (
	RobotsAbsent   Robots = iota // 404
	RobotsEmpty                  // 200, nothing is forbidden
	RobotsDisallow               // 200, forbids one directory
	RobotsDelay0                 // 200 with Crawl-delay: 0
	RobotsHTML                   // 200 with a page instead
	RobotsForbids                // 403, so everything is allowed
	RobotsMoved                  // 301
	RobotsSlow                   // 200 after Options.RobotsDelay
	RobotsFails                  // 500, so nothing is allowed
	robotsHour                   // 200 with Crawl-delay: 3600
)

// role distinguishes the bad hosts.
type role int

const (
	ordinary role = iota
	lists
	vast
	slow
	silent
)

// Number and sizes of the bad hosts.
const (
	badHosts  = 4
	listLinks = 2500 // of a page of lists
	slowPages = 2000 // slow and silent
)

// Host is one name of the web.
type Host struct {
	Name   string
	Addr   netip.Addr
	Pages  int // URLs of pages
	Robots Robots
	Plain  bool // pages are sent uncompressed

	id       int
	role     role
	base     int           // number of its page 0 among all pages of ordinary hosts
	gone     int           // missing pages that are linked
	moved    int           // redirects
	baseGone int           // as base
	baseMove int           // as base
	friends  []int         // hosts that it links to
	finds    map[int][]int // page -> hosts that are linked there, so that they are reachable
	store    []stored      // of each page
	arena    []byte        // heads of the pages
}

// hubs are the topics of host names.
var hubs = [...]string{"compiler", "kernel", "database", "editor", "network", "graphics", "shell", "parser", "cipher",
	"cluster", "vector", "audio", "matrix", "packet", "schema", "widget", "cache", "sensor", "ledger", "robotics"}

var fronts = [...]string{"www", "docs", "api", "wiki", "manual", "lists", "help", "dev"}

var zones = [...]string{"test", "example"}

// domain returns registrable domain n.
func domain(n int) string {
	return fmt.Sprintf("%s%d.%s", hubs[n%len(hubs)], n/len(hubs), zones[n/3%len(zones)])
}

// makeHosts makes the hosts without pages and links.
func (w *Web) makeHosts() {
	o := w.opt
	r := newRng(o.Seed, 1)
	domains := max(2, o.Hosts*2/3)
	fronted := map[int]int{} // names so far, by domain
	addrs := r.permutation(o.Hosts)
	small := math.Pow(float64(o.Hosts), -o.Skew)
	for id := range o.Hosts {
		d := id
		if id >= domains { // some domains have several names
			d = int(float64(domains) * r.unit() * r.unit())
		}
		name := fronts[fronted[d]%len(fronts)]
		if n := fronted[d] / len(fronts); n > 0 {
			name = fmt.Sprintf("%s%d", name, n)
		}
		fronted[d]++
		size := 1 + int(float64(o.Largest-1)*(math.Pow(float64(id+1), -o.Skew)-small)/(1-small)+0.5)
		w.add(&Host{Name: name + "." + domain(d), Addr: address(addrs[id] % o.Addrs), Pages: size})
	}
	w.giveRobots(r)
	if !o.Bad {
		return
	}
	for i, h := range []Host{{Name: "lists", Pages: o.Vast/listLinks + 1, role: lists},
		{Name: "vast", Pages: o.Vast / listLinks * listLinks, role: vast, Robots: robotsHour},
		{Name: "slow", Pages: slowPages, role: slow}, {Name: "silent", Pages: slowPages, role: silent}} {
		h.Name = "www." + h.Name + "host.test"
		h.Addr = address(o.Addrs + i)
		w.add(&h)
	}
}

func (w *Web) add(h *Host) {
	h.id = len(w.hosts)
	h.finds = map[int][]int{}
	w.hosts = append(w.hosts, h)
	w.byName[h.Name] = h
	if h.role != ordinary {
		return
	}
	h.gone, h.moved = h.Pages/100+1, h.Pages/50+1
	h.base, h.baseGone, h.baseMove = w.pages, w.gone, w.moved
	w.pages += h.Pages
	w.gone += h.gone
	w.moved += h.moved
	w.ordinary = w.hosts
}

// address returns address n of the web.
func address(n int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 7, byte(11 + n)}) }

// spared are the largest hosts, whose robots.txt is neither slow nor fails.
const spared = 4

// giveRobots deals the kinds of robots.txt.
func (w *Web) giveRobots(r *rng) {
	n := w.opt.Hosts
	var deck []Robots
	for _, k := range []struct {
		kind Robots
		part int // one host in so many
	}{{RobotsFails, 24}, {RobotsSlow, 24}, {RobotsHTML, 24}, {RobotsForbids, 24}, {RobotsMoved, 24}, {RobotsDelay0, 8},
		{RobotsDisallow, 6}} {
		for range max(1, n/k.part) {
			deck = append(deck, k.kind)
		}
	}
	for len(deck) < n {
		deck = append(deck, Robots(len(deck)%2)) // RobotsAbsent, RobotsEmpty
	}
	for i, j := range r.permutation(n) {
		w.hosts[i].Robots = deck[j]
	}
	for i := range spared { // in exchange with smaller ones
		for j := n / 2; w.hosts[i].Robots >= RobotsSlow; j++ {
			if k := &w.hosts[j].Robots; *k < RobotsSlow {
				w.hosts[i].Robots, *k = *k, w.hosts[i].Robots
			}
		}
	}
}

// findable makes the tree of hosts, and chooses the seeds.
func (w *Web) findable() {
	r := newRng(w.opt.Seed, 2)
	order := r.permutation(w.opt.Hosts)
	// Seeds: three hosts whose robots.txt answers well come first, of middle size if there are so many.
	for _, middle := range []bool{true, false} {
		for i := len(w.seeds); i < len(order) && len(w.seeds) < maxSeeds; i++ {
			h := w.hosts[order[i]]
			if h.Robots < RobotsSlow && (!middle || h.id >= spared && h.id < w.opt.Hosts/2) {
				front := len(w.seeds)
				order[front], order[i] = order[i], order[front]
				w.seeds = append(w.seeds, h)
			}
		}
	}
	for n := 1; n < len(order); n++ {
		parent := w.hosts[order[int(float64(n)*r.unit())]]
		if parent.Robots == RobotsFails {
			parent = w.seeds[0]
		}
		page := int(math.Pow(float64(parent.Pages), r.unit())) - 1
		if w.forbidden(parent, page) {
			page = 0
		}
		parent.finds[page] = append(parent.finds[page], order[n])
	}
	w.befriend(r)
	if w.opt.Bad {
		w.seeds[0].finds[0] = append(w.seeds[0].finds[0], w.opt.Hosts) // lists
	}
}

// mostFriends bounds the number of hosts that a host links to, besides the tree.
const mostFriends = 10

// befriend chooses the hosts that each host links to. Popular ones are chosen by many and most by few,
// whatever their size, so that domains have in-degrees as unequal as those of the web.
func (w *Web) befriend(r *rng) {
	popular := r.permutation(w.opt.Hosts)
	for _, h := range w.hosts[:w.opt.Hosts] {
		for range 1 + r.below(mostFriends) {
			u := r.unit()
			h.friends = append(h.friends, popular[int(float64(w.opt.Hosts)*u*u*u)])
		}
	}
}

// maxSeeds is the number of hosts whose roots may be seeds.
const maxSeeds = 3
