// Package queue has two containers of byte records on disk: Queue, a FIFO, and Calendar, which keeps records
// until they are due. Neither knows what the records mean.
//
// In the paper these are the queues of its figures 2, 4 and 5: Q, QR, QD of the crawl, Q1…Qj and QF of BEAST.
// The paper writes them sequentially and says no more. The calendar is not in the paper, which re-reads what
// isn't ready in the hope that it is; here a record that must wait is written once and read once, when due.
//
// # Life of a record
//
// Append copies it to the tail buffer in RAM. A full tail buffer is compressed (what records don't share with the one
// before, s2, a Huffman code: delta.go) and written as a block at the end of the last segment file; segments go round the
// directories of the Set. Peek and Advance read from the head buffer, which is filled with the next block, or, when no
// block lies between, simply is the tail buffer: a queue whose reader keeps up does no I/O. Segments read to their end are
// deleted at a Commit.
//
// Calendar has a Queue for each slot of due time. A due time is rounded up to a multiple of the largest power
// of two seconds that is at most a quarter of the delay (at least 1 s). So nothing is given out early,
// nothing late by more than 1 s or a quarter of its delay, and there are about a hundred slots whatever the
// load.
//
// # Contract
//
// Records come out of a Queue in the order of Append, each once; out of a Calendar by slot, and within a slot
// in the order of Append. Durability is by checkpoints: Freeze notes a moment (in memory), Frozen.Save writes
// what was in RAM to the checkpoint's tail files and returns the State for the manifest, Frozen.Commit, when
// the manifest is durable, deletes what it no longer names. In between the structure goes on. Open with a
// State brings back exactly the frozen moment: it cuts the last segment to its noted length and deletes
// segments that the State does not name. The manifest itself must be durable before Open. Blocks written
// after a Freeze begin at a multiple of 4096, so no disk block that a manifest names is written again.
//
// A failed write is final: every call after it returns its error. A failed read may be tried again. Damage is
// a *disk.CorruptError with path and offset; it is never skipped.
//
// # Concurrency
//
// Append, Len and Freeze (NextDue, Slots) are safe for concurrent use. Peek and Advance are for one reader
// goroutine. Advance only changes memory; Peek and Append may do I/O. A full tail is compressed and written by the appender
// that filled it, in the order in which they became full, while the others go on with the next; no I/O is done under a
// lock. Freeze, and a reader that has read all blocks, wait until none is on its way. The package owns no goroutines.
//
// # Memory and disk
//
// A Queue takes about 400 bytes, a tail and a head buffer that grow from 4 KiB to BlockBytes each (an idle
// tail shrinks to what it holds), and during Save at most as much again. Scratch buffers, and tails for those being
// written, come from the Pool, as many as are at work. No file is open between calls; there is none before the first block is written. On
// disk: the compressed unread records, the read part of the segments that a manifest still names
// (SegmentBytes, or what was read since the last checkpoint), 32 bytes a block, 40 a segment, and up to 4 KiB
// for each checkpoint.
//
// # Files
//
// state/<Name>/<number>.seg; a slot of a calendar is the queue <Name>/slot-<number>. See docs/FORMATS.md,
// section "queue".
package queue
