package drum

import (
	"errors"
	"fmt"
	"math"
)

// The cost model of sections IV and V. All sizes are in bytes, and decimal (1 GB = 1e9), as in the paper's
// figures. alpha is the ratio of disk I/O (bytes read and written) to the bytes of text of all links.

// Load describes the stream of links that passes a URL check.
type Load struct {
	// Known is U, the number of entries before the first link. Links is n = l N, the number of links to come.
	Known, Links float64
	// UniqueFraction is p; URLBytes is b, the text of a link; KeyBytes is H; PointerBytes is P, the RAM
	// that a key takes besides itself: 8 in this implementation, 4 in the paper.
	UniqueFraction, URLBytes, KeyBytes, PointerBytes float64
}

// quadratic returns 2UH + pHn, the data that all methods read and rewrite repeatedly, in bytes.
func (l Load) quadratic() float64 { return (2*l.Known + l.UniqueFraction*l.Links) * l.KeyBytes }

// MercatorB returns alpha of the batch disk check with ram bytes of RAM: equation (1).
func (l Load) MercatorB(ram float64) float64 {
	return 2*l.quadratic()*(l.KeyBytes+l.PointerBytes)/(l.URLBytes*ram) + 2 + l.UniqueFraction
}

// Polybot returns alpha of the batch check with whole URLs in RAM: equation (2). compressed is bq, the
// bytes of a URL in the compressed file.
func (l Load) Polybot(ram, compressed float64) float64 {
	file := (2*l.Known + l.UniqueFraction*l.Links) * compressed
	return 2*file*(l.URLBytes+4*l.PointerBytes)/(l.URLBytes*ram) + l.UniqueFraction
}

// MercatorBLimit returns the bytes of I/O per squared link of the batch disk check as n grows: equation (5).
func (l Load) MercatorBLimit(ram float64) float64 {
	return 2 * (l.KeyBytes + l.PointerBytes) * l.UniqueFraction * l.KeyBytes / ram
}

// PolybotLimit returns the bytes of I/O per squared link of the batch check with whole URLs in RAM as n
// grows: equation (6).
func (l Load) PolybotLimit(ram, compressed float64) float64 {
	return 2 * (l.URLBytes + 4*l.PointerBytes) * l.UniqueFraction * compressed / ram
}

// LeastMercatorB, LeastPolybot and LeastDRUM return the lower bounds of alpha (sections IV.B and IV.D),
// reached when the file of known URLs costs nothing.
func (l Load) LeastMercatorB() float64 { return 2 + l.UniqueFraction }
func (l Load) LeastPolybot() float64   { return l.UniqueFraction }
func (l Load) LeastDRUM() float64      { return l.linear() }

// linear returns 2 + p + 2H/b, the optimum for methods that store keys and uncompressed text.
func (l Load) linear() float64 { return 2 + l.UniqueFraction + 2*l.KeyBytes/l.URLBytes }

// DRUM returns alpha for ram bytes of RAM, disk bytes of disk and buffers of buffer bytes: Theorem 2,
// equation (7).
func (l Load) DRUM(ram, disk, buffer float64) float64 {
	hp, hb := l.KeyBytes+l.PointerBytes, l.KeyBytes+l.URLBytes
	if ram*ram < 8*buffer*disk*hp/hb {
		return 8*buffer*hp*l.quadratic()/(l.URLBytes*ram*ram) + l.linear()
	}
	return hb*l.quadratic()/(l.URLBytes*disk) + l.linear()
}

// OptimalDisk returns the bytes of disk that match ram bytes of RAM: equation (17). For the paper's example
// of 1 GB it gives 4.80e12 bytes; the printed 4.39 TB is R²/M in binary units.
func (l Load) OptimalDisk(ram, buffer float64) float64 {
	return ram * ram * (l.KeyBytes + l.URLBytes) / (8 * buffer * (l.KeyBytes + l.PointerBytes))
}

// DiskRate returns the pages/s that the disk allows: Theorem 3, equation (18). bandwidth is W in bytes/s,
// linksPerPage is l.
func DiskRate(bandwidth, alpha, urlBytes, linksPerPage float64) float64 {
	return bandwidth / (alpha * urlBytes * linksPerPage)
}

// CacheRate returns the pages/s that a RAM cache of speed links/s allows on a machine whose CPU is
// saturated at maxRate pages/s, if CPU time is proportional to the rate: Theorem 4, equation (21).
func CacheRate(speed, maxRate, linksPerPage float64) float64 {
	return speed * maxRate / (linksPerPage*maxRate + speed)
}

// HybridRate returns the pages/s that disk and RAM cache together allow: Theorem 5, the root of equation
// (23). misses is π(c, S), which must not decrease with the rate. alpha is α(πn, R-c) for a share π.
func HybridRate(
	bandwidth, urlBytes, linksPerPage float64, misses, alpha func(float64) float64,
) float64 {
	want := bandwidth / (urlBytes * linksPerPage)
	h := func(rate float64) float64 { pi := misses(rate); return rate * alpha(pi) * pi }
	lo, hi := 0.0, 1.0
	for h(hi) < want && hi < 1e12 {
		hi *= 2
	}
	for range 100 {
		if mid := (lo + hi) / 2; h(mid) < want {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// PlanInput is the input from which Plan derives a store's geometry.
type PlanInput struct {
	// Load is the expected stream. Zero H, P and b mean 8, 8 and 110.
	Load Load
	// RAMBytes is R. DiskBytes is D, for the buckets alone; 0 means the optimum of equation (17).
	RAMBytes, DiskBytes float64
	// BufferBytes is M, by default 256 KiB. ReadChunkBytes is delta, by default 32 MiB or the most that R
	// allows.
	BufferBytes, ReadChunkBytes float64
	// Rounds is c, the number of buckets in RAM at once: Options.Workers. The default is 1, as in the paper.
	Rounds float64
}

// Plan is a store's geometry.
type Plan struct {
	// Buckets is k, a power of 2. ExactBuckets is the k of the theorem.
	Buckets      int
	ExactBuckets float64
	// BucketBytes is r, the bytes of keys in a bucket. They take RoundBytes of RAM, which is
	// Options.BucketBytes.
	BucketBytes, RoundBytes float64
	// BufferBytes is M, ReadChunkBytes is delta.
	BufferBytes, ReadChunkBytes float64
	// DiskBytes is the space of k buckets of r with their text.
	DiskBytes float64
	// Alpha is the predicted overhead for Load, by equation (14) with this k and r.
	Alpha float64
}

// String returns the plan as one line of text.
func (p Plan) String() string {
	return fmt.Sprintf("k=%d r=%.3g M=%.3g delta=%.3g D=%.3g alpha=%.2f",
		p.Buckets, p.BucketBytes, p.BufferBytes, p.ReadChunkBytes, p.DiskBytes, p.Alpha)
}

// Plan computes the number of buckets and their size as in the proof of Theorem 2. The number is the power
// of 2 nearest to the theorem's, or the largest that leaves room for r >= delta. If R < 2 c delta (1 +
// P/H), Plan reduces delta.
func (in PlanInput) Plan() (Plan, error) {
	l := &in.Load
	for _, f := range []struct {
		at  *float64
		def float64
	}{
		{&l.KeyBytes, 8}, {&l.PointerBytes, 8}, {&l.URLBytes, 110},
		{&in.BufferBytes, 256 << 10}, {&in.ReadChunkBytes, 32 << 20}, {&in.Rounds, 1},
	} {
		if *f.at == 0 {
			*f.at = f.def
		}
	}
	m, ram, expand := in.BufferBytes, in.RAMBytes, in.Rounds*(l.KeyBytes+l.PointerBytes)/l.KeyBytes
	if ram < 8*m || m <= 0 || in.DiskBytes < 0 {
		return Plan{}, fmt.Errorf("drum: plan: RAM of %.3g bytes: want at least %.3g, 8 buffers", ram, 8*m)
	}
	delta := min(in.ReadChunkBytes, ram/(2*expand))
	// A = c(H+P)D/(H+b). k is the smaller root of 2Mk² - Rk + A = 0, or R/4M if there is none.
	k := ram / (4 * m)
	if in.DiskBytes > 0 {
		a := in.Rounds * (l.KeyBytes + l.PointerBytes) * in.DiskBytes / (l.KeyBytes + l.URLBytes)
		if root := ram*ram - 8*m*a; root >= 0 {
			k = (ram - math.Sqrt(root)) / (4 * m)
		}
	}
	kMax := (ram - delta*expand) / (2 * m)
	p := Plan{ExactBuckets: k, BufferBytes: m, ReadChunkBytes: delta}
	p.Buckets = 1 << max(0, int(math.Round(math.Log2(max(1, k)))))
	for p.Buckets > 1 && float64(p.Buckets) > kMax {
		p.Buckets /= 2
	}
	kk := float64(p.Buckets)
	p.RoundBytes = (ram - 2*m*kk) / in.Rounds
	p.BucketBytes = p.RoundBytes * in.Rounds / expand
	if p.BucketBytes <= 0 {
		return Plan{}, errors.New("drum: plan: no RAM left for a bucket")
	}
	p.DiskBytes = kk * p.BucketBytes * (l.KeyBytes + l.URLBytes) / l.KeyBytes
	if d := in.DiskBytes; d > 0 && p.DiskBytes > d {
		p.BucketBytes *= d / p.DiskBytes
		p.RoundBytes *= d / p.DiskBytes
		p.DiskBytes = d
	}
	p.Alpha = l.quadratic()*l.KeyBytes/(l.URLBytes*kk*p.BucketBytes) + l.linear()
	return p, nil
}
