// Package erase takes pages out of a stopped crawl, so that no file of its directories has them, and bars their
// URLs. The paper has no counterpart. docs/reference/files/erase.md says what becomes of each file.
//
// # Contract
//
// A request (Source) names hosts, PLDs and URLs. Run removes each record of a WARC file whose target they are:
// requests, responses, revisits, metadata, rendered pages and DNS answers. If a revisit that stays refers to a
// removed capture, the first such revisit becomes a response with the body, and the others refer to it. Files
// without a change keep their bytes and names; in others the records that stay are copied, not compressed again.
// Logs, queues and stores lose the URLs, and those beside a URL that stays (via, redirect and so on). The bodies
// of other pages stay as they are, with their links.
//
// URLs that were fetched or waited count as refused (state.ReasonErased). Their keys are kept, so audits still
// compare each key. URLs of the request that URLseen lacks get a key there. Hosts and PLDs get a rule in the
// crawl's own blacklist. A Record says what was asked and removed.
//
// # Protocol
//
// Run reads everything first and writes its plan, and the bodies that move, to erase-tmp. Then it writes the
// journal state/ERASE: from here on no crawl runs, and the next Run finishes the erasure, whatever interrupts it.
// A crawl calls Run when it starts. Each phase of the journal is done again after an interruption. WARC files are
// rewritten one by one: the old one is deleted when the new one is durable. Then come the outputs that the request
// names (Options.Also): a file without a change keeps its bytes, another has its name when it is durable. Logs are
// replaced under their names. The rest is written beside the old state and installed by package repair (Shadow,
// Commit). At the end the record, and no work file, is left.
//
// Prove searches all files for what is left of targets, in its own way.
//
// A request can wait (Request): for a running crawl, which ends its run to carry it out, or for the next Run. One pass
// serves all that wait; each gets a record. If they are refused, they keep the reason.
//
// # Object store
//
// WARC files, indexes and logs may be in an object store (objects.go). The plan reads them there. Each WARC file
// with a change is downloaded and checked, rewritten, and put under its new name; a log is overwritten. When the
// manifest names the new objects, the old ones are deleted with all their versions. What the store refuses to delete
// is in the Record; each later Run tries again. A call is repeated for 85 s; then Run ends with a *StoreError, and
// the next one continues.
//
// # Cluster
//
// A node erases its part: its own files, and the keys of URLs that it owns. Messages in its outboxes keep numbers and
// sums, which the other node may have. So a link to a target stays until that node takes it, and a link found on a
// target loses its via. All nodes need the request.
//
// Run refuses random walks, whose log it cannot change. It opens other crawls like an audit, and locks them.
//
// # Memory and disk
//
// Memory: 24 bytes for each line of a request, Options.RAMBytes for sorting and stores, and one index; the
// garbage collector may double it.
// Disk: a second copy of the largest WARC file (two, if it is in an object store), and of the stores and queues that
// change. Run starts no goroutine.
package erase
