// Package render is a room of the running crawl: it passes the pages that rules tag to a browser (package
// internal/render), stores the rendered pages, and sends their links to URLseen.
//
// # Contract
//
// Add is part of the transaction that ends a page, so a checkpoint has the page and its task, or neither. One
// transaction also ends a task: it stores the rendered page, sends its links to URLseen, and removes the task. After a
// crash a page is rendered again or not at all, as its checkpoint says. The crawl waits for the browser only at its
// end: with nothing else to do, it waits until no page is left, or until the browser has been gone for Patience.
//
// The requests of a page are those of the crawl: they keep to robots.txt, delays, back-offs, blacklist and ports.
//
// # Concurrency
//
// A Stage is safe for concurrent use after Open. Run starts a goroutine for each page in the browser, and one for each
// connection to it.
//
// # Memory and disk
//
// BrowserOptions.RAM bounds the heap, and BrowserOptions.QueueBytes the queue on disk.
package render
