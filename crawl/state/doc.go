// Package state is what a crawl has on disk, and how it is read: the names of its structures and files, the manifest with its
// copies, the hash secret, the list of public suffixes, and the codings that several readers share (URL records in RAM at a
// checkpoint, names of hosts and PLDs).
//
// Saved is a crawl as its directories have it. The running crawl (package crawl) embeds one; audit, repair and explain have
// nothing of a crawl but a Saved, so that no crawl has to be pretended for reading one. A Saved is made from paths (NewSaved),
// matched with the identities in them, locked where the caller must be alone, and filled by Take.
//
// Place, Reason and Counter are the words in which a crawl keeps its books; their numbers are part of the manifest and of URL
// records, so lists of them only grow. Accounts are the books of one checkpoint: number and key sum of the URLs in each place.
//
// Errors that a caller may want to tell apart are ErrIncompatible (another crawl, another format, other frozen settings),
// ErrUnusable (the system doesn't let us), ErrExists, ErrFinished and ErrRepairing; damage is a *disk.CorruptError that names the file.
//
// Nothing here runs in the background but the ticks of a ProgressMeter. The formats are described in docs/FORMATS.md and
// docs/formats.
package state
