package drum

import (
	"fmt"
)

// BufferFor returns M, in bytes, for a store's RAM: the paper's 256 KiB, or less if that would leave fewer
// than 64 buckets at the optimum, k = R/4M.
func BufferFor(ram float64) int {
	m := defaultBufferBytes
	for m > 8<<10 && ram/float64(4*m) < 64 {
		m /= 2
	}
	return m
}

// maxFitRound bounds r, in bytes, where BucketBytes does not. With plenty of RAM, Theorem 2 asks for few
// large buckets, at no cost on disk. But sorting many gigabytes at once would delay everything that waits
// for the pass.
const maxFitRound = 1 << 30

// bucketSlack is how much larger than its share of D a bucket may become. The first full bucket starts a
// pass.
const bucketSlack = 1.125

// Fit returns o with Buckets and BucketBytes set so that RAMBytes is at most in.RAMBytes and the buckets
// hold as much as possible. If in.DiskBytes is set, they hold at most that, and it becomes DiskBytes. This
// is section IV.D with all RAM of this implementation counted, including workers and chunks; Plan counts
// only 2kM + r. As in the theorem, the number of buckets is the smallest that achieves this. BucketBytes,
// if set, is the maximum of r: rounds that fit into the CPU caches are sorted faster. BufferBytes 0 means
// BufferFor. Fit ignores in.BufferBytes and in.ReadChunkBytes. in.Load serves to compute Plan.Alpha; its
// URLBytes and KeyBytes are sizes on disk.
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
	// The tuples of n buckets with r bytes of RAM take disk space: 8 + b bytes each.
	perRAM := (l.KeyBytes + l.URLBytes) / float64(o.TupleBytes(0))
	best, most := Options{}, 0.0
	for k := 1; k <= 1<<20 && 2*float64(k)*float64(o.BufferBytes) < in.RAMBytes; k *= 2 {
		try, ok := o.fitRound(k, in.RAMBytes)
		if !ok {
			continue
		}
		holds := float64(k) * float64(try.BucketBytes) * perRAM
		if d := in.DiskBytes; d > 0 && holds >= d {
			// Buckets fill unevenly. The slack makes the disk the limit, not the fullest bucket.
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
		return o, Plan{}, fmt.Errorf("drum: plan: RAM of %.3g bytes is too little for buffers of %d", in.RAMBytes,
			o.BufferBytes)
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

// fitRound finds the largest r for k buckets, in whole pages. ok is false if r would be smaller than a
// buffer.
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
