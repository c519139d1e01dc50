// Package disk stands between the storage packages and the file system. It also holds the mechanisms that
// they share: numbered directories with an identity, the tail files of a checkpoint, atomic replacement of
// small files, off-heap buffers and I/O counters.
//
// The paper does not describe checkpoints. It models a disk only by the bytes moved and the speeds of
// sequential reading and writing (section 4).
//
// FS has several implementations. OS is the real file system; Direct bypasses the page cache. NewMeter counts
// operations and bytes, and measures how long directories are in use; it wraps another FS and passes
// WriteBehind on to it. Package memfs is a file system in RAM for tests that simulates power cuts, kill -9 and
// full disks, and lets a test fail single operations.
//
// # Contract
//
// As in POSIX, bytes are durable after File.Sync or FS.SyncFS, names after FS.SyncDir or FS.SyncFS. Damage
// that a reader finds is reported as a *CorruptError. The package never repairs or deletes a file because
// it looks damaged. System errors keep their cause, for errors.Is with fs.ErrNotExist, syscall.ENOSPC and
// so on. Once a write to a tail file has failed, every later write to it fails too.
//
// Each directory of a store has an identity, the file drumbeat-dir.json. MatchIdentities finds the number
// of each directory, whatever its path and position, and rejects missing and foreign directories. Label
// numbers new ones.
//
// # Concurrency
//
// Everything is safe for concurrent use. The package starts no goroutines.
//
// # Memory and disk
//
// Tails uses a 256 KiB buffer for each directory written to. Memory from Alloc takes RAM only where it is
// touched. A tail file is 40 bytes longer than the strings in it.
//
// # Files
//
// Each directory has drumbeat-dir.json, drumbeat.lock and state/tails-<generation>. For the formats see
// docs/reference/files/_index.md, section "disk".
package disk
