// Package transporttest holds the tests of the contract of cluster.Transport.
//
// Each test gets a Broker, which opens the transports of one crawl and can stop the broker. A test opens
// transports of several nodes and checks the contract: order within a subject, sequences after a purge,
// compare-and-set, one winner of many, the full stream, requests, results without a connection and after
// Close.
//
// Some tests demand more than the contract: a restarted broker has all that it acknowledged. That holds after
// a kill, which the kernel's buffers survive, not after a power cut. Broker.Keeps says whether to run them.
//
// The tests do not sleep and do not measure time. They wait for events, each for at most a minute by timers,
// so they also run in a bubble of testing/synctest. Tests is the list, for callers that wrap each test; Run
// runs all as subtests, in parallel.
//
// Concurrency: a test runs its own goroutines and ends them. Memory: some MiB a test; the full stream needs
// Broker.StreamBytes. Files: none.
package transporttest
