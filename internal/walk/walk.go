package walk

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Limits of Options.
const (
	MaxWalkers = 10_000
	MaxURLs    = 10_000_000
	MaxJump    = 0.9
)

const (
	// DefaultWalkers and DefaultURLs are the defaults of the command; DefaultJump is that of the paper.
	DefaultWalkers = 1000
	DefaultURLs    = 10_000
	DefaultJump    = 1.0 / 7
	// StepsPerURL bounds the steps of a walk that has seen the whole web.
	StepsPerURL = 20
	// URLsPerWalker bounds the walkers of a short walk: more would take too few steps each to leave the seeds.
	URLsPerWalker = 20
	// MaxLinks bounds the links kept of a page; of more, a random sample of that size is kept.
	MaxLinks = 2000
)

// Options of a walk.
type Options struct {
	Walkers int     // 1 to MaxWalkers; one for each URLsPerWalker of URLs at most
	URLs    int     // visited URLs after which the walk ends, seeds included; 1 to MaxURLs
	Jump    float64 // probability of a jump in a step, above 0, at most MaxJump
	Bytes   int64   // of memory after which the walk ends
	Seed    [2]uint64
	Part    Part // of several nodes; Walkers and URLs are the sums over them
}

// Validate returns the first fault of the options.
func (o *Options) Validate() error {
	switch {
	case o.Walkers < 1 || o.Walkers > MaxWalkers:
		return fmt.Errorf("walk: %d walkers: want 1 to %d", o.Walkers, MaxWalkers)
	case o.URLs < 1 || o.URLs > MaxURLs:
		return fmt.Errorf("walk: %d URLs: want 1 to %d", o.URLs, MaxURLs)
	case !(o.Jump > 0 && o.Jump <= MaxJump):
		return fmt.Errorf("walk: probability of a jump %v: want more than 0, at most %v", o.Jump, MaxJump)
	case o.Bytes < 1:
		return fmt.Errorf("walk: %d bytes: want at least 1", o.Bytes)
	}
	return nil
}

// State is the progress of the visit of a URL.
type State uint8

// The states.
const (
	Seen   State = iota // a visited page links to it
	Wanted              // a walker waits for it
	Other               // visited; no page: a redirect, an error, another type, or refused
	Page                // visited; a page

)

// node is a URL of the walk.
type node struct {
	url    string
	key    uint64
	host   uint64
	links  []uint32 // numbers of the targets, once each; nil until visited
	steps  uint32   // in which a walker followed one of links
	visits uint32   // times a walker came
	status uint16
	origin Origin
	state  State
	seed   bool // visited without being wanted
	late   bool // wanted, but its walkers have stopped waiting
}

// Origin is the part of a URL's record that comes from the page on which a walker found it.
type Origin struct {
	Depth     uint16
	Redirects uint8
	Flags     uint8
}

// nodeBytes is the memory of a URL without its text and links: node, the entry in the map, and their slack.
const nodeBytes = 150

// none is the place of a walker that has not started.
const none = ^uint32(0)

// Walk is a walk under way.
type Walk struct {
	opt     Options
	src     *rand.PCG
	rng     *rand.Rand
	nodes   []node
	byKey   map[uint64]uint32
	at      []uint32 // of each walker; none
	ready   []uint32 // walkers whose page is known
	hosts   [][]uint32
	hostOf  map[uint64]uint32
	visited int   // URLs wanted or known
	steps   int64 // of all walkers
	bytes   int64

	others Others // of several nodes
	moves  moves

	log  []byte // records for TakeLog, one after another
	ends []int  // where they end
}

// New returns a walk that has not begun. The options must be valid.
func New(opt Options) *Walk {
	w := &Walk{opt: opt, src: rand.NewPCG(opt.Seed[0], opt.Seed[1]), byKey: map[uint64]uint32{},
		hostOf: map[uint64]uint32{}}
	w.rng = rand.New(w.src)
	for range opt.Part.of(min(opt.Walkers, max(1, opt.URLs/URLsPerWalker))) {
		w.begin(none)
		w.moves.began++
	}
	return w
}

// begin adds a walker that may step.
func (w *Walk) begin(at uint32) {
	w.ready = append(w.ready, uint32(len(w.at)))
	w.at = append(w.at, at)
}

// Link is a link of a page.
type Link struct {
	Key, Host uint64 // of the URL and its host
	URL       []byte
}

// Visit is the result of a URL's fetch or refusal.
type Visit struct {
	Link
	Page   bool
	Status int // of the response; 0 if refused
	Links  []Link
	Origin Origin // of Links
}

// Know passes the result of a URL to the walk. It keeps no reference to the arguments. A second call for a
// URL is ignored.
func (w *Walk) Know(v *Visit) {
	if w.full() && w.find(v.Key) == none {
		return
	}
	id := w.add(&v.Link)
	n := &w.nodes[id]
	if n.state >= Other {
		return
	}
	if n.state == Seen {
		n.seed = true
		w.visited++
	}
	n.state, n.late, n.status, n.origin = Other, false, uint16(v.Status), v.Origin
	if v.Page {
		n.state = Page
	}
	links := w.link(v.Links, id)
	n = &w.nodes[id] // link may have moved it
	n.links = links
	if len(links) > 0 {
		w.landing(id)
	}
	w.logKnown(id)
	for i, at := range w.at {
		if at == id {
			w.ready = append(w.ready, uint32(i))
		}
	}
}

// link returns the numbers of targets, without repetitions and the page itself.
func (w *Walk) link(links []Link, from uint32) []uint32 {
	ids := make([]uint32, 0, min(len(links), MaxLinks))
	if len(links) > MaxLinks {
		links = slices.Clone(links)
		w.rng.Shuffle(len(links), func(i, j int) { links[i], links[j] = links[j], links[i] })
		links = links[:MaxLinks]
	}
	for i := range links {
		if w.full() && w.find(links[i].Key) == none {
			continue
		}
		if id := w.add(&links[i]); id != from {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	ids = slices.Clip(slices.Compact(ids))
	w.bytes += 4 * int64(len(ids))
	return ids
}

func (w *Walk) find(key uint64) uint32 {
	if id, ok := w.byKey[key]; ok {
		return id
	}
	return none
}

// add returns the number of a URL, a new one if it was not seen.
func (w *Walk) add(l *Link) uint32 {
	if id := w.find(l.Key); id != none {
		return id
	}
	id := w.insert(l)
	w.logSeen(&w.nodes[id])
	return id
}

// insert numbers a URL that was not seen.
func (w *Walk) insert(l *Link) uint32 {
	id := uint32(len(w.nodes))
	w.nodes = append(w.nodes, node{url: string(l.URL), key: l.Key, host: l.Host})
	w.byKey[l.Key] = id
	w.bytes += nodeBytes + int64(len(l.URL))
	return id
}

// landing makes a visited URL with links a target of jumps.
func (w *Walk) landing(id uint32) {
	host := w.nodes[id].host
	h, ok := w.hostOf[host]
	if !ok {
		h = uint32(len(w.hosts))
		w.hostOf[host] = h
		w.hosts = append(w.hosts, nil)
	}
	w.hosts[h] = append(w.hosts[h], id)
}

// full reports whether the memory is used up.
func (w *Walk) full() bool { return w.bytes >= w.opt.Bytes }

// Ended returns the reason for the end of the walk, "" before.
func (w *Walk) Ended() string {
	left := w.left()
	switch {
	case left.URLs <= 0:
		return "it has visited the requested number of URLs"
	case left.Steps <= 0:
		return "it has made the maximum number of steps"
	case w.full():
		return "its memory is full"
	}
	return ""
}

// Idle reports whether Step would do nothing: the walk has ended, or each walker waits for a URL.
func (w *Walk) Idle() bool { return len(w.ready) == 0 || w.targets() == 0 || w.Ended() != "" }

// Wish is a URL to be fetched, for a walker that waits for it.
type Wish struct {
	URL, Via string // Via is the page with the link
	Key      uint64
	Origin   Origin
}

// Step takes at most most steps, and returns the URLs for which walkers now wait, and the walkers that go to other
// nodes. The caller fetches each URL once, and passes the result to Know.
func (w *Walk) Step(most int) (wishes []Wish, away []Departure) {
	logging := false
	for ; most > 0 && !w.Idle(); most-- {
		walker := w.ready[0]
		w.ready = w.ready[1:]
		from := w.at[walker]
		id, link, node := w.next(from)
		if node >= 0 {
			if logging {
				w.end()
				logging = false
			}
			away = append(away, w.depart(walker, from, link, node))
			continue
		}
		w.at[walker] = id
		w.steps++
		if !logging {
			w.record(logSteps)
			logging = true
		}
		w.logStep(from, id, link)
		n := &w.nodes[id]
		wanted := w.arrive(id, link < 0)
		switch {
		case n.late:
			w.at[walker] = none
			w.ready = append(w.ready, walker)
		case n.state >= Other: // to the end, so that all walkers have their turns
			w.ready = append(w.ready, walker)
		case wanted:
			wishes = append(wishes, Wish{URL: n.url, Via: w.nodes[from].url, Key: n.key, Origin: w.nodes[from].origin})
		}
	}
	if logging {
		w.end()
	}
	return wishes, away
}

// arrive counts the visit of a walker, and reports whether it is the first to want the URL.
func (w *Walk) arrive(id uint32, jumped bool) (wanted bool) {
	n := &w.nodes[id]
	n.visits++
	if n.state != Seen || jumped {
		return false
	}
	n.state = Wanted
	w.visited++
	return true
}

// next chooses a walker's next step from a URL: the number of a link, or a jump (-1). node is that to which the walker
// goes, -1 for this one; then to is the URL.
func (w *Walk) next(from uint32) (to uint32, link, node int) {
	if from == none || len(w.nodes[from].links) == 0 || w.rng.Float64() < w.opt.Jump {
		host := w.rng.IntN(w.targets())
		if host >= len(w.hosts) {
			return none, -1, w.others.nodeOf(host - len(w.hosts))
		}
		return w.land(host), -1, -1
	}
	n := &w.nodes[from]
	n.steps++
	link = w.rng.IntN(len(n.links))
	to = n.links[link]
	return to, link, w.others.owner(w.nodes[to].key)
}

// land chooses a page of a host.
func (w *Walk) land(host int) uint32 {
	pages := w.hosts[host]
	return pages[w.rng.IntN(len(pages))]
}

// GiveUp makes the current and later walkers at a URL jump instead of waiting. The URL may still be fetched.
func (w *Walk) GiveUp(key uint64) {
	id := w.find(key)
	if id == none || w.nodes[id].state != Wanted || w.nodes[id].late {
		return
	}
	w.nodes[id].late = true
	w.logLate(id)
	for i, at := range w.at {
		if at == id {
			w.at[i] = none
			w.ready = append(w.ready, uint32(i))
		}
	}
}

// Figures describe a walk.
type Figures struct {
	Seen, Visited int   // URLs
	Steps         int64 // of all walkers
	Bytes         int64 // of memory
	Walkers       int   // that are here
}

// Figures returns the figures of the walk so far.
func (w *Walk) Figures() Figures {
	return Figures{Seen: len(w.nodes), Visited: w.visited, Steps: w.steps, Bytes: w.bytes,
		Walkers: len(w.at)}
}

// Waiting returns the number of URLs that walkers wait for.
func (w *Walk) Waiting() (n int) {
	for i := range w.nodes {
		if w.nodes[i].state == Wanted {
			n++
		}
	}
	return n
}
