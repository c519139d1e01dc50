// Package outfile writes append-only files in the output directories. The caller rotates them, and they
// become final. A volume consists of one or more streams, such as a WARC file and its index. Packages warc
// and crawllog use it; it knows neither. The paper has no counterpart: it says that pages were stored, not
// how they survive a crash.
//
// # Contract
//
// A file name ends in ".open" until a durable manifest covers the file's whole length. The file then gets
// its final name and is never opened again, so it may be moved or deleted. After Open, everything that a
// state names is in the files exactly once, whatever has happened since: recovery truncates .open files to
// the lengths in the state, deletes .open files that the state does not name (only names that this store
// could have given), and completes renames. It touches nothing else.
//
// Files are written in multiples of 4 KiB, so no block that a manifest covers is ever rewritten: in whole
// buffers, and at a checkpoint in the whole blocks of a long buffer. The rest goes to the checkpoint's tail
// file, from which Open restores it.
//
// After any failed write the store returns that error for ever (fail-stop), because no state can describe a
// file with a hole.
//
// A Detached volume is written beside the lanes and added as a whole. Until then no state names it, so
// recovery deletes it, and a failed write concerns only this volume.
//
// # Concurrency
//
// There is one lane for each directory. Its lock is held while a record is appended, sometimes during the
// write of one buffer, and by Save. Freeze takes the locks one after the other and copies nothing. Save and
// Commit run concurrently with appends. The package has no goroutines.
//
// # Memory and disk
//
// Memory: directories x streams x BufferBytes, twice that between Freeze and Save. Disk: the output, and in
// a tail file at most directories x streams x flushBytes, or BufferBytes while appends continue.
package outfile
