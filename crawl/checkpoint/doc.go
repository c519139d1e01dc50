// Package checkpoint is a room of the running crawl: it makes checkpoints.
//
// A Maker has the table of the structures on disk, and of what the stages hold in RAM only. For a checkpoint
// it pauses the structures that emit, takes the transaction lock exclusively for an instant, in which all
// copy their state, and then writes the copies while the crawl continues. docs/how-it-works/architecture.md,
// "Checkpoints", has the order and the reasons. The paper has no checkpoints.
//
// # Contract
//
// A durable manifest names a state that every transaction is part of whole, or not at all. Files that the
// manifest no longer names are deleted only once it is durable, and so is what the stages do then
// (Copied.Durable). After an error no further checkpoint is made, and the files stay as the last one left
// them, possibly with more data at their ends.
//
// # Concurrency
//
// Checkpoints run one at a time. Save, SaveQuietly, SaveEnd and the figures are safe for concurrent use once
// the structures are open. One goroutine runs Run. Lock order: the Maker's own lock, then the pauses, then
// the transaction lock.
//
// # Memory and disk
//
// What the copies hold. One tail file in each directory, and the copies of the manifest
// (docs/reference/files/_index.md).
//
// Files: checkpoint.go (the Maker), structure.go (the table of structures, what the stages hold in RAM).
package checkpoint
