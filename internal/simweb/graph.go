package simweb

import "cmp"

// Kind is the kind of response of a URL.
type Kind uint8

// The kinds of URLs.
const (
	HTML Kind = iota
	NotFound
	ServerError
	Redirect      // to a URL of the same host
	RedirectCross // to a URL of another host
	RedirectChain // one of four
	RedirectLoop  // one of one to three in a circle
	NonHTML
	NumKinds
)

func (k Kind) String() string {
	names := [NumKinds]string{
		"html", "not-found", "server-error", "redirect", "redirect-cross", "redirect-chain", "redirect-loop",
		"non-html",
	}
	if k < NumKinds {
		return names[k]
	}
	return "?"
}

// hops is the number of nodes per index of a host: the URL itself (hop 0) and, for chains and loops of
// redirects, up to three more.
const hops = 4

// node is one URL of the web as integers. Its number is 4*(base of host + page) + hop. Nodes of spam hosts
// have no numbers.
type node struct {
	host int32
	page uint32
	hop  uint8
	sub  uint64 // number of the spam host; 0 for others
}

// fanout is the width of the trees that make everything reachable: page i of a host links to its pages 4i+1
// to 4i+4, the root of trunk host i to the roots of trunk hosts 4i+1 to 4i+4.
const fanout = 4

func (w *Web) number(n node) uint64 {
	return (w.hosts[n.host].base+uint64(n.page))*hops + uint64(n.hop)
}

// kind draws the kind of an index of a host. Inner pages of the host's tree are always HTML, so the shares
// are scaled up for the leaves, 3/4 of all.
func (w *Web) kind(h *host, page uint32) Kind {
	if h.kind != liveHost || page == 0 || uint64(page)*fanout+1 < uint64(h.pages) {
		return HTML
	}
	u := unit(hash(h.key, uint64(page), saltKind)) * 0.75
	p := &w.opt.Page
	for _, s := range [...]struct {
		share float64
		kind  Kind
	}{
		{p.NotFound, NotFound}, {p.ServerError, ServerError}, {p.Redirect, Redirect},
		{p.RedirectCross, RedirectCross}, {p.RedirectChain, RedirectChain}, {p.RedirectLoop, RedirectLoop},
		{p.NonHTML, NonHTML},
	} {
		if u < s.share {
			return s.kind
		}
		u -= s.share
	}
	return HTML
}

// lastHop returns the highest hop at an index of this kind.
func (w *Web) lastHop(h *host, page uint32, k Kind) uint8 {
	switch k {
	case RedirectChain:
		return 3
	case RedirectLoop:
		return uint8(hash(h.key, uint64(page), saltRedirect) % 3)
	}
	return 0
}

// redirect returns the target of a redirecting node.
func (w *Web) redirect(n node, k Kind) node {
	h := &w.hosts[n.host]
	r := rng(hash(h.key, uint64(n.page), saltRedirect))
	r.next()
	switch k {
	case RedirectChain:
		if n.hop < 3 {
			n.hop++
			return n
		}
	case RedirectLoop:
		if n.hop < w.lastHop(h, n.page, k) {
			n.hop++
		} else {
			n.hop = 0
		}
		return n
	case RedirectCross:
		return w.anywhere(&r, h.pld)
	}
	page := uint32(r.below(uint64(h.pages)))
	if page == n.page {
		page = 0
	}
	return node{host: n.host, page: page}
}

// anywhere draws a node of an ordinary host for a link from a PLD: the PLD by the power law (number p with density
// p^-7/8, see Options.Skew), then a host and a page of it. Half of the draws are roots.
func (w *Web) anywhere(r *rng, from int32) node {
	if w.ordinary == 0 {
		return node{host: max(w.big, 0)}
	}
	to := r.skew(uint64(w.opt.PLDs), cmp.Or(w.opt.Skew, 3))
	if c := uint64(w.opt.Communities); c > 1 && r.below(10) > 0 {
		if to += uint64(from)%c - to%c; to >= uint64(w.opt.PLDs) {
			to -= c
		}
	}
	p := &w.plds[to]
	n := node{host: p.hosts[r.skew(uint64(len(p.hosts)), 1)]}
	if x := r.next(); x&1 == 0 {
		n.page = uint32(r.skew(uint64(w.hosts[n.host].pages), 1))
	}
	return n
}

// appendTargets appends the links of an HTML node in document order, or the target of a redirect; other
// nodes have none. It defines the whole graph of the web: pages are painted from it, and Expected walks it.
func (w *Web) appendTargets(dst []node, n node, k Kind) []node {
	h := &w.hosts[n.host]
	switch {
	case h.kind == spamHost:
		return w.spamTargets(dst, n)
	case h.kind == chainHost:
		if n.page+1 < h.pages {
			dst = append(dst, node{host: n.host, page: n.page + 1})
		}
		return dst
	case h.kind.dead():
		return dst
	case k >= Redirect && k <= RedirectLoop:
		return append(dst, w.redirect(n, k))
	case k != HTML:
		return dst
	}
	for i := uint64(n.page)*fanout + 1; i <= uint64(n.page)*fanout+fanout && i < uint64(h.pages); i++ {
		dst = append(dst, node{host: n.host, page: uint32(i)})
	}
	if n.page == 0 {
		dst = w.rootTargets(dst, n)
	}
	return w.drawTargets(dst, n)
}

// rootTargets appends the links of roots that connect the hosts.
func (w *Web) rootTargets(dst []node, n node) []node {
	i := int(n.host)
	if i < w.trunk {
		for c := i*fanout + 1; c <= i*fanout+fanout && c < w.trunk; c++ {
			dst = append(dst, node{host: int32(c)})
		}
		for c := w.trunk + i; c < w.ordinary; c += w.trunk {
			dst = append(dst, node{host: int32(c)})
		}
		if i == 0 && w.big >= 0 {
			dst = append(dst, node{host: w.big})
		}
	}
	if i < w.trunk || (n.host == w.big && w.trunk == 0) {
		for c := i % max(w.trunk, 1); c < int(w.deadN); c += max(w.trunk, 1) {
			dst = append(dst, node{host: w.dead + int32(c)})
		}
	}
	if w.hosts[n.host].spamIn {
		dst = append(dst, node{host: w.spam, sub: uint64(w.hosts[n.host].pld)})
	}
	return dst
}

// drawTargets appends the random links: 0 to 2*(LinksPerPage-1) of them.
func (w *Web) drawTargets(dst []node, n node) []node {
	if w.opt.LinksPerPage < 2 {
		return dst
	}
	h := &w.hosts[n.host]
	r := rng(hash(h.key, uint64(n.page), saltLinks))
	for range r.below(uint64(2*w.opt.LinksPerPage - 1)) {
		u := r.unit()
		if u < w.opt.Link.Duplicate && len(dst) > 0 {
			dst = append(dst, dst[r.below(uint64(len(dst)))])
			continue
		}
		if u = r.unit(); u >= w.opt.Link.Cross {
			dst = append(dst, node{host: n.host, page: uint32(r.below(uint64(h.pages)))})
			continue
		}
		if w.deadN > 0 && r.unit() < w.opt.Dead.Links {
			dst = append(dst, node{
				host: w.dead + int32(r.below(uint64(w.deadN))),
				page: uint32(r.below(uint64(w.opt.Dead.Pages))),
			})
			continue
		}
		if ps := w.plds[h.pld].hosts; len(ps) > 1 && r.unit() < 0.2 {
			t := node{host: ps[r.below(uint64(len(ps)))]}
			t.page = uint32(r.below(uint64(w.hosts[t.host].pages)))
			dst = append(dst, t)
			continue
		}
		dst = append(dst, w.anywhere(&r, h.pld))
	}
	return dst
}

// spamTargets appends the links of a spam page. All lead to random pages of random hosts of the spam PLD
// (2^32 of each), except the share OutLinks, which lead to roots of trunk hosts; so spam adds nothing to
// the reachable set.
func (w *Web) spamTargets(dst []node, n node) []node {
	r := rng(hash(hash(w.opt.Seed, n.sub, saltSpam), uint64(n.page), saltLinks))
	for range w.opt.Spam.Links {
		u := r.unit()
		if u < w.opt.Spam.OutLinks && w.trunk > 0 {
			dst = append(dst, node{host: int32(r.below(uint64(w.trunk)))})
			continue
		}
		dst = append(dst, node{host: n.host, sub: r.next() >> 32, page: uint32(r.next() >> 36)})
	}
	return dst
}
