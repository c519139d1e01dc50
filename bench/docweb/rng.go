package docweb

import "math"

// rng is SplitMix64, seeded by numbers that are mixed.
type rng uint64

func newRng(parts ...uint64) *rng {
	var r rng
	for _, p := range parts {
		r = rng(uint64(r)*0x9e3779b97f4a7c15 ^ p)
		r.next()
		r = rng(mix(uint64(r)))
	}
	return &r
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *rng) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	return mix(uint64(*r))
}

// below returns a number from 0 to n-1.
func (r *rng) below(n int) int { return int(r.next() % uint64(n)) }

// unit returns a number of [0, 1).
func (r *rng) unit() float64 { return float64(r.next()>>11) / (1 << 53) }

// normal returns a number of the standard normal distribution.
func (r *rng) normal() float64 {
	return math.Sqrt(-2*math.Log(1-r.unit())) * math.Cos(2*math.Pi*r.unit())
}

// permutation returns the numbers from 0 to n-1 in random order.
func (r *rng) permutation(n int) []int {
	p := make([]int, n)
	for i := range p {
		j := r.below(i + 1)
		p[i] = p[j]
		p[j] = i
	}
	return p
}
