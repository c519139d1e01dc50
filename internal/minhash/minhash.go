package minhash

import (
	"encoding/hex"
	"math"
	"math/bits"
	"unicode"
	"unicode/utf8"

	"drumbeat/internal/pagetext"
)

const (
	Bands        = 14 // of a signature
	Rows         = 8  // of a band
	ShingleWords = 5

	// Near is the estimated similarity from which two texts with an equal band are near-duplicates. The bands find most
	// pairs from 0.75 on, as those of FineWeb do; this keeps the pairs of less similar texts out that a band has found.
	Near = 0.7

	hashes = Bands * Rows

	// maxShingles bounds the time for a text: 30 ms. Later words are ignored.
	maxShingles = 1 << 17
)

// Bytes is the length of a signature: Bands of BandBytes.
const (
	BandBytes = 2 * Rows
	Bytes     = Bands * BandBytes
)

// Signature is the signature of a text: 112 values of 16 bits, big-endian.
type Signature [Bytes]byte

// Sketch computes one signature after another. It belongs to one goroutine. The zero value is usable.
type Sketch struct {
	least [hashes]uint32
	words [ShingleWords]uint64 // the last ones, a ring
	n     int                  // words so far
}

// Sum returns the signature of a text. ok is false if the text has less than ShingleWords words.
func (s *Sketch) Sum(text []byte) (sig Signature, ok bool) {
	for i := range s.least {
		s.least[i] = math.MaxUint32
	}
	s.n = 0
	var h uint64 // of the word; 0: none
	for len(text) > 0 && s.n < maxShingles {
		r, size := rune(text[0]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text)
		}
		text = text[size:]
		alone := false
		switch {
		case r|0x20 >= 'a' && r|0x20 <= 'z':
			r |= 0x20
		case r >= '0' && r <= '9':
			r = '0'
		case r < utf8.RuneSelf || r == utf8.RuneError:
			r = 0
		case unicode.IsLetter(r) || unicode.IsMark(r):
			alone = pagetext.Unspaced(r) > 0
			r = unicode.ToLower(r)
		case unicode.IsDigit(r):
			r = '0'
		default:
			r = 0
		}
		if (r == 0 || alone) && h != 0 {
			s.word(h)
			h = 0
		}
		if r == 0 {
			continue
		}
		if h = (h ^ uint64(r)) * fnvPrime; alone {
			s.word(h)
			h = 0
		}
	}
	if h != 0 {
		s.word(h)
	}
	for i, v := range s.least {
		sig[2*i], sig[2*i+1] = byte(v>>8), byte(v)
	}
	return sig, s.n >= ShingleWords
}

const fnvPrime = 0x100000001b3

// word adds the shingle that ends with a word.
func (s *Sketch) word(h uint64) {
	s.words[s.n%ShingleWords] = h
	if s.n++; s.n < ShingleWords {
		return
	}
	var x uint64
	for i := range ShingleWords {
		x = mix(x, s.words[(s.n+i)%ShingleWords])
	}
	for i := range s.least {
		s.least[i] = min(s.least[i], uint32((x*factors[i]+terms[i])>>32))
	}
}

// mix returns a hash of two numbers: the two halves of a product, as in wyhash.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9E3779B97F4A7C15, b^0xD1B54A32D192ED03)
	return hi ^ lo
}

// factors, which are odd, and terms make a permutation of 64 bits each. They are read-only.
var factors, terms = permutations()

func permutations() (factors, terms [hashes]uint64) {
	for i := range uint64(hashes) {
		factors[i], terms[i] = mix(2*i, 1)|1, mix(2*i+1, 1)
	}
	return factors, terms
}

// Band returns a band, from 0 on.
func (s *Signature) Band(i int) []byte { return s[i*BandBytes : (i+1)*BandBytes] }

// AppendText appends the bands, 32 hexadecimal digits each, with spaces between them.
func (s *Signature) AppendText(dst []byte) []byte {
	for i := range Bands {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = hex.AppendEncode(dst, s.Band(i))
	}
	return dst
}

// Similarity estimates the Jaccard similarity of the shingles of two texts, with a standard error of up to 0.05.
func Similarity(a, b *Signature) float64 {
	equal := 0
	for i := 0; i < Bytes; i += 2 {
		if a[i] == b[i] && a[i+1] == b[i+1] {
			equal++
		}
	}
	return float64(equal) / hashes
}
