package weburl

import "math/bits"

// Sum adds up a multiset of keys so that two places of the crawl can be compared without listing either:
// equal multisets have equal sums, and unequal ones differ except with probability 2⁻¹²⁸ or so. Order does
// not matter. It is the sum modulo 2¹²⁸ of the mixed keys, and their count. The zero value is the empty
// multiset. Not for concurrent use.
type Sum struct {
	Hi uint64 `json:"hi"` // upper 64 bits of the sum
	Lo uint64 `json:"lo"` // lower 64 bits of the sum
	N  int64  `json:"n"`  // keys added less keys taken away
}

// Add puts key in once more.
func (s *Sum) Add(key uint64) {
	var carry uint64
	hi, lo := mix128(key)
	s.Lo, carry = bits.Add64(s.Lo, lo, 0)
	s.Hi, _ = bits.Add64(s.Hi, hi, carry)
	s.N++
}

// Sub takes key away once, whether or not it was put in.
func (s *Sum) Sub(key uint64) {
	var borrow uint64
	hi, lo := mix128(key)
	s.Lo, borrow = bits.Sub64(s.Lo, lo, 0)
	s.Hi, _ = bits.Sub64(s.Hi, hi, borrow)
	s.N--
}

// Merge puts in all keys of o.
func (s *Sum) Merge(o Sum) {
	var carry uint64
	s.Lo, carry = bits.Add64(s.Lo, o.Lo, 0)
	s.Hi, _ = bits.Add64(s.Hi, o.Hi, carry)
	s.N += o.N
}

// Remove takes all keys of o away.
func (s *Sum) Remove(o Sum) {
	var borrow uint64
	s.Lo, borrow = bits.Sub64(s.Lo, o.Lo, 0)
	s.Hi, _ = bits.Sub64(s.Hi, o.Hi, borrow)
	s.N -= o.N
}

// mix128 spreads a key over 128 bits, one-to-one in either half, so that sums of related keys don't cancel.
func mix128(key uint64) (hi, lo uint64) {
	return mix64(key ^ 0x6a09e667f3bcc908), mix64(key + 0x9e3779b97f4a7c15)
}

// mix64 is a one-to-one mixer of two multiply-xorshift rounds (the finaliser constants of SplitMix64).
func mix64(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
