// Package cputime tells how long this process has run on processors, for benchmarks and for a crawl that chooses
// its content codings by the room on its processors.
//
//	began := cputime.Process()
//	work()
//	used := cputime.Process() - began
//
// # Contract
//
// A time is the sum of user and system time of all threads since the process began, including threads that have
// ended. It does not include child processes. It only grows.
//
// # Concurrency and cost
//
// Process is safe for concurrent use. It is one system call, below 1 µs, and exact to a microsecond or so.
package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Process returns the CPU time of this process, user and system.
func Process() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic("BUG: cputime: getrusage: " + err.Error()) // it fails only for bad arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
