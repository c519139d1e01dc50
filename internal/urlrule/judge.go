package urlrule

import "bytes"

// Verdict is the reason why a URL is refused.
type Verdict uint8

const (
	Pass      Verdict = iota
	Extension         // not HTML by its name
	PathDepth         // too many segments
	Repeated          // a segment occurs too often
	Params            // too many parameters
)

// maxLooked is the number of segments that are checked for repeats.
const maxLooked = 64

// Judge checks the path and query of a canonical URL; path starts with '/'. Callers should not apply it to
// seeds.
func (r *Rules) Judge(path []byte) Verdict {
	if !r.judges {
		return Pass
	}
	query := bytes.IndexByte(path, '?')
	if query >= 0 {
		if r.most > 0 && len(path)-query > r.most && bytes.Count(path[query+1:], ampersand) >= r.most {
			return Params
		}
		path = path[:query]
	}
	if len(r.extensions) > 0 && r.skips(path) {
		return Extension
	}
	if r.depth == 0 && r.repeats == 0 {
		return Pass
	}
	segments := bytes.Count(path, slash)
	if path[len(path)-1] == '/' {
		segments--
	}
	if r.depth > 0 && segments > r.depth {
		return PathDepth
	}
	if r.repeats > 0 && segments > r.repeats && r.mayRepeat(path, segments) && r.repeated(path) {
		return Repeated
	}
	return Pass
}

var slash, ampersand = []byte("/"), []byte("&")

// skips reports whether the last segment has one of the extensions. A name with a colon is a wiki page
// about a file and passes.
func (r *Rules) skips(path []byte) bool {
	x := uint64(0)
	i := len(path) - 1
	for least := max(1, i-maxExtensionBytes); ; i-- {
		if i < least { // path[0] is '/', so a short path has only a name
			return false
		}
		c := letterOrDigit[path[i]]
		if c == 0 {
			break
		}
		x = x<<8 | uint64(c)
	}
	if path[i] != '.' || x == 0 || path[i-1] == '/' {
		return false
	}
	for at := x * hashFactor >> r.shift; r.extensions[at] != 0; at = (at + 1) % uint64(len(r.extensions)) {
		if r.extensions[at] == x {
			return bytes.IndexByte(path[bytes.LastIndexByte(path, '/'):], ':') < 0
		}
	}
	return false
}

// mayRepeat returns false if no segment can occur more than r.repeats times, because too few segments have
// the same length (modulo 16). It takes a third of the time of repeated. It handles up to eight segments,
// so that four bits hold each count.
func (r *Rules) mayRepeat(path []byte, segments int) bool {
	const most = 8
	if segments > most || r.repeats >= most {
		return true
	}
	lengths := uint64(most-1-r.repeats) * 0x1111_1111_1111_1111 // a count above r.repeats sets its upper bit
	for rest := path[1:]; segments > 0; segments-- {
		n := bytes.IndexByte(rest, '/')
		if n < 0 {
			n = len(rest)
			lengths += 1 << (n % 16 * 4)
			break
		}
		lengths += 1 << (n % 16 * 4)
		rest = rest[n+1:]
	}
	return lengths&0x8888_8888_8888_8888 != 0
}

// repeated reports whether a segment occurs more than r.repeats times. A trailing slash starts no segment.
func (r *Rules) repeated(path []byte) bool {
	var starts [maxLooked + 1]uint16 // starts of the segments, plus one after the last
	path = path[:min(len(path), 1<<16-2)]
	n, all := 0, true
	for i, c := range path {
		if c == '/' {
			if starts[n] = uint16(i + 1); n == maxLooked {
				all = false
				break
			}
			n++
		}
	}
	if all && path[len(path)-1] == '/' {
		n--
	} else if all {
		starts[n] = uint16(len(path) + 1)
	}
	for i := 0; i < n-r.repeats; i++ {
		length, times := starts[i+1]-starts[i], 1
		first := path[starts[i] : starts[i+1]-1]
		for j := i + 1; j < n; j++ {
			if starts[j+1]-starts[j] == length && string(path[starts[j]:starts[j+1]-1]) == string(first) {
				if times++; times > r.repeats {
					return true
				}
			}
		}
	}
	return false
}
