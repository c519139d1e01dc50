// Package drum is the Disk Repository with Update Management of the IRLbot paper: a large sorted set of <key,
// value> pairs on disk that takes a stream of checks and updates, and answers them in batches by sequential
// reading and writing alone. It knows nothing of URLs.
//
// It implements section IV.C and Figure 1; model.go has the equations of sections IV and V. Tuples <key,
// value, aux> are spread over k bucket buffers by the leading bits of the key, <key, value> and aux apart,
// and full buffers go to bucket files. A merge reads a bucket, sorts it, takes it through the bucket's part
// of the sorted cache Z, which is rewritten if something changed, and hands out the results, with their aux,
// in order of arrival.
//
// # Departures from the paper
//
//   - A bucket is merged in rounds of at most BucketBytes of RAM, in order of arrival, so the keys need not
//     be uniform: one key may own most of the tuples. With Options.Each each bucket is merged when it is full
//     itself.
//   - Apply, a function, decides what an operation does to a value; check, update and check+update are stock
//     ones.
//   - Z is cut at the borders of the buckets into parts, and a part that didn't change isn't rewritten. The
//     parts that a pass writes go to one new file per directory.
//   - Keys in Z may be Golomb-Rice coded, aux compressed.
//   - A store that only asks "seen or not" may keep aux in one log per directory, in order of arrival,
//     instead of a file per bucket (Options.Aux = AuxLog, textlog.go): half the files, text that compresses
//     well, and unique tuples in order of arrival. They come out when all buckets have been merged.
//   - Sorting is in place: 16 bytes a tuple, where the paper has H + P = 12 and must restore the order of
//     arrival too.
//   - Options.Workers buckets are merged at the same time, each in a round of its own; texts are coded outside of
//     the log's lock and decoded ahead of the stream.
//   - Bucket files are made when a buffer is full, and grow by extents. A small store merges from RAM.
//
// # Contract
//
// Every tuple added is seen by exactly one round. Tuples of a bucket are applied and answered in order of
// arrival. A checkpoint (Pause, Freeze, Resume, Save, sync of all directories, manifest, Commit) captures one
// moment; after a crash Open goes on from the last durable one, nothing lost and nothing doubled. No State
// has a round in its middle: emission and install of a round are one unit under the gate that Pause takes.
// Files that a State names are neither cut, nor overwritten nor deleted before the Commit of a later one. An
// error of writing or of Emit is final (fail-stop), one of the context or of Reserve is not. Damage found in
// a file is a *disk.CorruptError and final too.
//
// # Concurrency
//
// Add may be called by many goroutines, also during a pass and from within Emit; a full buffer is written by
// whoever fills it. One Pass runs at a time; with Options.Workers above 1 it has so many goroutines, and one
// more to read a text log, which end with it. Reading, sorting and writing of one round take turns.
//
// # Memory and disk
//
// Options.RAMBytes: 2kM for buffers (M only once touched), and for each worker 2M, BucketBytes for the tuples of
// a round (with text logs, or SpanBytes for the bitmap that follows them), ReadChunkBytes and the merge's own
// buffers; all but the first only during a pass. Text logs take some LogBytes more. Disk: the pending tuples, the cache twice, what is in buffers twice.
//
// # Files
//
// In state/<Name> of each directory: keys-<bucket>-<generation> and aux-<bucket>-<generation>, a bucket's
// input, in directory bucket mod n; text-<directory>-<generation>, a text log; cache-<generation>, the parts
// that a pass wrote, and unique-<generation>, its lists of unique texts, in directory (bucket + 1) mod n;
// buffers-<generation>, what came into the directory's buffers between checkpoints (buffers.go). The formats
// are in docs/formats/drum.md and format.go.
package drum
