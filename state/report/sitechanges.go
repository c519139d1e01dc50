package report

import (
	"fmt"

	"drumbeat/internal/human"
	"drumbeat/state/report/page"
	"drumbeat/state/sitereport"
)

// siteChanges returns the sections that compare a report with an earlier one.
func siteChanges(c *sitereport.Changes) []page.Section {
	score := &page.Table{Columns: []page.Column{{Name: "Figure"}, {Name: "Then", Kind: page.Number},
		{Name: "Now", Kind: page.Number}, {Name: "Change", Kind: page.Number}}}
	for _, f := range c.Figures {
		score.Rows = append(score.Rows, page.Cells(f.Name, human.Count(f.Then), human.Count(f.Now),
			signed(f.Now-f.Then)))
	}
	counts := &page.Table{Columns: []page.Column{{Name: "Finding"}, {Name: "New", Kind: page.Number},
		{Name: "Fixed", Kind: page.Number}, {Name: "Still there", Kind: page.Number}}}
	same, still := int64(0), int64(0)
	for _, f := range c.Findings {
		still += f.Still
		if f.NewKnown && f.FixedKnown && len(f.New)+len(f.Fixed) == 0 {
			same++
			continue
		}
		counts.Rows = append(counts.Rows, page.Cells(f.Now.Title, rowCount(f.New, f.NewKnown),
			rowCount(f.Fixed, f.FixedKnown), human.Count(f.Still)))
	}
	blocks := []page.Block{score}
	if len(counts.Rows) > 0 {
		blocks = append(blocks, counts)
	}
	if still > 0 {
		blocks = append(blocks, page.Text(fmt.Sprintf("%s of the earlier report %s still there. Unchanged: %s.",
			human.Counted(still, "entry", "entries"), isAre(still), human.Counted(same, "finding", "findings"))))
	}
	if c.Cut {
		blocks = append(blocks, page.Text("“Unknown” means that one of the two reports has only the first rows of a "+
			"finding."))
	}
	sections := []page.Section{{ID: "changes",
		Title: "Changes since " + c.Then.UTC().Format("2 January 2006"), Blocks: blocks}}
	for _, f := range c.Findings {
		for _, part := range []struct {
			id, name string
			level    page.Level
			rows     []sitereport.Row
		}{{"new", "new", page.Warn, f.New}, {"fixed", "fixed", page.OK, f.Fixed}} {
			if len(part.rows) == 0 {
				continue
			}
			sections = append(sections, page.Section{ID: part.id + "-" + f.Now.Kind, Sub: true,
				Title: f.Now.Title + ": " + part.name, Count: human.Count(int64(len(part.rows))),
				Badge:  &page.Badge{Level: part.level, Text: part.name},
				Blocks: []page.Block{rowTable(f.Now, part.rows)}})
		}
	}
	return sections
}

func rowCount(rows []sitereport.Row, known bool) string {
	if !known {
		return "unknown"
	}
	return human.Count(int64(len(rows)))
}

func signed(n int64) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("%+d", n)
}

func isAre(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
