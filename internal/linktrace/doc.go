// Package linktrace records and replays the keys of a crawl's links: 8 bytes each, in the order of parsing,
// before any cache. Section V.A of the paper simulates caches with such data. Keys are hashes with a secret
// that is random for each crawl. So a trace shows how often and at what distance links repeat, but no URLs.
//
// # Contract
//
// A trace is not part of a crawl's state. Writer.Add never waits for the disk and never fails. Keys that
// can't be written count as lost: the size limit is reached, the disk is too slow, or it returns an error.
// The limit or an error ends the trace and is reported once.
//
// Opening an existing trace appends to it. Each Writer starts a new generation, and so does the first block
// after a loss. At the start of a generation the order has a gap, or links repeat because the crawl went
// back to its last checkpoint.
//
// A Reader checks every block. Damage is a *disk.CorruptError. A truncated block at the end of the file is
// not damage: a trace that is being written ends like that, and so does one whose process was killed.
//
// # Concurrency
//
// Add is safe for concurrent use. A Writer owns one goroutine; Close waits for its end. A Reader belongs to
// one goroutine.
//
// # Memory and disk
//
// A Writer holds at most maxQueued blocks of 64 KiB (4 MiB) and writes at most Options.LimitBytes. A Reader
// holds one block.
//
// The format: docs/reference/files/linktrace.md.
package linktrace
