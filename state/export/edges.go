package export

import (
	"encoding/binary"

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
		if counts, err = j.countPLDLinks(); err != nil {
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
	s := j.sorter()
	var rec []byte
	return s, j.eachEdge(func(e star.Edge) error {
		rec = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(rec[:0], e.To), e.From)
		return s.Add(rec)
	})
}

// eachEdge calls fn for all edges to PLDs that the node owns. Some may be there twice.
func (j *job) eachEdge(fn func(e star.Edge) error) error {
	st, err := part[star.State](j, state.NameStar)
	if err != nil {
		return err
	}
	j.meter.Set("edges")
	m := j.Manifest
	return star.WalkEdges(j.Set, state.NameStar, st, func(e star.Edge) error {
		if err := j.live(); err != nil {
			return err
		}
		if m.Frozen.Nodes > 0 && !m.Frozen.Slots.HasPLD(e.To) && !m.Arriving.HasPLD(e.To) {
			return nil // a copy of that of the owner, for the budget of a divided PLD
		}
		return fn(e)
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
