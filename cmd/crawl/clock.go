package crawl

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleeplessClock returns CLOCK_BOOTTIME, which runs while the machine sleeps.
func sleeplessClock() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("BUG: no CLOCK_BOOTTIME: " + err.Error()) // every Linux since 2.6.39 has it
	}
	return time.Duration(ts.Nano())
}
