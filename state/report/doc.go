// Package report makes the report of a crawl: the figures of section VIII of the paper beside the paper's own,
// its figures 6 and 7 and table VIII for this crawl, and what limited the speed over time.
//
// Make reads the last checkpoint through package state/explain, so the crawl may be running, and the history
// (package state/history) for everything over time. A crawl without a history has a report without these
// parts. The report is the struct Report: JSON by its tags, or one page of HTML by WriteHTML.
//
//	r, err := report.Make(report.Options{FS: disk.OS(), Dirs: []string{"crawl"}})
//	err = r.WriteHTML(w)
//
// # Contract
//
// The page is complete: no script, no font, no image and no link to another site; the charts are inline SVG.
// Every text from outside is escaped: names of PLDs come from the web. Rates are means over intervals of the
// history, 1,000 at most. A total that steps back after a crash counts as no progress.
//
// # Cost
//
// Memory is that of the history's answer, some MB. The records of all PLDs are read once, 20 to 40 bytes
// each, unless Options.Fast is set. Nothing is written, no lock is taken, and no goroutine is started.
//
// # Files
//
// report.go reads, over.go has what changes over time, figures.go the summary, html.go the page, chart.go the
// charts.
package report
