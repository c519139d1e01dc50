package webgraph

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/bits"

	"drumbeat/disk"
)

const (
	registers    = 64 // of a counter, a byte each
	counterWords = registers / 8
	// alpha corrects the bias of 64 registers (Flajolet et al., figure 3).
	alpha = 0.709
	// nodeBytes is what a step keeps for each node beside counters: two values, and whether it has changed.
	nodeBytes = 4 + 4 + 1 + 1
	// maxBallSteps bounds the longest of the shortest paths, which has some dozen arcs in graphs of the web, and some
	// hundreds in chains of spam. A node at a greater distance would add less than 0.001.
	maxBallSteps = 1000
	highs        = 0x8080808080808080
)

// counter is a HyperLogLog counter: in each byte the largest number of leading zeros seen, plus 1.
type counter [counterWords]uint64

// begin is the counter of a set of one node.
func begin(v uint32) (c counter) {
	h := (uint64(v) + 1) * 0x9e3779b97f4a7c15 // splitmix64
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	h ^= h >> 31
	i := h % registers
	c[i/8] = uint64(bits.LeadingZeros64(h|registers-1)+1) << (i % 8 * 8)
	return c
}

// union adds the set of d to c, and tells whether c has changed.
func (c *counter) union(d *counter) bool {
	var diff uint64
	for i := range c {
		x, y := c[i], d[i]
		// Each byte is less than 128: the high bit of (x|128)-y tells whether x >= y, and borrows nothing.
		keep := ((x | highs) - y) & highs >> 7 * 0xff
		z := x&keep | y&^keep
		diff |= x ^ z
		c[i] = z
	}
	return diff != 0
}

// power has 2^-k.
var power = func() (p [64]float64) {
	for k := range p {
		p[k] = math.Ldexp(1, -k)
	}
	return p
}()

// size estimates the size of the set.
func (c *counter) size() float64 {
	sum, zeros := 0.0, 0
	for _, w := range c {
		for range 8 {
			sum += power[w&63]
			if w&63 == 0 {
				zeros++
			}
			w >>= 8
		}
	}
	e := alpha * registers * registers / sum
	if e <= 2.5*registers && zeros > 0 {
		return registers * math.Log(registers/float64(zeros)) // linear counting
	}
	return e
}

// hyperBall computes harmonic centralities. In step t the counter of a node becomes the union of its own and those of
// its predecessors: the nodes that reach it by at most t arcs.
func (g *Graph) hyperBall(ctx context.Context, opt Options) (values []float32, err error) {
	room := (opt.RAMBytes - int64(g.nodes)*nodeBytes) / (registers + 1)
	room -= int64(max(1, opt.Workers)) * maxBlockNodes // each has those of a block
	if least := min(int64(g.nodes), maxBlockNodes); room < least {
		return nil, &MemoryError{opt.RAMBytes, opt.RAMBytes + (least-room)*(registers+1)}
	}
	b := &ball{g: g, opt: &opt, size: make([]float32, g.nodes), sum: make([]float32, g.nodes),
		changed: make([]bool, g.nodes), changes: make([]bool, g.nodes),
		part: make([]counter, min(room, int64(g.nodes)))}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.open(); err != nil {
		return nil, err
	}
	for step := 1; step <= maxBallSteps; step++ {
		n, err := b.step(ctx, step)
		if err != nil {
			return nil, err
		}
		if opt.Progress != nil {
			opt.Progress(step, float64(n))
		}
		if n == 0 {
			break
		}
	}
	return b.sum, nil
}

// ball is the state of hyperBall.
type ball struct {
	g                *Graph
	opt              *Options
	size, sum        []float32 // of each node: its estimated set, and its centrality so far
	changed, changes []bool    // of each node: whether its counter did in the last step, and does in this one
	part             []counter // of consecutive nodes
	now, next        disk.File // all counters
}

// open writes the counters of sets of one node.
func (b *ball) open() (err error) {
	for _, name := range []string{"/counters.0", "/counters.1"} { // of a killed process
		if err := b.opt.FS.Remove(b.opt.Dir + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("webgraph: %w", err)
		}
	}
	if b.now, err = b.opt.FS.Create(b.opt.Dir + "/counters.0"); err == nil {
		b.next, err = b.opt.FS.Create(b.opt.Dir + "/counters.1")
	}
	if err != nil {
		return fmt.Errorf("webgraph: %w", err)
	}
	r := &reader{}
	for first := int64(0); first < int64(b.g.nodes); first += maxBlockNodes {
		set := r.room(int(min(maxBlockNodes, int64(b.g.nodes)-first)))
		for i := range set {
			v := uint32(first) + uint32(i)
			set[i] = begin(v)
			b.size[v], b.changed[v] = float32(set[i].size()), true
		}
		if err := r.write(b.now, uint32(first)); err != nil {
			return err
		}
	}
	return nil
}

// close removes the counters.
func (b *ball) close() (err error) {
	for _, f := range []disk.File{b.now, b.next} {
		if f != nil {
			err = errors.Join(err, f.Close(), b.opt.FS.Remove(f.Name()))
		}
	}
	return err
}

// step does step t, and returns the number of counters that it changed.
func (b *ball) step(ctx context.Context, t int) (n int, err error) {
	clear(b.changes)
	for low := uint64(0); low < uint64(b.g.nodes); low += uint64(len(b.part)) {
		part := b.part[:min(uint64(len(b.part)), uint64(b.g.nodes)-low)]
		if err := b.load(part, uint32(low)); err != nil {
			return 0, err
		}
		source, end := b.next, low+uint64(len(part)) == uint64(b.g.nodes)
		if low == 0 {
			source = b.now
		}
		err := b.g.parallel(ctx, b.opt.Workers, func(r *reader, _ int, task task) error {
			return b.unite(r, task, source, part, uint32(low), t, end)
		})
		if err != nil {
			return 0, err
		}
	}
	b.now, b.next = b.next, b.now
	b.changed, b.changes = b.changes, b.changed
	for _, c := range b.changed {
		if c {
			n++
		}
	}
	return n, nil
}

// load reads the counters of the part.
func (b *ball) load(part []counter, low uint32) error {
	r := &reader{}
	for len(part) > 0 {
		set := r.room(min(maxBlockNodes, len(part)))
		if err := r.read(b.now, low); err != nil {
			return err
		}
		copy(part, set)
		part, low = part[len(set):], low+uint32(len(set))
	}
	return nil
}

// unite adds the sets of the part to those of the nodes of a task that have an arc from them. At the end of step t,
// it adds to their centralities.
func (b *ball) unite(r *reader, task task, source disk.File, part []counter, low uint32, t int, end bool) error {
	first, last := b.g.nodesOf(task)
	set := r.room(int(last-first) + 1)
	if err := r.read(source, first); err != nil {
		return err
	}
	err := r.each(task, func(v uint32, from []uint32) {
		c := &set[v-first]
		for _, u := range from {
			if i := u - low; u >= low && i < uint32(len(part)) && b.changed[u] && c.union(&part[i]) {
				b.changes[v] = true
			}
		}
	})
	if err != nil {
		return err
	}
	if end {
		for i := range set {
			if v := first + uint32(i); b.changes[v] {
				size := max(b.size[v], float32(set[i].size())) // where the two estimates meet it may fall
				b.sum[v] += (size - b.size[v]) / float32(t)
				b.size[v] = size
			}
		}
	}
	return r.write(b.next, first)
}

// room makes room for counters.
func (r *reader) room(n int) []counter {
	if cap(r.set) < n {
		r.set, r.raw = make([]counter, n), make([]byte, n*registers)
	}
	r.set, r.raw = r.set[:n], r.raw[:n*registers]
	return r.set
}

// read reads counters from node first on.
func (r *reader) read(f disk.File, first uint32) error {
	if _, err := f.ReadAt(r.raw, int64(first)*registers); err != nil {
		return fmt.Errorf("webgraph: read %s: %w", f.Name(), err)
	}
	for i := range r.set {
		for k := range counterWords {
			r.set[i][k] = binary.LittleEndian.Uint64(r.raw[i*registers+k*8:])
		}
	}
	return nil
}

// write writes them.
func (r *reader) write(f disk.File, first uint32) error {
	for i := range r.set {
		for k, w := range r.set[i] {
			binary.LittleEndian.PutUint64(r.raw[i*registers+k*8:], w)
		}
	}
	if _, err := f.WriteAt(r.raw, int64(first)*registers); err != nil {
		return fmt.Errorf("webgraph: write %s: %w", f.Name(), err)
	}
	return nil
}
