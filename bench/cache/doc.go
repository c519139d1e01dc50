// Package cache measures the RAM cache in front of URLseen (section V).
//
// It compares hit rates by size with those of exact LRU and of CLOCK, the paper's choice, by the method of
// Table IV. The links come from a Stream or from a crawl's trace. Then it measures keys per second and
// bytes per entry.
//
// # Departures from the paper
//
// Half of the links fill the cache; only the hits of the other half count. The paper doesn't say whether it
// counts from the empty cache on, so the report prints that rate too. Without a crawl's trace the links are
// generated, with shares chosen to approximate LRU's curve in Table IV. Such a curve proves nothing about
// the hit rates of a crawl; only the differences between policies are results.
//
// # Concurrency
//
// This package starts goroutines for hit rates and for the speed on all cores; other speeds are those of
// one thread.
//
// # Memory
//
// Hit rates take 32 bytes per entry for each CPU. Measure refuses sizes that need more than three quarters
// of the machine's RAM.
package cache
