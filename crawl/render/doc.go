// Package render is a room of the running crawl: it passes the pages that rules tag to a browser (package
// internal/render), stores the rendered pages, and sends their links to URLseen. The paper renders nothing;
// docs/how-it-works/rendering.md is the page for operators.
//
// # Contract
//
// Add is part of the transaction that ends a page, so a checkpoint has the page and its task, or neither. One
// transaction also ends a task: it stores the rendered page and what its scripts received, sends its links and its
// parts to URLseen, and removes the task. After a crash a page is rendered again or not at all, as its checkpoint says.
// The crawl waits for the browser only at its end: with nothing else to do, it waits until no page is left, or until
// the browser has been gone for Patience.
//
// The requests of a page are those of the crawl: they keep to robots.txt, delays, back-offs, blacklist and ports. In a
// cluster the owner of a host makes the requests to it, for the pages of all nodes.
//
// # Concurrency
//
// A Stage is safe for concurrent use after Open. Run starts a goroutine for each page in the browser, and one for each
// connection to it. Answer, in a cluster, has at most askPlaces requests of other nodes under way.
//
// # Memory and disk
//
// BrowserOptions.RAM bounds the heap: the cache of answers, the digests of those stored, the connection, and each tab.
// BrowserOptions.QueueBytes bounds the queue on disk, whose records have the bodies of the pages. Pages
// that are with the browser are in the tails of each checkpoint.
//
// # Files
//
// options.go: options and the stages above; render.go: the queue, the goroutines, the end of a page;
// fetch.go: the requests of pages; ask.go, answer.go: those to hosts of other nodes; parts.go: what the replay of a
// page needs; cache.go: answers that several pages of a site ask for.
package render
