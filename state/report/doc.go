// Package report makes the report of a crawl: how it ended, the figures that people ask for, the speed over time and
// what limited it, and what was not fetched and why. View.Paper puts the figures of the paper's section VIII beside
// them, and names its figures 6 and 7 and its table VIII.
//
// Make reads the last checkpoint through package state/explain, so the crawl may be running, and the history
// (package state/history) for everything over time. A crawl without a history has a report without these
// parts. The report is the struct Report: JSON by its tags, or one page of HTML by WriteHTML.
//
//	r, err := report.Make(report.Options{FS: disk.OS(), Dirs: []string{"crawl"}})
//	err = r.WriteHTML(w, report.View{By: "drumbeat 0.1.0"})
//
// # Contract
//
// The page is complete: no script, no font, no image and no link to another site; the charts are inline SVG.
// Every text from outside is escaped: seeds and names of domains come from the web. Rates are means over intervals
// of the history, 1,000 at most. A total that steps back after a crash counts as no progress.
//
// # Cost
//
// Memory is that of the history's answer, some MB. The records of all PLDs are read once, 20 to 40 bytes
// each, unless Options.Fast is set. Nothing is written, no lock is taken, and no goroutine is started.
//
// # Files
//
// report.go reads, verdict.go judges the end, over.go has what changes over time, figures.go the summary, html.go the
// page, whose form is that of package page.
package report
