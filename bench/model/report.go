package model

import (
	"drumbeat/bench/result"
)

// Report computes all tables.
func (m Model) Report() (*result.Report, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	r := result.New("model", "the paper's tables from its formulas")
	if !m.printed() {
		r.Notes = append(r.Notes, "Parameters are not the paper's, so that its numbers are left out.")
	}
	for _, t := range m.tables() {
		r.Tables = append(r.Tables, t.Table)
		r.Lines = append(r.Lines, t.lines...)
		if t.printed > t.known {
			r.Checks = append(r.Checks, t.check())
		}
	}
	return r, nil
}
