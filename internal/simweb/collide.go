package simweb

import "strings"

// The multipliers of xxhash64.
const (
	xxPrime1 uint64 = 0x9e3779b185ebca87
	xxPrime2 uint64 = 0xc2b2ae3d27d4eb4f
)

// wordLetters are characters that need no escaping in the path of a canonical URL or in HTML.
const wordLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.~!$()*+,;=:@"

// CollidingURLs returns 2^n URLs with the given prefix and equal xxhash64 for all seeds except a few in a
// million. xxhash64 takes stripes of 32 bytes into four lanes of 8, each by v = rotl(v + word*P2, 31) * P1.
// A word that is larger by 2^33*m/P2 (modulo 2^64) adds m to the upper 31 bits of the sum, which the
// rotation moves to the bottom: v grows by m*P1, unless the sum overflows, which is rare. The lane's next
// word, smaller by m*P1/P2, compensates. So every two stripes offer two forms of two words, independently
// of all others.
//
// For this reason a crawl's keys come from another kind of hash.
func CollidingURLs(prefix string, n int) []string {
	prefix += strings.Repeat("-", (32-len(prefix)%32)%32)
	var first, second [2]string
	for m := uint64(1); ; m++ { // one in fifty succeeds
		var ok1, ok2 bool
		first, ok1 = collidingWords(m << 33 * inverse(xxPrime2))
		second, ok2 = collidingWords(-m * xxPrime1 * inverse(xxPrime2))
		if ok1 && ok2 {
			break
		}
	}
	const filler = "------------------------"
	urls := []string{prefix}
	for range n {
		var longer []string
		for _, u := range urls {
			longer = append(longer, u+first[0]+filler+second[0]+filler, u+first[1]+filler+second[1]+filler)
		}
		urls = longer
	}
	return urls
}

// collidingWords returns two words of letters; the second, as a little-endian number, is larger by diff,
// modulo 2^64.
func collidingWords(diff uint64) (words [2]string, ok bool) {
	var one, two [8]byte
	var futile [8][2]bool // places and carries without a solution
	var fill func(i int, carry uint64) bool
	fill = func(i int, carry uint64) bool {
		if i == 8 || futile[i][carry] {
			return i == 8
		}
		add := diff>>(8*i)&255 + carry
		for _, c := range []byte(wordLetters) {
			sum := uint64(c) + add
			if one[i], two[i] = c, byte(sum); strings.IndexByte(wordLetters, byte(sum)) >= 0 && fill(i+1, sum>>8) {
				return true
			}
		}
		futile[i][carry] = true
		return false
	}
	ok = fill(0, 0)
	return [2]string{string(one[:]), string(two[:])}, ok
}

// inverse returns the inverse of an odd number modulo 2^64, by Newton's iteration.
func inverse(a uint64) uint64 {
	x := a
	for range 6 {
		x *= 2 - a*x
	}
	return x
}
