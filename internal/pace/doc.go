// Package pace holds the speed of a crawl to what its operator allows, by the hour of the day: so many pages a second, so
// many bits a second, so many connections at once. It knows nothing of the web.
//
// The paper has no such limits (its machine had a network of its own). They are the speed control of Polybot (Shkapenyuk and
// Suel, "Design and Implementation of a High-Performance Distributed Web Crawler", section 2.3: low speed in the hours of
// peak usage, more at night), whose crawler shared a campus network.
//
// # Schedules
//
// A Schedule is a value that depends on the local time, written as a plain value or as entries of which the first one that
// holds counts:
//
//	200Mbit
//	mon-fri 08:00-20:00 200Mbit; sat,sun 1Gbit; else 500Mbit
//	22:00-06:00 none; else 20
//
//	schedule = value | entry *( ";" entry )
//	entry    = [days] [times] value | "else" value      at least one of days and times; else comes last
//	days     = day [ "-" day ] *( "," … )               mon … sun or full names; fri-mon goes over the weekend
//	times    = HH:MM "-" HH:MM *( "," … )               up to, not including, the second; 24:00 is the day's end
//	value    = number [unit] | "none" | "0"             none and 0: no limit
//
// 22:00-06:00 goes over midnight, and its days are those on which it begins. What no entry holds for has no limit. The clock is
// the wall clock of the schedule's time zone: an hour that is left out when summer time begins holds for no time at all, one
// that comes twice holds twice, and Next takes both into account. Units of bits are bit, kbit, Mbit and Gbit, thousands, in
// any case, with or without "/s". A rate of pages may also be "pause": nothing is asked for until the value changes.
//
// # Limiters
//
// Rate and Bandwidth make a Schedule hold. Their clock isn't time but what has been allowed so far: that grows with time at the
// rate in force, so that a change of the rate holds at once for all that waits. Who has used n units has moved the line by n; the
// next may go when what has been allowed reaches the line. What was allowed while nobody wanted it is gone, but for the
// last creditFor (timers are late): so in any span of time T no more is used than rate·(T + creditFor) and one turn's use, after a
// start, a rest or a change as well as in the middle. What comes to nothing is given back.
//
// A turn of a Rate is one request. Of a Bandwidth it is a piece of some milliseconds: readers, each with a Meter, wait in the order in
// which they came, for as many bytes at a time. Bytes that come all the same, since a reader didn't ask, count too and are
// waited for afterwards. A second line is the gate, for who begins exchanges: it lets as many begin as what they bring can be
// received, by the mean of the last ones, and steers by how much is waited for. So the line is never empty while there is work, and
// hardly any connection is open only to wait: what is sent to it would lie in the buffers of the network.
//
// # Concurrency, memory
//
// A Schedule is a value that isn't changed. The limiters may be used by any goroutine, their gates by one: one mutex, held for some
// 50 ns, and twice a second for a look at the schedule. A Meter belongs to one goroutine at a time. No goroutines, no clock of its
// own, no files; some hundred bytes each, and a channel for a Meter that had to wait. Waiters sleep on their own timers, and are
// signalled when they are first in the line.
package pace
