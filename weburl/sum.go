package weburl

import "math/bits"

// Sum is a checksum of a multiset of keys, with which the crawl compares two places without listing either.
// Equal multisets have equal sums; unequal ones differ except with a probability of about 2⁻¹²⁸. Order does
// not matter. It is the sum of the mixed keys modulo 2¹²⁸, and their count. The zero value is the empty
// multiset. It is not safe for concurrent use.
type Sum struct {
	Hi uint64 `json:"hi"` // upper 64 bits of the sum
	Lo uint64 `json:"lo"` // lower 64 bits of the sum
	N  int64  `json:"n"`  // keys added minus keys removed
}

// Add adds key once.
func (s *Sum) Add(key uint64) {
	var carry uint64
	hi, lo := mix128(key)
	s.Lo, carry = bits.Add64(s.Lo, lo, 0)
	s.Hi, _ = bits.Add64(s.Hi, hi, carry)
	s.N++
}

// Sub removes key once, whether or not it was added.
func (s *Sum) Sub(key uint64) {
	var borrow uint64
	hi, lo := mix128(key)
	s.Lo, borrow = bits.Sub64(s.Lo, lo, 0)
	s.Hi, _ = bits.Sub64(s.Hi, hi, borrow)
	s.N--
}

// Merge adds all keys of o.
func (s *Sum) Merge(o Sum) {
	var carry uint64
	s.Lo, carry = bits.Add64(s.Lo, o.Lo, 0)
	s.Hi, _ = bits.Add64(s.Hi, o.Hi, carry)
	s.N += o.N
}

// Remove removes all keys of o.
func (s *Sum) Remove(o Sum) {
	var borrow uint64
	s.Lo, borrow = bits.Sub64(s.Lo, o.Lo, 0)
	s.Hi, _ = bits.Sub64(s.Hi, o.Hi, borrow)
	s.N -= o.N
}

// mix128 maps a key to 128 bits, injectively in each half, so that sums of related keys do not cancel.
func mix128(key uint64) (hi, lo uint64) {
	return mix64(key ^ 0x6a09e667f3bcc908), mix64(key + 0x9e3779b97f4a7c15)
}

// mix64 is a bijective mixer of two multiply-xorshift rounds with the finalizer constants of SplitMix64.
func mix64(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
