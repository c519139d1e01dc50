package measure

import (
	"drumbeat/internal/cputime"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// ThreadTime returns the CPU time of the calling thread. The caller must have locked its thread.
func ThreadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic("BUG: measure: clock_gettime: " + err.Error())
	}
	return time.Duration(t.Nano())
}

// Heap starts to count allocations on the Go heap; end returns their number and bytes.
func Heap() (end func() (allocs, bytes uint64)) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	return func() (uint64, uint64) {
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
	}
}

// PeakRSS returns the peak RAM of this process in bytes, since the last ResetPeakRSS if the kernel supports
// that, or UnknownRSS. It doesn't use getrusage, whose value includes the parent's.
func PeakRSS() int64 {
	if _, peak := cputime.RSS(0); peak > 0 {
		return peak
	}
	return UnknownRSS
}

// UnknownRSS is larger than any limit of a check, so the check fails.
const UnknownRSS = 1 << 62

// PeakSince returns the peak minus before, or UnknownRSS if one of them is unknown.
func PeakSince(before int64) int64 {
	now := PeakRSS()
	if before == UnknownRSS || now == UnknownRSS {
		return UnknownRSS
	}
	return max(0, now-before)
}

// ResetPeakRSS resets the peak, if the kernel supports that.
func ResetPeakRSS() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// RestingRSS returns free memory to the system, resets the peak, and returns the RAM of this process in
// bytes.
func RestingRSS() int64 {
	debug.FreeOSMemory()
	ResetPeakRSS()
	return PeakRSS()
}

// EverySecond passes on the first message, and then at most one per second.
func EverySecond(to func(string)) func(format string, args ...any) {
	var last time.Time
	return func(format string, args ...any) {
		if now := time.Now(); now.Sub(last) >= time.Second {
			last = now
			to(fmt.Sprintf(format, args...))
		}
	}
}
