// Package history keeps the figures of a crawl over time, and its events, in a bounded number of bytes on
// disk.
//
// A Writer takes a sample of all series every Interval, and events such as the start and the stop of a run.
// Read returns selected series of a span of time, reduced to a number of points. It works while a Writer
// runs, in another process, and after the crawl has ended. docs/reference/files/history.md describes the files.
//
//	w, err := history.Open(history.Options{FS: fsys, Dir: "crawl/history", Bytes: 64 << 20})
//	err = w.Append(time.Now(), []history.Value{{Name: "pages_total", V: 4711}})
//	data, err := history.Read(fsys, "crawl/history", history.Query{From: from, To: to, Points: 600})
//
// # Ages
//
// Samples become rarer with age: all of the last 2 days, one a minute of the last 2 weeks, one in ten minutes
// before that. Of the samples in such an interval the last remains, so totals stay exact. If the files exceed
// Options.Bytes, the samples that are closest together for their age are thinned further: each time, one of
// two remains. So the history of a crawl of years loses resolution and not its beginning.
//
// # Contract
//
// The history is a record of what happened in wall time. It is not part of a checkpoint: nothing is read from
// it to continue a crawl, and losing it loses no URL. After a crash the totals of a crawl return to its last
// checkpoint, while the history keeps the samples taken since. So a total may step back at a start; a reader
// that computes rates counts a step back as no progress. A series that a run has not reported yet is absent
// (NaN). One that it reported before and no longer does is 0.
//
// Records are appended and never synced, except when a file is complete. A process that is killed loses
// nothing, a power cut the last seconds. Open cuts off a torn tail. Damage ends a file's records there; Read
// continues with the next file and reports it.
//
// # Concurrency and cost
//
// A Writer is for one goroutine, Read for any. A sample of 450 series of a busy crawl takes 300 bytes and
// tens of microseconds. Read keeps one file in memory, at most 8 MiB, and its result. A year of history takes
// some 30 MB and a fraction of a second (BenchmarkReadYear).
//
// # Files
//
// format.go has the records, writer.go appends them, thin.go ages files, read.go reads.
package history
