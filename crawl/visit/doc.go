// Package visit is a room of the running crawl: it visits the URL of a grant. It does the exchange, decides
// whether a failure counts and whether the URL gets another attempt, reads the response, decides how much
// of it is stored, and ends the URL. In the paper this is the crawling threads' work (section IV.C); the
// paper stores no pages.
//
// # Contract
//
// A visit has three parts. The first is the exchange: Stage.Visit returns with a final response, or has
// ended, deferred or dropped the URL in a transaction. The second, Pages.Read, fills a Worker with the
// links, the metadata, the visit and the records of the response. The third is one transaction,
// Stage.commit: it stores the records, sends the links, and ends the URL or hands it to the store of
// contents. So a checkpoint has all of a page or nothing, and after a crash the crawl fetches an unfinished
// page again. Each grant ends once, and each URL calls Ended once.
//
// Store, Log, LogSeedsEnd and Count of Pages are parts of that transaction. After a panic a Worker is in an
// undefined state; the caller takes a new one, and the URL is refused, so that no later run panics again.
//
// # Concurrency
//
// Stage and Pages are safe for concurrent use after Open. Visit runs in the goroutines of the dispatcher. A
// page of a host whose next page is due lands: a goroutine of this room, a storer, does the second and
// third part. A Worker has one page, and one goroutine, at a time; Lend lends its reader to render, and the
// hook borrows it.
//
// # Memory and disk
//
// There is a Worker for each processor, one more, one for each process of the hook, and one for large
// bodies. Each keeps the buffers of the largest page that it read. At most four responses for each parser
// wait, of 1 MiB each. Only Read writes to disk: the record of a body that was spooled, which is not part
// of the output until Store.
//
// # Files
//
// stage.go: the rooms below and the stages above, the parsers; outcome.go: the exchange and failures;
// commit.go: a final response; landed.go; again.go: redirects with cookies. pages.go: options, reading and
// judging; meta.go, record.go, visit.go (revisits) and log.go: parts of that.
package visit
