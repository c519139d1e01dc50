package drum

import (
	"fmt"
)

// BufferFor returns M for a store's RAM: the paper's 256 KiB, or less where that would leave fewer than 64 buckets at the
// optimum, k = R/4M.
func BufferFor(ram float64) int {
	m := defaultBufferBytes
	for m > 8<<10 && ram/float64(4*m) < 64 {
		m /= 2
	}
	return m
}

// maxFitRound bounds r of Fit where BucketBytes doesn't. Theorem 2 wants few large buckets where RAM is plenty, which costs nothing on disk; but
// sorting many gigabytes in one go would hold up what waits for the pass.
const maxFitRound = 1 << 30

// bucketSlack is how much larger than its share of D a bucket may become: one that is full begins a pass.
const bucketSlack = 1.125

// Fit returns o with Buckets and BucketBytes such that RAMBytes is at most in.RAMBytes and the buckets hold as much as
// possible, in.DiskBytes at most if that is set, which is then DiskBytes: section IV.D with all the RAM of this
// implementation counted, its workers and chunks too, where Plan knows of 2kM + r alone. As in the theorem the number of
// buckets is the least that does it. BucketBytes, if set, is the most for r: rounds that fit the CPU's caches are sorted
// faster. BufferBytes 0 means BufferFor. in.BufferBytes and
// in.ReadChunkBytes aren't looked at; in.Load is what Plan.Alpha is for, its URLBytes and KeyBytes are those on disk.
func (o Options) Fit(in PlanInput) (Options, Plan, error) {
	l := &in.Load
	if l.KeyBytes == 0 {
		l.KeyBytes = 8
	}
	if l.URLBytes == 0 {
		l.URLBytes = 110
	}
	if o.BufferBytes == 0 {
		o.BufferBytes = BufferFor(in.RAMBytes)
	}
	// What n buckets of r bytes of RAM hold takes disk: 8 + b bytes for each tuple.
	perRAM := (l.KeyBytes + l.URLBytes) / float64(o.TupleBytes(0))
	best, most := Options{}, 0.0
	for k := 1; k <= 1<<20 && 2*float64(k)*float64(o.BufferBytes) < in.RAMBytes; k *= 2 {
		try, ok := o.fitRound(k, in.RAMBytes)
		if !ok {
			continue
		}
		holds := float64(k) * float64(try.BucketBytes) * perRAM
		if d := in.DiskBytes; d > 0 && holds >= d {
			// Buckets don't fill evenly: room to spare lets the disk be the limit, not the fullest bucket.
			share := int64(d/perRAM/float64(k)*bucketSlack) &^ (pageBytes - 1)
			try.BucketBytes = min(try.BucketBytes, max(pageBytes, share))
			best, most = try, d
			break
		}
		if holds > most {
			best, most = try, holds
		}
	}
	if most == 0 {
		return o, Plan{}, fmt.Errorf("drum: plan: RAM of %.3g bytes is too little for buffers of %d", in.RAMBytes, o.BufferBytes)
	}
	best.DiskBytes = int64(in.DiskBytes)
	k, r := float64(best.Buckets), float64(best.BucketBytes)/float64(o.TupleBytes(0))*l.KeyBytes
	r = min(r, most/(l.KeyBytes+l.URLBytes)*l.KeyBytes/k)
	p := Plan{
		Buckets: best.Buckets, ExactBuckets: k, BucketBytes: r, RoundBytes: float64(best.BucketBytes),
		BufferBytes: float64(o.BufferBytes), ReadChunkBytes: float64(best.ReadChunkBytes), DiskBytes: most,
		Alpha: l.quadratic()*l.KeyBytes/(l.URLBytes*k*r) + l.linear(),
	}
	return best, p, nil
}

// fitRound finds the largest r for k buckets, a multiple of pages; false if there is none of at least a buffer.
func (o Options) fitRound(k int, ram float64) (Options, bool) {
	o.Buckets = k
	chunk, most := o.ReadChunkBytes, int64(maxFitRound)
	if o.BucketBytes > 0 {
		most = min(most, o.BucketBytes)
	}
	at := func(pages int64) Options {
		o.BucketBytes, o.ReadChunkBytes = pages*pageBytes, chunk
		if chunk == 0 {
			o.ReadChunkBytes = int(min(maxChunkBytes, max(minChunkBytes, o.BucketBytes/4)))
		}
		return o
	}
	lo, hi := int64(o.BufferBytes/pageBytes), most/pageBytes
	if lo > hi || float64(at(lo).RAMBytes()) > ram {
		return o, false
	}
	for lo < hi {
		if mid := (lo + hi + 1) / 2; float64(at(mid).RAMBytes()) <= ram {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return at(lo), true
}
