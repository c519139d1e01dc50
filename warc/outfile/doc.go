// Package outfile writes output files that become final: append-only files in the output directories,
// rotated by the caller, each of one or more streams (a WARC file and its index). It serves packages warc
// and crawllog and knows neither. The paper has no such part: it says that pages were stored, not how they
// survive a crash.
//
// # Contract
//
// A file ends in ".open" until a durable manifest covers its whole length; then it gets its final name and
// is never opened again: it may be moved or deleted. What a state names is in the files exactly once after
// Open, whatever happened since: recovery cuts .open files to their named lengths, deletes .open files that
// the state doesn't name (only names that this store could have given), and completes renames. Nothing else
// is touched.
//
// Files are written in multiples of 4 KiB, so that no block a manifest names is ever rewritten: whole buffers,
// and at a checkpoint the whole blocks of what is in a buffer, if that is much. The rest goes to the
// checkpoint's tail file, and comes back from there at Open.
//
// Any failed write makes the store return that error for ever (fail-stop): an output file with a hole can't
// be named.
//
// # Concurrency
//
// One lane per directory, each with a lock of its own that is held while a record is appended, sometimes
// with a write of one buffer; so is it by Save. Freeze takes each lock in turn and copies nothing. Save and
// Commit run beside appends. No goroutines.
//
// # Memory and disk
//
// Memory: directories x streams x BufferBytes, twice that between Freeze and Save. Disk: the output, and at
// most directories x streams x flushBytes in a tail file, or BufferBytes where appends go on.
package outfile
