package export

import (
	"encoding/binary"
	"fmt"

	"drumbeat/drum"
	"drumbeat/internal/extsort"
	"drumbeat/internal/human"
	"drumbeat/internal/tabular"
	"drumbeat/star"
	"drumbeat/state"
)

// edgeTable has a row for each edge of the graph of PLDs: a page of one links to a URL of another. STAR keeps
// an edge once, without the number of links, which comes from the stored pages (linkcounts.go).
func edgeTable() table {
	return table{
		columns: []tabular.Column{
			{Name: "from_pld", Type: tabular.String, Nullable: true}, // null only if a repair has lost its name
			{Name: "to_pld", Type: tabular.String, Nullable: true},
			{Name: "links", Type: tabular.Int64, Nullable: true}, // of stored pages; null without Options.CountLinks
		},
		files: func(j *job) ([]string, error) {
			files, err := nameFiles(j)
			if err != nil {
				return nil, err
			}
			st, err := part[star.State](j, state.NameStar)
			if err != nil {
				return nil, err
			}
			edges, _ := star.Stores(state.NameStar)
			files = append(files, drum.Files(j.Set, edges, st.Edges)...)
			if !j.opt.CountLinks {
				return files, nil
			}
			more, err := indexFiles(j)
			return append(files, more...), err
		},
		fill:  fillEdges,
		parts: []string{"state/" + state.NameNames, "state/" + state.NameStar},
	}
}

// namedEdges returns the edges in the order of their sources: key of the source, name of the target, and 8 bytes
// that count the links, if they are counted. lost is the number of targets without a name.
func (j *job) namedEdges() (edges *cursor, lost int, err error) {
	var counts *linkCounts
	if j.opt.CountLinks {
		if counts, err = j.countLinks(); err != nil {
			return nil, 0, err
		}
	}
	byTo, err := j.edgesByTarget()
	if err != nil {
		return nil, 0, err
	}
	j.meter.Set("sorting edges")
	byFrom := j.sorter()
	var rec []byte
	err = j.withNames(byTo, func(name []byte, e star.Edge) error {
		if name == nil {
			lost++
		}
		rec = append(binary.BigEndian.AppendUint64(rec[:0], e.From), name...)
		if counts != nil {
			n, err := counts.of(e.From, e.To)
			if err != nil {
				return err
			}
			rec = binary.BigEndian.AppendUint64(rec, n)
		}
		return byFrom.Add(rec)
	})
	if err == nil && counts != nil {
		err = counts.end()
	}
	if err != nil {
		return nil, 0, err
	}
	edges, err = sorted(byFrom)
	return edges, lost, err
}

func fillEdges(j *job) error {
	edges, lost, err := j.namedEdges()
	if err != nil {
		return err
	}
	names, err := j.names()
	if err != nil {
		return err
	}
	for ; err == nil && edges.ok; err = edges.next() {
		known, err := names.seek(edges.key)
		if err != nil {
			return err
		}
		from, to, links := tabular.Null, tabular.Null, tabular.Null
		if known {
			from = tabular.Text(names.value[1:])
		} else {
			lost++
		}
		name := edges.value
		if j.opt.CountLinks {
			end := len(name) - 8
			links = tabular.Int(int64(binary.BigEndian.Uint64(name[end:])))
			name = name[:end]
		}
		if len(name) > 0 {
			to = tabular.Text(name)
		}
		if err := j.write(from, to, links); err != nil {
			return err
		}
	}
	if lost > 0 {
		j.note("%s no name", human.Counted(lost, "end of an edge has", "ends of edges have"))
	}
	return err
}

// edgesByTarget returns a sorter of all edges as keys of target and source. Some may be there twice.
func (j *job) edgesByTarget() (*extsort.Sorter, error) {
	st, err := part[star.State](j, state.NameStar)
	if err != nil {
		return nil, err
	}
	j.meter.Set("edges")
	s := j.sorter()
	var rec []byte
	return s, star.WalkEdges(j.Set, state.NameStar, st, func(e star.Edge) error {
		rec = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(rec[:0], e.To), e.From)
		if err := j.live(); err != nil {
			return err
		}
		return s.Add(rec)
	})
}

// withNames calls fn for each edge in the order of targets, once, with the name of the target; nil if it has
// none. It closes the sorter.
func (j *job) withNames(byTo *extsort.Sorter, fn func(name []byte, e star.Edge) error) error {
	edges, err := sorted(byTo)
	if err != nil {
		return err
	}
	names, err := j.names()
	if err != nil {
		return err
	}
	var last star.Edge
	any := false
	for ; err == nil && edges.ok; err = edges.next() {
		e := star.Edge{From: binary.BigEndian.Uint64(edges.value), To: edges.key}
		if any && e == last {
			continue
		}
		last, any = e, true
		known, err := names.seek(e.To)
		if err != nil {
			return err
		}
		var name []byte
		if known {
			name = names.value[1:]
		}
		if err := fn(name, e); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return byTo.Close()
}

// nodes returns a cursor over the numbers of all PLDs, from 0 in the order of keys, as 8 bytes. each, if set,
// gets each name.
func (j *job) nodes(each func(name []byte) error) (*cursor, error) {
	names, err := j.names()
	if err != nil {
		return nil, err
	}
	number := uint64(0)
	var value [8]byte
	c := &cursor{}
	c.pull = func() (uint64, []byte, bool, error) {
		for names.ok {
			key, name := names.key, names.value
			pld := isPLD(name)
			if pld && each != nil {
				if err := each(name[1:]); err != nil {
					return 0, nil, false, err
				}
			}
			if err := names.next(); err != nil {
				return 0, nil, false, err
			}
			if pld {
				binary.BigEndian.PutUint64(value[:], number)
				number++
				return key, value[:], true, nil
			}
		}
		return 0, nil, false, nil
	}
	return c, c.next()
}

// arcs writes the graph as WebGraph's list of arcs: numbers of source and target, in their order, and in
// another table the names of the nodes, the first of which has number 0.
func (j *job) arcs() error {
	names, arcs, err := j.createGraph("pld")
	if err != nil || arcs == nil {
		return err
	}
	if names != nil {
		if err := j.finish(names, j.fillNodes(names)); err != nil {
			arcs.Abort()
			return err
		}
	}
	return j.finish(arcs, j.fillArcs(arcs))
}

// createGraph opens the tables of a graph whose nodes are called column. names is nil if an earlier run has
// finished that table, arcs if it has finished both.
func (j *job) createGraph(column string) (names, arcs *tabular.Writer, err error) {
	names, err = j.create("nodes", tabular.TSV, []tabular.Column{{Name: column, Type: tabular.String}})
	if err != nil {
		return nil, nil, err
	}
	nodesDone := j.report.Complete
	arcs, err = j.create("arcs", tabular.TSV,
		[]tabular.Column{{Name: "from", Type: tabular.Int64}, {Name: "to", Type: tabular.Int64}})
	if err != nil {
		names.Abort()
		return nil, nil, err
	}
	j.report.Complete = j.report.Complete && nodesDone
	if j.opt.Begin != nil {
		j.opt.Begin(j.report)
	}
	if nodesDone {
		names = nil
	}
	if j.report.Complete {
		arcs = nil
	}
	return names, arcs, nil
}

func (j *job) fillNodes(w *tabular.Writer) error {
	all, err := j.nodes(func(name []byte) error { return w.Write([]tabular.Value{tabular.Text(name)}) })
	for ; err == nil && all.ok; err = all.next() {
		if err := j.live(); err != nil {
			return err
		}
	}
	return err
}

// fillArcs finds the numbers of the targets, then those of the sources. The order of keys is that of numbers.
func (j *job) fillArcs(w *tabular.Writer) error {
	byTo, err := j.edgesByTarget()
	if err != nil {
		return err
	}
	byFrom := j.sorter()
	edges, err := sorted(byTo)
	if err != nil {
		return err
	}
	var rec []byte
	err = j.numbered(edges, func(from uint64, to []byte) error {
		rec = append(binary.BigEndian.AppendUint64(rec[:0], from), to...)
		return byFrom.Add(rec)
	})
	if err != nil {
		return err
	}
	if edges, err = sorted(byFrom); err != nil {
		return err
	}
	lastFrom, lastTo := uint64(0), uint64(0)
	any := false
	return j.numbered(edges, func(to uint64, number []byte) error {
		from := binary.BigEndian.Uint64(number)
		if any && from == lastFrom && to == lastTo {
			return nil
		}
		any, lastFrom, lastTo = true, from, to
		return w.Write([]tabular.Value{tabular.Int(int64(from)), tabular.Int(int64(to))})
	})
}

// numbered calls fn with the 8 bytes in the value of each item, and the number of the node that is its key.
func (j *job) numbered(items *cursor, fn func(value uint64, number []byte) error) error {
	nodes, err := j.nodes(nil)
	for ; err == nil && items.ok; err = items.next() {
		known, err := nodes.seek(items.key)
		if err != nil {
			return err
		}
		if !known {
			return fmt.Errorf("export: an edge ends at PLD %x, which has no name", items.key)
		}
		if err := j.live(); err != nil {
			return err
		}
		if err := fn(binary.BigEndian.Uint64(items.value), nodes.value); err != nil {
			return err
		}
	}
	return err
}
