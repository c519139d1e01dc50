package walk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

// version is that of the coding.
const version = 1

// Bits of the byte that describes a URL: its State, and whether it is a seed, and given up.
const (
	stateBits = 3
	seedBit   = 4
	lateBit   = 8
	knownBits = stateBits | seedBit | lateBit
)

// ErrDamaged is the error of bytes that are no walk.
var ErrDamaged = errors.New("walk: damaged state of a random walk")

// Frozen is a walk at an instant, while the walk goes on.
type Frozen struct{ w Walk }

// Freeze copies what changes: some 100 bytes for each URL seen. The links of pages are shared, since they do not change.
func (w *Walk) Freeze() *Frozen {
	f := &Frozen{w: *w}
	src := *w.src
	f.w.src, f.w.rng = &src, nil
	f.w.nodes, f.w.at, f.w.ready = slices.Clone(w.nodes), slices.Clone(w.at), slices.Clone(w.ready)
	f.w.hosts = slices.Clone(w.hosts) // their slices only grow
	f.w.byKey, f.w.hostOf = nil, nil
	return f
}

// Append appends the coding of the walk (docs/formats/walk.md).
func (f *Frozen) Append(dst []byte) []byte {
	w := &f.w
	number := func(n uint64) { dst = binary.AppendUvarint(dst, n) }
	dst = append(dst, version)
	src, _ := w.src.MarshalBinary() // returns no error: "pcg:" and two words
	dst = append(dst, src[len(src)-16:]...)
	number(uint64(w.steps))
	number(uint64(len(w.nodes)))
	for i := range w.nodes {
		n := &w.nodes[i]
		dst = binary.LittleEndian.AppendUint64(dst, n.key)
		dst = binary.LittleEndian.AppendUint64(dst, n.host)
		number(uint64(len(n.url)))
		dst = append(dst, n.url...)
		bits := byte(n.state)
		if n.seed {
			bits |= seedBit
		}
		if n.late {
			bits |= lateBit
		}
		dst = append(dst, bits)
		if n.state >= Other {
			number(uint64(n.status))
			number(uint64(n.origin.Depth))
			dst = append(dst, n.origin.Redirects, n.origin.Flags)
			number(uint64(n.steps))
		}
		number(uint64(n.visits))
		if n.state >= Other {
			number(uint64(len(n.links)))
			for _, to := range n.links {
				number(uint64(to))
			}
		}
	}
	number(uint64(len(w.at)))
	for _, at := range w.at {
		number(uint64(at + 1)) // 0: none
	}
	number(uint64(len(w.ready)))
	for _, walker := range w.ready {
		number(uint64(walker))
	}
	return f.appendLandings(dst)
}

// appendLandings appends the targets of jumps, host by host in the order in which the hosts came, so that the order within
// and between hosts is the same again.
func (f *Frozen) appendLandings(dst []byte) []byte {
	n := 0
	for _, pages := range f.w.hosts {
		n += len(pages)
	}
	dst = binary.AppendUvarint(dst, uint64(n))
	for _, pages := range f.w.hosts {
		for _, id := range pages {
			dst = binary.AppendUvarint(dst, uint64(id))
		}
	}
	return dst
}

// reader reads the coding of a walk. After a fault it returns zeros.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) bytes(n uint64) []byte {
	if r.bad || n > uint64(len(r.rest)) {
		r.bad = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// number reads a number up to most.
func (r *reader) number(most uint64) uint64 {
	n, size := binary.Uvarint(r.rest)
	if r.bad || size <= 0 || n > most {
		r.bad = true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// count reads the number of things that take at least one byte each.
func (r *reader) count() int { return int(r.number(uint64(len(r.rest)))) }

func (r *reader) word() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Load returns the walk that Append wrote, under other limits if opt has others. Walkers that are more than those of
// Append start anew; if they are fewer, the last ones are left out. The error is ErrDamaged.
func Load(opt Options, data []byte) (*Walk, error) {
	w := New(opt)
	r := &reader{rest: data}
	if v := r.byte(); v != version {
		return nil, fmt.Errorf("%w: version %d, want %d", ErrDamaged, v, version)
	}
	if err := w.src.UnmarshalBinary(append([]byte("pcg:"), r.bytes(16)...)); err != nil {
		return nil, fmt.Errorf("%w: generator", ErrDamaged)
	}
	w.rng = rand.New(w.src)
	w.steps = int64(r.number(1 << 62))
	for range r.count() {
		if !w.readNode(r) {
			return nil, fmt.Errorf("%w: URL %d", ErrDamaged, len(w.nodes))
		}
	}
	for i := range w.nodes {
		for _, to := range w.nodes[i].links {
			if int(to) >= len(w.nodes) {
				return nil, fmt.Errorf("%w: URL %d has a link to %d of %d", ErrDamaged, i, to, len(w.nodes))
			}
		}
	}
	w.readWalkers(r)
	for range r.count() {
		id := uint32(r.number(uint64(len(w.nodes))))
		if r.bad || int(id) >= len(w.nodes) || len(w.nodes[id].links) == 0 {
			return nil, fmt.Errorf("%w: target %d of jumps", ErrDamaged, id)
		}
		w.landing(id)
	}
	if r.bad || len(r.rest) > 0 {
		return nil, fmt.Errorf("%w: walkers", ErrDamaged)
	}
	return w, nil
}

// readNode reads a URL. It returns false if it is damaged.
func (w *Walk) readNode(r *reader) bool {
	l := Link{Key: r.word(), Host: r.word()}
	l.URL = r.bytes(uint64(r.count()))
	bits := r.byte()
	if r.bad || bits&^knownBits != 0 || w.find(l.Key) != none {
		return false
	}
	n := &w.nodes[w.add(&l)]
	n.state, n.seed, n.late = State(bits&stateBits), bits&seedBit != 0, bits&lateBit != 0
	if n.state != Seen {
		w.visited++
	}
	if n.state >= Other {
		n.status, n.origin.Depth = uint16(r.number(1<<16-1)), uint16(r.number(1<<16-1))
		n.origin.Redirects, n.origin.Flags = r.byte(), r.byte()
		n.steps = uint32(r.number(1<<32 - 1))
	}
	n.visits = uint32(r.number(1<<32 - 1))
	if n.state >= Other {
		for range r.count() {
			n.links = append(n.links, uint32(r.number(1<<32-1)))
		}
		n.links = slices.Clip(n.links)
		w.bytes += 4 * int64(len(n.links))
	}
	return !r.bad
}

// readWalkers reads where the walkers are.
func (w *Walk) readWalkers(r *reader) {
	saved := r.count()
	for i := range saved {
		at := uint32(r.number(uint64(len(w.nodes)))) - 1
		if i < len(w.at) {
			w.at[i] = at
		}
	}
	w.ready = nil
	for range r.count() {
		walker := uint32(r.number(1<<32 - 1))
		if int(walker) < min(saved, len(w.at)) && (w.at[walker] == none || w.nodes[w.at[walker]].state >= Other) {
			w.ready = append(w.ready, walker)
		}
	}
	for i := saved; i < len(w.at); i++ {
		w.ready = append(w.ready, uint32(i))
	}
}
