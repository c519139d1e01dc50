// Package output writes what a crawl leaves behind: WARC files with records of responses, robots.txt and DNS
// answers, the logs of URLs, seeds and robots.txt; puts finished files into an object store; and has their
// texts extracted.
//
// A Writer adds records in the transaction that ends a URL, so a checkpoint has the URL and its record or neither. What
// package warc and crawllog leave open, its options say: which logs there are, when files are finished (Roll), what the
// warcinfo records tell. Uploads (uploads.go) and Extraction (extraction.go) look at finished files only, which never
// change; they are behind the crawl and never stop a page, but for the spool's bound. The paper kept no pages.
//
// Contract: each record exists once after a crash. A file leaves the local disk only once the store has said
// its size and sums and a durable manifest names it. Errors of the extraction never end the crawl.
//
// Concurrency: a Writer, Uploads and an Extraction are safe for concurrent use once opened; "upload" and
// "extract" are the goroutines of Run. Uploads.mu is a leaf, except that it is held while the spool's bound
// becomes a reason to pause.
//
// Memory: an encoder for each processor, 300 bytes for each volume that waits. Disk: the output, and the
// queue of objects.
//
// Files: writer.go, archive.go (robots.txt and DNS), response.go (fields of records), uploads.go, uploadfigures.go,
// extraction.go.
package output
