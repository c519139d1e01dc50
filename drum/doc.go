// Package drum is the Disk Repository with Update Management of the IRLbot paper: a large sorted set of
// <key, value> pairs on disk. It takes a stream of checks and updates, and answers them in batches using
// only sequential reads and writes. It does not interpret keys and values.
//
// It implements section IV.C and Figure 1; model.go has the equations of sections IV and V. The leading
// bits of its key assign each tuple <key, value, aux> to one of k bucket buffers, with <key, value> and aux
// apart. Full buffers are written to bucket files. A merge reads a bucket, sorts it, and merges it with the
// bucket's part of the sorted cache Z. It rewrites that part if an entry changed. Then it emits the
// results, with their aux, in order of arrival.
//
// # Departures from the paper
//
//   - A bucket is merged in rounds of at most BucketBytes of RAM, in order of arrival. So keys need not be
//     uniform: one key may own most of the tuples. With Options.Each, each bucket is merged when it is
//     full.
//   - A function, Apply, decides how an operation changes a value. The paper's check, update and
//     check+update are built in.
//   - Z is split into one part per bucket, and an unchanged part is not rewritten. The parts that a pass
//     writes go to one new file per directory.
//   - Keys in Z may be Golomb-Rice coded, aux compressed.
//   - A store that only asks whether a key was seen may keep aux in one log per directory, in order of
//     arrival, instead of one file per bucket (Options.Aux = AuxLog, textlog.go). That halves the number
//     of files, texts are coded as differences to those before (textcode.go), and unique tuples come out in
//     order of arrival, once all buckets are merged. Blocks are compressed only where disks bind. After a
//     round of few new keys, they stay in RAM and in the state for a while, without a new part (late.go). Such a
//     round decodes little of the part: an index of its blocks says where a key would be (probe.go).
//   - Sorting takes 16 bytes per tuple, and 72 KiB for each worker. The paper takes H + P = 12 per tuple, and also
//     has to restore the order of arrival.
//   - Up to Options.Workers buckets are merged concurrently, each in its own round. Texts are encoded
//     outside the log's lock, and decoded ahead of the stream.
//   - A bucket file is created when its buffer is first full, and grows by extents. A small store merges
//     from RAM. The files with its cache and its lists also stay in RAM until a checkpoint names them
//     (ramfile.go), so its passes between checkpoints do no I/O.
//
// # Contract
//
// Exactly one round sees each tuple added. Tuples of a bucket are applied and answered in order of
// arrival. A checkpoint (Pause, Freeze, Resume, Save, sync of all directories, manifest, Commit) captures
// one moment. After a crash, Open continues from the last durable checkpoint; no tuple is lost or applied
// twice. No State is taken inside a round: Pause takes the gate that makes emission and install of a round
// one unit. A file that a State names is on disk when Save returns. It is not cut, overwritten or deleted
// before the Commit of a later State. After a write error, an error of Emit or damage in a file (a
// *disk.CorruptError), the store accepts no more operations. Errors of the context and of Reserve are not
// final.
//
// # Concurrency
//
// Add may be called by many goroutines, also during a pass and from within Emit. The goroutine that fills a
// buffer writes it. One Pass runs at a time. With Options.Workers above 1, a Pass merges buckets in up to
// that number of goroutines. Then it reads the text logs of all directories at once, with a goroutine for
// each to read, and Workers or one for each to decode. They end with the pass. Within a round, reading,
// sorting and writing do not overlap.
//
// # Memory and disk
//
// Options.RAMBytes returns the RAM: 2kM for buffers (only touched pages count), and for each worker 2M,
// BucketBytes for the tuples of a round (with text logs at least SpanBytes, for the bitmap used
// after the merge), ReadChunkBytes and the merge's own buffers. Files of parts in RAM take up to 2 MiB, or
// an eighth of BucketBytes if that is less. Between passes a drum keeps the memory of at most one worker,
// whose last round was small (keptBytes); the rest is released. Text logs add a few LogBytes for each
// directory, and up to 1 MiB of indexes (maxIndexBytes). Disk holds the pending tuples, the cache twice,
// and the buffers' content twice.
//
// # Files
//
// Each directory has these files in state/<Name>. keys-<bucket>-<generation> and aux-<bucket>-<generation>
// are a bucket's input, in directory bucket mod n. text-<directory>-<generation> is a text log.
// cache-<generation> has parts written by a pass, and unique-<generation> its lists of unique texts, both
// in directory (bucket + 1) mod n. buffers-<generation> has the content of the directory's buffers at
// checkpoints (buffers.go). For the formats see docs/reference/files/drum.md and format.go.
package drum
