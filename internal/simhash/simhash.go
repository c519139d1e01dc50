package simhash

import (
	"encoding/binary"
	"math/bits"
)

const (
	// LeastFeatures is the number of features below which a text has no hash: short texts say too little of a
	// page, and all pages without text would be alike.
	LeastFeatures = 32

	// mostFeatures bounds the counters. Later features of a text are ignored.
	mostFeatures = 1<<numPlanes - 1
	numPlanes    = 20
)

// Sketch computes the hash of one text after another. It belongs to one goroutine. The zero value is usable.
type Sketch struct {
	last uint64 // hash of the word before; 0: none
	n    int    // features so far
	held int    // features in wait
	wait [8]uint64

	// planes are 64 counters, bit-sliced: bit j of planes[i] is bit i of the number of features with bit j
	// set.
	planes [numPlanes]uint64

	// numbers are the counters of the pairs of a word without letters and the word before, for Counts alone.
	numbers  [countPlanes]uint64
	nNumbers int
	before   uint64 // hash of the word before, with or without letters
}

// Reset begins a new text.
func (s *Sketch) Reset() { *s = Sketch{} }

// Add adds a run of text. A word does not extend beyond its run, but a feature does.
func (s *Sketch) Add(run []byte) {
	for i := 0; i < len(run); {
		class := classOf[run[i]]
		if class&inWord == 0 {
			if class == reference {
				i += referenceLen(run[i:])
			}
			i++
			continue
		}
		if class == ideographic && i+3 <= len(run) && run[i+1] >= 0x80 && run[i+2] >= 0x80 {
			s.word(mix(uint64(run[i])|uint64(run[i+1])<<8|uint64(run[i+2])<<16, 3))
			i += 3
			continue
		}
		start, kinds := i, class
		for i++; i < len(run); i++ {
			if class = classOf[run[i]]; class&(inWord|ideographIn) != inWord {
				break
			}
			kinds |= class
		}
		if h := hash(run, start, i); kinds&letterBit != 0 {
			s.word(h)
		} else {
			s.number(h)
		}
	}
}

// word adds the feature that a word and the one before form.
func (s *Sketch) word(h uint64) {
	last := s.last
	s.before = h
	if s.last = h; last == 0 || s.n >= mostFeatures {
		return
	}
	s.n++
	s.wait[s.held] = mix(last, h)
	if s.held++; s.held == len(s.wait) {
		s.held = 0
		s.count8()
	}
}

// number counts a word without letters.
func (s *Sketch) number(h uint64) {
	carry := mix(s.before, h)
	for i := range s.numbers {
		s.numbers[i], carry = s.numbers[i]^carry, s.numbers[i]&carry
	}
	s.nNumbers++
	s.before = h
}

// count8 adds eight features to the counters with carry-save adders: per bit, seven adders make one number
// of four bits of the eight and the three lowest planes.
func (s *Sketch) count8() {
	w, p := &s.wait, &s.planes
	ones, a := add(p[0], w[0], w[1])
	ones, b := add(ones, w[2], w[3])
	twos, fours := add(p[1], a, b)
	ones, a = add(ones, w[4], w[5])
	ones, b = add(ones, w[6], w[7])
	twos, fours2 := add(twos, a, b)
	fours, carry := add(p[2], fours, fours2)
	p[0], p[1], p[2] = ones, twos, fours
	s.carry(carry, 3)
}

// carry adds a number to the planes from i on.
func (s *Sketch) carry(c uint64, i int) {
	for ; c != 0 && i < numPlanes; i++ {
		s.planes[i], c = s.planes[i]^c, s.planes[i]&c
	}
}

// add adds three numbers in each bit.
func add(a, b, c uint64) (sum, carry uint64) {
	x := a ^ b
	return x ^ c, a&b | x&c
}

// Sum returns the hash of the text. ok is false if it has fewer than LeastFeatures features. The text can
// continue.
func (s *Sketch) Sum() (hash uint64, ok bool) {
	for _, f := range s.wait[:s.held] {
		s.carry(f, 0)
	}
	s.held = 0
	if s.n < LeastFeatures {
		return 0, false
	}
	// Compare all counters with half of n at once, from the highest bit down.
	half := uint64(s.n / 2)
	equal := ^uint64(0)
	for i := numPlanes - 1; i >= 0; i-- {
		want := -(half >> i & 1) // all bits, or none
		hash |= equal & s.planes[i] &^ want
		equal &^= s.planes[i] ^ want
	}
	return hash, true
}

// Features returns the number of features so far, without those of Counts alone.
func (s *Sketch) Features() int { return s.n }

// Counts are the numbers of features that have a bit set, for the first bits, modulo 256. They tell how many features
// two texts differ in (Differ). Words without letters count here, with the word before each: a table of prices is not
// that of another year.
type Counts [32]uint8

// countPlanes is the number of bits of a count.
const countPlanes = 8

// Counts returns the counts after Sum, and the number of features in them.
func (s *Sketch) Counts() (c Counts, features int) {
	for i := range c {
		for j := range countPlanes {
			c[i] += uint8(s.planes[j]>>i&1)<<j + uint8(s.numbers[j]>>i&1)<<j
		}
	}
	return c, s.n + s.nNumbers
}

// Differ estimates the number of features that only one of two texts has. more is the number of features of the first
// less that of the second. Each feature adds +1 or -1 to each count, by its bits, so the square of a difference of
// counts is expected to be that number (Alon, Matias and Szegedy, The Space Complexity of Approximating the Frequency
// Moments, 1996). The mean of 32 squares has a relative error of sqrt(2/32), a quarter. A feature that one text has n
// times more counts as n*n. Beyond 10,000 the estimate is only large.
func Differ(a, b *Counts, more int) float64 {
	sum := 0
	for i := range a {
		d := 2*int(int8(a[i]-b[i]-uint8(more/2))) + 2*(more/2) - more
		sum += d * d
	}
	return float64(sum) / float64(len(a))
}

// Distance returns the number of bits in which two hashes differ.
func Distance(a, b uint64) int { return bits.OnesCount64(a ^ b) }

// Classes of bytes. A word is a sequence of bytes with inWord.
const (
	inWord      = 1 << iota
	letterBit   // not a digit
	referenceIn // begins a character reference
	ideographIn // begins a character of three bytes that is a word of its own

	digit       = inWord
	reference   = referenceIn
	ideographic = inWord | letterBit | ideographIn
)

// classOf is read-only.
var classOf = classify()

func classify() (class [256]uint8) {
	for c := range class {
		if c >= 0x80 || c|0x20 >= 'a' && c|0x20 <= 'z' {
			class[c] = inWord | letterBit
		}
	}
	for c := '0'; c <= '9'; c++ {
		class[c] = digit
	}
	for c := 0xE3; c <= 0xE9; c++ { // U+3000 to U+9FFF: kana and ideographs
		class[c] = ideographic
	}
	class['&'] = reference
	return class
}

// referenceLen returns the length of the name of a character reference, which begins after '&'; 0 if there
// is none.
func referenceLen(s []byte) int {
	const longest = 32
	i := 1
	for i < len(s) && i <= longest && (s[i] == '#' || s[i] < 0x80 && classOf[s[i]]&inWord != 0) {
		i++
	}
	if i < len(s) && i > 1 && s[i] == ';' {
		return i
	}
	return 0
}

// fold turns ASCII letters, and most Latin letters of UTF-8, to lower case, and leaves digits alone.
const fold = 0x2020202020202020

// hash returns the hash of the word text[i:end], which is not empty, ignoring case.
func hash(text []byte, i, end int) uint64 {
	h := uint64(end - i)
	for ; end-i > 8; i += 8 {
		h = mix(binary.LittleEndian.Uint64(text[i:])|fold, h)
	}
	unused := 8 * uint(8-(end-i)) // bits of the last 8 bytes beyond the word
	var last uint64
	if i+8 <= len(text) {
		last = binary.LittleEndian.Uint64(text[i:]) | fold
	} else {
		var b [8]byte
		copy(b[:], text[i:end])
		last = binary.LittleEndian.Uint64(b[:]) | fold
	}
	return mix(last<<unused>>unused, h)
}

// mix returns a hash of two numbers: the two halves of a product, as in wyhash.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9E3779B97F4A7C15, b^0xD1B54A32D192ED03)
	return hi ^ lo
}
