package simweb

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// A hoster is a PLD with blogs, to which ordinary PLDs link, and a farm of hosts that link to each other.
const (
	hosterBlogs   = 40
	hosterFarm    = 4000
	hosterServers = 8
	hosterPages   = 100 // of the directory
)

// hosterForm is a scenario with a hoster, by the names of its PLD and the URLs of its blogs and of its farm's hosts. In
// hoster-directories they are directories of the main host, like /~b1/.
type hosterForm struct{ scenario, name, url string }

var hosterForms = []hosterForm{{"hoster", "hoster-0", "http://%s.%s/"},
	{"hoster-directories", "hoster-1", "http://www.%[2]s/~%[1]s/"}}

// hosters returns the hosters of the web.
func (w *Web) hosters() (list []hosterForm) {
	for _, f := range hosterForms {
		if slices.Contains(w.opt.Hostile, f.scenario) {
			list = append(list, f)
		}
	}
	return list
}

func (f hosterForm) pld(w *Web) string { return f.name + "." + w.opt.Suffixes[0] }

// seed returns the root of the hoster's directory.
func (f hosterForm) seed(w *Web) string { return "http://www." + f.pld(w) + "/" }

// HosterSeeds returns the root of the directory of each hoster.
func (w *Web) HosterSeeds() (urls []string) {
	for _, f := range w.hosters() {
		urls = append(urls, f.seed(w))
	}
	return urls
}

// HosterPart returns the part of a hoster to which a URL belongs: "blog", "farm", or "main" for its directory; ""
// for other hosts.
func (w *Web) HosterPart(url string) string {
	for _, f := range w.hosters() {
		if part := f.part(w, url); part != "" {
			return part
		}
	}
	return ""
}

func (f hosterForm) part(w *Web, url string) string {
	_, rest, _ := strings.Cut(url, "://")
	host, path, _ := strings.Cut(rest, "/")
	name, ok := strings.CutSuffix(host, "."+f.pld(w))
	if dir, is := strings.CutPrefix(path, "~"); is {
		name = dir
	}
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

// ref returns the URL of a blog or of a host of the farm, by kind "b" or "f".
func (f hosterForm) ref(w *Web, kind string, i uint64) string {
	return fmt.Sprintf(f.url, fmt.Sprint(kind, i), f.pld(w))
}

// scene adds the hoster: a directory of 100 pages on the main host, which each name twenty hosts; 40 blogs, whose pages
// link to three more of their own, to another blog, and by a comment to the farm; and a farm of 4,000 hosts (times
// HostileScale), whose pages each link to fifteen of its hosts and to three more of their own.
func (f hosterForm) scene(w *Web, add func(hostileHost)) {
	addr := func(host string) netip.Addr {
		return deadAddr(hostileNet, int(300+pathNumber(1, []byte(host))%hosterServers))
	}
	more := func(r *rng, refs []string, n int) []string {
		for range n {
			refs = append(refs, fmt.Sprintf("%x", r.next()))
		}
		return refs
	}
	add(hostileHost{name: f.pld(w), wild: true, seeds: []string{f.seed(w)}, addr: addr("x"),
		resolve: func(name string) names { return names{v4: []netip.Addr{addr(name)}} },
		serve: func(s *session, q *wish) bool {
			r := rng(pathNumber(w.opt.Seed, []byte(q.host+string(q.path))))
			switch f.part(w, "http://"+string(q.host)+string(q.path)) {
			case "blog":
				refs := []string{f.ref(w, "b", r.below(hosterBlogs)), f.farmHost(w, &r)}
				return s.page(q, links(more(&r, refs, 3)...))
			case "farm":
				return s.page(q, links(more(&r, f.farmHosts(w, &r, 15), 3)...))
			}
			refs := append(f.farmHosts(w, &r, 19), f.ref(w, "b", r.below(hosterBlogs)))
			for range 3 {
				refs = append(refs, fmt.Sprintf("/%d", r.below(hosterPages)))
			}
			return s.page(q, links(refs...))
		}})
	for i := range hosterServers {
		a := deadAddr(hostileNet, 300+i)
		if _, ok := w.hostile.byAddr[a]; !ok {
			w.hostile.addrs = append(w.hostile.addrs, a)
			w.hostile.byAddr[a] = w.hostile.byName[f.pld(w)]
		}
	}
}

func (f hosterForm) farmHost(w *Web, r *rng) string {
	return f.ref(w, "f", r.below(uint64(hosterFarm*max(1, w.opt.HostileScale))))
}

func (f hosterForm) farmHosts(w *Web, r *rng, n int) (refs []string) {
	for range n {
		refs = append(refs, f.farmHost(w, r))
	}
	return refs
}

// hosterFarmLinks returns the links of a page of a farm of PLDs to the farms of the hosters.
func (w *Web) hosterFarmLinks(r *rng) (refs []string) {
	for _, f := range w.hosters() {
		refs = append(refs, f.farmHosts(w, r, 5)...)
	}
	return refs
}

// hosterLinks appends the links of an ordinary host's page to a post of a blog of each hoster: of one page in four, and
// to blog i in proportion to 1/(i+1), about. The blogs so have more URLs than a budget has room for.
func (w *Web) hosterLinks(dst []byte, host int32, page uint32) []byte {
	if int(host) >= w.ordinary {
		return dst
	}
	for _, f := range w.hosters() {
		r := rng(hash(w.hosts[host].key, uint64(page), saltHoster))
		if r.below(4) > 0 {
			continue
		}
		blog := r.below(1 + r.below(hosterBlogs))
		dst = fmt.Appendf(dst, "<p><a href=\"%s%x\">a blog</a></p>\n", f.ref(w, "b", blog), r.next()>>48)
	}
	return dst
}
