package measure

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime is the CPU time that this process has taken, user and system.
func CPUTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic("BUG: measure: getrusage: " + err.Error()) // it has no other faults than bad arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ThreadTime is the CPU time of the calling thread, which the caller has locked.
func ThreadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic("BUG: measure: clock_gettime: " + err.Error())
	}
	return time.Duration(t.Nano())
}

// Heap begins to count what is allocated on the Go heap; the function it returns says how often and how
// many bytes.
func Heap() (end func() (allocs, bytes uint64)) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	return func() (uint64, uint64) {
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
	}
}

// PeakRSS is the most RAM that this process had, since the last ResetPeakRSS if the kernel can do that;
// UnknownRSS if it doesn't say. The one of getrusage has the parent's in it.
func PeakRSS() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return UnknownRSS
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if err == nil {
				return kb << 10
			}
		}
	}
	return UnknownRSS
}

// RSS is the RAM that this process has now; 0 if the kernel does not say.
func RSS() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(b))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// UnknownRSS is more than any check admits.
const UnknownRSS = 1 << 62

// PeakSince is how much more than before the peak is; UnknownRSS if one of them isn't known.
func PeakSince(before int64) int64 {
	now := PeakRSS()
	if before == UnknownRSS || now == UnknownRSS {
		return UnknownRSS
	}
	return max(0, now-before)
}

// ResetPeakRSS forgets the peak so far; a kernel that can't keeps it.
func ResetPeakRSS() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// RestingRSS gives back what memory is free, and returns what this process has then; the peak begins there.
func RestingRSS() int64 {
	debug.FreeOSMemory()
	ResetPeakRSS()
	return PeakRSS()
}

// EverySecond passes on the first message, and then one a second.
func EverySecond(to func(string)) func(format string, args ...any) {
	var last time.Time
	return func(format string, args ...any) {
		if now := time.Now(); now.Sub(last) >= time.Second {
			last = now
			to(fmt.Sprintf(format, args...))
		}
	}
}
