// Package budgets is a room of the running crawl: STAR gives each new URL the budget of its pay-level
// domain, and BEAST queues the URL by that budget (paper, sections VI and VII).
//
// New URLs come from URLseen and wait in STAR's buckets for a pass. It places each in a queue of BEAST, or
// in QF if no queue has room. BEAST releases the URLs of its current queue to RobotsCache while the stock
// is low, and waits before the next queue for passes that are cheap (merges.go). A scan sends the URLs of
// QF to STAR again, later than in the paper where scans would take too long (scans.go). Supporters, lanes,
// traps and fixed budgets are ours.
//
// # Contract
//
// A URL is in STAR, in BEAST or in QF, never in two. CheckAll, AddEdges, Recheck, Trust and Fetched are
// parts of a transaction. After a change of the budget function or of the strategy, queued URLs are placed
// again, also after a crash (Operator.Epoch).
//
// # Concurrency
//
// A Stage is safe for concurrent use after OpenMerger. Its goroutines are MergeStar, ReadBeast,
// ScanOverBudget and ComputeSupporters. STAR and BEAST have their own locks. A round of STAR pins BEAST's
// current queue, and takes no lock while it waits for the reader to move.
//
// # Memory and disk
//
// The plan bounds STAR's stores, the cache of edges, the buffers of queues, and a computation of
// supporters. Disk: a write and a read of the record for each queue that a URL passes.
//
// Files: budgets.go; merges.go; scans.go; lanes.go, priorities; supporters.go, in a cluster with supportshare.go,
// supportexchange.go and supportfile.go.
package budgets
