package walk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

// version is that of the coding of the walkers; partVersion that of a part of a walk of several nodes.
const (
	version     = 2
	partVersion = 3
)

// Kinds of records of the log, their first byte (docs/reference/files/walk.md).
const (
	logSeen  = 1 // a URL is seen
	logKnown = 2 // its visit is known
	logSteps = 3 // walkers have taken steps
	logLate  = 4 // its walkers stop waiting
	logLeft  = 5 // a walker goes to another node
	logCame  = 6 // a walker has come from another node
)

// Bits of the byte that describes a visit: the State, and whether the URL is a seed.
const (
	stateBits = 3
	seedBit   = 4
)

// ErrDamaged means that bytes are not a walk.
var ErrDamaged = errors.New("walk: damaged state of a random walk")

// record begins a record of the log.
func (w *Walk) record(kind byte) { w.log, w.ends = append(w.log, kind), append(w.ends, 0) }

// number appends a number to the last record.
func (w *Walk) number(n uint64) { w.log = binary.AppendUvarint(w.log, n) }

// end ends the last record.
func (w *Walk) end() { w.ends[len(w.ends)-1] = len(w.log) }

// TakeLog passes records of the changes since the last call to keep, in order, which appends them to the log
// of the walk. A record is valid during the call. It returns the first error of keep.
func (w *Walk) TakeLog(keep func(rec []byte) error) error {
	from := 0
	for _, to := range w.ends {
		if err := keep(w.log[from:to]); err != nil {
			return err
		}
		from = to
	}
	w.log, w.ends = w.log[:0], w.ends[:0]
	return nil
}

func (w *Walk) logSeen(n *node) {
	w.record(logSeen)
	w.log = binary.LittleEndian.AppendUint64(w.log, n.key)
	w.log = binary.LittleEndian.AppendUint64(w.log, n.host)
	w.log = append(w.log, n.url...)
	w.end()
}

func (w *Walk) logKnown(id uint32) {
	n := &w.nodes[id]
	w.record(logKnown)
	w.number(uint64(id))
	bits := byte(n.state)
	if n.seed {
		bits |= seedBit
	}
	w.log = append(w.log, bits)
	w.number(uint64(n.status))
	w.number(uint64(n.origin.Depth))
	w.log = append(w.log, n.origin.Redirects, n.origin.Flags)
	last := uint32(0)
	for _, to := range n.links {
		w.number(uint64(to - last))
		last = to
	}
	w.end()
}

// logStep appends a step to the record of steps: where a jump led, or which link of which URL the walker followed.
func (w *Walk) logStep(from, to uint32, link int) {
	if link < 0 {
		w.number(uint64(to)<<1 | 1)
		return
	}
	w.number(uint64(from) << 1)
	w.number(uint64(link))
}

func (w *Walk) logLate(id uint32) {
	w.record(logLate)
	w.number(uint64(id))
	w.end()
}

// logLeft logs a walker that goes to another node by a link, or by a jump (-1).
func (w *Walk) logLeft(from uint32, link int, p Purse) {
	w.record(logLeft)
	if link < 0 {
		w.number(0)
	} else {
		w.number(uint64(from) + 1)
		w.number(uint64(link))
	}
	w.number(uint64(p.URLs))
	w.number(uint64(p.Steps))
	w.end()
}

func (w *Walk) logCame(p Purse, how int, id uint32) {
	w.record(logCame)
	w.number(uint64(p.URLs))
	w.number(uint64(p.Steps))
	w.log = append(w.log, byte(how))
	if how != cameNowhere {
		w.number(uint64(id))
	}
	w.end()
}

// Frozen is the part of a walk's state that the log lacks: the random generator, and the walkers.
type Frozen struct {
	src       [16]byte
	steps     int64
	nodes     int
	at, ready []uint32
	part      bool // of a walk of several nodes
	moves     moves
}

// Freeze copies the walkers: 8 bytes for each. The log must have all records of TakeLog.
func (w *Walk) Freeze() *Frozen {
	f := &Frozen{steps: w.steps, nodes: len(w.nodes), at: slices.Clone(w.at), ready: slices.Clone(w.ready),
		part: w.opt.Part.Of > 0, moves: w.moves}
	src, _ := w.src.MarshalBinary() // returns no error: "pcg:" and two words
	copy(f.src[:], src[len(src)-16:])
	return f
}

// Append appends the coding of the walkers (docs/reference/files/walk.md).
func (f *Frozen) Append(dst []byte) []byte {
	number := func(n uint64) { dst = binary.AppendUvarint(dst, n) }
	if f.part {
		dst = append(dst, partVersion)
	} else {
		dst = append(dst, version)
	}
	dst = append(dst, f.src[:]...)
	number(uint64(f.steps))
	number(uint64(f.nodes))
	number(uint64(len(f.at)))
	for _, at := range f.at {
		number(uint64(at + 1)) // 0: none
	}
	number(uint64(len(f.ready)))
	for _, walker := range f.ready {
		number(uint64(walker))
	}
	if f.part {
		number(f.moves.began)
		number(f.moves.came)
		number(f.moves.left)
	}
	return dst
}

// reader reads a coding. After a fault it returns zeros.
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

// id reads the number of a URL.
func (r *reader) id(w *Walk) uint32 {
	id := r.number(1<<32 - 1)
	if id >= uint64(len(w.nodes)) {
		r.bad = true
		return none
	}
	return uint32(id)
}

// Loader rebuilds a walk from its log and its walkers.
type Loader struct {
	w       *Walk
	records int
}

// NewLoader returns a Loader of a walk that continues under opt, which may differ from its earlier options.
func NewLoader(opt Options) *Loader { return &Loader{w: New(opt)} }

// mostPurse bounds what a walker carries.
const mostPurse = StepsPerURL * MaxURLs

func (r *reader) purse() Purse {
	return Purse{URLs: int64(r.number(mostPurse)), Steps: int64(r.number(mostPurse))}
}

// readLeft reads a walker that has left.
func (w *Walk) readLeft(r *reader) {
	from := r.number(1 << 32)
	if from > 0 {
		link := r.number(1<<32 - 1)
		if from > uint64(len(w.nodes)) || link >= uint64(len(w.nodes[from-1].links)) {
			r.bad = true
			return
		}
		w.nodes[from-1].steps++
	}
	w.steps++
	w.gone(r.purse())
}

// readCame reads a walker that has come.
func (w *Walk) readCame(r *reader) {
	w.moves.came++
	w.moves.purse.add(r.purse())
	switch how := r.byte(); how {
	case cameNowhere:
	case cameByJump, cameByLink:
		if id := r.id(w); !r.bad {
			w.arrive(id, how == cameByJump)
		}
	default:
		r.bad = true
	}
}

// Record takes the next record of the log. The error is ErrDamaged.
func (l *Loader) Record(rec []byte) error {
	r, w := &reader{rest: rec}, l.w
	switch r.byte() {
	case logSeen:
		link := Link{Key: r.word(), Host: r.word()}
		if link.URL = r.rest; !r.bad && w.find(link.Key) == none {
			w.insert(&link)
		} else {
			r.bad = true
		}
	case logKnown:
		w.readKnown(r)
	case logSteps:
		for len(r.rest) > 0 && !r.bad {
			w.readStep(r)
		}
	case logLate:
		if id := r.id(w); !r.bad {
			w.nodes[id].late = true
		}
	case logLeft:
		w.readLeft(r)
	case logCame:
		w.readCame(r)
	default:
		r.bad = true
	}
	l.records++
	if r.bad {
		return fmt.Errorf("%w: record %d of its log", ErrDamaged, l.records)
	}
	return nil
}

// readKnown reads a visit.
func (w *Walk) readKnown(r *reader) {
	id := r.id(w)
	bits := r.byte()
	if r.bad || State(bits&stateBits) < Other || bits&^(stateBits|seedBit) != 0 || w.nodes[id].state >= Other {
		r.bad = true
		return
	}
	n := &w.nodes[id]
	if n.state == Seen {
		w.visited++
	}
	n.state, n.seed, n.late = State(bits&stateBits), bits&seedBit != 0, false
	n.status, n.origin.Depth = uint16(r.number(1<<16-1)), uint16(r.number(1<<16-1))
	n.origin.Redirects, n.origin.Flags = r.byte(), r.byte()
	to := uint64(0)
	for len(r.rest) > 0 && !r.bad {
		if to += r.number(1<<32 - 1); to >= uint64(len(w.nodes)) {
			r.bad = true
			return
		}
		n.links = append(n.links, uint32(to))
	}
	n.links = slices.Clip(n.links)
	w.bytes += 4 * int64(len(n.links))
	if len(n.links) > 0 {
		w.landing(id)
	}
}

// readStep reads a step.
func (w *Walk) readStep(r *reader) {
	x := r.number(1 << 33)
	id, jumped := x>>1, x&1 != 0
	if id >= uint64(len(w.nodes)) {
		r.bad = true
		return
	}
	if !jumped {
		from := &w.nodes[id]
		link := r.number(1<<32 - 1)
		if link >= uint64(len(from.links)) {
			r.bad = true
			return
		}
		from.steps++
		id = uint64(from.links[link])
	}
	w.steps++
	w.arrive(uint32(id), jumped)
}

// Walk returns the walk, with the walkers that Append wrote. It continues exactly as after Freeze. Extra
// walkers start from scratch; missing ones are dropped. The error is ErrDamaged.
func (l *Loader) Walk(walkers []byte) (*Walk, error) {
	w, r := l.w, &reader{rest: walkers}
	v := r.byte()
	if v != version && v != partVersion {
		return nil, fmt.Errorf("%w: version %d, want %d or %d", ErrDamaged, v, version, partVersion)
	}
	if err := w.src.UnmarshalBinary(append([]byte("pcg:"), r.bytes(16)...)); err != nil {
		return nil, fmt.Errorf("%w: generator", ErrDamaged)
	}
	w.rng = rand.New(w.src)
	steps, nodes := int64(r.number(1<<62)), int(r.number(1<<32))
	if !r.bad && (steps != w.steps || nodes != len(w.nodes)) {
		return nil, fmt.Errorf("%w: %d steps and %d URLs, %d and %d in its log", ErrDamaged, steps, nodes,
			w.steps, len(w.nodes))
	}
	w.readWalkers(r, v == partVersion)
	if r.bad || len(r.rest) > 0 {
		return nil, fmt.Errorf("%w: walkers", ErrDamaged)
	}
	return w, nil
}

// readWalkers reads the positions of the walkers; part says that the walk has several nodes.
func (w *Walk) readWalkers(r *reader, part bool) {
	saved := make([]uint32, r.count())
	for i := range saved {
		saved[i] = uint32(r.number(uint64(len(w.nodes)))) - 1
	}
	ready := make([]uint32, r.count())
	for i := range ready {
		ready[i] = uint32(r.number(1<<32 - 1))
	}
	want, m := len(w.at), w.moves // those with which a walk of these options begins
	began := uint64(len(saved))
	if part {
		began = r.number(1 << 62)
		came, left := r.number(1<<62), r.number(1<<62)
		if came != m.came || left != m.left || began+came != left+uint64(len(saved)) {
			r.bad = true // a walker is lost, or is here twice
			return
		}
		want += len(saved) - int(began)
	}
	w.moves.began = began
	w.ready = nil
	w.at = saved[:min(len(saved), max(0, want))]
	for _, walker := range ready {
		if int(walker) < len(w.at) && (w.at[walker] == none || w.nodes[w.at[walker]].state >= Other) {
			w.ready = append(w.ready, walker)
		}
	}
	w.moves.began -= uint64(len(saved) - len(w.at))
	for len(w.at) < want {
		w.begin(none)
		w.moves.began++
	}
}
