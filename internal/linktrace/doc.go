// Package linktrace records and replays the keys of a crawl's links, 8 bytes each, in the order in which they are parsed
// and before any cache: what section V.A of the paper simulates caches with. Keys are hashes under a secret that each
// crawl draws for itself, so a trace tells how often and how far apart links come back, and no URL.
//
// # Contract
//
// A trace is no part of a crawl's state. Writer.Add never waits for the disk and never fails: what can't be written, for
// want of room in the limit, of speed, or because of an error of the disk, is counted as lost; a limit or an error ends
// the trace, and is told once. Opening an existing trace appends to it. The next block after anything was lost, and the
// first of each Writer, begins a new generation: across its beginning the order has a gap, or, where a crawl goes back to
// its last checkpoint, links come twice.
//
// A Reader checks every block. Damage is a *disk.CorruptError; a block that is cut off at the end of the file isn't, since a
// trace that is being written, or was when the process was killed, ends like that.
//
// # Concurrency
//
// Add is safe for concurrent use. A Writer owns one goroutine, which Close ends and waits for. A Reader belongs to one
// goroutine.
//
// # Memory and disk
//
// A Writer has maxQueued blocks of 64 KiB at most, 4 MiB, and writes Options.LimitBytes at most. A Reader has one block.
//
// The format: docs/formats/linktrace.md.
package linktrace
