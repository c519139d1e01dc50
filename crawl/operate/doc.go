// Package operate is a room of the running crawl: it makes the changes that the operator asks for while the
// crawl runs, and shows the crawl to the operator.
//
// An Operator checks a change, appends it to the journal (package state/changes), which is durable before the
// change takes effect, and then puts it in force. A restart puts the changes of earlier runs in force that
// still hold. Further seeds and enqueued URLs are changes, too: the journal has their lines until a
// checkpoint covers that they were fed. A Control is the handle on a running crawl: it makes changes through
// the Operator, and reads figures from package figures. The paper's crawler has no operator.
//
// # Contract
//
// A change that Make has returned survives a crash, and no request begins that it forbids. Changes take
// effect in the order of the journal. Lines are fed at least once; URLseen drops the URLs that it knows, so
// no URL is fetched twice. The error is a *changes.RefusedError if the change cannot be made, else a failure
// of this machine.
//
// # Concurrency
//
// One goroutine runs Run, which feeds seeds and enqueued URLs. All other methods are safe for concurrent use
// after Restore; Make, Reload and Enqueue run one at a time. Lock order: the Operator's own lock, feeding,
// the transaction lock. The log lines of a change are left to the caller, who writes them when no lock is
// held.
//
// # Memory and disk
//
// The settings in force, and the lines that wait to be fed, which the journal bounds. Files: the journal of
// changes, and the queue of the keys of all URLs that were ever enqueued, 8 bytes each, which audits read.
//
// Files: operator.go (changes), reload.go (of files), feed.go (seeds and enqueued URLs), enqueue.go (answers
// about them), erase.go (requests to erase pages), orders.go (orders to all nodes of a cluster), control.go and look.go
// (Control, the handle on a running crawl), options.go (to whom it reports).
package operate
