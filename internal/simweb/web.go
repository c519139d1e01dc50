package simweb

import (
	"fmt"
	"math"
	"net/netip"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/net/idna"
)

// Web is one synthetic web: the generator's tables of hosts (it stores no pages), the log of requests, and
// the current outage. All methods may be called concurrently.
type Web struct {
	opt    Options
	hosts  []host // ordinary, then big, chain, dead, spam
	plds   []pld
	byName map[string]int32
	addrs  []netip.Addr // of ordinary hosts; listeners use these and spamAddrs
	spamIP []netip.Addr
	nodes  uint64 // number of node numbers (4 per URL index, see node)

	trunk    int   // hosts [0, trunk) are live and reachable from host 0's root
	ordinary int   // hosts [0, ordinary) are the Hosts of the options
	dead     int32 // first dead host; deadN of them
	deadN    int32
	spam     int32 // the spam host entry, or -1
	chain    int32 // or -1
	big      int32 // or -1
	text     []byte

	hostile hostile

	log    *Log
	outage atomic.Pointer[outage]
	ca     sync.Once
	certs  *Authority

	sessions sync.Pool // of *session, for their buffers
	zips     sync.Pool // of *gzip.Writer
}

// hostKind is the behaviour of a host.
type hostKind uint8

const (
	liveHost hostKind = iota
	chainHost
	spamHost
	nxDomainHost
	servFailHost
	dnsTimeoutHost
	refusedHost
	connectTimeoutHost
)

func (k hostKind) dead() bool { return k >= nxDomainHost }

// host is the generator's table entry of one host name.
type host struct {
	name    string // lower-case ASCII
	unicode string // name with the PLD in Unicode, or ""
	scheme  string
	origin  string // scheme://name[:port] without a default port
	key     uint64
	base    uint64 // number of its first node
	pages   uint32
	pld     int32
	port    uint16
	kind    hostKind
	robots  robotsKind
	spamIn  bool // its root links to the spam PLD
	slow    bool
	cut     bool // DNS answers over UDP are truncated
	cname   string
	addrs   []netip.Addr // IPv4
	addrs6  []netip.Addr
}

type pld struct {
	name    string
	unicode string
	hosts   []int32 // ordinary ones
}

var defaultSuffixes = [...]string{"test", "example", "simweb", "drumnet"}

// New creates the tables of a web. Time and memory are linear in the number of hosts and independent of the
// number of pages.
func New(opt Options) (*Web, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	if len(opt.Suffixes) == 0 {
		opt.Suffixes = defaultSuffixes[:]
	}
	if !opt.FirstIP.IsValid() {
		opt.FirstIP = netip.AddrFrom4([4]byte{127, 16, 0, 1})
	}
	if len(opt.IPv6Addrs) == 0 {
		opt.IPv6Addrs = []netip.Addr{netip.IPv6Loopback()}
	}
	if opt.Agent == "" {
		opt.Agent = "drumbeat"
	}
	if opt.Link.Cross == 0 {
		opt.Link.Cross = 0.4
	}
	if opt.Spam.Links == 0 {
		opt.Spam.Links = 2 * opt.LinksPerPage
	}
	if opt.HostileScale == 0 {
		opt.HostileScale = 1
	}
	if opt.Dead.Pages == 0 {
		opt.Dead.Pages = 3
	}
	w := &Web{opt: opt, spam: -1, chain: -1, big: -1, dead: -1, byName: map[string]int32{}}
	w.makeAddrs()
	w.makeText()
	if err := w.makePLDs(); err != nil {
		return nil, err
	}
	w.makeHosts()
	w.makeSpecial()
	if err := w.finish(); err != nil {
		return nil, err
	}
	if err := w.makeHostile(); err != nil {
		return nil, err
	}
	w.log = newLog(w, opt.LogRequests)
	return w, nil
}

// Options returns the options of the web, with defaults.
func (w *Web) Options() Options { return w.opt }

// Log returns the web's log, shared by all its servers and the in-process form.
func (w *Web) Log() *Log { return w.log }

// PLD returns the pay-level domain of a host of this web, by construction; "" for a foreign name.
func (w *Web) PLD(name string) string {
	i, _, ok := w.find(name)
	if !ok {
		return ""
	}
	return w.plds[w.hosts[i].pld].name
}

// Hosts returns the names of the ordinary hosts, the big one and the chain, in the order of their numbers.
func (w *Web) Hosts() []string {
	var names []string
	for i := range w.hosts {
		if k := w.hosts[i].kind; k == liveHost || k == chainHost {
			names = append(names, w.hosts[i].name)
		}
	}
	return names
}

// Root returns the URL of a host's root page, "" for a foreign name.
func (w *Web) Root(name string) string {
	i, sub, ok := w.find(name)
	if !ok {
		return ""
	}
	return w.url(node{host: i, sub: sub})
}

// BigHost returns the name of the host with BigPages URLs; "" if there is none, as in the next two methods.
func (w *Web) BigHost() string { return w.nameOf(w.big) }

// ChainHost returns the name of the host whose page i links only to page i+1.
func (w *Web) ChainHost() string { return w.nameOf(w.chain) }

// SpamPLD returns the PLD with endless hosts.
func (w *Web) SpamPLD() string {
	if w.spam < 0 {
		return ""
	}
	return w.plds[w.hosts[w.spam].pld].name
}

func (w *Web) nameOf(i int32) string {
	if i < 0 {
		return ""
	}
	return w.hosts[i].name
}

// Seeds returns the canonical URLs of the seeds: the roots of the first hosts and of the chain. Every
// ordinary host, the big host and every dead host has a link from a root that is reachable from host 0.
func (w *Web) Seeds() []string {
	var urls []string
	for i := 0; i < w.trunk && i < max(1, w.opt.SeedURLs); i++ {
		urls = append(urls, w.url(node{host: int32(i)}))
	}
	if w.big >= 0 && w.trunk == 0 {
		urls = append(urls, w.url(node{host: w.big}))
	}
	if w.chain >= 0 {
		urls = append(urls, w.url(node{host: w.chain}))
	}
	if w.spam >= 0 && len(urls) == 0 {
		urls = append(urls, w.url(node{host: w.spam}))
	}
	return urls
}

// makeAddrs assigns the addresses, without last bytes 0 and 255. Those of one network follow each other.
func (w *Web) makeAddrs() {
	spam := 0
	if w.opt.Spam.On {
		spam = w.opt.Spam.IPs
		if spam == 0 {
			spam = 4
		}
	}
	n := max(1, w.opt.IPs)
	a := w.opt.FirstIP
	var all []netip.Addr
	for len(all) < n+spam {
		if b := a.As4()[3]; b != 0 && b != 255 {
			all = append(all, a)
			if k := len(all); k < n && k*w.opt.Networks/n > (k-1)*w.opt.Networks/n {
				b := a.As4()
				a = netip.AddrFrom4([4]byte{b[0], b[1], b[2], 255}) // the next one is of the next network
			}
		}
		a = a.Next()
	}
	w.addrs, w.spamIP = all[:n:n], all[n:]
}

// The networks of dead hosts' addresses, without listeners. Over sockets both refuse connections.
const (
	silentNet  = 254 // 127.254/16: in the in-process form, connects time out
	refusedNet = 255 // 127.255/16
)

// deadAddr returns the i-th address of a dead network; they repeat after 64,000.
func deadAddr(network byte, i int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, network, byte(i / 250), byte(i%250) + 1})
}

func (w *Web) makePLDs() error {
	r := rng(hash(w.opt.Seed, 0, saltPLD))
	for i := range w.opt.PLDs {
		suffix := w.opt.Suffixes[r.below(uint64(len(w.opt.Suffixes)))]
		p := pld{name: "site" + strconv.Itoa(i) + "." + suffix}
		if r.unit() < w.opt.IDN {
			p.unicode = "bücher" + strconv.Itoa(i) + "." + suffix
			ascii, err := idna.Punycode.ToASCII(p.unicode)
			if err != nil {
				return fmt.Errorf("simweb: name PLD %d: %w", i, err)
			}
			p.name = ascii
		}
		w.plds = append(w.plds, p)
	}
	return nil
}

// makeHosts creates the ordinary hosts. Those without an allowed page (robots 503, Disallow: /) come last,
// so that [0, trunk) can have the tree that makes all URLs reachable.
func (w *Web) makeHosts() {
	n, opt := w.opt.Hosts, &w.opt
	w.ordinary = n
	barren := int(math.Round((opt.Robots.ServerError + opt.Robots.DisallowAll) * float64(n)))
	w.trunk = n - min(barren, max(0, n-1))
	sizes := w.sizes()
	r := rng(hash(opt.Seed, 1, saltHost))
	for i := range n {
		p := i
		if i >= opt.PLDs {
			p = int(r.skew(uint64(opt.PLDs), 2))
		}
		h := host{kind: liveHost, pld: int32(p), pages: sizes[i], slow: i > 0 && i <= opt.SlowHosts}
		h.name, h.unicode = w.hostName(p, len(w.plds[p].hosts))
		w.plds[p].hosts = append(w.plds[p].hosts, int32(i))
		h.robots = w.drawRobots(i, r.unit())
		h.cut = r.unit() < opt.DNSTruncate
		w.place(&h, &r)
		w.hosts = append(w.hosts, h)
	}
}

// hostName returns the j-th host of PLD p in ASCII and, for a non-ASCII PLD, in Unicode.
func (w *Web) hostName(p, j int) (ascii, unicode string) {
	label := "h" + strconv.Itoa(j) + "."
	switch j {
	case 0:
		label = "www."
	case 1:
		label = ""
	case 2:
		label = "blog."
	}
	if u := w.plds[p].unicode; u != "" {
		unicode = label + u
	}
	return label + w.plds[p].name, unicode
}

// place draws the scheme, port and addresses of a host.
func (w *Web) place(h *host, r *rng) {
	opt := &w.opt
	h.scheme, h.port = "http", 80
	switch u := r.unit(); {
	case u < opt.HTTPS:
		h.scheme, h.port = "https", 443
	case u < opt.HTTPS+opt.AltPort:
		h.port = 8080
	}
	first := r.skew(uint64(len(w.addrs)), 1)
	h.addrs = []netip.Addr{w.addrs[first]}
	if r.unit() < opt.MultiIP && len(w.addrs) > 1 {
		second := r.below(uint64(len(w.addrs) - 1))
		if second >= first {
			second++
		}
		h.addrs = append(h.addrs, w.addrs[second])
	}
	if r.unit() < opt.IPv6 {
		h.addrs6 = []netip.Addr{opt.IPv6Addrs[r.below(uint64(len(opt.IPv6Addrs)))]}
	}
	if r.unit() < opt.CNAME {
		h.cname = "srv" + strconv.Itoa(int(first)) + ".servers.simweb"
	}
}

// sizes distributes opt.Pages over the hosts by a power law, at least one each, shuffled.
func (w *Web) sizes() []uint32 {
	n := w.opt.Hosts
	sizes := make([]uint32, n)
	sum := 0.0
	for i := range n {
		sum += math.Pow(float64(i+1), -0.7)
	}
	rest := float64(max(0, w.opt.Pages-n))
	given := 0.0
	done := 0
	for i := range n {
		given += rest * math.Pow(float64(i+1), -0.7) / sum
		more := int(given+0.5) - done
		done += more
		sizes[i] = uint32(1 + more)
	}
	r := rng(hash(w.opt.Seed, 2, saltShuffle))
	for i := n - 1; i > 0; i-- {
		j := r.below(uint64(i + 1))
		sizes[i], sizes[j] = sizes[j], sizes[i]
	}
	return sizes
}

// makeSpecial adds the big host, the chain, the dead hosts and the entry for all spam hosts.
func (w *Web) makeSpecial() {
	opt := &w.opt
	r := rng(hash(opt.Seed, 3, saltHost))
	own := func(name string) int32 {
		w.plds = append(w.plds, pld{name: name})
		return int32(len(w.plds) - 1)
	}
	suffix := opt.Suffixes[0]
	if opt.BigPages > 0 {
		w.big = int32(len(w.hosts))
		h := host{name: "www.bulk." + suffix, pld: own("bulk." + suffix), pages: uint32(opt.BigPages)}
		h.robots = robotsNotFound
		w.place(&h, &r)
		w.hosts = append(w.hosts, h)
	}
	if opt.ChainPages > 0 {
		w.chain = int32(len(w.hosts))
		h := host{
			name: "www.chain." + suffix, pld: own("chain." + suffix), pages: uint32(opt.ChainPages), kind: chainHost,
		}
		w.place(&h, &r)
		h.scheme, h.port = "http", 80
		w.hosts = append(w.hosts, h)
	}
	w.makeDead(own)
	if opt.Spam.On {
		w.spam = int32(len(w.hosts))
		h := host{name: "s0.spamfarm." + suffix, pld: own("spamfarm." + suffix), kind: spamHost, addrs: w.spamIP}
		h.scheme, h.port = "http", 80
		w.hosts = append(w.hosts, h)
		for p := 0; p < opt.PLDs && p < opt.Spam.InLinks; p++ {
			w.hosts[w.spamDoor(p)].spamIn = true
		}
	}
}

// spamDoor returns the host of PLD p whose root links to the spam PLD: its first one, in the trunk if
// possible.
func (w *Web) spamDoor(p int) int32 { return w.plds[p].hosts[0] }

func (w *Web) makeDead(own func(string) int32) {
	opt := &w.opt
	w.dead = int32(len(w.hosts))
	add := func(n int, kind hostKind) {
		for range n {
			i := int(w.deadN)
			w.deadN++
			h := host{kind: kind, pages: uint32(opt.Dead.Pages), scheme: "http", port: 80}
			if i%2 == 0 && opt.PLDs > 0 {
				h.pld = int32(below(hash(opt.Seed, uint64(i), saltPLD), uint64(opt.PLDs)))
				h.name = "dead" + strconv.Itoa(i) + "." + w.plds[h.pld].name
			} else {
				h.pld = own("gone" + strconv.Itoa(i) + "." + opt.Suffixes[i%len(opt.Suffixes)])
				h.name = "www." + w.plds[h.pld].name
			}
			h.addrs = []netip.Addr{deadAddr(refusedNet, i)}
			if kind == connectTimeoutHost {
				h.addrs[0] = deadAddr(silentNet, i)
			}
			w.hosts = append(w.hosts, h)
		}
	}
	add(opt.Dead.NXDomain, nxDomainHost)
	add(opt.Dead.ServFail, servFailHost)
	add(opt.Dead.DNSTimeout, dnsTimeoutHost)
	add(opt.Dead.Refused, refusedHost)
	add(opt.Dead.ConnectTimeout, connectTimeoutHost)
}

// finish numbers the nodes and indexes the names.
func (w *Web) finish() error {
	var pages uint64
	for i := range w.hosts {
		h := &w.hosts[i]
		h.key = hash(w.opt.Seed, uint64(i), saltHost)
		h.base = pages
		pages += uint64(h.pages)
		h.origin = h.scheme + "://" + h.name
		if h.port == 8080 {
			h.origin += ":8080"
		}
		if _, twice := w.byName[h.name]; twice {
			return fmt.Errorf("simweb: name host %d: %s is in use", i, h.name)
		}
		w.byName[h.name] = int32(i)
	}
	w.nodes = pages * hops
	return nil
}

// nodeAt inverts number.
func (w *Web) nodeAt(n uint64) node {
	page := n / hops
	i := sort.Search(len(w.hosts), func(i int) bool { return w.hosts[i].base > page }) - 1
	return node{host: int32(i), page: uint32(page - w.hosts[i].base), hop: uint8(n % hops)}
}
