// Package deferred is a room of the running crawl: it keeps the URLs on disk that wait for a time or for
// other flags, and ends URLs that are refused or visited no more.
//
// A URL that must wait is in the calendar, a set of disk queues by due time, and returns through
// RobotsCache, so no URL is polled. With recrawl, a URL that had a page is a deferred URL between two
// visits, and returns through STAR and BEAST (recrawl.go). A URL that the network flags forbid is held until
// the flags change. The record of a URL that was enqueued and has been fetched meanwhile ends here
// (orders.go). The paper has no retries and no recrawl.
//
// # Contract
//
// DeferURL, Refuse, Evicted, DropBlocked, MetOrder, AdoptOrder and EndVisit are parts of a transaction, and
// move each URL from one place to one other. A deferred URL may be late by a quarter of its wait, never
// early by more (Lead). URLs return only while the stock has room for them, visits only while STAR has.
//
// # Concurrency
//
// A Stage is safe for concurrent use after OpenHeld. Its goroutines are ReadDeferred, ReadVisits and
// ReleaseHeld. It has no lock: the transaction lock guards its state.
//
// # Memory and disk
//
// RAM: the buffers of the queues. Disk: the calendar and the queue of held URLs, a write and a read of the
// record for each wait.
//
// Files: deferred.go; recrawl.go, visits; orders.go, enqueued URLs.
package deferred
