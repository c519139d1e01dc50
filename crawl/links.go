package crawl

import (
	"time"

	"drumbeat/drum"
	"drumbeat/star"
	"drumbeat/weburl"
)

// maxEdgesPerPage bounds the PLD-PLD edges that one page may add: a link farm's page of 10^5 hosts says no more than one
// of a thousand.
const maxEdgesPerPage = 1000

// maxLinkBytesPerPage bounds the records of one page's links, and so what a step hands on: 50,000 links, the most that
// parse finds, of 160 bytes. A page with a long base makes two thousand bytes of every three.
const maxLinkBytesPerPage = 8 << 20

// What a batch keeps for the next page.
const (
	keepLinkBytes = 256 << 10
	keepLinks     = 4096
)

// linkBatch turns the links of one page into tuples for URLseen and edges for STAR. It is owned by one worker and
// reused; nothing is allocated per link once its buffers have grown.
type linkBatch struct {
	r      *ring
	arena  []byte
	ends   []int
	keys   []drum.Key
	seen   []bool // of keys: met a moment ago
	tuples []drum.Tuple
	faults [][2]string // seeds that were held back, and why
	edges  []star.Edge
	rec    weburl.Record
	d      delta

	fromPLD  uint64
	lastHost []byte
	lastPLD  uint64
	plds     map[uint64]struct{}
}

func newLinkBatch(r *ring) *linkBatch {
	return &linkBatch{r: r, plds: make(map[uint64]struct{})}
}

// start begins the batch of one page. depth and flags are those of the links.
func (b *linkBatch) start(parent uint64, pageURL []byte, depth uint16, flags uint8, now time.Time) {
	if cap(b.arena) > keepLinkBytes || cap(b.keys) > keepLinks {
		b.arena, b.ends, b.keys, b.seen, b.tuples = nil, nil, nil, nil, nil
	}
	b.arena, b.ends, b.keys = b.arena[:0], b.ends[:0], b.keys[:0]
	b.tuples, b.edges, b.faults = b.tuples[:0], b.edges[:0], b.faults[:0]
	b.lastHost = b.lastHost[:0]
	b.d.reset()
	clear(b.plds)
	b.rec = weburl.Record{Depth: depth, Found: now.Unix(), Parent: parent, Flags: flags}
	b.fromPLD = 0
	if len(pageURL) > 0 {
		b.fromPLD = b.pldOf(weburl.Split(pageURL).Host)
	}
}

// pldOf returns the key of a host's PLD; pages link mostly to the host they linked to before.
func (b *linkBatch) pldOf(host []byte) uint64 {
	if len(b.lastHost) > 0 && string(b.lastHost) == string(host) {
		return b.lastPLD
	}
	b.lastHost = append(b.lastHost[:0], host...)
	b.lastPLD = b.r.pldKey(host)
	return b.lastPLD
}

// add takes one canonical URL.
func (b *linkBatch) add(url []byte) {
	b.d.count(CountLinks, 1)
	r := b.r
	parts := weburl.Split(url)
	host := parts.Host
	pld := b.pldOf(host)
	if b.fromPLD != 0 && pld != b.fromPLD && len(b.plds) < maxEdgesPerPage {
		if _, ok := b.plds[pld]; !ok {
			b.plds[pld] = struct{}{}
			b.edges = append(b.edges, star.Edge{From: b.fromPLD, To: pld})
		}
	}
	if r.opt.MaxDepth >= 0 && int(b.rec.Depth) > r.opt.MaxDepth {
		b.d.count(CountLinksDepth, 1)
		return
	}
	if !r.allowedPort(parts.Port) {
		b.d.count(CountLinksPort, 1)
		b.fault(url, ReasonForbiddenPort.String())
		return
	}
	if b.rec.Flags&weburl.FlagSeed != 0 {
		r.scope.extend(host, pld)
	} else if !r.scope.allows(host, pld) {
		b.d.count(CountLinksScope, 1)
		return
	}
	if r.opt.LinkFilter != nil && !r.opt.LinkFilter(url) {
		b.d.count(CountLinksFiltered, 1)
		b.fault(url, "filtered")
		return
	}
	if len(b.arena)+len(url) > maxLinkBytesPerPage {
		b.d.count(CountLinksDropped, 1)
		return
	}
	key := r.hasher.URLKey(url)
	b.rec.URL = url
	b.arena = b.rec.Append(b.arena)
	b.ends = append(b.ends, len(b.arena))
	b.keys = append(b.keys, drum.Key(key))
}

func textBytes(tuples []drum.Tuple) (sum int64) {
	for i := range tuples {
		sum += int64(len(tuples[i].Aux))
	}
	return sum
}

// fault notes a seed that isn't taken. Other links are counted only.
func (b *linkBatch) fault(url []byte, why string) {
	if b.rec.Flags&weburl.FlagSeed != 0 {
		b.faults = append(b.faults, [2]string{string(url), why})
	}
}

// allowedPort tells whether a URL's port may be connected to; 0 is none.
func (r *ring) allowedPort(port uint16) bool {
	return port != 0 && (r.opt.AllowedPort == nil || r.opt.AllowedPort(port))
}

// send hands the batch to URLseen and STAR; it is part of the step of the page.
func (b *linkBatch) send(d *delta) error {
	if b.r.draining.Load() && b.rec.Flags&weburl.FlagSeed == 0 {
		d.count(CountLinksDraining, int64(len(b.keys)))
		b.ends, b.keys, b.edges = b.ends[:0], b.keys[:0], b.edges[:0]
	}
	// The cache is part of the step: a link that is dropped because of it was sent by a step before this one.
	b.seen = append(b.seen[:0], make([]bool, len(b.keys))...)
	if b.r.trace != nil && b.rec.Flags&weburl.FlagSeed == 0 {
		b.r.trace.Add(b.keys)
	}
	if b.r.recent != nil && b.rec.Flags&weburl.FlagSeed == 0 {
		b.r.recent.TestAndSetBatch(b.keys, b.seen)
	}
	start := 0
	for i, end := range b.ends {
		if b.seen[i] {
			d.count(CountLinksCached, 1)
			start = end
			continue
		}
		b.tuples = append(b.tuples, drum.Tuple{Key: b.keys[i], Op: drum.CheckUpdate, Aux: b.arena[start:end:end]})
		start = end
	}
	if len(b.tuples) > 0 {
		if err := b.r.urlSeen.Add(b.tuples); err != nil {
			return err
		}
		d.count(CountLinksChecked, int64(len(b.tuples)))
		b.r.seenMeter.added.Add(int64(len(b.tuples)))
		b.r.seenMeter.text.Add(textBytes(b.tuples))
		d.wake(b.r.wakeSeen)
	}
	if len(b.edges) > 0 && b.r.opt.Scope == ScopeAll {
		if err := b.r.star.AddEdges(b.edges); err != nil {
			return err
		}
		d.count(CountEdges, int64(len(b.edges)))
	}
	for _, f := range b.faults {
		b.r.logSeed(f[0], f[1])
	}
	for c, n := range b.d.counts {
		if n != 0 {
			d.count(Counter(c), n)
		}
	}
	return nil
}
