// Package page writes reports as pages of HTML that people pass on: the report of a crawl and that of a site are one
// family, in the colours and letters of the dashboard (admin/web).
//
// A Page has a title, a verdict, notes, tiles with the figures that count, contents, and sections of blocks: Text,
// Note, Table, Charts, Details. Its caller chooses all words.
//
//	p := page.Page{Title: "Crawl of a.example", Kind: "Report of a crawl", By: "drumbeat 0.1.0", Made: time.Now()}
//	p.Sections = append(p.Sections, page.Section{ID: "pages", Title: "Pages",
//		Blocks: []page.Block{page.Text("None.")}})
//	err := p.Write(w)
//
// # Contract
//
// A page is complete: no script, and no font, image or style from elsewhere; its Content-Security-Policy forbids them.
// html/template escapes every text, because titles, URLs and names come from the web. Only http and https
// URLs become links. The page is light or dark as the system is, and light on paper. From 360 px on it
// never scrolls sideways: wide tables scroll in their own boxes. All tables have one width; text is on the
// left of its column and a number on the right, as are their heads.
//
// The functions have no state and may be called concurrently. A page is in RAM until it is written.
//
// # Files
//
// page.go has the page and its blocks, chart.go the charts, page.html and page.css their form.
package page
