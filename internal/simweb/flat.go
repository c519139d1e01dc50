package simweb

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
)

// FlatOptions describe a flat web, for measuring a crawler's speed: hosts with endless pages of given size,
// number of links and share of new links. Nothing in it is hostile, slow or unusual, and it can't check a
// crawl as a Web does.
type FlatOptions struct {
	Seed  uint64
	Hosts int // at least 1; each has endless pages
	PLDs  int // at most Hosts
	// Roots is the number of hosts whose roots are seeds; these are the first hosts. Most links between
	// hosts lead to them.
	Roots int
	// NewHosts is the mean number of links per page, at most 1, to the root of a uniform other host. Hosts
	// become known gradually by these links.
	NewHosts float64
	// Addrs is the number of addresses that serve the hosts, from 127.80.0.1 on.
	Addrs int
	// PageBytes is the mean size of a page, links included. The part that isn't links has 0.4, 0.8, 1.2 or
	// 1.6 times its mean size.
	PageBytes int
	// Links is the number of links per page. New of them, on average, lead to pages without an earlier
	// link; with less than 1.5 the pages of a host would end.
	Links int
	New   float64
	// HostPages ends each host after so many pages, at least 16: links to later ones lead to its root. 0: hosts are
	// endless.
	HostPages uint64
	// HTTPS makes all URLs https; Gzip compresses pages for clients that accept it.
	HTTPS, Gzip bool
}

// MaxFlatHosts is the most hosts of a flat web.
const MaxFlatHosts = 1 << 24

const maxFlatAddrs = 1 << 14

// Validate returns all faults joined.
func (o *FlatOptions) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("simweb: flat web: "+format, args...))
	}
	if o.Hosts < 1 || o.Hosts > MaxFlatHosts {
		bad("%d hosts, must be 1..%d", o.Hosts, MaxFlatHosts)
	}
	if o.PLDs < 1 || o.PLDs > o.Hosts {
		bad("%d PLDs, must be 1..%d, the hosts", o.PLDs, o.Hosts)
	}
	if o.Roots < 1 || o.Roots > o.Hosts {
		bad("roots of %d hosts as seeds, must be 1..%d, the hosts", o.Roots, o.Hosts)
	}
	if !(o.NewHosts >= 0 && o.NewHosts <= 1) {
		bad("%v links of a page to new hosts, must be 0 to 1", o.NewHosts)
	}
	if o.Addrs < 1 || o.Addrs > maxFlatAddrs {
		bad("%d addresses, must be 1..%d", o.Addrs, maxFlatAddrs)
	}
	if o.Links < 2 || o.Links > 10_000 {
		bad("%d links of a page, must be 2..10000", o.Links)
	}
	if o.HostPages > 0 && o.HostPages < flatNavPages {
		bad("hosts of %d pages, must be 0 or at least %d", o.HostPages, flatNavPages)
	}
	if !(o.New >= 1.5 && o.New <= float64(o.Links)) {
		bad("%v new links of a page, must be 1.5 to the %d of a page", o.New, o.Links)
	}
	if least := flatLinkBytes * o.Links; o.PageBytes < least || o.PageBytes > 1<<24 {
		bad("%d bytes of a page, must be %d (%d a link) to %d", o.PageBytes, least, flatLinkBytes, 1<<24)
	}
	return errors.Join(errs...)
}

// flatLinkBytes is the minimum size of a link in bytes: element, URL and text.
const flatLinkBytes = 160

// Flat is a flat web. It consists of a few tables of text, independent of the number of hosts and pages.
// All its methods may be called concurrently.
//
// The new links of page i lead to the pages 1+⌊New·i⌋ to ⌊New·(i+1)⌋ of its host, so exactly one page is
// the first to link to each page except the root. Of the other links 55 % lead to the first 16 pages of the
// host (its navigation), 25 % to a uniform page of a lower number, 12 % repeat links of the page, and 8 %
// lead to the first pages of a seed host, half of them to its root. The host's number is Roots·u³ for a
// uniform u, which makes in-degrees skewed.
type Flat struct {
	opt        FlatOptions
	scheme     string
	head, tail flatChunk
	chunks     [flatSizes][]flatChunk // by page size
}

// FlatPage is page number Index of host Host.
type FlatPage struct {
	Host  uint32
	Index uint64
}

// NewFlat makes the tables.
func NewFlat(opt FlatOptions) (*Flat, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	f := &Flat{opt: opt, scheme: "http://"}
	if opt.HTTPS {
		f.scheme = "https://"
	}
	if err := f.makeChunks(); err != nil {
		return nil, err
	}
	return f, nil
}

// Options returns the options.
func (f *Flat) Options() FlatOptions { return f.opt }

// AppendHost appends the name of a host: three labels, of which the last two are its PLD.
func (f *Flat) AppendHost(dst []byte, host uint32) []byte {
	dst = strconv.AppendUint(append(dst, 'h'), uint64(host), 10)
	return f.AppendPLD(append(dst, '.'), host)
}

// AppendPLD appends the PLD of a host.
func (f *Flat) AppendPLD(dst []byte, host uint32) []byte {
	p := uint64(host) % uint64(f.opt.PLDs)
	dst = append(dst, flatWord(hash(p, f.opt.Seed, 1))...)
	dst = strconv.AppendUint(append(dst, '-'), p, 10)
	return append(dst, ".test"...)
}

// HostOf returns the number of the host with the given name.
func (f *Flat) HostOf(name []byte) (host uint32, ok bool) {
	if len(name) < 2 || name[0] != 'h' {
		return 0, false
	}
	var n uint64
	i := 1
	for ; i < len(name) && name[i] >= '0' && name[i] <= '9' && n < MaxFlatHosts; i++ {
		n = 10*n + uint64(name[i]-'0')
	}
	if i == 1 || i == len(name) || name[i] != '.' || n >= uint64(f.opt.Hosts) {
		return 0, false
	}
	var b [64]byte
	return uint32(n), string(f.AppendPLD(b[:0], uint32(n))) == string(name[i+1:])
}

// AddrOf returns the address that serves a host. The last byte is never 0 or 255.
func (f *Flat) AddrOf(host uint32) netip.Addr {
	return flatAddr(int(hash(uint64(host), f.opt.Seed, 2) % uint64(f.opt.Addrs)))
}

func flatAddr(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 80, byte(i / 250), byte(1 + i%250)})
}

// Addrs returns all addresses.
func (f *Flat) Addrs() (list []netip.Addr) {
	for i := range f.opt.Addrs {
		list = append(list, flatAddr(i))
	}
	return list
}

// AppendURL appends the URL of a page.
func (f *Flat) AppendURL(dst []byte, p FlatPage) []byte {
	return f.AppendPath(f.AppendHost(append(dst, f.scheme...), p.Host), p)
}

// AppendPath appends the path of a page: section, index in hexadecimal, and three words. A root's is "/".
func (f *Flat) AppendPath(dst []byte, p FlatPage) []byte {
	dst = append(dst, '/')
	if p.Index == 0 {
		return dst
	}
	h := hash(p.Index, uint64(p.Host), f.opt.Seed)
	dst = append(append(dst, flatWord(h%16)...), "/p"...)
	dst = strconv.AppendUint(dst, p.Index, 16)
	for range 3 {
		h >>= 8
		dst = append(append(dst, '-'), flatWord(h)...)
	}
	return append(dst, ".html"...)
}

// PageOf returns the page of a host at a path. It ignores the words.
func (f *Flat) PageOf(host uint32, path []byte) (p FlatPage, ok bool) {
	p.Host = host
	if len(path) == 1 && path[0] == '/' {
		return p, true
	}
	for i := 1; i+3 < len(path); i++ {
		if path[i] != '/' || path[i+1] != 'p' {
			continue
		}
		digits := 0
		for _, c := range path[i+2:] {
			switch {
			case c >= '0' && c <= '9':
				p.Index = p.Index<<4 | uint64(c-'0')
			case c >= 'a' && c <= 'f':
				p.Index = p.Index<<4 | uint64(c-'a'+10)
			default:
				return p, c == '-' && digits > 0
			}
			if digits++; digits > 12 {
				return p, false
			}
		}
		return p, false
	}
	return p, false
}

// Seeds returns the roots of the first hosts.
func (f *Flat) Seeds() (urls []string) {
	for i := range f.opt.Roots {
		urls = append(urls, string(f.AppendURL(nil, FlatPage{Host: uint32(i)})))
	}
	return urls
}

// The kinds of links that aren't new, in parts of 256.
const (
	flatNav   = 141 // 55 %
	flatOld   = 64  // 25 %
	flatAgain = 31  // 12 %; the rest leads to other hosts

	flatNavPages   = 16
	flatCrossPages = 8
)

// links calls each for every link of a page in order; same reports that it is on the page's host.
func (f *Flat) links(p FlatPage, each func(to FlatPage, same bool)) {
	first, end := f.newLinks(p.Index)
	n := int64(end - first)
	if n > int64(f.opt.Links) {
		n = int64(f.opt.Links)
	}
	known := p.Index + 1 // pages that are known in any order of fetching
	rng := hash(p.Index, uint64(p.Host), f.opt.Seed+1)
	again := FlatPage{Host: p.Host}
	for i := range int64(f.opt.Links) {
		// Spread the new links evenly among the others.
		if n > 0 && i*n/int64(f.opt.Links) < (i+1)*n/int64(f.opt.Links) {
			to := FlatPage{p.Host, first + uint64(i*n/int64(f.opt.Links))}
			if f.opt.HostPages > 0 && to.Index >= f.opt.HostPages {
				to.Index = 0
			}
			each(to, true)
			continue
		}
		rng = hash(rng, uint64(i), 3)
		u := rng >> 8
		switch kind := rng & 255; {
		case kind < flatNav:
			again = FlatPage{p.Host, u % min(flatNavPages, known)}
		case kind < flatNav+flatOld:
			again = FlatPage{p.Host, u % known}
		case kind < flatNav+flatOld+flatAgain:
		default:
			again = f.cross(u)
		}
		if i == int64(f.opt.Links)-2 {
			again = f.newHost(p, again)
		}
		each(again, again.Host == p.Host)
	}
}

// newHost returns, on some pages, the root of another host instead of a link.
func (f *Flat) newHost(p, or FlatPage) FlatPage {
	u := hash(p.Index, uint64(p.Host), f.opt.Seed+4)
	if float64(u>>40)/(1<<24) >= f.opt.NewHosts || f.opt.Hosts == f.opt.Roots {
		return or
	}
	return FlatPage{Host: uint32(uint64(f.opt.Roots) + mix(u)%uint64(f.opt.Hosts-f.opt.Roots))}
}

// newLinks returns the pages to which page i of any host is the first to link: first up to, not including,
// end.
func (f *Flat) newLinks(i uint64) (first, end uint64) {
	return 1 + uint64(f.opt.New*float64(i)), 1 + uint64(f.opt.New*float64(i+1))
}

// cross returns a page of another host from 56 random bits.
func (f *Flat) cross(u uint64) FlatPage {
	x := float64(u>>16) / (1 << 40)
	p := FlatPage{Host: uint32(float64(f.opt.Roots) * x * x * x)}
	if u&1 != 0 {
		p.Index = (u >> 1) % flatCrossPages
	}
	return p
}
