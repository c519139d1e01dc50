package simweb

// mix is a bijection of 64-bit words in which every input bit affects every output bit (the splitmix64
// finaliser).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// golden is 2^64 divided by the golden ratio, odd.
const golden = 0x9e3779b97f4a7c15

// hash mixes a key with a number and a salt, which separates uses.
func hash(key, n, salt uint64) uint64 { return mix(mix(key+n*golden) + salt*0xd1342543de82ef95) }

// Salts, one for each drawn property.
const (
	saltHost uint64 = 1 + iota
	saltPLD
	saltKind
	saltPath
	saltLinks
	saltForm
	saltBody
	saltRedirect
	saltRobots
	saltAddr
	saltShuffle
	saltSpam
	saltText
	saltHoster
)

// rng is a splitmix64 sequence.
type rng uint64

func (r *rng) next() uint64 {
	*r += golden
	return mix(uint64(*r))
}

// unit is uniform in [0, 1).
func (r *rng) unit() float64 { return unit(r.next()) }

// below is uniform in [0, n), n > 0.
func (r *rng) below(n uint64) uint64 { return below(r.next(), n) }

// skew returns a number in [0, n) with density proportional to (x/n)^(1/k - 1), with k = 2, 4 or 8 for
// times 1, 2, 3.
func (r *rng) skew(n uint64, times int) uint64 {
	u := r.unit()
	for range times {
		u *= u
	}
	return uint64(u * float64(n))
}

func unit(x uint64) float64 { return float64(x>>11) * (1.0 / (1 << 53)) }

func below(x, n uint64) uint64 { return (x >> 32) * n >> 32 }
