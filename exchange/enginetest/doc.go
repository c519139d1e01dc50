// Package enginetest holds the tests of the contract of exchange.Engine.
//
// Each test gets a Broker: what opens the engines of one crawl, and can take the broker away. A test opens
// engines of several nodes and checks what the interface promises: order within a subject, sequences after a
// purge, compare-and-set, one winner of many, the full stream, requests, what calls return without a
// connection and after Close.
//
// Some tests ask for more than the contract grants: that a broker which comes back has all that it
// acknowledged. They hold for a kill, which keeps what the kernel has, not for a power cut. Broker.Keeps says
// whether to run them.
//
// The tests do not sleep and do not measure time. They wait for an event for at most a minute, by timers, so
// they also run in a bubble of testing/synctest. Tests is the list, for callers that wrap each test; Run runs
// all as subtests, in parallel.
//
// Concurrency: a test runs its own goroutines and ends them. Memory: some MiB a test; the full stream needs
// Broker.StreamBytes. Files: none of its own.
package enginetest
