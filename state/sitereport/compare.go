package sitereport

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Changes compares a report with an earlier one of the same site.
type Changes struct {
	Then     time.Time
	Figures  []Figure
	Findings []Change // those with rows in one of the two
	Cut      bool     // some rows are not known
}

// Figure is a figure of both reports.
type Figure struct {
	Name      string
	Then, Now int64
}

// Change compares a finding. A row is the same if its kind, URL and, where a URL may have several, details are.
type Change struct {
	Now        *Finding
	New, Fixed []Row
	Still      int64
	// NewKnown and FixedKnown are false if the other report has the first rows only: such a row may be among the rest.
	NewKnown, FixedKnown bool
}

// Text sums the rows up in a line.
func (c *Changes) Text() string {
	var added, fixed, still int
	for i := range c.Findings {
		f := &c.Findings[i]
		added, fixed, still = added+len(f.New), fixed+len(f.Fixed), still+int(f.Still)
	}
	text := fmt.Sprintf("Since the earlier report of %s: %d new, %d fixed, %d still there",
		c.Then.UTC().Format(time.DateOnly), added, fixed, still)
	if c.Cut {
		text += ", of the rows that both reports have"
	}
	return text + "."
}

// Compare compares two reports.
func Compare(old, now *Report) *Changes {
	c := &Changes{Then: old.Time, Figures: []Figure{
		{"Pages", old.Pages, now.Pages},
		{"Pages without errors", old.Score.CleanPages, now.Score.CleanPages},
		{"Errors", old.Score.Errors, now.Score.Errors},
		{"Warnings", old.Score.Warnings, now.Score.Warnings},
		{"Notes", old.Score.Notes, now.Score.Notes},
	}}
	for _, f := range now.Findings {
		before := old.Finding(f.Kind)
		if before == nil || f.Kind == "broken-outside" && (old.OutsideChecked == 0 || now.OutsideChecked == 0) {
			continue // one of them did not look
		}
		if slices.Contains(old.Unchecked, f.Kind) || slices.Contains(now.Unchecked, f.Kind) {
			continue
		}
		if f.Total+before.Total == 0 {
			continue
		}
		ch := Change{Now: f, NewKnown: int64(len(before.Rows)) == before.Total,
			FixedKnown: int64(len(f.Rows)) == f.Total}
		had, has := rowSet(before), rowSet(f)
		for _, r := range f.Rows {
			switch key := rowKey(f.Kind, &r); {
			case had[key]:
				ch.Still++
			case ch.NewKnown:
				ch.New = append(ch.New, r)
			}
		}
		if ch.FixedKnown {
			for _, r := range before.Rows {
				if !has[rowKey(f.Kind, &r)] {
					ch.Fixed = append(ch.Fixed, r)
				}
			}
		}
		c.Cut = c.Cut || !ch.NewKnown || !ch.FixedKnown
		c.Findings = append(c.Findings, ch)
	}
	return c
}

// rowKey tells the rows of a finding apart.
func rowKey(kind string, r *Row) string {
	switch kind {
	case "security-headers":
		return r.Detail // the URL is an example
	case "hreflang-no-return", "title-repeated", "description-repeated", "h1-repeated":
		return r.URL + " " + r.Detail
	}
	return r.URL
}

func rowSet(f *Finding) map[string]bool {
	set := make(map[string]bool, len(f.Rows))
	for i := range f.Rows {
		set[rowKey(f.Kind, &f.Rows[i])] = true
	}
	return set
}

// maxReport bounds a report that is read, in bytes. With 100 rows of each finding one has about 2 MB.
const maxReport = 64 << 20

// Read reads a report in JSON that is to be compared with one of the given site. Its errors say what is wrong with the
// report; they do not name the file.
func Read(r io.Reader, site string) (*Report, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxReport+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxReport {
		return nil, fmt.Errorf("it has more than %d MiB", maxReport>>20)
	}
	var head struct {
		Version int    `json:"version"`
		Site    string `json:"site"`
	}
	if json.Unmarshal(data, &head) != nil || head.Site == "" {
		return nil, errors.New("it is not a site report in JSON: write one with report --site and a name that " +
			"ends in .json")
	}
	switch {
	case head.Version > Version:
		return nil, fmt.Errorf("it has format %d, and this program reads up to %d: use the newer program", head.Version,
			Version)
	case head.Version < Version:
		return nil, fmt.Errorf("it has format %d of an older program, which had no severities: write it again",
			head.Version)
	case head.Site != site:
		return nil, fmt.Errorf("it reports on %s, not on %s", head.Site, site)
	}
	var old Report
	if json.Unmarshal(data, &old) != nil {
		return nil, fmt.Errorf("its fields have other types than those of format %d", Version)
	}
	for _, f := range old.Findings {
		if f == nil {
			return nil, errors.New("it has an empty finding")
		}
	}
	return &old, nil
}
