// Package space keeps a crawl within its disks: it detects a lack of space before a write fails, reserves
// what merges and large bodies may write, and holds the limit of all files together (--disk).
//
// A Keeper compares the free space of each file system with a mark, and the crawl's files with the limit,
// each second while something changes. Below the mark fetching pauses, new links are no longer queued, or the
// crawl stops (WhenFull). Merges reserve what they write (Reserve, ReservePass), so that waiting comes before
// failing midway. A Limit is the file system of the crawl, which counts each byte before it is written
// (limit.go). After a write that found no space in spite of all that, Tries says how long to rest and when to
// give up. The paper sets D, but not what happens beyond it.
//
// Contract: a checkpoint is always possible, within Options.DiskBytes and above the mark. A pause ends by
// itself once there is room. Errors name the directory (DiskError) or the limit (LimitError).
//
// Concurrency: a Keeper is safe for concurrent use after Wire; one goroutine runs Run, or AwaitSpace before.
// Its mutexes are leaves, and no log line is written under them.
//
// Memory: a few hundred bytes for each directory. Disk: nothing of its own.
//
// Files: keeper.go (marks, reasons to pause), limit.go (the limit), loan.go (space lent to work that can wait),
// freespace.go (statfs, remembered for 100 ms), diskfault.go (which directory failed).
package space
