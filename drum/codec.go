package drum

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"
)

// Codec is the encoding of the keys in a block of the cache.
type Codec uint8

const (
	// Raw stores 8 bytes per key.
	Raw Codec = 1
	// Rice stores the differences between keys in Golomb-Rice code. For n uniform keys it is within 1 % of
	// the bound of 64 - log2(n) + 1.44 bits per key.
	Rice Codec = 2
)

// maxRiceBytes bounds the mean length of an encoded key: a remainder of up to 63 bits, and a quotient below
// 4 on average.
const maxRiceBytes = 9

var errKeys = errors.New("keys not coded in order")

// appendRaw appends ascending keys in raw form.
func appendRaw(dst []byte, keys []uint64) []byte {
	for _, k := range keys {
		dst = binary.LittleEndian.AppendUint64(dst, k)
	}
	return dst
}

// decodeRaw reads len(keys) keys and returns the rest of b.
func decodeRaw(keys []uint64, b []byte) ([]byte, error) {
	if len(b) < 8*len(keys) {
		return nil, errKeys
	}
	for i := range keys {
		keys[i] = binary.LittleEndian.Uint64(b[8*i:])
		if i > 0 && keys[i] <= keys[i-1] {
			return nil, errKeys
		}
	}
	return b[8*len(keys):], nil
}

// riceParameter returns the number of remainder bits that minimizes the length of the encoded keys. The
// keys ascend.
func riceParameter(keys []uint64) uint8 {
	n := uint64(len(keys) - 1)
	if n == 0 {
		return 0
	}
	// For geometrically distributed differences the best parameter is near log2(mean ln 2).
	mean := float64(keys[n]-keys[0]) / float64(n)
	guess := 0
	if mean > 2 {
		guess = int(math.Floor(math.Log2(mean * math.Ln2)))
	}
	best, bestBits := uint8(0), uint64(math.MaxUint64)
	for w := max(guess, 0); w <= min(guess+1, 63); w++ {
		sum := n * uint64(w)
		for i := range keys[1:] {
			sum += (keys[i+1] - keys[i] - 1) >> w
		}
		if sum < bestBits {
			best, bestBits = uint8(w), sum
		}
	}
	return best
}

// appendRice appends the differences of ascending keys with w remainder bits.
func appendRice(dst []byte, keys []uint64, w uint8) []byte {
	dst = slices.Grow(dst, maxRiceBytes*len(keys)+16)
	var acc uint64 // pending bits, fewer than 64
	var have uint
	if w > 0 {
		mask := uint64(1)<<w - 1
		for i := range keys[1:] {
			r := (keys[i+1] - keys[i] - 1) & mask
			acc |= r << have
			have += uint(w)
			if have >= 64 {
				dst = binary.LittleEndian.AppendUint64(dst, acc)
				have -= 64
				acc = r >> (uint(w) - have) // 0 if have is 0 now, since r < 1<<w
			}
		}
		dst = appendBits(dst, acc, have)
		acc, have = 0, 0
	}
	for i := range keys[1:] {
		q := (keys[i+1] - keys[i] - 1) >> w
		for q >= uint64(64-have) {
			dst = binary.LittleEndian.AppendUint64(dst, acc)
			q -= uint64(64 - have)
			acc, have = 0, 0
		}
		have += uint(q)
		acc |= 1 << have
		have++
		if have == 64 {
			dst = binary.LittleEndian.AppendUint64(dst, acc)
			acc, have = 0, 0
		}
	}
	return appendBits(dst, acc, have)
}

// appendBits appends the low n bits of acc, padded to whole bytes.
func appendBits(dst []byte, acc uint64, n uint) []byte {
	for ; n > 0; n -= min(n, 8) {
		dst = append(dst, byte(acc))
		acc >>= 8
	}
	return dst
}

// decodeRice reads len(keys) keys from b and returns the rest of b. keys[0] must be set. b must have a
// capacity of at least 8 bytes beyond its length.
func decodeRice(keys []uint64, b []byte, w uint8) ([]byte, error) {
	n := len(keys) - 1
	plane := (n*int(w) + 7) / 8
	if plane > len(b) {
		return nil, errKeys
	}
	if n == 0 {
		return b[plane:], nil
	}
	if w > 57 {
		return decodeRiceWide(keys, b, w)
	}
	low, high := b[:len(b)+8], b[plane:len(b)+8]
	end := 8 * (len(b) - plane)
	mask := uint64(1)<<w - 1
	key, lowPos, pos := keys[0], 0, 0
	for i := 1; i <= n; i++ {
		start := pos
		for {
			if pos >= end {
				return nil, errKeys
			}
			window := binary.LittleEndian.Uint64(high[pos>>3:]) >> (pos & 7)
			zeros := bits.TrailingZeros64(window)
			if zeros < 57 {
				pos += zeros
				break
			}
			pos += 57
		}
		q := uint64(pos - start)
		pos++
		r := binary.LittleEndian.Uint64(low[lowPos>>3:]) >> (lowPos & 7) & mask
		lowPos += int(w)
		next := key + (q<<w | r) + 1
		if next <= key {
			return nil, errKeys
		}
		key = next
		keys[i] = key
	}
	if pos > end {
		return nil, errKeys
	}
	return b[plane+(pos+7)/8:], nil
}

// decodeRiceWide is decodeRice for remainders that may span more than 8 bytes. Only blocks of a few keys
// have them.
func decodeRiceWide(keys []uint64, b []byte, w uint8) ([]byte, error) {
	bit := func(pos int) uint64 { return uint64(b[pos>>3]>>(pos&7)) & 1 }
	pos, end := ((len(keys)-1)*int(w)+7)/8*8, 8*len(b)
	for i := 1; i < len(keys); i++ {
		var r, q uint64
		for j := range int(w) {
			r |= bit((i-1)*int(w)+j) << j
		}
		for ; pos < end && bit(pos) == 0; pos++ {
			q++
		}
		if pos++; pos > end {
			return nil, errKeys
		}
		if keys[i] = keys[i-1] + (q<<w | r) + 1; keys[i] <= keys[i-1] {
			return nil, errKeys
		}
	}
	return b[(pos+7)/8:], nil
}
