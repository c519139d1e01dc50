package nodes

import (
	"context"
	"math/rand/v2"

	"drumbeat/cluster"
)

const (
	none       = ^uint32(0)
	cacheLinks = 1 << 16 // of a node, in front of URLseen and of the outboxes
	latency    = 1       // seconds from publishing to the receiver, and from a mark to its readers
	// hurryEvery and short are when package crawl makes a checkpoint early: fewer URLs than connections, and links wait.
	hurryEvery = 4
	short      = 2000
	waits      = 1024 // seconds that are counted apart
	sampled    = 60   // seconds of a sample
	// mostSeconds ends a simulation that does not.
	mostSeconds = 10_000_000
)

// link is a link that waits for a checkpoint of its sender.
type link struct{ url, pld, found uint32 }

// batch is what a checkpoint of a node has published for another.
type batch struct {
	from, to int
	at       int // second
	links    []link
	bytes    float64
}

// node is one node.
type node struct {
	outbox     [][]link // by receiver
	waiting    int      // links in them
	queued     int      // URLs of its hosts that wait
	due        []uint32 // hosts whose delay is over, oldest first
	calendar   [][]uint32
	cache      []uint32
	checkpoint int     // second of the last one
	held       float64 // bytes in outboxes: waiting, or not covered by a checkpoint of the receiver
	mostHeld   float64

	fetched, last int // pages: all, and when the last sample ended
	lastPage      int // second of the last page
	received      int64
}

// sim is a crawl in virtual time.
type sim struct {
	o      *Options
	web    *web
	table  *cluster.Table
	owner  []uint16 // of PLDs
	seen   []uint64 // a bit for each URL
	next   []uint32 // the URL after each in its host's queue
	head   []uint32 // of hosts
	tail   []uint32
	state  []uint32 // of hosts: second from which it may be visited; queuedBit: it has URLs
	nodes  []node
	flying []batch // published, by time of arrival
	// covering are bytes that leave outboxes when the mark of a receiver's checkpoint arrives.
	covering [][]float64 // by receiver and sender: arrived since its last checkpoint
	rng      *rand.Rand
	second   int

	res result
}

// result is what a simulation has found.
type result struct {
	Seconds           int
	Pages, Links      int64 // links behind the caches
	Sent, Received    int64
	Again             int64 // URLs fetched twice
	Messages          int64
	Bytes             float64
	MarkBytes         float64 // delivered
	Checkpoints       int64
	Wait              [waits]int64 // links by seconds from found to taken
	WaitSum           float64
	MostWait          int
	MostHeld          float64
	MostSent          int64 // links sent in a second by all nodes
	Largest           float64
	NodePages         []int
	NodeEnds          []int
	Samples           [][]int // by time, then by node
	LargestPLD, Hosts int
}

const queuedBit = 1 << 31

func newSim(o *Options, size []uint32) (*sim, error) {
	weights := make([]float64, o.Nodes)
	for i := range weights {
		weights[i] = 1
	}
	table, err := cluster.NewTable(weights)
	if err != nil {
		return nil, err
	}
	w := newWeb(size)
	s := &sim{o: o, web: w, table: table, owner: owners(table, w.plds(), o.Seed), seen: make([]uint64, w.urls()/64+1), next: make([]uint32, w.urls()),
		head: make([]uint32, w.hosts()), tail: make([]uint32, w.hosts()), state: make([]uint32, w.hosts()), nodes: make([]node, o.Nodes),
		covering: make([][]float64, o.Nodes), rng: rand.New(rand.NewPCG(o.Seed, 0x6e6f646573))}
	for h := range s.head {
		s.head[h] = none
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		n.outbox, n.calendar, n.cache = make([][]link, o.Nodes), make([][]uint32, o.hostDelay()+1), make([]uint32, cacheLinks)
		n.checkpoint = -int(s.rng.Int64N(int64(o.every()))) // nodes make checkpoints at different seconds
		for j := range n.cache {
			n.cache[j] = none
		}
		s.covering[i] = make([]float64, o.Nodes)
	}
	for _, n := range size {
		s.res.LargestPLD = max(s.res.LargestPLD, int(n))
	}
	s.res.Hosts = w.hosts()
	return s, nil
}

// owners returns the owners of PLDs with random keys.
func owners(table *cluster.Table, plds int, seed uint64) []uint16 {
	rng := rand.New(rand.NewPCG(seed, 0x6b657973))
	list := make([]uint16, plds)
	for pld := range list {
		list[pld] = uint16(table.Owner(rng.Uint64()))
	}
	return list
}

// run crawls until nothing is left.
func (s *sim) run(ctx context.Context) error {
	s.take(0, 0) // the seed
	for s.second = 0; s.second < mostSeconds; s.second++ {
		if s.second%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		s.arrive()
		before, busy := s.res.Sent, false
		for i := range s.nodes {
			s.fetch(i)
			s.maybeCheckpoint(i)
			n := &s.nodes[i]
			busy = busy || n.queued > 0 || n.waiting > 0
		}
		s.res.MostSent = max(s.res.MostSent, s.res.Sent-before)
		if (s.second+1)%sampled == 0 {
			s.sample()
		}
		if !busy && len(s.flying) == 0 {
			break
		}
	}
	s.sample()
	s.res.Seconds = s.second
	for i := range s.nodes {
		n := &s.nodes[i]
		s.res.MostHeld = max(s.res.MostHeld, n.mostHeld)
		s.res.NodePages, s.res.NodeEnds = append(s.res.NodePages, n.fetched), append(s.res.NodeEnds, n.lastPage)
		s.res.Received += n.received
	}
	return nil
}

func (s *sim) sample() {
	row := make([]int, len(s.nodes))
	for i := range s.nodes {
		n := &s.nodes[i]
		row[i], n.last = n.fetched-n.last, n.fetched
	}
	s.res.Samples = append(s.res.Samples, row)
}

// take puts a URL of a PLD into the queue of its host, if its owner has not seen it.
func (s *sim) take(pld, url uint32) {
	if s.seen[url/64]&(1<<(url%64)) != 0 {
		return
	}
	s.seen[url/64] |= 1 << (url % 64)
	h := s.web.hostOf(pld, url)
	s.next[url] = none
	if s.head[h] == none {
		s.head[h] = url
	} else {
		s.next[s.tail[h]] = url
	}
	s.tail[h] = url
	n := &s.nodes[s.owner[pld]]
	n.queued++
	if s.state[h]&queuedBit == 0 {
		s.state[h] |= queuedBit
		s.await(n, pld, h)
	}
}

// await puts a host with URLs where it waits for its time. Its PLD follows it there.
func (s *sim) await(n *node, pld, h uint32) {
	at := s.state[h] &^ queuedBit
	if int(at) <= s.second {
		n.due = append(n.due, h, pld)
		return
	}
	slot := int(at) % len(n.calendar)
	n.calendar[slot] = append(n.calendar[slot], h, pld)
}

// fetch fetches what a node may in this second.
func (s *sim) fetch(i int) {
	n := &s.nodes[i]
	slot := s.second % len(n.calendar)
	n.due = append(n.due, n.calendar[slot]...)
	n.calendar[slot] = n.calendar[slot][:0]
	k := min(s.o.Rate, len(n.due)/2)
	for j := range k {
		h, pld := n.due[2*j], n.due[2*j+1]
		url := s.head[h]
		if s.head[h] = s.next[url]; s.head[h] == url { // next of a fetched URL is the URL itself
			s.res.Again++
			s.head[h] = none
		}
		s.state[h] = uint32(s.second+s.o.hostDelay()) | queuedBit // the page's links may be to this host
		n.queued--
		n.fetched++
		s.links(i, n, pld, url)
		s.next[url] = url
		if s.head[h] != none {
			s.await(n, pld, h)
		} else {
			s.state[h] &^= queuedBit
		}
	}
	if k > 0 {
		n.due = append(n.due[:0], n.due[2*k:]...)
		n.lastPage = s.second
		s.res.Pages += int64(k)
	}
}

// links follows the links of a page.
func (s *sim) links(i int, n *node, pld, url uint32) {
	w := s.web
	links := s.o.Links
	k := url - w.first[pld]
	for child := 2*k + 1; child <= 2*k+2 && child < w.size(pld); child++ {
		s.follow(i, n, pld, w.first[pld]+child)
		links--
	}
	if k == 0 {
		for child := rootFanout*int(pld) + 1; child <= rootFanout*(int(pld)+1) && child < w.plds(); child++ {
			s.follow(i, n, uint32(child), w.first[child])
			links--
		}
	}
	for range links {
		to, target := w.draw(s.rng, pld, s.rng.Float64() < s.o.Away)
		s.follow(i, n, to, target)
	}
}

// follow sends a link to the owner of its PLD, unless the cache knows it.
func (s *sim) follow(i int, n *node, pld, url uint32) {
	at := url * 2654435769 >> 16 % cacheLinks
	if n.cache[at] == url {
		return
	}
	n.cache[at] = url
	s.res.Links++
	to := int(s.owner[pld])
	if to == i {
		s.take(pld, url)
		return
	}
	n.outbox[to] = append(n.outbox[to], link{url, pld, uint32(s.second)})
	n.waiting++
	s.res.Sent++
}

// maybeCheckpoint makes a checkpoint if it is time, or if the node has few URLs and links wait.
func (s *sim) maybeCheckpoint(i int) {
	n := &s.nodes[i]
	since := s.second - n.checkpoint
	if since < s.o.every() && !(since >= hurryEvery && n.waiting > 0 && n.queued < short) {
		return
	}
	n.checkpoint = s.second
	s.res.Checkpoints++
	s.res.MarkBytes += float64(cluster.MarkBytes(len(s.nodes))) * float64(len(s.nodes))
	for from, bytes := range s.covering[i] { // its mark releases what it has taken
		s.nodes[from].held -= bytes
		s.covering[i][from] = 0
	}
	for to, links := range n.outbox {
		if len(links) == 0 {
			continue
		}
		t := cluster.TrafficOf(float64(len(links)))
		s.res.Messages += int64(t.Messages + 0.5)
		s.res.Bytes += t.Bytes
		n.held += t.Bytes
		s.flying = append(s.flying, batch{from: i, to: to, at: s.second + latency, links: links, bytes: t.Bytes})
		n.outbox[to] = nil
	}
	n.waiting = 0
	n.mostHeld = max(n.mostHeld, n.held)
}

// arrive gives what has arrived to its receivers.
func (s *sim) arrive() {
	k := 0
	for ; k < len(s.flying) && s.flying[k].at <= s.second; k++ {
		b := &s.flying[k]
		for _, l := range b.links {
			wait := s.second - int(l.found)
			s.res.Wait[min(wait, waits-1)]++
			s.res.WaitSum += float64(wait)
			s.res.MostWait = max(s.res.MostWait, wait)
			s.take(l.pld, l.url)
		}
		s.nodes[b.to].received += int64(len(b.links))
		s.covering[b.to][b.from] += b.bytes
		b.links = nil
	}
	if k > 0 {
		s.flying = append(s.flying[:0], s.flying[k:]...)
	}
}
