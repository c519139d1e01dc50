// Package seen is a room of the running crawl: it takes the links of pages, seeds and other nodes, and
// finds the new ones. It is the crawler's first stage (paper, sections IV and V).
//
// URLseen is a DRUM with check and update. Links wait in its buckets, and a pass finds which of them are
// new. The paper has no cache in front of it; here a RAM cache of keys drops links that were sent before.
// The store of names is a second DRUM, from keys of hosts and PLDs to their texts. The paper needs none.
//
// # Contract
//
// SendLinks, TakeLinks and SendHeld are parts of the transaction that ends the page. A cache changes within
// that transaction, so a link that it drops was sent. Each new URL moves to STAR once, or is that of an
// enqueued URL. A name is sent with its URL or edge, so every checkpoint has both or neither.
//
// # Concurrency
//
// A Stage is safe for concurrent use after OpenMerger. MergeSeen and MergeNames have a goroutine each. It
// has no lock of its own: the stores and caches have theirs.
//
// # Memory and disk
//
// The plan bounds the buckets, the buffers and the caches. Disk: a record for each link in the buckets, one
// for each unique URL and each name in the stores. The trace of links has a limit of its own.
//
// Files: seen.go; held.go, links that wait for a verdict; meter.go, measurements of passes.
package seen
