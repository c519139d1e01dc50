// Package render is a room of the running crawl: it has a browser (package internal/render) render the pages that rules
// tag, stores the rendered pages, and sends their links to URLseen.
//
// # Contract
//
// Add is part of the transaction that ends a page, so a checkpoint has the page and its task, or neither. The end of a
// task is one transaction, too: the rendered page in the page store, its links in URLseen, and the task away. After a
// crash a page is rendered again or not at all, as its checkpoint says. The crawl never waits for the browser, but for
// its end: a crawl with nothing else to do waits until no page is left, or the browser was away for Patience.
//
// The requests of a page are those of the crawl: they keep to robots.txt, delays, back-offs, blacklist and ports.
//
// # Concurrency
//
// A Stage is safe for concurrent use after Open. Run has one goroutine, and one for each page in the browser.
//
// # Memory and disk
//
// BrowserOptions.RAM bounds the heap, and BrowserOptions.QueueBytes the queue on disk.
package render
