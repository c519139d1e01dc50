// Package queue measures the program's queues on disk: appending and reading, compared with the bare disk's
// speed in the same run.
//
// Records are generated URLs or random bytes. A measurement uses one queue or many, and one
// or several appenders. It compares every record read with the one appended, and counts the bytes on disk per
// queued URL.
//
// # Checks
//
// The checks compare appending and reading with the disk, in bytes on disk and before compression. They
// also bound the bytes per queued URL and the RAM beyond the initial RSS.
//
// # Contract
//
// The files are in directories of their own, which are removed before Measure returns, also after an error or
// a cancelled context. One measurement appends at most Options.Bytes; at most twice as much is on disk.
//
// # Concurrency and memory
//
// A measurement has one goroutine per appender, and one that reads. The records are in RAM and are used
// cyclically.
package queue
