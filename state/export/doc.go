// Package export writes what a crawl found as tables, for programs that analyse it: PLDs and the edges
// between them, hosts, stored pages and their links, refusals, waiting URLs and the state of robots.txt. The
// paper's analysis of its crawl (sections II and VII) needs such tables.
//
// # Contract
//
// Run reads one checkpoint of a crawl, which may be running (state.Reader), and writes the rows of one Kind
// through package tabular. All rows are of that checkpoint; later output is left out. It takes no lock and
// writes only below Options.Target and Options.TempDir. Damage ends the export with a *disk.CorruptError and
// leaves the finished parts. Output files that were moved away are no damage: their rows lack some columns, or
// are missing, and Report.Notes says so.
//
// Site makes the report of a site from the same sources, by sorting what is known of each URL and each link by the
// key of the URL (site.go).
//
// Index and WACZ are no tables: they are made again by each Run, and have their names when they are complete.
//
// A repeated Run with the same checkpoint and options keeps finished parts. It makes all rows again, in the
// same order, and writes only the rest. With another checkpoint it replaces the table.
//
// # How tables are made
//
// Drums give names, PLDs and origins in the order of their keys; what waits in their buckets is sorted and
// merged with that. Edges are sorted twice, to find the name of each end (edges.go); their links are counted
// in the stored pages (linkcounts.go). Pages are a merge join of the crawl log, sorted by file and offset,
// with the index of each WARC file (pages.go). The state of URLs comes from a sort of all visits, refusals and
// waiting URLs by URL and time (visits.go), and so do changes, which are then sorted by time (changes.go).
// Near-duplicates come from the indexes, which Index merges by sorting, and whose hashes are sorted ten times
// (nearduplicates.go). Links are read from the stored pages, in the order of the WARC files; what is to be
// read, and the body of each revisit, comes from a sort of the indexes by digest (links.go). Texts are signed in
// one pass over the stored pages, clustered by sorting, and written in a second pass (texts.go, clusters.go). The
// sample of a random walk is computed in RAM from the walk in the checkpoint (sample.go), which takes as much as
// it took in the crawl.
//
// # Memory, disk, concurrency
//
// RAM: Options.RAMBytes, which sorters and the writer share, and what the crawl held in buffers at the
// checkpoint. Garbage comes on top, unless the caller sets a limit, as the commands do. What does not fit is sorted
// in TempDir: some 100 bytes for a page (three times that for near-duplicates, seven times for texts), 16 for an
// edge and again some 30 with one name. The caller's goroutine does all work; iter.Pull runs scans as coroutines of
// it. Links has a worker for each core, which holds one page of up to 16 MiB, and Texts one for each 64 MiB.
package export
