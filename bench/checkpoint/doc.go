// Package checkpoint fills the bucket buffers of a store and measures checkpoints while tuples come in: how
// long nothing can be added, and how much is written for how much that came in.
//
// The first checkpoint saves full buffers; Options.Count more follow, Options.Every apart, while four
// goroutines add at a rate, or as fast as they can. Between two of them the buckets take what comes.
//
// # Contract
//
// Files lie in directories of their own, which are removed before Measure returns, also after an error and
// after a cancelled context. Directories without room for them are refused before anything is written.
//
// # Concurrency
//
// Measure owns four goroutines that add, and waits for them.
//
// # Memory
//
// Options.BufferBytes, outside of the Go heap.
package checkpoint
