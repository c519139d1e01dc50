// Package disk is the seam between the storage packages and the file system, and the few mechanisms that all
// of them share: a set of numbered directories with identity, the tail files of a checkpoint, atomic
// replacement of a small file, off-heap buffers, byte counters.
//
// The paper takes the disk for granted (its section 4 counts bytes, and speeds of sequential reading and
// writing). The checkpoints that this package serves are not in it.
//
// Implementations of FS: OS is the real one. NewMem is one in RAM that can be stopped by a power cut (what
// was not synced is kept, lost or torn), by kill -9, at the n-th operation, or by a full disk. NewFault lets
// a test make single operations fail. NewMeter counts. They nest. WriteBehind passes through them to OS.
//
// # Contract
//
// Bytes are durable after File.Sync or FS.SyncFS, names after FS.SyncDir or FS.SyncFS, as in POSIX. Damage
// that a reader finds is a *CorruptError; nothing is repaired or deleted because it looks wrong. Errors of
// the system keep their cause (errors.Is with fs.ErrNotExist, syscall.ENOSPC and so on). A Tails that failed
// to write fails for ever.
//
// Each directory of a store has the file drumbeat-dir.json, its identity. MatchIdentities finds the
// directories' numbers whatever their paths and order, and refuses missing and foreign ones. Label gives
// numbers to new ones.
//
// # Concurrency
//
// Everything is safe for concurrent use; the package owns no goroutines.
//
// # Memory and disk
//
// Tails takes a buffer of 256 KiB for each directory written to. Alloc takes what is touched of it. A tail
// file has 40 bytes more than the strings in it.
//
// # Files
//
// drumbeat-dir.json, drumbeat.lock and state/tails-<generation> in each directory; the formats are in
// docs/FORMATS.md, section "disk".
package disk
