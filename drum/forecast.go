package drum

import (
	"encoding/binary"
	"math"
)

// Cost is what the I/O of a store is expected to be, in bytes for each tuple of check+update. It is Theorem 2 for the
// store as it is: with its codings, with what stays in buffers, with the headers of blocks.
type Cost struct {
	// The bytes by kind, as Stats counts them; the lists of unique texts are part of the cache's.
	KeysWritten  float64 `json:"keysWritten"`
	KeysRead     float64 `json:"keysRead"`
	AuxWritten   float64 `json:"auxWritten"`
	AuxRead      float64 `json:"auxRead"`
	CacheRead    float64 `json:"cacheRead"`
	CacheWritten float64 `json:"cacheWritten"`
	// PassTuples is how many tuples a pass merges, Passes how many passes there are.
	PassTuples float64 `json:"passTuples"`
	Passes     float64 `json:"passes"`
	// WaitingBytes is what the tuples of a full pass take on disk; CacheBytes the cache at the end.
	WaitingBytes float64 `json:"waitingBytes"`
	CacheBytes   float64 `json:"cacheBytes"`
}

// Bytes is the sum for a tuple.
func (c Cost) Bytes() float64 {
	return c.KeysWritten + c.KeysRead + c.AuxWritten + c.AuxRead + c.CacheRead + c.CacheWritten
}

// CostInput is the stream of tuples that costs are computed for.
type CostInput struct {
	// Known is U, the entries before; Tuples is n, those to come, of which UniqueFraction, p, are new.
	Known, Tuples, UniqueFraction float64
	// AuxBytes is the mean length of aux, and AuxRatio how many times it compresses where the store compresses it; 0
	// means 1.
	AuxBytes, AuxRatio float64
	// PassTuples is how many tuples a pass merges, if that is known; 0 means as many as fill the largest bucket, or D.
	PassTuples float64
}

// costSteps bounds the work of a sum over passes.
const costSteps = 1000

// Cost predicts the I/O of a store with uniform keys, without values, all buckets of which are merged in one pass. Where
// passes have few tuples for each bucket, copying parts out of files that are mostly dead comes on top.
func (o Options) Cost(in CostInput) Cost {
	_ = o.complete()
	ratio := max(1, in.AuxRatio)
	if !o.compresses(auxBlocks) && !o.logged() {
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
	if o.logged() && fresh > 0 {
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

// spilled is what a pass of t tuples finds on disk of their keys and aux, which have so many bytes each.
func (o *Options) spilled(t, key, aux, ratio float64) (keys, texts float64) {
	k := float64(o.Buckets)
	each := max(0, t/k)
	keys = k * o.blocks(each, key)
	switch {
	case o.logged():
		dirs := float64(max(1, o.Set.Len()))
		log := *o
		log.BufferBytes = o.LogBytes
		texts = dirs * log.packed(max(0, t/dirs), 0, aux, ratio)
	case o.CompressAux:
		texts = k * o.packed(each, math.Sqrt(each), aux, ratio)
	default:
		texts = k * o.blocks(each, aux)
	}
	return keys, texts
}

// cachePasses is what passes of t tuples read and write of the cache, for each tuple. The last pass may be short.
func (o *Options) cachePasses(in *CostInput, t float64) (read, written float64) {
	passes := math.Ceil(in.Tuples/t - 1e-9)
	steps, k := min(costSteps, passes), float64(o.Buckets)
	touched, changed := k*-math.Expm1(-t/k), k*-math.Expm1(-in.UniqueFraction*t/k) // buckets of a pass
	for i := range int(steps) {
		// Of many passes the one in the middle of each step stands for it.
		n := math.Floor((float64(i)+0.5)/steps*passes) * t
		before := in.Known + in.UniqueFraction*n
		after := in.Known + in.UniqueFraction*min(in.Tuples, n+t)
		read += o.cacheBytes(before) * touched / k
		if after > before {
			written += changed * wholePages(o.cacheBytes(after)/k)
			// What stands before a part's first new key is read again, to be copied, if that isn't in the first block.
			again := min(o.cacheBytes(before)/k, float64(max(o.maxCacheBlock(), int64(o.BufferBytes))))
			first := min(1, blockKeys*k/max(1, before))
			read += changed * again * math.Pow(1-first, (after-before)/changed)
		}
	}
	scale := passes / steps / in.Tuples
	return read * scale, written * scale
}

// recordBytes is the mean record of a key: with text logs the number follows as a difference, which is k on average, k
// over the number of directories where there are several.
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
		// A zigzag number of more than n bytes is 2^(7n) at least, for a geometric gap.
		bytes += math.Exp(-math.Exp2(float64(7*n)) / 2 / gap * math.Min(1, float64(n)))
	}
	return bytes
}

// fullTuples is how many tuples there are when the largest of k buckets is full: the expected maximum of k
// Poisson numbers is the mean and some standard deviations.
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

// blocks is what a bucket with about n records has on disk: full buffers. What came in last waits in a buffer.
func (o *Options) blocks(n, record float64) float64 {
	return o.fullBuffers(n, math.Sqrt(n), record) * float64(o.BufferBytes)
}

// packed is the same where blocks are compressed; each takes whole pages.
func (o *Options) packed(n, deviation, record, ratio float64) float64 {
	block := min(float64(o.BufferBytes), o.payload(record)/ratio+bucketFrameBytes+pageBytes/2)
	return o.fullBuffers(n, deviation, record) * block
}

// wholePages is what a part of about so many bytes takes in its file.
func wholePages(bytes float64) float64 { return max(pageBytes, bytes+pageBytes/2) }

// payload is what a block of a bucket file holds: half a record finds no room in it.
func (o *Options) payload(record float64) float64 {
	return float64(o.BufferBytes-bucketFrameBytes) - record/2
}

// fullBuffers is the expected number of full buffers of a bucket that has n records with a standard deviation.
func (o *Options) fullBuffers(n, deviation, record float64) float64 {
	bytes, room := n*record, o.payload(record)
	if deviation *= record; deviation <= 0 {
		return math.Floor(bytes / room)
	}
	full := max(0, math.Floor((bytes-6*deviation)/room)) // as good as certain
	for at := (full + 1) * room; at < bytes+6*deviation; at += room {
		full += math.Erfc((at-bytes)/deviation/math.Sqrt2) / 2
	}
	return full
}

// cacheBytes is a cache of so many keys.
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

// riceBits is the mean length of a Golomb-Rice coded difference, geometric with mean gap, by the best parameter:
// 1.44 to 1.58 bits more than log2(gap), where the bound is 1.44.
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

// uvarintBytes is the length of a number as uvarint.
func uvarintBytes(v float64) float64 { return max(1, math.Ceil(math.Log2(v+1)/7)) }
