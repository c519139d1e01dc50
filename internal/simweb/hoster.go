package simweb

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The hoster is a PLD with blogs, to which ordinary PLDs link, and a farm of hosts that link to each other.
const (
	hosterBlogs   = 40
	hosterFarm    = 4000
	hosterServers = 8
	hosterPages   = 100 // of the directory
)

// hosterPLD returns the PLD of the scenario hoster.
func (w *Web) hosterPLD() string { return "hoster-0." + w.opt.Suffixes[0] }

// HosterSeed returns the root of the hoster's directory.
func (w *Web) HosterSeed() string { return "http://www." + w.hosterPLD() + "/" }

// HosterPart returns the part of the hoster to which a host belongs: "blog", "farm", or "main" for its directory; ""
// for other hosts.
func (w *Web) HosterPart(host string) string {
	name, ok := strings.CutSuffix(host, "."+w.hosterPLD())
	switch {
	case !ok || name == "":
		return ""
	case name[0] == 'b':
		return "blog"
	case name[0] == 'f':
		return "farm"
	}
	return "main"
}

func (w *Web) hosterURL(kind string, i uint64) string {
	return fmt.Sprintf("http://%s%d.%s/", kind, i, w.hosterPLD())
}

// hoster: a directory of 100 pages on the main host, which each name twenty hosts; 40 blogs, whose pages link to
// three more of their own, to another blog, and by a comment to the farm; and a farm of 4,000 hosts (times
// HostileScale), whose pages each link to fifteen of its hosts and to three more of their own.
func hoster(w *Web, add func(hostileHost)) {
	addr := func(host string) netip.Addr {
		return deadAddr(hostileNet, int(300+pathNumber(1, []byte(host))%hosterServers))
	}
	more := func(r *rng, refs []string, n int) []string {
		for range n {
			refs = append(refs, fmt.Sprintf("/%x", r.next()))
		}
		return refs
	}
	add(hostileHost{name: w.hosterPLD(), wild: true, seeds: []string{w.HosterSeed()}, addr: addr("x"),
		resolve: func(name string) names { return names{v4: []netip.Addr{addr(name)}} },
		serve: func(s *session, q *wish) bool {
			r := rng(pathNumber(w.opt.Seed, []byte(q.host+string(q.path))))
			switch w.HosterPart(string(q.host)) {
			case "blog":
				refs := []string{w.hosterURL("b", r.below(hosterBlogs)), w.hosterFarmHost(&r)}
				return s.page(q, links(more(&r, refs, 3)...))
			case "farm":
				return s.page(q, links(more(&r, w.hosterFarmHosts(&r, 15), 3)...))
			}
			refs := append(w.hosterFarmHosts(&r, 19), w.hosterURL("b", r.below(hosterBlogs)))
			for range 3 {
				refs = append(refs, fmt.Sprintf("/%d", r.below(hosterPages)))
			}
			return s.page(q, links(refs...))
		}})
	for i := range hosterServers {
		a := deadAddr(hostileNet, 300+i)
		if _, ok := w.hostile.byAddr[a]; !ok {
			w.hostile.addrs = append(w.hostile.addrs, a)
			w.hostile.byAddr[a] = w.hostile.byName[w.hosterPLD()]
		}
	}
}

func (w *Web) hosterFarmHost(r *rng) string {
	return w.hosterURL("f", r.below(uint64(hosterFarm*max(1, w.opt.HostileScale))))
}

func (w *Web) hosterFarmHosts(r *rng, n int) (refs []string) {
	for range n {
		refs = append(refs, w.hosterFarmHost(r))
	}
	return refs
}

// hosterFarmLinks returns the links of a page of a farm of PLDs to the hoster's farm.
func (w *Web) hosterFarmLinks(r *rng) []string {
	if !slices.Contains(w.opt.Hostile, "hoster") {
		return nil
	}
	return w.hosterFarmHosts(r, 5)
}

// hosterLinks appends the link of an ordinary host's page to a blog: of one page in four, and to blog i in proportion
// to 1/(i+1), about.
func (w *Web) hosterLinks(dst []byte, host int32, page uint32) []byte {
	if int(host) >= w.ordinary || !slices.Contains(w.opt.Hostile, "hoster") {
		return dst
	}
	r := rng(hash(w.hosts[host].key, uint64(page), saltHoster))
	if r.below(4) > 0 {
		return dst
	}
	blog := r.below(1 + r.below(hosterBlogs))
	return fmt.Appendf(dst, "<p><a href=\"%s\">a blog</a></p>\n", w.hosterURL("b", blog))
}
