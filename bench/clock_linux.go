package bench

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the CPU time that this process has taken, user and system.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic("BUG: bench: getrusage: " + err.Error()) // it has no other faults than bad arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// threadTime is the CPU time of the calling thread, which the caller has locked.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic("BUG: bench: clock_gettime: " + err.Error())
	}
	return time.Duration(t.Nano())
}
