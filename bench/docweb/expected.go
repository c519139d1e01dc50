package docweb

// Expected is the set of URLs that a crawl from the seeds must request, by the rules of robots.txt.
type Expected struct {
	Pages int    // pages of ordinary hosts
	Hosts int    // hosts with such pages
	Links int    // links of these pages
	must  []bool // by number of the page
	nodes []node // pages, missing and moved ones, breadth first from the seeds
	web   *Web
}

// Expected walks the web, without its pages, from the roots of the first seeds hosts. Hosts whose robots.txt
// fails, and bad hosts, are left out.
func (w *Web) Expected(seeds int) *Expected {
	e := &Expected{must: make([]bool, w.pages), web: w}
	lost, redirects := make([]bool, w.gone), make([]bool, w.moved)
	found := map[int]bool{}
	admit := func(n node) {
		h := n.host
		if h == nil || h.role != ordinary || h.Robots == RobotsFails {
			return
		}
		var seen *bool
		switch n.kind {
		case page:
			if w.forbidden(h, n.n) {
				return
			}
			seen = &e.must[h.base+n.n]
		case gone:
			seen = &lost[h.baseGone+n.n]
		case moved:
			seen = &redirects[h.baseMove+n.n]
		}
		if *seen {
			return
		}
		*seen = true
		e.nodes = append(e.nodes, n)
		if n.kind == page {
			e.Pages++
			found[h.id] = true
		}
	}
	for _, h := range w.seeds[:seeds] {
		admit(node{host: h})
	}
	for i := 0; i < len(e.nodes); i++ {
		switch n := e.nodes[i]; n.kind {
		case page:
			w.linksOf(n.host, n.n).all(func(to node) { e.Links++; admit(to) })
		case moved:
			admit(w.target(n))
		}
	}
	e.Hosts = len(found)
	return e
}

// Requests calls yield with host and path of each URL, breadth first.
func (e *Expected) Requests(yield func(h *Host, path string)) {
	for _, n := range e.nodes {
		yield(n.host, e.web.path(n))
	}
}
