// Package cache measures the RAM cache in front of URLseen (section V).
//
// Hit rates against size stand beside those of exact LRU and of CLOCK, the paper's choice, by the method of
// Table IV, with the links of a Stream or of a crawl's trace; then keys per second and bytes per entry.
//
// # Departures from the paper
//
// Half of the links fill the cache, of the other half the hits are counted: the paper doesn't say whether
// it counts from the empty cache on; that rate is printed too. Without a crawl's trace the links are made,
// with shares chosen so that LRU's curve is roughly Table IV's: its heights prove nothing, differences
// between policies do.
//
// # Concurrency
//
// Nothing here starts goroutines; speeds are those of one thread.
//
// # Memory
//
// 32 bytes an entry and CPU for hit rates. What doesn't fit into three quarters of the machine's RAM is
// refused.
package cache
