package export

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"

	"drumbeat/internal/extsort"
	"drumbeat/internal/human"
	"drumbeat/internal/tabular"
	"drumbeat/star"
	"drumbeat/weburl"
)

// graph numbers the nodes of a graph from 0, in the order of their names. Hosts and PLDs are named from the top-level
// domain down, as in the graphs of Common Crawl: nodes of one domain are neighbours, which makes files small.
type graph struct {
	j     *job
	nodes *extsort.Sorter // name, 0, key; repeated
	byTo  *extsort.Sorter // key of the target, key of the source
	ids   *extsort.Sorter // key, number
	n     int64           // nodes
	lost  int64           // ends of edges without a name, which a repair may have lost
	rec   []byte
}

func (j *job) newGraph() *graph { return &graph{j: j, nodes: j.sorterOf(8), byTo: j.sorterOf(8)} }

// graph writes the graph that fill adds as two tables, which WebGraph and the tools of Common Crawl read: numbers and
// names of the nodes, called column, and the edges as numbers of both ends, in their order, each once.
func (j *job) graph(column string, fill func(g *graph) error) error {
	vertices, edges, err := j.createGraph(column)
	if err != nil || edges == nil {
		return err
	}
	g := j.newGraph()
	err = fill(g)
	if err == nil {
		err = g.number(func(id int64, name []byte) error {
			if vertices == nil {
				return nil
			}
			return vertices.Write([]tabular.Value{tabular.Int(id), tabular.Text(name)})
		})
	}
	if vertices != nil {
		err = j.finish(vertices, err)
	}
	if err != nil {
		edges.Abort()
		return err
	}
	return j.finish(edges, g.edges(func(from, to uint32) error {
		return edges.Write([]tabular.Value{tabular.Int(int64(from)), tabular.Int(int64(to))})
	}, false))
}

// recentNodes is the number of keys of nodes that linkGraph remembers: 512 KiB.
const recentNodes = 1 << 16

// adder adds nodes, most of those that were added lately only once.
type adder struct {
	g      *graph
	recent []uint64
}

func (g *graph) adder() *adder { return &adder{g, make([]uint64, recentNodes)} }

func (a *adder) add(key uint64, name []byte) error {
	if at := &a.recent[key%recentNodes]; *at != key {
		*at = key
		return a.g.node(key, name)
	}
	return a.g.j.live()
}

// linkGraph adds the links between pages to a graph. Its nodes are the URLs at either end of a link. Two URLs with
// equal keys, which are keyed hashes of 64 bits, would be one node.
func (j *job) linkGraph(g *graph) error {
	nodes := g.adder()
	return j.eachLink(false, func(r *linkRow) error {
		from, to := uint64(j.Hasher.URLKey(r.from)), uint64(j.Hasher.URLKey(r.to))
		return errors.Join(nodes.add(from, r.from), nodes.add(to, r.to), g.arc(from, to))
	})
}

// pldGraph adds the PLDs and their edges, which STAR knows, to a graph.
func (j *job) pldGraph(g *graph) error {
	names, err := j.names()
	for ; err == nil && names.ok; err = names.next() {
		if !isPLD(names.value) {
			continue
		}
		if err := g.node(names.key, reversed(names.value[1:])); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return j.eachEdge(func(e star.Edge) error { return g.arc(e.From, e.To) })
}

// hostGraph adds the hosts at either end of a link of a stored page, and the edges between different ones.
func (j *job) hostGraph(g *graph) error {
	nodes := g.adder()
	counts := newLinkCounts(j, func(host []byte) (uint64, error) {
		key := uint64(j.Hasher.HostKey(host))
		return key, nodes.add(key, reversed(host))
	})
	if err := counts.count(); err != nil {
		return err
	}
	return counts.each(func(from, to, _ uint64) error { return g.arc(from, to) })
}

// reversed returns a host or PLD from the top-level domain down; an IP address as it is.
func reversed(host []byte) []byte {
	if weburl.IsAddress(host) {
		return bytes.Clone(host)
	}
	name := make([]byte, 0, len(host))
	for end := len(host); end >= 0; {
		dot := bytes.LastIndexByte(host[:end], '.')
		name = append(name, host[dot+1:end]...)
		if dot >= 0 {
			name = append(name, '.')
		}
		end = dot
	}
	return name
}

// node adds a node, which may be there already.
func (g *graph) node(key uint64, name []byte) error {
	g.rec = binary.BigEndian.AppendUint64(append(append(g.rec[:0], name...), 0), key)
	return errors.Join(g.nodes.Add(g.rec), g.j.live())
}

// arc adds an edge between two nodes, by their keys.
func (g *graph) arc(from, to uint64) error {
	g.rec = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(g.rec[:0], to), from)
	return errors.Join(g.byTo.Add(g.rec), g.j.live())
}

// number numbers the nodes, and calls each for them.
func (g *graph) number(each func(id int64, name []byte) error) error {
	g.j.meter.Set("sorting links")
	g.ids = g.j.sorterOf(8)
	if err := g.nodes.Sort(); err != nil {
		return err
	}
	return g.eachNode(func(id int64, key uint64, name []byte) error {
		g.rec = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(g.rec[:0], key), uint32(id))
		return errors.Join(g.ids.Add(g.rec), each(id, name))
	})
}

// eachNode calls each for the sorted nodes.
func (g *graph) eachNode(each func(id int64, key uint64, name []byte) error) error {
	var last []byte
	for g.n = 0; ; g.n++ {
		rec, err := g.nodes.Next()
		for ; rec != nil && bytes.Equal(rec, last); rec, err = g.nodes.Next() {
			if err := g.j.live(); err != nil {
				return err
			}
		}
		if err != nil || rec == nil {
			return err
		}
		if g.n > math.MaxUint32 {
			return errors.New("export: a graph has at most 4,294,967,296 nodes")
		}
		last = append(last[:0], rec...)
		end := len(rec) - 9
		if err := each(g.n, binary.BigEndian.Uint64(rec[end+1:]), rec[:end]); err != nil {
			return err
		}
	}
}

// edges calls each for the different edges, by the numbers of their ends, in the order of sources, or of targets.
// Call it once, after number.
func (g *graph) edges(each func(from, to uint32) error, byTarget bool) error {
	byFrom, byNumber := g.j.sorterOf(8), g.j.sorterOf(8)
	if err := g.ids.Sort(); err != nil {
		return err
	}
	err := g.join(g.byTo, func(other []byte, to []byte) error { // other: key of the source
		return byFrom.Add(append(append(g.rec[:0], other...), to...))
	})
	if err == nil {
		err = g.ids.Rewind()
	}
	if err == nil {
		err = g.join(byFrom, func(to []byte, from []byte) error {
			if byTarget {
				from, to = to, from
			}
			return byNumber.Add(append(append(g.rec[:0], from...), to...))
		})
	}
	if err == nil {
		err = g.ids.Close()
	}
	if err == nil {
		err = byNumber.Sort()
	}
	for last := int64(-1); err == nil; {
		var rec []byte
		if rec, err = byNumber.Next(); rec == nil {
			break
		}
		if edge := binary.BigEndian.Uint64(rec); int64(edge) != last {
			last = int64(edge)
			from, to := uint32(edge>>32), uint32(edge)
			if byTarget {
				from, to = to, from
			}
			err = errors.Join(each(from, to), g.j.live())
		}
	}
	if g.lost > 0 {
		g.j.note("%s no name: left out", human.Counted(g.lost, "edge has an end with", "edges have an end with"))
	}
	return errors.Join(err, byNumber.Close())
}

// join calls each for the records of a sorter, which begin with the key of a node, with the rest of the record and
// the number of the node.
func (g *graph) join(s *extsort.Sorter, each func(rest, number []byte) error) error {
	records, err := sorted(s)
	if err != nil {
		return err
	}
	var key uint64
	var id []byte
	for ; err == nil && records.ok; err = records.next() {
		for id == nil || key < records.key {
			rec, err := g.ids.Next()
			if err != nil {
				return err
			}
			if rec == nil {
				key, id = math.MaxUint64, binary.BigEndian.AppendUint32(id[:0], 0) // behind the last node
				break
			}
			key, id = binary.BigEndian.Uint64(rec), append(id[:0], rec[8:]...)
		}
		if key != records.key {
			g.lost++
			continue
		}
		if err := errors.Join(each(records.value, id), g.j.live()); err != nil {
			return err
		}
	}
	return err
}

// createGraph opens the tables of a graph whose nodes are called column. vertices is nil if an earlier run has
// finished that table, edges if it has finished both.
func (j *job) createGraph(column string) (vertices, edges *tabular.Writer, err error) {
	vertices, err = j.create("vertices", tabular.TSV, []tabular.Column{{Name: "id", Type: tabular.Int64},
		{Name: column, Type: tabular.String}})
	if err != nil {
		return nil, nil, err
	}
	done := j.report.Complete
	edges, err = j.create("edges", tabular.TSV,
		[]tabular.Column{{Name: "from", Type: tabular.Int64}, {Name: "to", Type: tabular.Int64}})
	if err != nil {
		vertices.Abort()
		return nil, nil, err
	}
	j.report.Complete = j.report.Complete && done
	if j.opt.Begin != nil {
		j.opt.Begin(j.report)
	}
	if done {
		vertices = nil
	}
	if j.report.Complete {
		edges = nil
	}
	return vertices, edges, nil
}
