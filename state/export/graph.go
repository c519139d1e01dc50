package export

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"drumbeat/internal/extsort"
	"drumbeat/internal/tabular"
)

// graph makes WebGraph's list of arcs: numbers of source and target, in their order, each once, and in another table
// the names of the nodes. The first node has number 0. The nodes are in the order of their keys.
type graph struct {
	j      *job
	nodes  *extsort.Sorter // key, name
	byTo   *extsort.Sorter // key of the target, key of the source
	byFrom *extsort.Sorter // key of the source, number of the target
	keys   *extsort.Sorter // of all nodes
	rec    []byte
}

// graph writes the graph that fill adds, whose nodes are called column.
func (j *job) graph(column string, fill func(g *graph) error) error {
	names, arcs, err := j.createGraph(column)
	if err != nil || arcs == nil {
		return err
	}
	g := &graph{j: j, nodes: j.sorterOf(8), byTo: j.sorterOf(8)}
	err = fill(g)
	if err == nil {
		err = g.number(names)
	}
	if names != nil {
		err = j.finish(names, err)
	}
	if err != nil {
		arcs.Abort()
		return err
	}
	return j.finish(arcs, g.arcs(arcs))
}

// recentNodes is the number of keys of nodes that linkGraph remembers: 512 KiB.
const recentNodes = 1 << 16

// linkGraph adds the links between pages to a graph. Its nodes are the URLs at either end of a link. Two URLs with
// equal keys, which are keyed hashes of 64 bits, would be one node.
func (j *job) linkGraph(g *graph) error {
	recent := make([]uint64, recentNodes) // keys of nodes that were added lately
	node := func(url []byte) (uint64, error) {
		key := uint64(j.Hasher.URLKey(url))
		if at := &recent[key%recentNodes]; *at != key {
			*at = key
			return key, g.node(key, url)
		}
		return key, j.live()
	}
	return j.eachLink(false, func(r *linkRow) error {
		from, err := node(r.from)
		if err != nil {
			return err
		}
		to, err := node(r.to)
		if err != nil {
			return err
		}
		return g.arc(from, to)
	})
}

// node adds a node, which may be there already.
func (g *graph) node(key uint64, name []byte) error {
	g.rec = append(binary.BigEndian.AppendUint64(g.rec[:0], key), name...)
	return errors.Join(g.nodes.Add(g.rec), g.j.live())
}

// arc adds an arc between two nodes, by their keys.
func (g *graph) arc(from, to uint64) error {
	g.rec = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(g.rec[:0], to), from)
	return g.byTo.Add(g.rec)
}

// passed returns an error if an arc ends at a node that has no name.
func passed(edges *cursor, key uint64) error {
	if edges.ok && edges.key < key {
		return fmt.Errorf("export: an edge ends at %x, which has no name", edges.key)
	}
	return nil
}

// number numbers the nodes, from 0, and finds the numbers of the targets. It writes the URLs to w, unless that is
// nil.
func (g *graph) number(w *tabular.Writer) error {
	g.j.meter.Set("sorting links")
	nodes, err := sorted(g.nodes)
	if err != nil {
		return err
	}
	edges, err := sorted(g.byTo)
	if err != nil {
		return err
	}
	g.byFrom, g.keys = g.j.sorterOf(4), g.j.sorterOf(8)
	for number := uint64(0); nodes.ok; number++ {
		key := nodes.key
		if err := passed(edges, key); err != nil {
			return err
		}
		if w != nil {
			if err := w.Write([]tabular.Value{tabular.Text(nodes.value)}); err != nil {
				return err
			}
		}
		g.rec = binary.BigEndian.AppendUint64(g.rec[:0], key)
		if err := g.keys.Add(g.rec); err != nil {
			return err
		}
		for ; err == nil && edges.ok && edges.key == key; err = edges.next() {
			g.rec = binary.BigEndian.AppendUint64(append(g.rec[:0], edges.value...), number)
			if err := g.byFrom.Add(g.rec); err != nil {
				return err
			}
			if err := g.j.live(); err != nil {
				return err
			}
		}
		for err == nil && nodes.ok && nodes.key == key {
			err = nodes.next()
		}
		if err != nil {
			return err
		}
	}
	return passed(edges, math.MaxUint64)
}

// arcs writes the arcs, in the order of their numbers.
func (g *graph) arcs(w *tabular.Writer) error {
	keys, err := sorted(g.keys)
	if err != nil {
		return err
	}
	edges, err := sorted(g.byFrom)
	if err != nil {
		return err
	}
	for number := int64(0); keys.ok; number++ {
		if err := passed(edges, keys.key); err != nil {
			return err
		}
		last := int64(-1)
		for ; err == nil && edges.ok && edges.key == keys.key; err = edges.next() {
			to := int64(binary.BigEndian.Uint64(edges.value))
			if to == last {
				continue
			}
			last = to
			if err := w.Write([]tabular.Value{tabular.Int(number), tabular.Int(to)}); err != nil {
				return err
			}
			if err := g.j.live(); err != nil {
				return err
			}
		}
		if err == nil {
			err = keys.next()
		}
		if err != nil {
			return err
		}
	}
	return passed(edges, math.MaxUint64)
}
