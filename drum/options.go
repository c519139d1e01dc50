package drum

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"drumbeat/disk"
)

const (
	defaultBuckets     = 64
	defaultBufferBytes = 256 << 10 // the paper's M
	defaultBucketBytes = 64 << 20
	maxChunkBytes      = 32 << 20 // the paper's delta
	minChunkBytes      = 64 << 10
	defaultMaxValue    = 64 << 10
	variableValues     = -1
	// maxRoundTuples keeps arrival numbers within 32 bits with room to spare.
	maxRoundTuples = 1 << 31
	// maxLogBytes is what s2 codes as one block at full speed.
	maxLogBytes = 4 << 20
	// maxWorkers is beyond what a machine's cores and disks can make use of.
	maxWorkers = 64
)

// Options describes a store. Set and Name are needed; other zero fields mean the default.
type Options struct {
	// Set is the directories, Name the subdirectory state/<Name> in each that belongs to this store alone.
	Set  disk.Set
	Name string

	// Buckets is the paper's k, a power of 2; default 64. A store keeps the number it was made with.
	Buckets int
	// BufferBytes is M, the size of each of the 2k intake buffers, a multiple of 4096; default 256 KiB. Keys
	// with values, and aux, must fit into one.
	BufferBytes int
	// BucketBytes is r, the RAM that the tuples of one round take (TupleBytes each); a bucket is full when it has a
	// 32nd less; default 64 MiB.
	BucketBytes int64
	// ReadChunkBytes is delta, the size of reads; default a quarter of BucketBytes between 64 KiB and 32 MiB.
	ReadChunkBytes int
	// DiskBytes is D: a merge is due when so many bytes wait in the buckets; 0 means no such limit.
	DiskBytes int64

	// Op, if set, is the operation of all tuples; stores without values then need a byte less per tuple.
	Op Op
	// ValueBytes is the length of the cache's values: 0 none, > 0 fixed, -1 variable.
	ValueBytes int
	// MaxValueBytes bounds variable values and the values of tuples; default 64 KiB, or ValueBytes if that is
	// fixed.
	MaxValueBytes int
	// OutBytes bounds the Out of one result; each tuple of a round is counted with so many bytes.
	OutBytes int
	// Codec is the coding of keys in new parts of the cache; readers know all. Default Raw.
	Codec Codec
	// Aux says where aux waits; default AuxBucketed. AuxLog is for stores without values and Apply, Op being
	// CheckUpdate, and not Each.
	Aux AuxMode
	// LogBytes is the size of the blocks of a text log before they are compressed, a multiple of 4096; default
	// BufferBytes. 1 MiB compresses better than 64 KiB, and leaves less of the last page of a block unused.
	LogBytes int
	// SpanBytes is the largest bitmap with which a text log is streamed; default 32 MiB, for 2^28 tuples.
	SpanBytes int
	// CompressAux compresses the blocks of aux by s2, the text of URLs about 4 times.
	CompressAux bool
	// Workers is how many buckets a pass merges at once, each in a round of BucketBytes of RAM; default 1. With
	// more, Apply, Expunge, Wanted, BeginRound, EndRound and Reserve are called by several goroutines at once; Emit isn't.
	Workers      int
	workerTuples int64 // default crewTuples
	// Each merges each bucket when it is full itself, for skewed stores. False: all buckets in one pass when the
	// largest is full, as in the paper.
	Each bool

	// Apply decides about a key's entry; nil is ApplyCheckUpdate by a faster way.
	Apply Apply
	// Expunge, if set, is asked for each entry that a round takes over unchanged into a part that it rewrites anyway, and for those
	// of parts that are compacted; true drops the entry. It costs no I/O, so entries of buckets where nothing changes stay. Only for
	// stores with values.
	Expunge func(key Key, value []byte) bool
	// Wanted selects the results to be emitted; the aux of others isn't copied. It sees all fields but Value and
	// Aux. nil selects all but those of Update.
	Wanted func(*Result) bool
	// Emit takes the results of a bucket's round in order of arrival, at most 512 per call, under the gate (see
	// Pause). Their bytes are valid during the call. An error ends the store's life: part of a round may have
	// got through. nil drops all results.
	Emit func([]Result) error
	// BeginRound and EndRound, if set, enclose each round: Apply, Emit and install.
	BeginRound, EndRound func()
	// Reserve, if set, is asked before each round for the bytes it may write, by each worker for its own; release is called when
	// they are written. Its error ends the pass without harm.
	Reserve func(need int64) (release func(), err error)
}

// AuxMode says where aux waits for the merge.
type AuxMode uint8

const (
	// AuxBucketed is a file beside the keys of each bucket, as in the paper.
	AuxBucketed AuxMode = 0
	// AuxLog is one compressed log per directory, in order of arrival. The unique tuples come out when all
	// buckets have been merged, in order of arrival within a directory; a Result has Op, New and Aux, but no
	// Key.
	AuxLog AuxMode = 1
)

// complete fills in the defaults and validates.
func (o *Options) complete() error {
	if o.Buckets == 0 {
		o.Buckets = defaultBuckets
	}
	if o.BufferBytes == 0 {
		o.BufferBytes = defaultBufferBytes
	}
	if o.BucketBytes == 0 {
		o.BucketBytes = defaultBucketBytes
	}
	if o.ReadChunkBytes == 0 {
		o.ReadChunkBytes = int(min(maxChunkBytes, max(minChunkBytes, o.BucketBytes/4)))
	}
	if o.MaxValueBytes == 0 {
		o.MaxValueBytes = max(o.ValueBytes, 0)
		if o.ValueBytes == variableValues {
			o.MaxValueBytes = defaultMaxValue
		}
	}
	if o.Codec == 0 {
		o.Codec = Raw
	}
	if o.SpanBytes == 0 {
		o.SpanBytes = 32 << 20
	}
	if o.LogBytes == 0 {
		o.LogBytes = o.BufferBytes
	}
	if o.workerTuples == 0 {
		o.workerTuples = workerTuples
	}
	if o.Workers == 0 {
		o.Workers = 1
	}
	return o.Validate()
}

// Check returns what Open would find wrong with the options.
func (o Options) Check() error { return o.complete() }

// Validate returns all faults joined. Open calls it after filling in the defaults.
func (o *Options) Validate() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(o.Set.FS != nil && o.Set.Len() > 0, "no directories")
	need(validName(o.Name), "name %q: want letters, digits, dash or underscore", o.Name)
	need(o.Buckets > 0 && bits.OnesCount(uint(o.Buckets)) == 1 && o.Buckets <= 1<<20,
		"%d buckets: want a power of 2 up to 2^20", o.Buckets)
	need(o.BufferBytes >= pageBytes && o.BufferBytes%pageBytes == 0 && o.BufferBytes <= math.MaxInt32,
		"buffers of %d bytes: want a multiple of %d", o.BufferBytes, pageBytes)
	need(o.Op <= CheckUpdate, "operation %d", o.Op)
	need(o.ValueBytes >= variableValues, "values of %d bytes", o.ValueBytes)
	need(o.ValueBytes == 0 || o.MaxValueBytes >= max(o.ValueBytes, 1),
		"values up to %d bytes: want at least %d", o.MaxValueBytes, max(o.ValueBytes, 1))
	need(o.ValueBytes != 0 || o.MaxValueBytes == 0, "MaxValueBytes in a store without values")
	need(o.MaxValueBytes+keyRecordOverhead <= o.BufferBytes-bucketFrameBytes,
		"values up to %d bytes: too large for buffers of %d", o.MaxValueBytes, o.BufferBytes)
	need(o.Expunge == nil || o.ValueBytes != 0, "Expunge in a store without values")
	need(o.OutBytes >= 0 && o.OutBytes <= math.MaxUint16, "OutBytes %d: want at most 65535", o.OutBytes)
	need(o.Codec == Raw || o.Codec == Rice, "codec %d", o.Codec)
	need(o.Workers > 0 && o.Workers <= maxWorkers, "%d workers: want 1 to %d", o.Workers, maxWorkers)
	need(o.Aux <= AuxLog, "aux mode %d", o.Aux)
	need(o.LogBytes >= o.BufferBytes && o.LogBytes%pageBytes == 0 && o.LogBytes <= maxLogBytes,
		"blocks of a text log of %d bytes: want a multiple of %d from BufferBytes to %d", o.LogBytes, pageBytes, maxLogBytes)
	need(o.SpanBytes >= 8, "spans of %d bytes: want at least 8", o.SpanBytes)
	need(!o.logged() || o.ValueBytes == 0 && o.Apply == nil && o.Op == CheckUpdate && !o.Each,
		"a text log in a store with values, Apply, Each or other operations than check+update")
	need(o.ReadChunkBytes >= pageBytes, "read chunks of %d bytes: want at least %d", o.ReadChunkBytes, pageBytes)
	need(o.BucketBytes >= o.TupleBytes(o.MaxValueBytes) && o.BucketBytes <= math.MaxUint32,
		"buckets of %d bytes: want at least one tuple, less than 4 GiB", o.BucketBytes)
	return errors.Join(errs...)
}

// TupleBytes returns the RAM that one tuple with a value of n bytes takes in a round.
func (o *Options) TupleBytes(n int) int64 {
	sum := int64(entryBytes)
	if o.ValueBytes != 0 {
		sum += valueOffsetBytes + int64(n)
	}
	if o.Apply != nil {
		sum += resultBytes
		if o.OutBytes > 0 {
			sum += outLenBytes + int64(o.OutBytes)
		}
	}
	return sum
}

// fullBytes is what makes a bucket full: a 32nd less than a round takes, so that the tuples which come in until the merge
// begins don't need another round, in which the whole part is read and written again.
func (o *Options) fullBytes() int64 {
	return max(1, o.BucketBytes-o.BucketBytes/32-valueOffsetBytes)
}

// FullTuples returns how many tuples without values make a bucket full: r in tuples.
func (o Options) FullTuples() int64 {
	_ = o.complete()
	return (o.fullBytes() + o.TupleBytes(0) - 1) / o.TupleBytes(0)
}

// RAMBytes returns what a Drum of these options takes at most outside the Go heap: 2k buffers of M for intake
// and for each worker two for the bucket being merged, r for a round, delta for reading, and the buffers of the
// merge. The copies of buffers that fill up between Freeze and Save come on top.
func (o Options) RAMBytes() int64 {
	_ = o.complete()
	m, workers, logs := int64(o.BufferBytes), int64(o.Workers), int64(0)
	round, buffers := workers*o.BucketBytes, 2*int64(o.Buckets)+2*workers
	if o.logged() {
		// Sealed buffers take the place of those of aux; two logs a directory, and blocks that are being coded and
		// written, or read and decoded; the bitmap follows the rounds.
		round, buffers = max(round, int64(o.SpanBytes)), 2*int64(o.Buckets)
		logs = 2*int64(max(1, o.Set.Len())) + logWriters*2 + 2*o.decodeBlocks()
	}
	return buffers*m + logs*int64(o.LogBytes) + round + workers*(o.chunkBytes()+o.mergeBytes())
}

// chunkBytes is the read buffer: delta, and room for the largest block, of which a part has been read before.
func (o *Options) chunkBytes() int64 {
	block := o.BufferBytes
	if o.logged() {
		block = o.LogBytes
	}
	return pageUp(int64(o.ReadChunkBytes) + max(int64(block), o.maxCacheBlock()))
}

// mergeBytes is what a merge needs besides: the write buffer, the present blocks of both parts, a run for
// Apply.
func (o *Options) mergeBytes() int64 {
	run := int64(runItems) * (itemBytes + int64(o.OutBytes))
	sum := int64(o.BufferBytes) + 3*o.maxCacheBlock() + 2*pageBytes + run + 2*int64(o.MaxValueBytes)
	if o.CompressAux {
		sum += 3 * int64(o.BufferBytes) // packing, in two goroutines, and unpacking
	}
	return sum
}

// maxCacheBlock bounds a block of the cache in bytes.
func (o *Options) maxCacheBlock() int64 {
	return cacheFrameBytes + (maxRiceBytes+4)*blockKeys + blockValueBytes + int64(o.MaxValueBytes)
}

// implied is true when tuples carry no operation byte on disk.
func (o *Options) impliedOp() bool { return o.Op != 0 && o.ValueBytes == 0 }
