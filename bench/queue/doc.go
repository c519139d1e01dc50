// Package queue measures the program's queues on disk: appending, reading and both at once beside the bare
// disk's speed in the same run.
//
// Records are URLs, made ones or those of a file, or random bytes of several lengths; queues are one, many,
// or the slots of a calendar; appenders one or several. Every record read is compared with the one
// appended. What a queued URL takes on disk is counted.
//
// # Checks
//
// Appending and reading beside the disk, in bytes on disk and before compression; bytes of a queued URL;
// RAM beyond what was there before.
//
// # Contract
//
// Files lie in directories of their own, which are removed before Measure returns, also after an error and
// after a cancelled context. Options.Bytes bounds what one measurement moves; three times as much lies on
// disk at most.
//
// # Concurrency and memory
//
// As many goroutines as a measurement has appenders, and one that reads. The records, which are gone round,
// are held in RAM.
package queue
