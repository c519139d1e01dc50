package export

import (
	"encoding/binary"

	"drumbeat/drum"
	"drumbeat/internal/tabular"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/state/explain"
	"drumbeat/weburl"
)

// pldTable has a row for each PLD that the crawl knows: of a URL found, or an end of an edge.
func pldTable() table {
	return table{
		columns: []tabular.Column{
			{Name: "pld", Type: tabular.String},
			// PLDs that link to it, as STAR has counted them.
			{Name: "indegree", Type: tabular.Int64},
			// By in-degree, or supporters, of the top ranks.
			{Name: "rank", Type: tabular.Int64, Nullable: true},
			{Name: "budget", Type: tabular.Int64, Nullable: true},       // pages; null if budgets are off
			{Name: "placed", Type: tabular.Int64},                       // URLs that BEAST took
			{Name: "pages", Type: tabular.Int64},                        // responses
			{Name: "bytes", Type: tabular.Int64},                        // of responses
			{Name: "first_seen", Type: tabular.Time, Nullable: true},    // null: not merged yet
			{Name: "queued", Type: tabular.Int64, Nullable: true},       // waiting URLs; null without Options.Queued
			{Name: "supporters", Type: tabular.Float64, Nullable: true}, // null: not computed
			{Name: "standing", Type: tabular.Float64, Nullable: true},   // from 0 to 1
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
			files = append(files, j.pldFiles(st)...)
			if j.opt.Queued {
				more, err := queueFiles(j)
				return append(files, more...), err
			}
			return files, nil
		},
		fill:  fillPLDs,
		parts: []string{"state/" + state.NameNames, "state/" + state.NameStar},
	}
}

func fillPLDs(j *job) error {
	st, err := part[star.State](j, state.NameStar)
	if err != nil {
		return err
	}
	budget, pinned, err := j.budgets(st)
	if err != nil {
		return err
	}
	var queued *cursor
	if j.opt.Queued {
		if queued, err = j.queued(); err != nil {
			return err
		}
	}
	known, err := j.knownPLDs(st)
	if err != nil {
		return err
	}
	names, err := j.names()
	if err != nil {
		return err
	}
	for ; err == nil && names.ok; err = names.next() {
		if !isPLD(names.value) {
			continue
		}
		p, _, err := known(names.key)
		if err != nil {
			return err
		}
		row := pldRow(names.value[1:], &p)
		if budget != nil {
			row[2], row[3] = budgetOf(budget(names.key, &p), names.value[1:], pinned)
		}
		if queued != nil {
			n, err := countKey(queued, names.key)
			if err != nil {
				return err
			}
			row[8] = tabular.Int(n)
		}
		if err := j.write(row...); err != nil {
			return err
		}
	}
	return err
}

// pldFiles returns the files that knownPLDs reads.
func (j *job) pldFiles(st *star.State) []string {
	_, indegree := star.Stores(state.NameStar)
	return drum.Files(j.Set, indegree, st.Indegree)
}

// knownPLDs returns a function that returns what STAR knows of a PLD; known is false if that is nothing. Keys of its
// calls must not decrease.
func (j *job) knownPLDs(st *star.State) (of func(key uint64) (p star.PLD, known bool, err error), _ error) {
	j.meter.Set(state.NameStar)
	updates, err := j.updates(st)
	if err != nil {
		return nil, err
	}
	records, err := j.scanned(func(fn func(uint64, []byte) error) error {
		var b []byte
		return star.WalkPLDs(j.Set, state.NameStar, st, func(pld uint64, p star.PLD) error {
			b = p.Append(b[:0])
			return fn(pld, b)
		})
	})
	if err != nil {
		return nil, err
	}
	return func(key uint64) (p star.PLD, known bool, err error) {
		if known, err = records.seek(key); err != nil {
			return p, known, err
		} else if known {
			p.Decode(records.value)
		}
		_, err = updates.seek(key)
		for ; err == nil && updates.ok && updates.key == key; err = updates.next() {
			known = true
			p.Update(updates.value)
		}
		return p, known, err
	}, nil
}

// pldRow returns the row of a PLD without its rank, its budget and its queued URLs.
func pldRow(name []byte, p *star.PLD) []tabular.Value {
	row := []tabular.Value{tabular.Text(name), tabular.Int(int64(p.Indegree)), tabular.Null, tabular.Null,
		tabular.Int(int64(p.Placed)), tabular.Int(int64(p.Fetched)), tabular.Int(int64(p.Bytes)),
		unixOrNull(int64(p.FirstSeen)), tabular.Null, tabular.Null, tabular.Null}
	if p.Support.Known() {
		row[9], row[10] = tabular.Float(p.Support.Supporters()), tabular.Float(p.Support.Standing())
	}
	return row
}

// budgetOf returns the rank of a PLD and its budget, which the operator may have fixed.
func budgetOf(now star.BudgetNow, name []byte, pinned map[string]uint32) (rank, pages tabular.Value) {
	rank = tabular.Null
	if now.Rank > 0 && now.Rank <= now.Ranks {
		rank = tabular.Int(int64(now.Rank))
	}
	if b, ok := pinned[string(name)]; ok {
		now.Nominal = b
	}
	return rank, tabular.Int(int64(now.Nominal))
}

// budgets returns the budget function in force and the operator's budgets by PLD; nil if budgets are off.
func (j *job) budgets(st *star.State) (of func(uint64, *star.PLD) star.BudgetNow, pinned map[string]uint32, err error) {
	changed, err := changes.Read(j.Set.FS, j.Set.Path(0, state.ChangesName))
	if err != nil {
		return nil, nil, err
	}
	b, ok, err := explain.BudgetsOf(j.Manifest.Run, changed)
	if err != nil || !ok {
		return nil, nil, err
	}
	of, err = star.BudgetsOf(j.Set, st, b)
	return of, changed.Budgets, err
}

// updates returns a cursor over the updates of PLDs that wait for their merge.
func (j *job) updates(st *star.State) (*cursor, error) {
	s := j.sorter()
	var rec []byte
	err := star.WalkUpdates(j.Set, state.NameStar, st, func(pld uint64, value []byte) error {
		rec = append(binary.BigEndian.AppendUint64(rec[:0], pld), value...)
		return s.Add(rec)
	})
	if err != nil {
		return nil, err
	}
	return sorted(s)
}

// queued returns a cursor over the keys of the PLDs of all waiting URLs, one item for each URL.
func (j *job) queued() (*cursor, error) {
	s := j.sorter()
	var rec []byte
	err := j.eachWaiting(func(_ state.Spot, data []byte) error {
		var r weburl.Record
		if err := r.Decode(data); err != nil {
			return err
		}
		rec = binary.BigEndian.AppendUint64(rec[:0], j.PLDKey(weburl.Split(r.URL).Host))
		return s.Add(rec)
	})
	if err != nil {
		return nil, err
	}
	return sorted(s)
}

// countKey counts the items with a key, and goes beyond them.
func countKey(c *cursor, key uint64) (n int64, err error) {
	if _, err := c.seek(key); err != nil {
		return 0, err
	}
	for ; err == nil && c.ok && c.key == key; err = c.next() {
		n++
	}
	return n, err
}
