// Package repair puts a damaged crawl in order, so that it goes on and its books balance.
//
// Run begins with a deep audit (package crawl/audit). From what can be read it makes anew each structure that can't: URLs that lost
// their place get one again, in a queue; URLs that stand in two places keep one; what URLseen doesn't know is fed to it; what is
// lost for good is counted as lost (state.ReasonLost). Output files that are damaged are moved aside; whole ones stay as they are.
//
// Nothing of the crawl changes until all that is new lies in shadow directories and is durable. Then a journal, state/REPAIR, is
// written; it lists the moves and holds the new manifest. From that moment the repair will be done: cut off at any operation, the
// next Run ends it, and until then the crawl refuses to run (state.ErrRepairing). What was replaced lies in
// state/damaged/<checkpoint> afterwards, for the operator to delete.
//
// Run takes the locks of the crawl's directories. It needs space for a second copy of each structure that it makes anew. With
// Options.DryRun it says what it would do and changes nothing.
//
// Errors that no repair can mend say why: without the manifest, or
// without the hash secret, nothing tells which files belong to the crawl, or what a key stands for.
package repair
