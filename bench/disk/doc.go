// Package disk measures W, the bandwidth of Theorem 3, as a pass of DRUM uses a disk.
//
// One file is written and read in sequence by chunks of several sizes, and read while another is written; k
// files are written in turns, a block each, and read one after the other; through the page cache and past
// it (O_DIRECT); with and without space reserved before; each directory alone and all of them at once. Rate
// is W alone, in some seconds; a Probe measures disks beside something else.
//
// # Departures from the paper
//
// The paper takes W as the mean of the read and the write speed of its RAID. So do we, and print the mixed
// speed beside it, which a disk with heads or with a shared channel doesn't reach by that mean.
// The paper reserves the space of all buckets before they are used; we measure with and without, and drum
// reserves some blocks at a time as files grow.
//
// # Contract
//
// Options.Bytes bounds what one measurement moves in a directory, and 1.5 times as much lies there at most.
// Options.Budget bounds the time. Files have names that nobody else has and are removed before Measure
// returns, also after an error and after a cancelled context; a killed process leaves files named
// drumbeat-bench-*. Speeds include the sync at the end. What is read through the page cache has been thrown
// out of it before; every block of 4 KiB is unlike all others, and when read is checked for being the one
// that was written there. The caches of a disk, of its controller, or of the host of a virtual machine
// can't be seen from here: a size well above theirs is the remedy.
//
// # Concurrency and memory
//
// Measure owns one goroutine for each directory of the group it measures, two while it reads and writes at
// once, and waits for all. Two chunks for each directory lie outside of the Go heap.
package disk
