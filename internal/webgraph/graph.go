package webgraph

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"sync"

	"drumbeat/disk"
)

const (
	// blockBytes is the size at which a block of the file ends: large enough for disks, and small enough that a
	// graph of some MB has blocks for several workers.
	blockBytes = 256 << 10
	// maxBlockNodes bounds the nodes of a block, since workers keep counters of all.
	maxBlockNodes = 1 << 15
	// MaxNodes is the largest number of nodes.
	MaxNodes = math.MaxUint32 - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Graph is a graph on disk. It is safe for concurrent use.
type Graph struct {
	f      disk.File
	nodes  uint32
	arcs   int64
	blocks []block
	out    []uint32 // number of successors of each node
}

// block is a part of the file: the predecessors of consecutive nodes. Those of a node with very many continue in
// the next blocks.
type block struct {
	off         int64
	bytes, crc  uint32
	first, last uint32 // nodes
	more        bool   // the first node has predecessors in the block before
}

// Builder writes a graph.
type Builder struct {
	g    *Graph
	buf  []byte
	list []byte // of the current node: its predecessors so far in this block
	cur  block
	node int64  // the current one
	prev int64  // its last predecessor; -1: none
	base int64  // its last predecessor in list; -1: none
	n    uint32 // predecessors in list
	full int    // bytes of a block
}

// New returns a builder of a graph, in a file that it creates.
func New(fs disk.FS, name string, nodes uint32) (*Builder, error) {
	if nodes > MaxNodes {
		return nil, fmt.Errorf("webgraph: %d nodes, at most %d are allowed", nodes, uint32(MaxNodes))
	}
	f, err := fs.Create(name)
	if err != nil {
		return nil, fmt.Errorf("webgraph: %w", err)
	}
	return &Builder{g: &Graph{f: f, nodes: nodes, out: make([]uint32, nodes)}, prev: -1, base: -1,
		full: blockBytes}, nil
}

// Add adds an arc. Arcs come in ascending order of to, then of from; repeated ones and loops are ignored.
func (b *Builder) Add(from, to uint32) error {
	if from >= b.g.nodes || to >= b.g.nodes || int64(to) < b.node || int64(to) == b.node && int64(from) < b.prev {
		return fmt.Errorf("BUG: webgraph: arc from %d to %d after %d to %d, of %d nodes", from, to, b.prev, b.node,
			b.g.nodes)
	}
	for int64(to) > b.node {
		if err := b.endNode(); err != nil {
			return err
		}
	}
	if int64(from) == b.prev || from == to {
		return nil
	}
	b.list = binary.AppendUvarint(b.list, uint64(int64(from)-b.base))
	b.prev, b.base = int64(from), int64(from)
	b.n++
	b.g.out[from]++
	b.g.arcs++
	if len(b.list) < b.full {
		return nil
	}
	b.endList()
	err := b.writeBlock(uint32(b.node))
	b.cur.more = true
	return err
}

// endList ends the predecessors of the current node, in this block.
func (b *Builder) endList() {
	b.buf = append(binary.AppendUvarint(b.buf, uint64(b.n)), b.list...)
	b.list, b.n, b.base = b.list[:0], 0, -1
}

// endNode goes to the next node.
func (b *Builder) endNode() error {
	b.endList()
	b.node++
	b.prev = -1
	if len(b.buf) < b.full && uint32(b.node)-b.cur.first < maxBlockNodes {
		return nil
	}
	return b.writeBlock(uint32(b.node - 1))
}

// writeBlock writes a block that ends with a node.
func (b *Builder) writeBlock(last uint32) error {
	c := b.cur
	c.bytes, c.crc, c.last = uint32(len(b.buf)), crc32.Checksum(b.buf, castagnoli), last
	if _, err := b.g.f.WriteAt(b.buf, c.off); err != nil {
		return fmt.Errorf("webgraph: write %s: %w", b.g.f.Name(), err)
	}
	b.g.blocks = append(b.g.blocks, c)
	b.cur = block{off: c.off + int64(c.bytes), first: uint32(b.node)}
	b.buf = b.buf[:0]
	return nil
}

// End returns the graph. The builder must not be used any more, and its file is closed by Graph.Close.
func (b *Builder) End() (*Graph, error) {
	for b.node < int64(b.g.nodes) {
		if err := b.endNode(); err != nil {
			return nil, err
		}
	}
	if len(b.buf) > 0 {
		if err := b.writeBlock(b.g.nodes - 1); err != nil {
			return nil, err
		}
	}
	return b.g, nil
}

// Abort closes the file of a graph that was not ended.
func (b *Builder) Abort() error { return b.g.f.Close() }

// Close closes the file.
func (g *Graph) Close() error { return g.f.Close() }

// Nodes returns the number of nodes.
func (g *Graph) Nodes() int { return int(g.nodes) }

// Arcs returns the number of different arcs between different nodes.
func (g *Graph) Arcs() int64 { return g.arcs }

// OutDegree returns the number of successors of a node.
func (g *Graph) OutDegree(node uint32) uint32 { return g.out[node] }

// task is what one worker does at a time: a block and those that continue its last node.
type task struct{ from, to int }

func (g *Graph) tasks() (list []task) {
	for i, b := range g.blocks {
		if b.more {
			list[len(list)-1].to = i + 1
		} else {
			list = append(list, task{i, i + 1})
		}
	}
	return list
}

// nodesOf returns the first and the last node of a task.
func (g *Graph) nodesOf(t task) (first, last uint32) {
	return g.blocks[t.from].first, g.blocks[t.to-1].last
}

// reader decodes blocks.
type reader struct {
	g    *Graph
	buf  []byte
	list []uint32
	set  []counter // of the nodes of a task
	raw  []byte
}

// each calls fn for each node of a task, in order, with its predecessors, in order, valid until it returns; more
// than once for a node with very many.
func (r *reader) each(t task, fn func(node uint32, from []uint32)) error {
	for _, b := range r.g.blocks[t.from:t.to] {
		if cap(r.buf) < int(b.bytes) {
			r.buf = make([]byte, b.bytes)
		}
		buf := r.buf[:b.bytes]
		if _, err := r.g.f.ReadAt(buf, b.off); err != nil {
			return fmt.Errorf("webgraph: read %s: %w", r.g.f.Name(), err)
		}
		if crc32.Checksum(buf, castagnoli) != b.crc {
			return &disk.CorruptError{Path: r.g.f.Name(), Offset: b.off, Want: "a block with its checksum",
				Got: "other bytes"}
		}
		for node := uint64(b.first); node <= uint64(b.last); node++ {
			n, k := binary.Uvarint(buf)
			buf = buf[k:]
			r.list = r.list[:0]
			from := int64(-1)
			for range n {
				gap := uint64(buf[0])
				k := 1
				if gap >= 0x80 {
					gap, k = binary.Uvarint(buf)
				}
				buf = buf[k:]
				from += int64(gap)
				r.list = append(r.list, uint32(from))
			}
			fn(uint32(node), r.list)
		}
	}
	return nil
}

// parallel does all tasks with workers, each with a reader of its own, and returns the first error. It ends early
// if ctx is done.
func (g *Graph) parallel(ctx context.Context, workers int, do func(r *reader, number int, t task) error) error {
	tasks := g.tasks()
	var (
		mu   sync.Mutex
		next int
		fail error
		wg   sync.WaitGroup
	)
	take := func(err error) int {
		mu.Lock()
		defer mu.Unlock()
		if fail = errors.Join(fail, err); fail == nil && ctx.Err() != nil {
			fail = context.Cause(ctx)
		}
		if fail != nil || next == len(tasks) {
			return -1
		}
		next++
		return next - 1
	}
	for range max(1, workers) {
		wg.Go(func() {
			r := &reader{g: g}
			for i := take(nil); i >= 0; {
				i = take(do(r, i, tasks[i]))
			}
		})
	}
	wg.Wait()
	return fail
}

// InDegrees returns the number of predecessors of each node.
func (g *Graph) InDegrees() ([]uint32, error) {
	in := make([]uint32, g.nodes)
	err := g.parallel(context.Background(), 1, func(r *reader, _ int, t task) error {
		return r.each(t, func(v uint32, from []uint32) { in[v] += uint32(len(from)) })
	})
	return in, err
}
