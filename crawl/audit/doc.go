// Package audit checks a stopped crawl: whether every unique URL is in exactly one place, and whether every file can be read.
//
// Run and Balance read the files of state and compare, for each place, number and key sum of the URLs in it with the crawl's
// accounts, and the sum of all places with URLseen. Deep reads every file of state and output, verifies what can be verified,
// sorts the keys of all places by external merge sort, and so names URLs that are in two places, in none, or that URLseen doesn't
// know; damage is listed with file and offset, and reading goes on behind it. ForgetMissing lets directories go that hold nothing
// of the crawl, after Deep has read all others. ReadGraph reads the names of hosts and PLDs and the edges between PLDs.
//
// All of them take the locks of the crawl's directories: a crawl that runs is refused (disk.ErrLocked). Nothing of the crawl is
// changed, but for the identities that ForgetMissing writes. Memory is bounded by Options.RAMBytes and the buffers that the last
// checkpoint holds; Deep sorts on disk what doesn't fit, in Options.TempDir.
//
// Errors: disk.ErrLocked, those of package crawl/state for directories that are no crawl's, and for Run and Balance the first
// damage (*disk.CorruptError). Deep returns damage in its report.
//
// Open and Scanner are for package crawl/repair, which begins with a deep audit.
package audit
