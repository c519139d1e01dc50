// Package seeds is a room of the running crawl: it feeds seeds to URLseen, from the seed file and from the
// operator.
//
// A Feeder reads the seed file once, in lots of 256 lines. Each lot is one transaction that also moves the
// position in the file, so a restart continues there. A file with other content is read from its start;
// URLseen drops the URLs that it knows. The paper starts from one seed list in the same way.
//
// # Contract
//
// A seed is counted once for each time that its lot is fed. Lines that are no URL or host go to the log of
// seeds. Each node of a cluster reads the whole file and takes the seeds that it owns. While the crawl pauses
// or drains, nothing is fed.
//
// # Concurrency
//
// One goroutine runs Run. Feed may be called by another one at the same time. Freeze and Fed need the
// transaction lock.
//
// # Memory and disk
//
// One lot of lines. Nothing on disk: the manifest has the position.
//
// Files: seeds.go.
package seeds
