// Package cputime tells how long processes have run on processors, for benchmarks and for a crawl that chooses its
// content codings by the room on its processors, and how much RAM they hold.
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
// All functions are safe for concurrent use. Process is one system call, below 1 µs, and exact to a
// microsecond or so. Of reads a file of /proc and is exact to 10 ms, RSS another; they need Linux, as drumbeat does.
package cputime

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
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

// tick is the unit of proc(5), on all architectures that Go has.
const tick = 10 * time.Millisecond

// Of returns the CPU time of a process of this machine, user and system, in steps of 10 ms. It is an error if
// there is no such process.
func Of(pid int) (time.Duration, error) {
	name := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	d, err := parseStat(string(text))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

// RSS returns the resident memory of a process of this machine in bytes, and its peak; 0 if they are not known. pid 0
// is this process.
func RSS(pid int) (now, peak int64) {
	name := "/proc/self/status"
	if pid != 0 {
		name = fmt.Sprintf("/proc/%d/status", pid)
	}
	text, _ := os.ReadFile(name) // empty once it has ended
	field := func(name string) (bytes int64) {
		_, rest, _ := strings.Cut(string(text), name)
		if f := strings.Fields(rest); len(f) > 0 {
			kib, _ := strconv.ParseInt(f[0], 10, 64) // 0 if it is no number
			bytes = kib << 10
		}
		return bytes
	}
	return field("VmRSS:"), field("VmHWM:")
}

// parseStat reads the times of a line of /proc/pid/stat. Its second field, the command in parentheses, may
// have spaces and parentheses in it.
func parseStat(line string) (time.Duration, error) {
	const user, system = 11, 12 // counted from the field after the command
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) <= system {
		return 0, errors.New("too few fields")
	}
	var sum time.Duration
	for _, field := range fields[user : system+1] {
		n, err := strconv.ParseUint(field, 10, 40)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}
