// Package repair brings a damaged crawl into a consistent state, so that it can continue.
//
// Run starts with a deep audit (package state/audit). It rebuilds each damaged structure from its readable
// parts. A URL that lost its place gets one again, in a queue. A URL in two places keeps one. A URL that
// URLseen lacks is added to it. A URL that can't be restored is counted as lost (state.ReasonLost). Run moves
// damaged output files aside and leaves whole ones alone.
//
// Run writes the new files to shadow directories and changes nothing else until they are durable. Then it
// writes a journal, state/REPAIR, with the list of moves and the new manifest. From then on the repair is
// committed: after a crash the next Run finishes it, and until then the crawl refuses to run
// (state.ErrRepairing). The replaced files are in state/damaged/<checkpoint>; the operator may delete them.
//
// Output files that are in an object store have a copy there and may have one here. Run compares both with
// the list of objects (audit.Scanner.Stored) and reads the intact one. It fetches locally damaged files, and
// missing indexes, which belong here as well. It uploads intact files whose objects are damaged or missing:
// the only case in which an object is overwritten. These steps come first. They do not change the crawl's
// state and may be repeated, so they need no journal.
//
// Run locks the crawl's directories. It needs space for a second copy of each structure that it rebuilds.
// With Options.DryRun it reports what it would do and changes nothing.
//
// The numbers of messages in the outbox of a cluster's node are never reused, because the other node may have
// taken the messages. So Run refuses an outbox that has lost messages (ErrOutbox), unless the audit of the
// other node, in Options.Others, says that this node has made them durable. Records that have no number yet
// are dropped and counted.
//
// Resync repairs a cluster after one node was restored from an older copy of its directories. All nodes can
// then continue; Resync counts the losses. It installs its manifest like Run.
//
// Run can't repair a crawl without the manifest, which names the crawl's files, or without the hash secret,
// which turns URLs into keys. The error then says so.
package repair
