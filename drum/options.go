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
	// maxRoundTuples keeps arrival numbers within 32 bits, with a margin.
	maxRoundTuples = 1 << 31
	// maxLogBytes is the largest block that s2 encodes at full speed.
	maxLogBytes = 4 << 20
	// maxWorkers is more than a machine's cores and disks can use.
	maxWorkers = 64
)

// Options describes a store. Set and Name are required. Other zero fields mean the default.
type Options struct {
	// Set is the set of directories. The subdirectory state/<Name> of each belongs to this store alone.
	Set  disk.Set
	Name string

	// Buckets is the paper's k, a power of 2; default 64. An existing store keeps its number.
	Buckets int
	// BufferBytes is M, the size of each of the 2k intake buffers in bytes, a multiple of 4096; default 256
	// KiB. A key with its value, or an aux, must fit into one.
	BufferBytes int
	// BucketBytes is r, the RAM for the tuples of one round, TupleBytes each; default 64 MiB. A bucket is
	// full at 31/32 of it.
	BucketBytes int64
	// ReadChunkBytes is delta, the size of reads; default a quarter of BucketBytes, between 64 KiB and 32
	// MiB.
	ReadChunkBytes int
	// DiskBytes is D: a merge is due when the tuples in the buckets take this number of bytes; 0 means no
	// limit.
	DiskBytes int64

	// Op, if set, is the operation of all tuples. Stores without values then save a byte per tuple.
	Op Op
	// ValueBytes is the length of the cache's values: 0 for none, > 0 for fixed, -1 for variable.
	ValueBytes int
	// MaxValueBytes bounds variable values and the values of tuples; default ValueBytes, or 64 KiB if
	// values are variable.
	MaxValueBytes int
	// OutBytes bounds the Out of a result. Each tuple of a round reserves this number of bytes.
	OutBytes int
	// Codec is the encoding of keys in new parts of the cache; default Raw. Readers accept all codecs.
	Codec Codec
	// Aux says where aux waits; default AuxBucketed. AuxLog requires a store without values, Apply and Each
	// whose Op is CheckUpdate.
	Aux AuxMode
	// LogBytes is the size of a text log's blocks before compression, a multiple of 4096; default
	// BufferBytes. 1 MiB compresses better than 64 KiB and wastes less of the last page of a block.
	LogBytes int
	// PackTexts says which blocks of a text log are compressed; default PackWhereDisksBind.
	PackTexts PackMode
	// SpanBytes is the maximum size of the bitmap used to stream a text log; default 32 MiB, for 2^28 tuples.
	SpanBytes int
	// Workers is the number of buckets that a pass merges at once, each in a round of BucketBytes of RAM;
	// default 1. With more than 1, several goroutines call Apply, Expunge, Wanted, BeginRound, EndRound and
	// Reserve concurrently. Calls of Emit never overlap.
	Workers      int
	workerTuples int64 // default workerTuples
	// cacheRAMBytes bounds the files of parts in RAM; default min(maxCacheRAM, BucketBytes/cacheRAMShare), < 0: none.
	cacheRAMBytes int64
	// Each, for skewed stores, merges each bucket when it is full. If false, one pass merges all buckets
	// when the largest is full, as in the paper.
	Each bool

	// RoundTuples, if not 0, limits a round to as many tuples, or to the number of keys in its bucket if that
	// is larger: each round rewrites the bucket's part. Emissions and the time from BeginRound to EndRound are
	// then short while the store is small. 0: only BucketBytes limits a round.
	RoundTuples int64

	// Apply decides about a key's entry. nil means a faster implementation of ApplyCheckUpdate.
	Apply Apply
	// Expunge, if set, is called for unchanged entries that a round or a compaction copies to a new part.
	// The entry is dropped if it returns true. This costs no I/O, so entries of unchanged parts stay. Only
	// for stores with values.
	Expunge func(key Key, value []byte) bool
	// Wanted selects the results to emit; the aux of others is not copied. It sees all fields except Value
	// and Aux. nil selects all results except those of Update.
	Wanted func(*Result) bool
	// Emit takes the results of a bucket's round in order of arrival, at most 512 per call, under the gate
	// (see Pause). Their bytes are valid during the call. Its error is final for the store, because a part
	// of the round may have been emitted. nil drops all results.
	Emit func([]Result) error
	// Yield ends the emission of a round early if Pause waits, after at least one tuple: for stores whose aux is so
	// long that the emission of a round takes seconds. The cache then has the entries of the whole round, while the
	// tuples that were not emitted stay in the bucket, and a later round passes them to Apply a second time. So
	// Apply must know a value as the tuple's own, and decide as it did at first. Only with Apply.
	Yield bool
	// BeginRound and EndRound, if set, are called before and after each round: Apply, Emit and install.
	BeginRound, EndRound func()
	// Reserve, if set, is called before each round with the number of bytes that the round may write; each
	// worker calls it for its own rounds. release is called once they are written. An error of Reserve ends
	// the pass and is not final.
	Reserve func(need int64) (release func(), err error)
}

// AuxMode says where aux waits for the merge.
type AuxMode uint8

const (
	// AuxBucketed keeps a file of aux beside the keys of each bucket, as in the paper.
	AuxBucketed AuxMode = 0
	// AuxLog keeps one compressed log per directory, in order of arrival. The unique tuples are emitted
	// once all buckets are merged, in order of arrival within a directory. Their Results have Op, New and
	// Aux, but no Key.
	AuxLog AuxMode = 1
)

// complete sets the defaults and validates.
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

// Check returns the error that Open would return for the options.
func (o Options) Check() error { return o.complete() }

// Validate returns all errors, joined. Open calls it after setting the defaults.
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
		"Buckets %d: want a power of 2 up to 2^20", o.Buckets)
	need(o.BufferBytes >= pageBytes && o.BufferBytes%pageBytes == 0 && o.BufferBytes <= math.MaxInt32,
		"BufferBytes %d: want a multiple of %d", o.BufferBytes, pageBytes)
	need(o.Op <= CheckUpdate, "unknown operation %d", o.Op)
	need(o.ValueBytes >= variableValues, "ValueBytes %d: want -1 or more", o.ValueBytes)
	need(o.ValueBytes == 0 || o.MaxValueBytes >= max(o.ValueBytes, 1),
		"MaxValueBytes %d: want at least %d", o.MaxValueBytes, max(o.ValueBytes, 1))
	need(o.ValueBytes != 0 || o.MaxValueBytes == 0, "MaxValueBytes in a store without values")
	need(o.MaxValueBytes+keyRecordOverhead <= o.BufferBytes-bucketFrameBytes,
		"MaxValueBytes %d: too large for buffers of %d bytes", o.MaxValueBytes, o.BufferBytes)
	need(o.Expunge == nil || o.ValueBytes != 0, "Expunge in a store without values")
	need(o.OutBytes >= 0 && o.OutBytes <= math.MaxUint16, "OutBytes %d: want at most 65535", o.OutBytes)
	need(o.Codec == Raw || o.Codec == Rice, "unknown codec %d", o.Codec)
	need(o.Workers > 0 && o.Workers <= maxWorkers, "Workers %d: want 1 to %d", o.Workers, maxWorkers)
	need(o.Aux <= AuxLog, "unknown aux mode %d", o.Aux)
	need(o.LogBytes >= o.BufferBytes && o.LogBytes%pageBytes == 0 && o.LogBytes <= maxLogBytes,
		"LogBytes %d: want a multiple of %d from BufferBytes to %d", o.LogBytes, pageBytes, maxLogBytes)
	need(o.SpanBytes >= 8, "SpanBytes %d: want at least 8", o.SpanBytes)
	need(!o.logged() || o.ValueBytes == 0 && o.Apply == nil && o.Op == CheckUpdate && !o.Each,
		"AuxLog in a store with values, Apply, Each or an operation other than check+update")
	need(!o.Yield || o.Apply != nil, "Yield without Apply")
	need(o.ReadChunkBytes >= pageBytes, "ReadChunkBytes %d: want at least %d", o.ReadChunkBytes, pageBytes)
	need(o.BucketBytes >= o.TupleBytes(o.MaxValueBytes) && o.BucketBytes <= math.MaxUint32,
		"BucketBytes %d: want room for one tuple or more, and less than 4 GiB", o.BucketBytes)
	return errors.Join(errs...)
}

// TupleBytes returns the RAM of a tuple with a value of n bytes in a round, in bytes.
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

// fullBytes returns the size at which a bucket is full: 1/32 less than the size of a round. The margin is
// for tuples that arrive before the merge starts. Otherwise they would need another round, which reads and
// writes the whole part again.
func (o *Options) fullBytes() int64 { return max(1, o.BucketBytes-o.BucketBytes/32-valueOffsetBytes) }

// FullTuples returns the number of tuples without values that make a bucket full: r in tuples.
func (o Options) FullTuples() int64 {
	_ = o.complete()
	return (o.fullBytes() + o.TupleBytes(0) - 1) / o.TupleBytes(0)
}

// RAMBytes returns the maximum memory of a Drum with these options outside the Go heap: 2k buffers of M for
// intake, and for each worker two for the bucket being merged, r for a round, delta for reading and the
// buffers of the merge. Files of parts in RAM, which are in the Go heap, are included. Copies of buffers that
// fill up between Freeze and Save come on top.
func (o Options) RAMBytes() int64 {
	_ = o.complete()
	m, workers, logs := int64(o.BufferBytes), int64(o.Workers), int64(0)
	round, buffers := workers*o.BucketBytes, 2*int64(o.Buckets)+2*workers
	if o.logged() {
		// Sealed buffers replace those of aux. There are two logs per directory, and blocks being encoded
		// and written, or read and decoded, and one for the texts of a batch of results. Logs beyond the number of
		// workers have memory of their own to read. The bitmap is used after the rounds.
		round, buffers = max(round, int64(o.SpanBytes)), 2*int64(o.Buckets)
		dirs := int64(max(1, o.Set.Len()))
		logs = 1 + 2*dirs + logWriters*2 + 2*dirs*int64(o.decodeBlocks()) + 2*max(0, dirs-workers)
	}
	recent := int64(0)
	if o.logged() {
		recent = int64(o.recentBytes()) + o.indexRAM() + workers*2*8*manyKeys
	}
	return buffers*m + logs*int64(o.LogBytes) + recent + o.cacheRAM() + round + workers*(o.chunkBytes()+o.mergeBytes())
}

// recentBytes returns the size of recentKeys, which is to stay in a core's L2 cache.
func (o *Options) recentBytes() int { return o.LogBytes / 2 }

// chunkBytes returns the size of the read buffer: delta, plus the largest block, of which the previous read
// got a part.
func (o *Options) chunkBytes() int64 {
	block := o.BufferBytes
	if o.logged() {
		block = o.LogBytes
	}
	return pageUp(int64(o.ReadChunkBytes) + max(int64(block), o.maxCacheBlock()))
}

// mergeBytes returns the other memory of a merge: the write buffer, the current blocks of both parts, a run
// for Apply.
func (o *Options) mergeBytes() int64 {
	run := int64(runItems) * (itemBytes + int64(o.OutBytes))
	return int64(o.BufferBytes) + 3*o.maxCacheBlock() + 2*pageBytes + run + 2*int64(o.MaxValueBytes)
}

// maxCacheBlock bounds a block of the cache in bytes.
func (o *Options) maxCacheBlock() int64 {
	return cacheFrameBytes + (maxRiceBytes+4)*blockKeys + blockValueBytes + int64(o.MaxValueBytes)
}

// impliedOp reports whether tuples have no operation byte on disk.
func (o *Options) impliedOp() bool { return o.Op != 0 && o.ValueBytes == 0 }
