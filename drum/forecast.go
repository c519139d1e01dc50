package drum

import (
	"encoding/binary"
	"math"
)

// Cost is the expected I/O of a store, in bytes per tuple of check+update. It extends Theorem 2 to this
// implementation: encodings, content that stays in buffers, block headers.
type Cost struct {
	// The bytes by kind, as in Stats. Lists of unique texts count as cache.
	KeysWritten  float64 `json:"keysWritten"`
	KeysRead     float64 `json:"keysRead"`
	AuxWritten   float64 `json:"auxWritten"`
	AuxRead      float64 `json:"auxRead"`
	CacheRead    float64 `json:"cacheRead"`
	CacheWritten float64 `json:"cacheWritten"`
	// PassTuples is the number of tuples per pass, Passes the number of passes.
	PassTuples float64 `json:"passTuples"`
	Passes     float64 `json:"passes"`
	// WaitingBytes is the disk space of the tuples of a full pass, CacheBytes that of the final cache.
	WaitingBytes float64 `json:"waitingBytes"`
	CacheBytes   float64 `json:"cacheBytes"`
}

// Bytes returns the total per tuple.
func (c Cost) Bytes() float64 {
	return c.KeysWritten + c.KeysRead + c.AuxWritten + c.AuxRead + c.CacheRead + c.CacheWritten
}

// CostInput describes the stream of tuples.
type CostInput struct {
	// Known is U, the number of entries before the stream. Tuples is n, the number of tuples.
	// UniqueFraction is p, the fraction of them that is new.
	Known, Tuples, UniqueFraction float64
	// AuxBytes is the mean length of aux. AuxRatio is the compression ratio of a text log; 0 means 1.
	AuxBytes, AuxRatio float64
	// PassTuples is the number of tuples per pass if known. 0 means as many as fill the largest bucket, or
	// DiskBytes.
	PassTuples float64
}

// costSteps bounds the number of terms of a sum over passes.
const costSteps = 1000

// Cost predicts the I/O of a store with uniform keys and no values whose passes merge all buckets. If
// passes have few tuples per bucket, the copying of parts out of mostly dead files comes on top.
func (o Options) Cost(in CostInput) Cost {
	_ = o.complete()
	ratio := max(1, in.AuxRatio)
	if !o.logged() {
		ratio = 1
	}
	key, aux := o.recordBytes(), in.AuxBytes+uvarintBytes(in.AuxBytes)
	c := Cost{PassTuples: in.PassTuples}
	if c.PassTuples <= 0 {
		c.PassTuples = o.fullTuples()
		if o.DiskBytes > 0 {
			c.PassTuples = min(c.PassTuples, float64(o.DiskBytes)/(key+aux/ratio))
		}
	}
	c.PassTuples = max(1, min(c.PassTuples, in.Tuples))
	c.Passes = in.Tuples / c.PassTuples
	t, k := c.PassTuples, float64(o.Buckets)
	full := math.Floor(c.Passes + 1e-9)
	keys, texts := o.spilled(t, key, aux, ratio)
	lastKeys, lastTexts := o.spilled(in.Tuples-full*t, key, aux, ratio)
	c.KeysWritten, c.AuxWritten = (full*keys+lastKeys)/in.Tuples, (full*texts+lastTexts)/in.Tuples
	c.KeysRead, c.AuxRead = c.KeysWritten, c.AuxWritten
	c.WaitingBytes = t * (key + aux/ratio)

	fresh := in.UniqueFraction * t
	c.CacheRead, c.CacheWritten = o.cachePasses(&in, t)
	if o.logged() && fresh > maxFewNumbers { // else most lists stay in RAM
		// A bucket's list has the numbers of its new texts, in blocks like those of a part.
		gap := k / float64(max(1, o.Set.Len())) / in.UniqueFraction
		lists := k * -math.Expm1(-fresh/k)
		list := fresh / lists * riceBits(gap) / 8
		list += cacheFrameBytes * math.Ceil(fresh/lists/blockKeys)
		c.CacheRead, c.CacheWritten = c.CacheRead+lists*list/t, c.CacheWritten+lists*wholePages(list)/t
	}
	c.CacheBytes = o.cacheBytes(in.Known + in.UniqueFraction*in.Tuples)
	return c
}

// spilled returns the bytes on disk of the keys and aux of t tuples. key and aux are the bytes of one record.
func (o *Options) spilled(t, key, aux, ratio float64) (keys, texts float64) {
	k := float64(o.Buckets)
	each := max(0, t/k)
	keys = k * o.blocks(each, key)
	if !o.logged() {
		return keys, k * o.blocks(each, aux)
	}
	dirs := float64(max(1, o.Set.Len()))
	log := *o
	log.BufferBytes = o.LogBytes
	return keys, dirs * log.packed(max(0, t/dirs), aux, ratio)
}

// cachePasses returns the bytes that passes of t tuples read and write of the cache, per tuple. The last
// pass may be short.
func (o *Options) cachePasses(in *CostInput, t float64) (read, written float64) {
	passes := math.Ceil(in.Tuples/t - 1e-9)
	steps, k := min(costSteps, passes), float64(o.Buckets)
	touched, rewritten := k*-math.Expm1(-t/k), k*-math.Expm1(-in.UniqueFraction*t/k) // buckets per pass
	for i := range int(steps) {
		// With many passes, the middle pass of each step represents the step.
		n := math.Floor((float64(i)+0.5)/steps*passes) * t
		before := in.Known + in.UniqueFraction*n
		after := in.Known + in.UniqueFraction*min(in.Tuples, n+t)
		changed := rewritten
		if late := float64(mostLate(int64(before / k))); o.logged() && t/k <= late {
			// A bucket's part is rewritten when it or the store has as many late keys as it may.
			changed = min(changed, in.UniqueFraction*t/(1+min(late, maxLateKeys/k)))
		}
		read += o.cacheBytes(before) * touched / k
		if after > before {
			written += changed * wholePages(o.cacheBytes(after)/k)
			// The entries before a part's first new key are read again, to be copied, unless they are in
			// the first block.
			again := min(o.cacheBytes(before)/k, float64(max(o.maxCacheBlock(), int64(o.BufferBytes))))
			first := min(1, blockKeys*k/max(1, before))
			read += changed * again * math.Pow(1-first, (after-before)/changed)
		}
	}
	scale := passes / steps / in.Tuples
	return read * scale, written * scale
}

// passCost predicts the bytes that the pass between two readings of the counters should move. Like Cost it
// assumes uniform keys. It takes from the readings what Cost knows only for keys without values: the sizes of
// the cache and of the tuples, and the number of entries that changed.
func (o *Options) passCost(before, after *Stats) float64 {
	merged := float64(after.Merged - before.Merged)
	if merged <= 0 {
		return 0
	}
	k, cache, changes := float64(o.Buckets), float64(before.CacheBytes), float64(after.Changed-before.Changed)
	touched, changed := k*-math.Expm1(-merged/k), k*-math.Expm1(-changes/k)
	bytes := cache * touched / k
	if changes > 0 {
		bytes += changed * wholePages(float64(after.CacheBytes)/k)
		again := min(cache/k, float64(max(o.maxCacheBlock(), int64(o.BufferBytes))))
		first := min(1, blockKeys*k/max(1, float64(before.Keys)))
		bytes += changed * again * math.Pow(1-first, changes/changed)
	}
	if tuples := float64(before.Tuples); tuples > 0 {
		// Keys with their values, and aux, fill buffers of their own; the sizes of both are known together.
		key := o.recordBytes()
		rest := min(max(0, float64(before.TupleBytes)/tuples-key), float64(o.BufferBytes))
		keys, aux := o.spilled(merged, key, rest, 1)
		bytes += 2 * (keys + aux)
	}
	return bytes
}

// recordBytes returns the mean size of a key record. With text logs the number follows as a difference; its
// mean is k, divided by the number of directories.
func (o *Options) recordBytes() float64 {
	bytes := float64(o.keyBytes())
	if !o.logged() {
		if !o.impliedOp() {
			bytes++
		}
		return bytes
	}
	gap := float64(o.Buckets) / float64(max(1, o.Set.Len()))
	for n := 0; n < binary.MaxVarintLen64; n++ {
		// A zigzag number of more than n bytes is at least 2^(7n). The gap is geometric.
		bytes += math.Exp(-math.Exp2(float64(7*n)) / 2 / gap * math.Min(1, float64(n)))
	}
	return bytes
}

// fullTuples returns the expected number of tuples in the store when the largest of k buckets is full. The
// expected maximum of k Poisson numbers is the mean plus some standard deviations.
func (o *Options) fullTuples() float64 {
	most, k := float64(o.FullTuples()), float64(o.Buckets)
	if k < 2 {
		return most
	}
	a := math.Sqrt(2 * math.Log(k))
	a -= (math.Log(math.Log(k)) + math.Log(4*math.Pi)) / (2 * a)
	mean := most
	for range 20 {
		mean = max(most/2, most-a*math.Sqrt(mean))
	}
	return k * mean
}

// blocks returns the bytes on disk of a bucket with about n records: the full buffers. The latest records
// are still in a buffer.
func (o *Options) blocks(n, record float64) float64 {
	return o.fullBuffers(n, math.Sqrt(n), record) * float64(o.BufferBytes)
}

// packed is blocks of a text log, with compression. Each block takes whole pages.
func (o *Options) packed(n, record, ratio float64) float64 {
	block := min(float64(o.BufferBytes), o.payload(record)/ratio+bucketFrameBytes+pageBytes/2)
	return o.fullBuffers(n, 0, record) * block
}

// wholePages returns the expected space in a file of a part of about the given size.
func wholePages(bytes float64) float64 { return max(pageBytes, bytes+pageBytes/2) }

// payload returns the expected payload of a full block: on average half a record does not fit. Records larger
// than half of a buffer are not modelled.
func (o *Options) payload(record float64) float64 {
	room := float64(o.BufferBytes - bucketFrameBytes)
	return max(room/2, room-record/2)
}

// fullBuffers returns the expected number of full buffers of a bucket that has n records with the given
// standard deviation.
func (o *Options) fullBuffers(n, deviation, record float64) float64 {
	bytes, room := n*record, o.payload(record)
	if deviation *= record; deviation <= 0 {
		return math.Floor(bytes / room)
	}
	full := max(0, math.Floor((bytes-6*deviation)/room)) // full with near certainty
	for at := (full + 1) * room; at < bytes+6*deviation; at += room {
		full += math.Erfc((at-bytes)/deviation/math.Sqrt2) / 2
	}
	return full
}

// cacheBytes returns the size of a cache with the given number of keys.
func (o *Options) cacheBytes(keys float64) float64 {
	if keys < 1 {
		return 0
	}
	bits := 64.0
	if o.Codec == Rice {
		bits = riceBits(math.Exp2(64) / keys)
	}
	perBlock := min(blockKeys, max(1, keys/float64(o.Buckets)))
	return keys * (bits/8 + cacheFrameBytes/perBlock)
}

// riceBits returns the mean length of a Golomb-Rice coded difference, geometric with mean gap, at the best
// parameter. It exceeds log2(gap) by 1.44 to 1.58 bits; the bound is 1.44.
func riceBits(gap float64) float64 {
	best := math.Inf(1)
	for s := range 64 {
		quotient := 1 / -math.Expm1(-math.Exp2(float64(s))/gap)
		if bits := float64(s) + quotient; bits < best {
			best = bits
		}
	}
	return best
}

// uvarintBytes returns the length of a number as uvarint.
func uvarintBytes(v float64) float64 { return max(1, math.Ceil(math.Log2(v+1)/7)) }
