// Package extsort sorts any number of byte records in bounded RAM. Exports join the files of a crawl with it.
// The paper has no counterpart; the method is the usual one: sorted runs on disk, then merges.
//
// # Contract
//
// Add copies records of at most MaxRecordBytes. Sort ends the input. Next then returns all records in the
// order of bytes.Compare, equal ones as often as they were added. A caller that sorts by a number writes it
// in big-endian order at the beginning of the record.
//
// # Memory and disk
//
// A Sorter holds at most Options.RAMBytes of records and 24 bytes for each. If they do not fit, it writes
// sorted runs, compressed with zstd, to files run-NNNNN in Options.Dir, which it then creates. A merge reads
// at most 64 runs at once, with some 700 KiB of buffers each; more runs are merged in steps. Close removes
// the files, and the directory if it is empty. Files that a killed process left are removed when the next
// Sorter first writes to the directory, so each Sorter needs a directory of its own.
//
// Each block of a run has a checksum, since disks may fail within hours; damage is a *disk.CorruptError.
//
// # Concurrency
//
// A Sorter is not safe for concurrent use and has no goroutine.
package extsort
