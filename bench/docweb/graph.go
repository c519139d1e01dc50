package docweb

import (
	"fmt"
	"strconv"
	"strings"
)

// kind of a URL.
type kind uint32

const (
	page  kind = iota
	gone       // 404
	moved      // 301
	other      // robots.txt, names that do not exist, anything else
)

// node is a URL of a host.
type node struct {
	host *Host // nil: a dead name, whose number is n
	kind kind
	n    int
}

const fanOut = 5 // children of a page

// isBook reports whether a host's pages follow one another like those of a book: each page is known only from
// its neighbours. A quarter of the hosts with 8 to 200 pages are books.
func (h *Host) isBook() bool {
	return h.role == ordinary && h.Pages >= 8 && h.Pages <= 200 && h.id%4 == 1
}

// nearby: most links of a text lead to one of so many pages before or after it.
const nearby = 30

// Links of indexes, which are the pages 1 to 3 of hosts with more than 1,000 pages.
const (
	indexes    = 3
	indexLinks = 100
	indexFrom  = 1000
)

// outside: one page in so many links to other hosts.
const outside = 4

// path returns the path of a URL.
func (w *Web) path(n node) string {
	switch {
	case n.kind == gone:
		return "/archive/" + slug(n.host.id, n.n) + "-" + strconv.Itoa(n.n) + ".html"
	case n.kind == moved:
		return "/go/" + slug(n.host.id, n.n) + "-" + strconv.Itoa(n.n) + ".html"
	case n.n == 0:
		return "/"
	}
	dir := words[mix(uint64(n.host.id)<<32+uint64(n.n/64))%uint64(len(words))]
	if w.forbidden(n.host, n.n) {
		dir = forbiddenDir
	}
	return "/" + dir + "/" + slug(n.host.id, n.n) + "-" + strconv.Itoa(n.n) + ".html"
}

func slug(host, n int) string {
	z := mix(uint64(host)<<40 + uint64(n) + 1)
	return words[z%uint64(len(words))] + "-" + words[z>>32%uint64(len(words))]
}

// forbiddenDir is the directory that a robots.txt of kind RobotsDisallow forbids.
const forbiddenDir = "internal"

// forbidden reports whether a page is in forbiddenDir: an eighth of the pages without children of a host,
// unless a book, that forbids it.
func (w *Web) forbidden(h *Host, n int) bool {
	return h.Robots == RobotsDisallow && !h.isBook() && n > 0 && n*fanOut+1 >= h.Pages && n/4%8 == 5
}

// nodeOf is the inverse of path; ok is false if no URL has the path.
func (w *Web) nodeOf(h *Host, path string) (n node, ok bool) {
	n = node{host: h}
	if path == "/" {
		return n, true
	}
	rest, found := strings.CutSuffix(path, ".html")
	i := strings.LastIndexByte(rest, '-')
	if !found || i < 0 {
		return n, false
	}
	var err error
	if n.n, err = strconv.Atoi(rest[i+1:]); err != nil || n.n < 0 {
		return n, false
	}
	most := h.Pages
	switch {
	case strings.HasPrefix(path, "/archive/"):
		n.kind, most = gone, h.gone
	case strings.HasPrefix(path, "/go/"):
		n.kind, most = moved, h.moved
	}
	return n, n.n < most && w.path(n) == path
}

// url returns a URL in full.
func (w *Web) url(n node) string {
	if n.host == nil {
		return fmt.Sprintf("http://%s:%d/", deadName(n.n), w.opt.Port)
	}
	return fmt.Sprintf("http://%s:%d%s", n.host.Name, w.opt.Port, w.path(n))
}

func deadName(n int) string {
	return "www." + words[n%len(words)] + "-gone" + strconv.Itoa(n/len(words)) + ".test"
}

// deadNames is the number of names that do not exist.
func (w *Web) deadNames() int { return w.opt.Hosts/6 + 1 }

// links are the links of a page, by their places.
type links struct {
	related  []node // parent, neighbours
	children []node
	siblings []node
	text     []node // in the text
}

func (l *links) all(yield func(node)) {
	for _, list := range [][]node{l.related, l.children, l.siblings, l.text} {
		for _, n := range list {
			yield(n)
		}
	}
}

// target returns what a moved page redirects to.
func (w *Web) target(n node) node {
	r := newRng(w.opt.Seed, 3, uint64(n.host.id), uint64(n.n))
	if r.below(5) == 0 {
		return w.elsewhere(r, n.host)
	}
	return node{host: n.host, n: r.below(n.host.Pages)}
}

// elsewhere returns a page of one of the hosts that h links to, more often the root or an early page.
func (w *Web) elsewhere(r *rng, h *Host) node {
	to := w.hosts[h.friends[r.below(len(h.friends))]]
	if r.below(5) < 3 {
		return node{host: to}
	}
	u := r.unit()
	return node{host: to, n: int(float64(to.Pages) * u * u * u)}
}

// linksOf returns the links of a page of an ordinary host or of lists.
func (w *Web) linksOf(h *Host, i int) *links {
	l := new(links)
	r := newRng(w.opt.Seed, 4, uint64(h.id), uint64(i))
	if h.role == lists {
		w.listLinks(l, h, i)
		return l
	}
	at := func(n int) node { return node{host: h, n: n} }
	if i > 0 {
		l.related = append(l.related, at(0), at(i-1))
	}
	if i+1 < h.Pages {
		l.related = append(l.related, at(i+1))
	}
	if !h.isBook() {
		w.treeLinks(l, r, h, i)
	}
	if r.below(outside) == 0 {
		for range 1 + r.below(3) {
			l.text = append(l.text, w.elsewhere(r, h))
		}
	}
	for _, found := range h.finds[i] {
		l.text = append(l.text, node{host: w.hosts[found]})
	}
	w.rareLinks(l, r, h)
	return l
}

// treeLinks adds the links of page i to its parent, siblings and children, and those of its text within the
// host.
func (w *Web) treeLinks(l *links, r *rng, h *Host, i int) {
	at := func(n int) node { return node{host: h, n: n} }
	if i > 0 {
		l.related = append(l.related, at((i-1)/fanOut))
		first := (i-1)/fanOut*fanOut + 1
		for s := first; s < min(first+fanOut, h.Pages); s++ {
			l.siblings = append(l.siblings, at(s))
		}
	}
	for c := i*fanOut + 1; c < min(i*fanOut+1+fanOut, h.Pages); c++ {
		l.children = append(l.children, at(c))
	}
	if i > 0 && i <= indexes && h.Pages > indexFrom {
		for k := range indexLinks {
			l.children = append(l.children, at((k*indexes+i)*(h.Pages/indexLinks/indexes)%h.Pages))
		}
	}
	for range 2 + r.below(13) {
		if r.below(4) > 0 {
			l.text = append(l.text, at(min(max(i-nearby+r.below(2*nearby+1), 0), h.Pages-1)))
			continue
		}
		u := r.unit()
		l.text = append(l.text, at(int(float64(h.Pages)*u*u*u)))
	}
}

// rareLinks adds, to some pages, a link to a name that does not exist, a missing or moved page, or a bad
// host.
func (w *Web) rareLinks(l *links, r *rng, h *Host) {
	switch r.below(64) {
	case 0:
		l.text = append(l.text, node{n: r.below(w.deadNames())})
	case 1, 2, 3:
		l.text = append(l.text, node{host: h, kind: gone, n: r.below(h.gone)})
	case 4, 5, 6:
		l.text = append(l.text, node{host: h, kind: moved, n: r.below(h.moved)})
	case 7, 8:
		if w.opt.Bad {
			// Slow, silent.
			l.text = append(l.text, node{host: w.hosts[w.opt.Hosts+2+r.below(2)], n: r.below(slowPages)})
		}
	}
}

// listLinks adds the links of a page of lists.
func (w *Web) listLinks(l *links, h *Host, i int) {
	if i == 0 {
		for n := 1; n < h.Pages; n++ {
			l.children = append(l.children, node{host: h, n: n})
		}
		return
	}
	to := w.hosts[w.opt.Hosts+1] // vast
	for n := range listLinks {
		l.children = append(l.children, node{host: to, n: (i-1)*listLinks + n})
	}
}
