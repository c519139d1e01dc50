package links

import (
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"sync"
)

// Options describes a stream. A zero means the default, except for Seed and Known, where it means 0.
type Options struct {
	// Seed selects the stream, its texts and its keys.
	Seed uint64
	// Hosts is the number of hosts, rounded up to a power of two less one; default 2^20.
	Hosts int
	// UniqueShare is p, the share of links to new URLs, in (0, 1]; default 1/9.
	UniqueShare float64
	// Known is U: URLs with an id below it are known before the first link.
	Known int64
	// Recent is the share of repeated URLs that are recent, so that a RAM cache knows them. The default of
	// 0.75 gives a miss rate (pi) of about a third at the paper's p. For none use NoRecent.
	Recent float64
	// Window is the largest age of a recent URL, in new URLs. Every octave of ages is equally likely, so
	// low ages are more likely. Default 2^16.
	Window int
	// LocalShare is the share of repeated URLs on the page's own host; default 0.8.
	LocalShare float64
}

// NoRecent as Recent makes repeated URLs uniform over all ages.
const NoRecent = -1

const (
	lanes        = 64 // hosts crawled at a time
	session      = 64 // new URLs before a lane changes its host
	sessionBits  = 6
	leastLinks   = 20 // minimum per page; the mean is 59
	moreLinks    = 79
	defaultHosts = 1 << 20
)

func (o *Options) complete() error {
	for _, f := range []struct {
		at  *float64
		def float64
	}{{&o.UniqueShare, 1.0 / 9}, {&o.Recent, 0.75}, {&o.LocalShare, 0.8}} {
		if *f.at == 0 {
			*f.at = f.def
		}
	}
	if o.Recent == NoRecent {
		o.Recent = 0
	}
	if o.Hosts == 0 {
		o.Hosts = defaultHosts
	}
	if o.Window == 0 {
		o.Window = 1 << 16
	}
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("links: "+format, args...))
		}
	}
	need(o.Hosts > 0 && o.Hosts <= 1<<32, "%d hosts, want 1 to 2^32", o.Hosts)
	need(o.UniqueShare > 0 && o.UniqueShare <= 1, "a share of %v new URLs, want more than 0, at most 1",
		o.UniqueShare)
	need(o.Known >= 0 && o.Known < 1<<48, "%d known URLs, want less than 2^48", o.Known)
	need(o.Recent >= 0 && o.Recent <= 1, "a share of %v recent URLs, want 0 to 1", o.Recent)
	need(o.LocalShare > 0 && o.LocalShare <= 1,
		"a share of %v links to the page's host, want more than 0, at most 1", o.LocalShare)
	need(o.Window > 0, "a window of %d URLs, want at least 1", o.Window)
	return errors.Join(errs...)
}

// Batch is a list of links. Texts[i] is the text of the URL with key Keys[i] and is valid until the next
// call of Next.
type Batch struct {
	Keys  []uint64
	Texts [][]byte
	// Fresh marks the first link to a URL; nil if unknown, as for a file.
	Fresh []bool

	arena []byte
}

// reset makes room for n links of at most size bytes each.
func (b *Batch) reset(n, size int) {
	b.Keys = slices.Grow(b.Keys[:0], n)
	b.Texts = slices.Grow(b.Texts[:0], n)
	if cap(b.arena) < n*size {
		b.arena = make([]byte, n*size)
	}
	b.arena = b.arena[:cap(b.arena)]
}

// Stream generates the links of a crawl.
type Stream struct {
	opt     Options
	fresh   uint64 // a 32-bit random number below it makes a link new
	recent  uint64 // likewise, makes a repeated link recent
	local   uint64
	classes uint64
	ages    uint64 // number of octaves in the window of a lane

	rng   uint64
	words dictionary

	lane  int // lane of the current page
	left  int // remaining links of the page
	lanes [lanes]laneState
	// hosts are the latest hosts of the lanes; one of them is the current page's. other is a host to which
	// such a page links.
	hosts [lanes]host
	other host
}

// laneState counts the ids that a lane has issued, known ones included: its first n.
type laneState struct{ n uint64 }

// New returns the stream that opt describes, or the faults of opt.
func New(opt Options) (*Stream, error) {
	if err := opt.complete(); err != nil {
		return nil, err
	}
	share := func(f float64) uint64 { return uint64(f * (1 << 32)) }
	s := &Stream{
		opt: opt, fresh: share(opt.UniqueShare), recent: share(opt.Recent), local: share(opt.LocalShare),
		classes: uint64(max(1, bits.Len64(uint64(opt.Hosts)-1))),
		ages:    uint64(bits.Len64(uint64(max(1, opt.Window/lanes)))),
		rng:     mix(opt.Seed + 1),
		words:   makeDictionary(opt.Seed),
		lane:    lanes - 1,
	}
	known, turn := uint64(opt.Known), uint64(lanes*session)
	for i := range s.lanes {
		rest := int64(known%turn) - int64(i*session)
		s.lanes[i].n = known/turn*session + uint64(min(max(rest, 0), session))
	}
	return s, nil
}

// random returns 64 random bits: a Weyl sequence through mix.
func (s *Stream) random() uint64 {
	s.rng += 0x9e3779b97f4a7c15
	return mix(s.rng)
}

// mix is a bijection of 64 bits with results that look random (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Key returns the key of the URL with the given id: a bijection, uniform.
func (o *Options) Key(id uint64) uint64 {
	return mix(mix(id+0x632be59bd9b4e019) ^ o.Seed*0x9e3779b97f4a7c15)
}

// Next fills b with the next n links.
func (s *Stream) Next(b *Batch, n int) {
	b.reset(n, maxText)
	b.Fresh = slices.Grow(b.Fresh[:0], n)
	at := 0
	for range n {
		id, fresh := s.next()
		end := s.appendText(b.arena, at, id)
		b.Keys = append(b.Keys, s.opt.Key(id))
		b.Texts = append(b.Texts, b.arena[at:end:end])
		b.Fresh = append(b.Fresh, fresh)
		at = end
	}
}

// Known fills b with the n known URLs from id on, or fewer at the end.
func (s *Stream) Known(b *Batch, id int64, n int) {
	n = int(max(0, min(int64(n), s.opt.Known-id)))
	b.reset(n, maxText)
	b.Fresh = slices.Grow(b.Fresh[:0], n)[:n]
	clear(b.Fresh)
	at := 0
	for i := range uint64(n) {
		end := s.appendText(b.arena, at, uint64(id)+i)
		b.Keys = append(b.Keys, s.opt.Key(uint64(id)+i))
		b.Texts = append(b.Texts, b.arena[at:end:end])
		at = end
	}
}

// next chooses a link.
func (s *Stream) next() (id uint64, fresh bool) {
	if s.left == 0 {
		s.lane = (s.lane + 1) % lanes
		s.left = leastLinks + int(s.random()>>32*moreLinks>>32)
		s.hosts[s.lane] = *s.host(idOf(s.lane, s.lanes[s.lane].n) >> sessionBits)
	}
	s.left--
	r := s.random()
	own := &s.lanes[s.lane]
	if r>>32 < s.fresh || own.n == 0 {
		own.n++
		return idOf(s.lane, own.n-1), true
	}
	return s.repeat(r << 32), false
}

// idOf returns the id of the i-th URL of a lane; sessions of all lanes alternate.
func idOf(lane int, i uint64) uint64 {
	return (i>>sessionBits*lanes+uint64(lane))<<sessionBits | i&(session-1)
}

// issued reports whether the URL has been linked to or is known.
func (s *Stream) issued(id uint64) bool {
	g := id >> sessionBits
	return g/lanes<<sessionBits|id&(session-1) < s.lanes[g%lanes].n
}

// repeat chooses an issued URL; the upper half of r is random.
func (s *Stream) repeat(r uint64) uint64 {
	t := s.random()
	local := t>>32 < s.local
	t <<= 32
	own := s.lanes[s.lane].n
	if r>>32 < s.recent {
		lane := s.lane
		if !local {
			lane = int(t>>60<<2 | t>>58&3)
		}
		if n := s.lanes[lane].n; n > 0 {
			age := s.age(t << 6)
			if local {
				age %= (own-1)%session + 1 // within this session
			}
			return idOf(lane, n-1-min(age, n-1))
		}
		return idOf(s.lane, own-1)
	}
	if local {
		// Sessions of one host are 2^class * classes groups apart.
		g := idOf(s.lane, own-1) >> sessionBits
		apart := s.classes << (g % s.classes)
		if back := g / apart; back > 0 {
			hi, _ := bits.Mul64(s.random(), back)
			id := (g-apart*(hi+1))<<sessionBits | t>>58
			if s.issued(id) {
				return id
			}
		}
	}
	return s.anyIssued()
}

// age draws a number from 0 to about the window of a lane, each octave equally likely.
func (s *Stream) age(t uint64) uint64 {
	octave := t >> 48 * s.ages >> 16
	return 1<<octave - 1 + s.random()>>(64-octave)
}

// anyIssued draws from all issued URLs.
func (s *Stream) anyIssued() uint64 {
	r := s.random()
	lane := int(r % lanes)
	if s.lanes[lane].n == 0 {
		lane = s.lane
	}
	hi, _ := bits.Mul64(mix(r), s.lanes[lane].n)
	return idOf(lane, hi)
}

// KnownKeys calls f with the keys of all known URLs in ascending order, in slices of chunk/2 to chunk keys.
// For each slice it iterates over all ids (about 2 ns each) in one goroutine per processor, and sorts the
// keys (30 ns each). It allocates two slices of chunk keys.
func (o *Options) KnownKeys(chunk int, f func(keys []uint64) error) error {
	lead := uint(bits.Len64(uint64(max(0, o.Known-1)) / uint64(max(1, chunk)))) // equal leading bits of a slice
	parts := uint64(1) << lead
	// Each goroutine has a piece of the slice, with room for random variation.
	pieces := uint64(runtime.GOMAXPROCS(0))
	each := uint64(o.Known)/parts/pieces + uint64(o.Known)/parts/pieces/32 + 4096
	all, scratch := make([]uint64, each*pieces), make([]uint64, 0, each*pieces)
	counts := make([]int, pieces)
	for part := range parts {
		var wg sync.WaitGroup
		for i := range pieces {
			wg.Go(func() {
				lo, hi := uint64(o.Known)*i/pieces, uint64(o.Known)*(i+1)/pieces
				counts[i] = o.keysOf(all[each*i:each*(i+1)], lo, hi, part, lead)
			})
		}
		wg.Wait()
		n := counts[0]
		for i := uint64(1); i < pieces; i++ {
			n += copy(all[n:], all[each*i:each*i+uint64(counts[i])])
		}
		sorted, _ := sortKeys(all[:n], scratch[:n], lead)
		if n == 0 {
			continue
		}
		if err := f(sorted); err != nil {
			return err
		}
	}
	return nil
}

// keysOf stores into keys those keys of the ids from lo to hi - 1 whose lead leading bits equal part, and
// returns their number.
func (o *Options) keysOf(keys []uint64, lo, hi, part uint64, lead uint) (n int) {
	for id := lo; id < hi; id++ {
		key := o.Key(id)
		if key>>1>>(63-lead) == part {
			if n == len(keys) {
				panic("BUG: links: keys are not uniform")
			}
			keys[n] = key
			n++
		}
	}
	return n
}

// sortKeys sorts keys with lead equal leading bits. scratch has the same length; the two may be exchanged
// on return. A few bits distinguish uniform keys: a radix sort by 33 bits, then an insertion sort with very
// little to do.
func sortKeys(keys, scratch []uint64, lead uint) (sorted, other []uint64) {
	const digit = 11
	for pass := range 3 {
		shift := 64 - lead - uint(3-pass)*digit
		var at [1 << digit]int
		for _, k := range keys {
			at[k>>shift&(1<<digit-1)]++
		}
		sum := 0
		for i := range at {
			n := at[i]
			at[i] = sum
			sum += n
		}
		for _, k := range keys {
			d := k >> shift & (1<<digit - 1)
			scratch[at[d]] = k
			at[d]++
		}
		keys, scratch = scratch, keys
	}
	for i := 1; i < len(keys); i++ {
		k, j := keys[i], i
		for ; j > 0 && keys[j-1] > k; j-- {
			keys[j] = keys[j-1]
		}
		keys[j] = k
	}
	return keys, scratch
}
