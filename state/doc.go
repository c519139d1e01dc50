// Package state defines what a crawl keeps on disk and how to read it: the names of structures and files,
// the manifest and its copies, the hash secret, the public suffix list, and the encodings that several
// readers share (URL records in RAM at a checkpoint, names of hosts and PLDs).
//
// The packages below state read and repair a crawl at rest: snapshot and metrics have its figures, history their
// course, changes what the operator changed; audit, repair, explain, export, extract, move and report are for
// commands. They import nothing of package crawl, which is what runs.
//
// A Saved is a crawl on disk. Package crawl embeds one in the running crawl; the packages below state need
// nothing else. The caller creates it from paths (NewSaved), matches the identities of the
// directories, locks them where it needs exclusive access, and then calls Take.
//
// Place, Reason and Counter are the terms of a crawl's accounts. Their numbers are in the manifest and in
// URL records, so their lists are append-only. Accounts are the accounts of one checkpoint: the number and
// key sum of the URLs in each place.
//
// Callers can test for the errors ErrIncompatible (another crawl, another format, other frozen settings),
// ErrUnusable (the system denies access), ErrExists, ErrFinished and ErrRepairing. Damage is a
// *disk.CorruptError that names the file.
//
// Only a ProgressMeter runs a goroutine. docs/reference/files describes the formats.
package state
