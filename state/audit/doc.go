// Package audit checks a stopped crawl: every unique URL is in exactly one place, and every file is readable.
//
// Run and Balance read the state. For each place they compare the number and key sum of its URLs with the
// crawl's accounts, and they compare all places together with URLseen. Deep reads every file of state and
// output and verifies every checksum. It sorts the keys of all places by external merge sort, and so finds
// URLs that are in two places, in none, or not in URLseen. It lists damage by file and offset and continues
// after it. ForgetMissing removes missing directories from the crawl if they hold nothing of it.
//
// A node of a cluster has a Cluster in its report: the accounts of its exchange with the others, compared
// with its outboxes. CompareNodes compares those of several nodes, AuditDirs reads the nodes' directories for
// it. ReadNode reads the JSON of an audit.
//
// All of them lock the crawl's directories and so refuse a running crawl (disk.ErrLocked). They change
// nothing of the crawl, except that ForgetMissing writes identities. Options.RAMBytes limits memory; the
// buffers in the last checkpoint come on top. Deep sorts in Options.TempDir what does not fit into RAM.
//
// The errors are disk.ErrLocked and those of package state for directories that are no crawl's. Run
// and Balance also return the first damage as a *disk.CorruptError; Deep puts damage into its report.
//
// Package state/repair uses Open and Scanner, because a repair starts with a deep audit.
package audit
