// Package backups backs a running crawl up (package state/backup).
//
// The goroutine "backup" of Run asks for a checkpoint when a backup is due. Pin, which the maker of checkpoints calls
// when the manifest is durable and nothing that it replaced is deleted, compares the files with the last backup and
// holds those that must be read (disk.Holder). The goroutine then copies them and releases each. A failed attempt
// releases all, and the next one begins with another checkpoint; what was put is not copied again.
//
// The first attempt is at the start of a run if the place has no backup; after that the time of the last backup's
// checkpoint counts. A crawl that does not change makes no further backup, and one that is over makes a
// last one (Finish).
//
// Errors of the place delay backups and never stop the crawl, but for one: a place that belongs to another crawl, or to
// another copy of this one, ends the run, since both would write over each other's packs.
//
// A backup takes no lock of the crawl but that of checkpoints, for the time of Pin: a look at each file that the
// manifest names.
package backups
