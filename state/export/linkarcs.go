package export

import (
	"encoding/binary"

	"drumbeat/internal/extsort"
	"drumbeat/internal/tabular"
)

// linkGraph makes the graph of links between pages. Its nodes are the URLs at either end of a link, in the order of
// their keys; an arc is there once. Two URLs with equal keys, which are keyed hashes of 64 bits, would be one node.
type linkGraph struct {
	j      *job
	nodes  *extsort.Sorter // key, URL
	byTo   *extsort.Sorter // key of the target, key of the source
	byFrom *extsort.Sorter // key of the source, number of the target
	keys   *extsort.Sorter // of all nodes
	recent []uint64        // keys of nodes that were added lately
	rec    []byte
}

// recentNodes is the size of linkGraph.recent: 512 KiB.
const recentNodes = 1 << 16

// linkArcs writes the graph as arcs does.
func (j *job) linkArcs() error {
	names, arcs, err := j.createGraph("url")
	if err != nil || arcs == nil {
		return err
	}
	g := &linkGraph{j: j, nodes: j.sorterOf(8), byTo: j.sorterOf(8), recent: make([]uint64, recentNodes)}
	err = j.eachLink(false, g.add)
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

// add adds a link.
func (g *linkGraph) add(r *linkRow) error {
	from, err := g.node(r.from)
	if err != nil {
		return err
	}
	to, err := g.node(r.to)
	if err != nil {
		return err
	}
	g.rec = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(g.rec[:0], to), from)
	return g.byTo.Add(g.rec)
}

// node adds a URL, and returns its key.
func (g *linkGraph) node(url []byte) (uint64, error) {
	key := uint64(g.j.Hasher.URLKey(url))
	if at := &g.recent[key%recentNodes]; *at != key {
		*at = key
		g.rec = append(binary.BigEndian.AppendUint64(g.rec[:0], key), url...)
		if err := g.nodes.Add(g.rec); err != nil {
			return 0, err
		}
	}
	return key, g.j.live()
}

// number numbers the nodes, from 0, and finds the numbers of the targets. It writes the URLs to w, unless that is
// nil.
func (g *linkGraph) number(w *tabular.Writer) error {
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
	return nil
}

// arcs writes the arcs, in the order of their numbers.
func (g *linkGraph) arcs(w *tabular.Writer) error {
	keys, err := sorted(g.keys)
	if err != nil {
		return err
	}
	edges, err := sorted(g.byFrom)
	if err != nil {
		return err
	}
	for number := int64(0); keys.ok; number++ {
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
	return nil
}
