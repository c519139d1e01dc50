package export

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"drumbeat/internal/tabular"
	"drumbeat/internal/webgraph"
	"drumbeat/state"
)

// hostEdgeTable has a row for each pair of different hosts, if a stored page of the first links to the second.
func hostEdgeTable() table {
	t := linkTable()
	t.columns = []tabular.Column{
		{Name: "from_host", Type: tabular.String},
		{Name: "to_host", Type: tabular.String},
		{Name: "links", Type: tabular.Int64}, // of stored pages
	}
	t.fill = fillHostEdges
	return t
}

// fillHostEdges sorts the pairs by target and then by source, to find both names.
func fillHostEdges(j *job) error {
	g := j.newGraph() // only for its nodes
	nodes := g.adder()
	counts := newLinkCounts(j, func(host []byte) (uint64, error) {
		key := uint64(j.Hasher.HostKey(host))
		return key, nodes.add(key, host)
	})
	if err := counts.count(); err != nil {
		return err
	}
	byKey, byFrom := j.sorterOf(8), j.sorterOf(8) // key, name; key of the source, links, name of the target
	if err := g.nodes.Sort(); err != nil {
		return err
	}
	var rec []byte
	err := g.eachNode(func(_ int64, key uint64, name []byte) error {
		return byKey.Add(append(binary.BigEndian.AppendUint64(rec[:0], key), name...))
	})
	if err == nil {
		err = errors.Join(g.nodes.Close(), byKey.Sort())
	}
	if err != nil {
		return err
	}
	find := nameOf(byKey)
	err = counts.each(func(from, to, links uint64) error {
		name, err := find(to)
		if err != nil {
			return err
		}
		rec = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(rec[:0], from), links)
		return byFrom.Add(append(rec, name...))
	})
	if err == nil {
		err = byKey.Rewind()
	}
	if err != nil {
		return err
	}
	find = nameOf(byKey)
	edges, err := sorted(byFrom)
	for ; err == nil && edges.ok; err = edges.next() {
		from, err := find(edges.key)
		if err != nil {
			return err
		}
		links := tabular.Int(int64(binary.BigEndian.Uint64(edges.value)))
		if err := j.write(tabular.Text(from), tabular.Text(edges.value[8:]), links); err != nil {
			return err
		}
	}
	return errors.Join(err, byKey.Close())
}

// rankTable has a row for each node of the graph of hosts, or of PLDs, which are called column.
func rankTable(column string) table {
	t := hostEdgeTable()
	if column == "pld" {
		t = edgeTable()
	}
	t.columns = []tabular.Column{
		{Name: column, Type: tabular.String},
		{Name: "indegree", Type: tabular.Int64},
		{Name: "outdegree", Type: tabular.Int64},
		{Name: "harmonic_rank", Type: tabular.Int64}, // 1 is the best
		{Name: "harmonic", Type: tabular.Float64},
		{Name: "pagerank_rank", Type: tabular.Int64},
		{Name: "pagerank", Type: tabular.Float64},
	}
	t.fill = fillRanks
	return t
}

// fillRanks writes the graph to a file, with the edges by target, computes the centralities, and names the nodes.
func fillRanks(j *job) (err error) {
	g := j.newGraph()
	if j.opt.Kind == PLDRanks {
		err = j.pldGraph(g)
	} else {
		err = j.hostGraph(g)
	}
	if err == nil {
		err = g.number(func(int64, []byte) error { return nil })
	}
	if err != nil {
		return err
	}
	fs, dir := j.opt.FS, j.opt.TempDir
	if err := fs.MkdirAll(dir); err != nil {
		return fmt.Errorf("export: make %s: %w", dir, err)
	}
	file := dir + "/graph"
	_ = fs.Remove(file) // of a killed process
	b, err := webgraph.New(fs, file, uint32(g.n))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fs.Remove(file)) }()
	if err := g.edges(b.Add, true); err != nil {
		return errors.Join(err, b.Abort())
	}
	w, err := b.End()
	if err != nil {
		return errors.Join(err, b.Abort())
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	r, err := j.ranksOf(w)
	if err != nil {
		return err
	}
	if err := g.nodes.Rewind(); err != nil {
		return err
	}
	err = g.eachNode(func(id int64, _ uint64, name []byte) error {
		return j.write(tabular.Text(reversed(name)), tabular.Int(int64(r.in[id])),
			tabular.Int(int64(w.OutDegree(uint32(id)))), tabular.Int(int64(r.harmonicAt[id])),
			tabular.Float(float64(r.harmonic[id])), tabular.Int(int64(r.pageRankAt[id])),
			tabular.Float(float64(r.pageRank[id])))
	})
	return errors.Join(err, g.nodes.Close())
}

// ranks are the centralities of the nodes of a graph.
type ranks struct {
	in                     []uint32
	harmonic, pageRank     []float32
	harmonicAt, pageRankAt []uint32
}

func (j *job) ranksOf(w *webgraph.Graph) (r ranks, err error) {
	opt := webgraph.Options{FS: j.opt.FS, Dir: j.opt.TempDir, RAMBytes: j.opt.RAMBytes,
		Workers: runtime.GOMAXPROCS(0)}
	phase := "PageRank"
	opt.Progress = func(step int, _ float64) { j.meter.Set(fmt.Sprintf("%s, step %d", phase, step)) }
	ctx, cancel := context.WithCancelCause(j.ctx)
	defer cancel(nil)
	if r.pageRank, err = w.PageRank(ctx, opt); err != nil {
		return r, ramError(err)
	}
	phase = "harmonic centrality"
	var exact bool
	if r.harmonic, exact, err = w.Harmonic(ctx, opt); err != nil {
		return r, ramError(err)
	}
	if !exact {
		j.note("harmonic centralities are estimates, with a standard error of some 13 %%")
	}
	r.pageRankAt, r.harmonicAt = webgraph.Positions(r.pageRank), webgraph.Positions(r.harmonic)
	r.in, err = w.InDegrees()
	return r, err
}

// ramError says what to do if the RAM is too small for a graph.
func ramError(err error) error {
	if more := (*webgraph.MemoryError)(nil); errors.As(err, &more) {
		return fmt.Errorf("export: %w: give more with --ram: %w", err, state.ErrIncompatible)
	}
	return err
}

// nameOf returns a function that finds the names of keys, which come in their order, in sorted records.
func nameOf(s interface{ Next() ([]byte, error) }) func(key uint64) ([]byte, error) {
	var at uint64
	var name []byte
	return func(key uint64) ([]byte, error) {
		for name == nil || at < key {
			rec, err := s.Next()
			if err != nil {
				return nil, err
			}
			if rec == nil {
				break
			}
			at, name = binary.BigEndian.Uint64(rec), append(name[:0], rec[8:]...)
		}
		if name == nil || at != key {
			return nil, fmt.Errorf("export: an edge ends at %x, which has no name", key)
		}
		return name, nil
	}
}
