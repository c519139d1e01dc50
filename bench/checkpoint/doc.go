// Package checkpoint fills the bucket buffers of a store and measures checkpoints while tuples come in: how
// long adding stops, and how many bytes a checkpoint writes per byte added.
//
// The first checkpoint saves full buffers. Options.Count more follow at intervals of Options.Every, while
// four goroutines add at the given rate or their maximum. Between checkpoints buffers flush to buckets as
// usual.
//
// # Contract
//
// The files are in directories of their own, which are removed before Measure returns, also after an error
// or a cancelled context. Measure refuses directories without enough space before it writes anything.
//
// # Concurrency
//
// Measure starts four goroutines that add, and waits for them.
//
// # Memory
//
// Options.BufferBytes outside the Go heap.
package checkpoint
