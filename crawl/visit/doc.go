// Package visit is a room of the running crawl: it reads the response of a visited URL, decides how much of it is
// stored, and prepares its records and its line of the log.
//
// # Contract
//
// Read fills a Worker with the links, the metadata, the visit and the records of a response, before its transaction.
// Store, Log, LogSeedsEnd and Count are parts of that transaction. After a panic the Worker is in an undefined state;
// the caller takes a new one.
//
// # Concurrency
//
// Pages is safe for concurrent use. A Worker has one page, and one goroutine, at a time; the hook borrows its reader.
//
// # Memory and disk
//
// A Worker keeps the buffers of the largest page that it read. Only Read writes to disk: the record of a body that was
// spooled, which is not part of the output until Store.
package visit
