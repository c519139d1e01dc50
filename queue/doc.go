// Package queue provides two containers of byte records on disk: Queue, a FIFO, and Calendar, which keeps
// records until they are due. Neither interprets the records.
//
// The paper uses such queues in its figures 2, 4 and 5: Q, QR and QD of the crawl, Q1…Qj and QF of BEAST.
// It only says that they are written sequentially. The calendar is not in the paper, which re-reads delayed
// records until they are ready. Here a record that must wait is written once and read once, when it is due.
//
// # Life of a record
//
// Append copies a record to the tail buffer in RAM. A full tail buffer is compressed (differences between
// neighbouring records, s2, a Huffman code; see delta.go) and written as a block at the end of the last
// segment file. New segments go to the directories of the Set in rotation. Peek and Advance read from the
// head buffer. When it is empty, the next block is loaded into it. If no block is left on disk, the tail
// buffer becomes the head buffer, so a queue whose reader keeps up does no I/O. A Commit deletes the
// segments that have been read to the end.
//
// A Calendar has a Queue for each slot of due times. It rounds a due time up to a multiple of the largest
// power of two seconds that is at most a quarter of the delay, and at least 1 s. So no record is early, and
// none is late by more than 1 s or a quarter of its delay. There are about a hundred slots whatever the load.
//
// # Contract
//
// A Queue returns each record once, in the order of Append, except that a block that MoveTo has moved as
// it is stored comes before the records in the tail. A Calendar returns records by slot, and within a slot
// in the order of Append. Durability comes from checkpoints. Freeze captures the state in memory.
// Frozen.Save writes the records in RAM to the checkpoint's tail files and returns the State for the
// manifest. Once the manifest is durable, Frozen.Commit deletes the files that it no longer names. The
// structure may be used in between. Open with a State restores exactly the frozen moment: it cuts the last
// segment to its recorded length and deletes segments that the State does not name. The manifest must be
// durable before Open. Blocks written after a Freeze start at a multiple of 4096, so that no disk block
// that a manifest names is rewritten.
//
// A failed write is final: every later call returns its error. A failed read may be retried. Damage is a
// *disk.CorruptError with path and offset. It is never skipped.
//
// # Concurrency
//
// Append, Len and Freeze are safe for concurrent use, as are NextDue and Slots of a Calendar. Peek,
// Advance and MoveTo are for one reader goroutine. Advance only changes memory; the others and Append may
// do I/O. The goroutine whose Append finds the tail full compresses and writes it, while others append to
// the next tail. Blocks are written in the order in which the tails became full. A Queue holds no lock
// during I/O. Freeze waits until all full tails are written, as does a reader that has read all blocks.
// The package starts no goroutines.
//
// # Memory and disk
//
// A Queue takes about 400 bytes, plus a tail and a head buffer that grow from 4 KiB to BlockBytes each. A
// queue whose records MoveTo moves holds one block as it is stored, too. Save frees the excess capacity of
// an idle tail. A Frozen may keep as much again until Save. Scratch buffers, and tails that replace those
// being written, come from the Pool; their number follows the number of goroutines at work. No file stays
// open between calls, and none exists before the first block is written. On disk a queue takes the
// compressed unread records, the read part of segments that a manifest still names (SegmentBytes, or the
// amount read since the last checkpoint), 32 bytes per block, 40 bytes per segment, and up to 4 KiB per
// checkpoint.
//
// # Files
//
// The segments of a queue are state/<Name>/<number>.seg. A slot of a calendar is the queue
// <Name>/slot-<number>. See docs/reference/files/_index.md, section "queue".
package queue
