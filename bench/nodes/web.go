package nodes

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	hostURLs   = 150 // of a host
	rootFanout = 8   // PLDs that the first URL of a PLD links to
	inDegree   = 1.1 // exponent of in-degrees within a PLD; draw computes u^11 = u^(α/(α-1))
)

// web is what is crawled. URLs have numbers; those of a PLD follow each other.
type web struct {
	first []uint32 // number of the first URL of each PLD, and of the end
	host  []uint32 // likewise of the first host
	// accept and other are an alias table: a PLD by its number of URLs in constant time.
	accept []float32
	other  []uint32
}

// sizes returns the numbers of URLs of PLDs by rank, with the sum urls. A huge PLD comes first.
func sizes(urls, plds int, exponent, huge float64) []uint32 {
	n := make([]uint32, plds)
	left := urls
	rest := n
	if huge > 0 {
		n[0] = uint32(huge * float64(urls))
		left, rest = urls-int(n[0]), n[1:]
	}
	sum := 0.0
	for r := range rest {
		sum += math.Pow(float64(r+1), -1/exponent)
	}
	carry := 0.0 // what rounding has left
	for r := range rest {
		want := float64(left)/sum*math.Pow(float64(r+1), -1/exponent) + carry
		rest[r] = uint32(max(1, math.Round(want)))
		carry = want - float64(rest[r])
	}
	rest[0] += uint32(int(math.Round(carry))) // wraps if negative, and so subtracts
	return n
}

func newWeb(size []uint32) *web {
	w := &web{first: make([]uint32, 1, len(size)+1), host: make([]uint32, 1, len(size)+1)}
	for _, n := range size {
		w.first = append(w.first, w.first[len(w.first)-1]+n)
		w.host = append(w.host, w.host[len(w.host)-1]+(n+hostURLs-1)/hostURLs)
	}
	w.alias(size)
	return w
}

// alias makes the alias table, by Vose's method.
func (w *web) alias(size []uint32) {
	w.accept, w.other = make([]float32, len(size)), make([]uint32, len(size))
	mean := float64(w.urls()) / float64(len(size))
	var small, large []uint32
	p := make([]float64, len(size))
	for i, n := range size {
		if p[i] = float64(n) / mean; p[i] < 1 {
			small = append(small, uint32(i))
		} else {
			large = append(large, uint32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		w.accept[s], w.other[s] = float32(p[s]), l
		if p[l] -= 1 - p[s]; p[l] < 1 {
			large, small = large[:len(large)-1], append(small, l)
		}
	}
	for _, i := range slices.Concat(small, large) {
		w.accept[i], w.other[i] = 1, i
	}
}

func (w *web) urls() int  { return int(w.first[len(w.first)-1]) }
func (w *web) plds() int  { return len(w.first) - 1 }
func (w *web) hosts() int { return int(w.host[len(w.host)-1]) }

func (w *web) size(pld uint32) uint32 { return w.first[pld+1] - w.first[pld] }

// hostOf returns the host of a URL of a PLD.
func (w *web) hostOf(pld, url uint32) uint32 {
	return w.host[pld] + (url-w.first[pld])%(w.host[pld+1]-w.host[pld])
}

// draw draws a link from a page of a PLD: to another PLD if away is set.
func (w *web) draw(rng *rand.Rand, pld uint32, away bool) (to, url uint32) {
	to = pld
	if away {
		r := rng.Uint64()
		to = uint32((r >> 32) * uint64(w.plds()) >> 32)
		if float32(r&(1<<24-1))/(1<<24) >= w.accept[to] {
			to = w.other[to]
		}
	}
	u := rng.Float64()
	u2 := u * u
	u4 := u2 * u2
	return to, w.first[to] + uint32(float64(w.size(to))*u4*u4*u2*u) // u^11
}
