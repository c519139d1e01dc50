package walk

import "slices"

// A walk of several nodes. Each node has the URLs of its own PLDs, with the links of their pages, and the walkers that
// are at them. A walker whose link leads to a URL of another node goes there (Departure, Come), and so does one that
// jumps to a host of another node: the caller carries it, exactly once.
//
// Limits.URLs and the number of steps are of all nodes. Each begins with its part, and each walker takes its share of
// what its node has left along with it (Purse), the last walker all of it. So all nodes together visit as many URLs as
// one, without asking each other.

// Part is the part with which a node begins: slots From to To of all Of. The zero value is the whole.
type Part struct{ From, To, Of int }

func (p Part) of(n int) int {
	if p.Of == 0 {
		return n
	}
	return n*p.To/p.Of - n*p.From/p.Of
}

// Purse is what is left of a walk's URLs and steps.
type Purse struct{ URLs, Steps int64 }

func (p *Purse) add(q Purse) {
	p.URLs += q.URLs
	p.Steps += q.Steps
}

// Others are the other nodes. The zero value has none.
type Others struct {
	// Elsewhere returns the node of the URL with a key; ok is false for this one.
	Elsewhere func(key uint64) (node int, ok bool)
	Hosts     []int64 // by node: hosts to which walkers may jump; 0 for this one
}

// owner returns the node of a URL, -1 for this one.
func (o *Others) owner(key uint64) int {
	if o.Elsewhere != nil {
		if node, ok := o.Elsewhere(key); ok {
			return node
		}
	}
	return -1
}

// nodeOf returns the node of one of the other nodes' hosts.
func (o *Others) nodeOf(host int) int {
	for node, n := range o.Hosts {
		if host -= int(n); host < 0 {
			return node
		}
	}
	return -1
}

// mostHosts bounds what another node says of its hosts.
const mostHosts = 1 << 40

// SetOthers says what is known of the other nodes now. The walk keeps the argument.
func (w *Walk) SetOthers(o Others) {
	for node, n := range o.Hosts {
		o.Hosts[node] = min(max(n, 0), mostHosts)
	}
	w.others = o
}

// targets returns the number of hosts to which walkers may jump.
func (w *Walk) targets() int {
	n := len(w.hosts)
	for _, hosts := range w.others.Hosts {
		n += int(hosts)
	}
	return n
}

// Hosts returns the number of hosts of this node to which walkers may jump.
func (w *Walk) Hosts() int { return len(w.hosts) }

// moves counts the walkers of a node: began and came, less left, are here.
type moves struct {
	began, came, left uint64
	purse             Purse // came with walkers less those that left with them
}

// left returns what this node has left. It may be below 0: seeds are visited in any case.
func (w *Walk) left() Purse {
	urls := int64(w.opt.Part.of(w.opt.URLs))
	p := Purse{URLs: urls - int64(w.visited), Steps: StepsPerURL*urls - w.steps}
	p.add(w.moves.purse)
	return p
}

// Departure is a walker that goes to another node.
type Departure struct {
	Node   int
	Purse  Purse
	Key    uint64 // of URL
	URL    string // where it goes; empty for a jump
	Via    string // the page with the link
	Origin Origin // of the page
}

// depart takes a walker that has just stepped away from this node.
func (w *Walk) depart(walker, from uint32, link, node int) Departure {
	share := func(n int64) uint64 { return uint64(max(0, n) / int64(len(w.at))) }
	w.steps++
	left := w.left()
	d := Departure{Node: node, Purse: Purse{URLs: int64(share(left.URLs)), Steps: int64(share(left.Steps))}}
	if link >= 0 {
		n := &w.nodes[from]
		to := &w.nodes[n.links[link]]
		d.Key, d.URL, d.Via, d.Origin = to.key, to.url, n.url, n.origin
	}
	w.logLeft(from, link, d.Purse)
	w.gone(d.Purse)
	last := uint32(len(w.at) - 1)
	if i := slices.Index(w.ready, last); i >= 0 && last != walker {
		w.ready[i] = walker
	}
	w.at[walker] = w.at[last]
	w.at = w.at[:last]
	return d
}

// gone counts a walker that has left.
func (w *Walk) gone(p Purse) {
	w.moves.left++
	w.moves.purse.add(Purse{-p.URLs, -p.Steps})
}

// How a walker has come.
const (
	cameNowhere = iota // it jumps next
	cameByJump
	cameByLink
)

// Come takes a walker from another node; link is nil for a jump. wanted says that the walker waits for the URL of
// link, and is the first to do so: the caller fetches it, as a Wish.
func (w *Walk) Come(p Purse, link *Link) (wanted bool) {
	w.moves.came++
	w.moves.purse.add(p)
	how, id := cameNowhere, none
	switch {
	case w.Ended() != "":
	case link == nil && len(w.hosts) > 0:
		how, id = cameByJump, w.land(w.rng.IntN(len(w.hosts)))
	case link != nil:
		how, id = cameByLink, w.add(link)
	}
	w.logCame(p, how, id)
	if how == cameNowhere {
		w.begin(none)
		return false
	}
	wanted = w.arrive(id, how == cameByJump)
	switch n := &w.nodes[id]; {
	case n.late:
		w.begin(none)
	case n.state >= Other:
		w.begin(id)
	default:
		w.at = append(w.at, id)
	}
	return wanted
}

// Back takes a walker back whose node takes part no more. It jumps next.
func (w *Walk) Back(d *Departure) {
	w.moves.came++
	w.moves.purse.add(d.Purse)
	w.logCame(d.Purse, cameNowhere, none)
	w.begin(none)
}
