// Package repair brings a damaged crawl into a consistent state, so that it can continue.
//
// Run starts with a deep audit (package state/audit). It rebuilds each damaged structure from what is
// readable. A URL that lost its place gets one again, in a queue. A URL in two places keeps one. A URL that
// URLseen lacks is added to it. A URL that can't be restored is counted as lost (state.ReasonLost). Run
// moves damaged output files aside and leaves whole ones alone.
//
// Run writes the new files to shadow directories and changes nothing else until they are durable. Then it
// writes a journal, state/REPAIR, with the list of moves and the new manifest. From then on the repair is
// committed: after a crash the next Run finishes it, and until then the crawl refuses to run
// (state.ErrRepairing). The replaced files are in state/damaged/<checkpoint>; the operator may delete them.
//
// Output files that are in an object store have a copy there and may have one here. Run compares both with the list of objects
// (audit.Scanner.Stored) and reads the whole one. It fetches files that are damaged here, and indexes that are missing: an
// index belongs here as well, other files do not. It puts whole files whose objects are damaged or missing: the only case in
// which an object is overwritten. Neither changes the crawl's state, and each step may be repeated, so no journal has them; it
// carries them out first.
//
// Run locks the crawl's directories. It needs space for a second copy of each structure that it rebuilds.
// With Options.DryRun it reports what it would do and changes nothing.
//
// The numbers of messages in an outbox of a cluster's node mean the same for ever, because the other node may have taken
// them. So Run refuses an outbox that has lost messages (ErrOutbox), unless the audit of the other node, in
// Options.Others, says that it has them for good. Records that have no number yet are dropped and counted.
//
// Resync is for a cluster of which a node was set back to an older copy of its directories: it lets all nodes go on, and
// counts what is lost. It installs its manifest as Run does.
//
// Run can't repair a crawl without the manifest, which names the crawl's files, or without the hash secret,
// which turns URLs into keys. The error then says so.
package repair
