// Package pass decides when the drum stores of a crawl run their passes.
//
// A pass reads and rewrites a store once for all tuples that wait (section IV of the paper: a bucket is
// full). Between full buckets a Runner begins early passes when what is downstream needs URLs: at once if
// nothing else is in flight, else after a share of the time that the last pass took, so that the disks' time
// is bounded. A pass that is dear for the few tuples that wait is put off, less so for an enqueued URL. The
// paper's passes run on full buckets only; at its rates they are full within minutes.
//
// Contract: tuples never wait longer than idlePatience, or than the pause of a disk without room. Raise is cheap: it is
// called once for each page and overlooks nothing that the pulse would not find.
//
// Concurrency: Run is called by the goroutine of the store's stage, once for each Merger, and blocks until its context
// ends. Raise and the questions of a Runner may be called from any goroutine. No lock is held.
//
// Memory: a few words for each store. Disk: nothing of its own; the stages' stores reserve what a pass writes (package
// space).
package pass
