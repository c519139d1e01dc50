// Package backup copies a crawl as of a checkpoint to another place, and restores it from there.
//
// Open reads what a place has, Plan compares the files of a checkpoint with the last backup there, Make copies what
// is missing, and Restore writes the files of a backup into new directories. docs/reference/files/backup.md has the
// formats.
//
// A backup is a list of files, each with pieces of packs. The bytes that a manifest names do not change while a crawl
// keeps its lineage (state.Manifest.Lineage): files are appended to, and the parts of caches are written once. So a
// piece stands for the same bytes in all later backups of the lineage, and a backup copies only bytes that no earlier
// one has. Bytes of a pack that no file needs any more are dead. A pack that is more than half dead is left, and its
// live bytes are copied again.
//
// Files that no checkpoint names (history, journal of changes, seeds, records of erasures) are copied as they are, and
// again when their checksum differs. A start treats them as after a crash.
//
// Order: packs, then the list, then the file "latest" that names it, then deletions. A backup that latest does not
// name does not exist. Each put replaces an object whole. So a crash leaves at most packs that nothing names; the
// next backup of the lineage writes over them.
//
// RAM: one pack (packBytes), and the list: about 100 bytes for each file and 64 for each piece.
package backup
