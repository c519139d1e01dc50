// Package disk measures W, the bandwidth of Theorem 3, as a pass of DRUM uses a disk.
//
// It writes and reads one file in sequence, in chunks of several sizes, and reads one file while it writes
// another. It writes k files alternately, one block each, and reads them one after the other. It measures
// through the page cache and with O_DIRECT, each directory alone and all at once. Rate measures only W, in a
// few seconds. A Probe measures disks alongside another measurement.
//
// # Departures from the paper
//
// Like the paper, this package takes the mean of the read and the write speed as W. It also prints the
// mixed speed, which a disk with heads or a shared channel keeps below that mean. The paper reserves the
// space of all buckets in advance; drum reserves a few blocks at a time as files grow.
//
// # Contract
//
// One measurement transfers at most Options.Bytes per directory, and at most 1.5 times that is on disk.
// Options.Budget bounds the time. Files have unique names and are removed before Measure returns, also
// after an error or a cancelled context; a killed process leaves files named drumbeat-bench-*. Speeds
// include the final sync. Files that are read through the page cache are dropped from it first. Every block
// of 4 KiB is unique, and a read checks that it is the block written there. This package can't detect the
// caches of a disk, of its controller, or of the host of a virtual machine; use a size well above theirs.
//
// # Concurrency and memory
//
// Measure starts one goroutine per directory of the measured group, two while it reads and writes at once,
// and waits for all. Two chunks per directory are outside the Go heap.
package disk
