// Package baselines holds the methods of check+update with which DRUM is compared. They answer the same
// stream of links through one interface, Store, with the same RAM, on the same file system:
//
//   - mercator-a: Mercator of 1999. It looks hashes up by seeks in a sorted file.
//   - mercator-b: Mercator of 2001, equation (1). It sorts a batch of hashes with pointers and merges it
//     with the sorted file of all hashes; text waits in a file in order of arrival.
//   - polybot: equation (2). It sorts the text of a batch in RAM and merges it with the sorted text of all
//     URLs, which is stored without common prefixes.
//
// All give DRUM's answers, link by link.
//
// # Departures from the papers
//
// All departures favour the baselines. Files have no checksums and are not synced, so nothing survives a
// crash. The merging methods have one batch in all of the RAM instead of two halves, which doubles m of
// Theorem 1 but makes the caller wait for a merge. During a merge, goroutines read and write ahead in a few
// chunks of 1 MiB. They bypass the page cache if the FS is disk.Direct; see PastCache.
//
// Mercator-A: links of many pages are resolved together, which saves seeks. Up to 16 look-ups run at once,
// enough for the queue of a solid-state disk. Mercator kept the recent keys unsorted on disk, too; a merge
// sorts them here.
//
// Mercator-B: H is 8. The pointer has 8 bytes and contains the length of the text, so the text has no
// headers.
//
// Polybot: a sorted array with 16 bytes per URL replaces the tree, whose nodes the paper counts as 4P. Each
// text has a header of 12 bytes with key and length. bq depends on the corpus.
//
// BUbiNG's sieve, which isn't here, is Mercator-B with another trigger: it sorts 64-bit hashes in RAM,
// keeps the text in a separate file, and merges with all known hashes when the frontier asks for URLs
// instead of when the RAM is full. Its cost is equation (1) with its batch size.
//
// # Contract
//
// Each added link is emitted exactly once, in order of arrival, by the end of the next Flush. Of several
// links with one key the first to arrive is the fresh one. After an error no more links are emitted.
//
// # Concurrency
//
// A Store is for one goroutine. It may start others: sorting goroutines end with the call that started them;
// a goroutine that reads or writes a chunk ends when that is done, at the latest in the next Flush or Close.
//
// # Memory and disk
//
// RAMBytes bounds the total size of all buffers, see Stats.RAMBytes. The runtime, stacks and the overhead
// of Go's heap come on top. Mercator-A gives a quarter to the cache of popular keys, a quarter to waiting links
// with their texts, a quarter to recent keys at 64 bytes each in a map, and the rest to merges and to the first
// keys of blocks, 16 bytes for 341 known keys. Files are in a directory of their own, which Close removes: the
// sorted file, twice during a merge, and the text of a batch.
package baselines
