// Package mercator makes Mercator-A a method of package baselines, to compare it with DRUM in the same RAM: the
// check of 1999 by disk seeks (section IV.A and Table I of the paper).
//
// Known keys are in one sorted file, each with the hash of its site in front, so the URLs of a site are neighbours.
// A link whose key is not in the RAM cache of popular keys waits until the batch is full. Then the batch is sorted. Each
// key that the table of recent keys lacks is looked up in the file: the first key of each block of 4 KiB is in
// RAM, so a look-up reads one block, and links of one site that share a block read it once. When the table of
// recent keys is full, it is merged with the file.
//
// # Departures
//
// Links of many pages are resolved together, which saves seeks. Up to 16 look-ups run at once, enough for the queue
// of a solid-state disk. Mercator kept the recent keys unsorted on disk, too; a merge sorts them here. Files have no
// checksums and are not synced. All departures favour Mercator-A.
//
// # Contract
//
// That of baselines.Store. Load gives keys a made-up site, so they differ from all links of the stream; LoadLinks
// loads links that the stream can repeat.
//
// # Concurrency
//
// A store is for one goroutine. Its readers end with the call that started them.
//
// # Memory and disk
//
// RAMBytes is divided: a quarter for the cache of popular keys, a quarter for waiting links and their texts, a
// quarter for recent keys at 64 bytes each in a map, and the rest for blocks, merges and the first keys of blocks:
// 16 bytes for 341 known keys. The file has 12 bytes a key, twice during a merge.
package mercator
