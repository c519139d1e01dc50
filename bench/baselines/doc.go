// Package baselines holds the methods of finding out whether a URL has been seen that DRUM is compared
// with. They answer the same stream of links through one interface, Store, within the same RAM, on the same
// file system:
//
//   - mercator-b: Mercator of 2001, equation (1). A batch of hashes with pointers is sorted and merged with
//     the sorted file of all hashes; text waits in a file in order of arrival.
//   - polybot: equation (2). The text of a batch is in RAM, sorted, and merged with the sorted text of all
//     URLs, from which common prefixes are removed.
//   - bloom: a Bloom filter that fills the RAM. It is fast, and loses URLs.
//
// All but bloom give DRUM's answers, link by link. Batched makes a Store of any other store of keys, an
// Index: that is how bench/lab compares Pebble.
//
// # Departures from the papers
//
// All are in favour of the baselines. Files have no checksums and nothing is synced, so nothing survives a
// crash. The merging methods have one batch of all the RAM in place of two halves of it, which doubles m of
// Theorem 1: who adds waits for a merge. Reading and writing go on in goroutines of their own while a merge
// runs, with a few chunks of 1 MiB, and pass by the page cache if the FS is disk.Direct; see PastCache.
//
// Mercator-B: H is 8, and the pointer is 8 with the length of the text in it, so text has no headers.
//
// Polybot: a sorted array of 16 bytes a URL takes the place of a tree, whose nodes the paper counts with
// 4P, and each text has its key and length in front, 12 bytes. bq is what the corpus gives.
//
// BUbiNG's sieve, which isn't here, is Mercator-B with another clock: 64-bit hashes sorted in RAM, text in
// a file beside, the merge with all known hashes run when the frontier asks for URLs rather than when the
// RAM is full. Its cost is equation (1) with the batches it gets.
//
// # Contract
//
// Each link added is emitted exactly once, by the end of the next Flush. Which of several links of one key
// is the fresh one is the first in order of arrival, always. After an error nothing more is emitted. Links
// are emitted in order of arrival.
//
// # Concurrency
//
// A Store is for one goroutine. It may own others: those that sort end with the call that started them; one
// that reads or writes a chunk ends when that is done, by the next Flush or Close at the latest.
//
// # Memory and disk
//
// RAMBytes bounds the sum of all buffers, see Stats.RAMBytes; the runtime, stacks and what Go's heap needs
// besides come on top. Files are in a directory of their own, that Close removes: the sorted file twice
// while it is merged, and the text of a batch.
package baselines
