// Package pace limits the speed of a crawl by a schedule of the local time: pages per second, bits per second,
// and concurrent connections.
//
// The paper has no such limits: its machine had its own network. They follow the speed control of Polybot
// (Shkapenyuk and Suel, "Design and Implementation of a High-Performance Distributed Web Crawler", section
// 2.3), which shared a campus network and slowed down in the hours of peak usage.
//
// # Schedules
//
// A Schedule is a value that depends on the local time. It is written as one value, or as a list of
// entries. The first entry that matches the time gives the value:
//
//	200Mbit
//	mon-fri 08:00-20:00 200Mbit; sat,sun 1Gbit; else 500Mbit
//	22:00-06:00 none; else 20
//
//	schedule = value | entry *( ";" entry )
//	entry    = [days] [times] value | "else" value      one of days and times, or both; else is last
//	days     = day [ "-" day ] *( "," … )               mon … sun or full names; wraps at sun
//	times    = HH:MM "-" HH:MM *( "," … )               to is excluded; 24:00 is the day's end
//	value    = number [unit] | "none" | "0"             none and 0: no limit
//
// 22:00-06:00 spans midnight; its days are the days on which it begins. There is no limit at times that no
// entry matches. The clock is the wall clock of the schedule's time zone. An hour that summer time skips
// never matches; an hour that occurs twice matches twice. Next takes both into account.
//
// The units of bits are bit, kbit, Mbit and Gbit (powers of 1000), in any case, with or without "/s". A
// rate of pages may also be "pause": no requests until the value changes.
//
// # Limiters
//
// Rate and Bandwidth enforce a Schedule. Their clock counts the units allowed so far. This count grows with
// time at the rate in force, so a change of the rate applies at once to everything that waits. Using n
// units moves the booked total by n. The next use may start when the allowed count reaches the booked
// total. Units that were allowed but not used expire after creditFor (timers are late). So in any time span
// T the use is at most rate·(T + creditFor) plus one use; this holds after a start, a pause or a change
// too. A use that did not happen is given back.
//
// One use of a Rate is one request. One use of a Bandwidth is a piece of a few milliseconds: readers, each
// with a Meter, queue in order of arrival for one piece at a time. Bytes that arrive without a request for
// a piece count too, and delay later readers.
//
// A Bandwidth has a second line, the gate, for starting exchanges. It starts exchanges at the speed at
// which their expected bytes can be received; the expected size is the mean of recent ones. The number of
// waiting bytes adjusts this speed. So there is always something to read, but few connections only wait:
// data sent to a waiting connection fills the buffers of the network.
//
// # Concurrency, memory
//
// A Schedule is immutable. The limiters are safe for concurrent use; only one goroutine may use the gate of
// a limiter. Each has one mutex, held for about 50 ns, and twice a second for a look at the schedule. A
// Meter belongs to one goroutine at a time. The package starts no goroutines, reads no clock and no files.
// A limiter or a Meter takes a few hundred bytes, plus a channel for a Meter that had to wait. Waiting
// readers sleep on their own timers; a signal wakes the first in line.
package pace
