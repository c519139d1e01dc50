package weburl

import "bytes"

// A plain reference, like nearly all of the web's, contributes its bytes unchanged to the canonical URL. It
// takes one test for each byte and two copies. appendURL handles the others, and gives the same result for
// plain ones.

// Bits of plainClass. The path ends at bytes of at least plainColon where a scheme is possible, else at
// plainStop.
const (
	plainSlash = 1 << iota // /
	plainDot               // . and %, which begin the spellings of "." and ".."; must be plainSlash << 1
	plainColon             // :
	plainStop              // ? # \ and bytes that are percent-encoded in a path
)

// Bits of plainHostClass.
const (
	hostDot  = 1 << iota // .
	hostStop             // any byte but a-z 0-9 - _ .
)

// plainClass and plainHostClass classify bytes for plain paths and hosts. foldClass is plainClass for a
// Resolver that folds escapes, to which a reference with a % is not plain; so other references have no extra
// cost. All are read-only.
var plainClass, plainHostClass = classifyPlain()
var foldClass = classifyFold()

func classifyFold() [256]uint8 {
	class := plainClass
	class['%'] = plainStop
	return class
}

func classifyPlain() (path, host [256]uint8) {
	class := classify()
	for i := range path {
		if class[i]&stopsPath != 0 {
			path[i] = plainStop
		}
		if class[i]&plainHost == 0 {
			host[i] = hostStop
		}
	}
	path['/'], path['.'], path['%'], path[':'] = plainSlash, plainDot, plainDot, plainColon
	host['.'] = hostDot
	return path, host
}

// IsPlain reports whether AppendResolve treats a reference as plain. It is meant for measurements.
func (r *Resolver) IsPlain(base *Base, ref []byte) bool {
	_, ok := r.appendPlain(nil, base, ref)
	return ok
}

// appendPlain is appendURL for plain references. ok is false for all others.
func (r *Resolver) appendPlain(dst []byte, base *Base, ref []byte) (out []byte, ok bool) {
	if base == nil || base.foreign {
		return r.appendPlainAbsolute(dst, ref)
	}
	if len(ref) == 0 || ref[0] == '#' {
		return append(dst, base.url...), true
	}
	up := len(base.dirs) - 1
	switch ref[0] {
	case '?':
		return r.appendPlainQuery(dst, base.url[:base.pathEnd], ref, 0)
	case '/':
		if len(ref) > 1 && isSlash(ref[1]) {
			return dst, false
		}
		return r.appendPlainPath(dst, base.url[:base.hostEnd+1], ref[1:], plainStop)
	case 'h':
		if len(ref) > 6 && (ref[4] == ':' || ref[5] == ':') {
			if site := base.url[:base.hostEnd+1]; bytes.HasPrefix(ref, site) {
				return r.appendPlainPath(dst, site, ref[len(site):], plainStop)
			}
			return r.appendPlainAbsolute(dst, ref)
		}
	case '.':
		if len(ref) > 1 && ref[1] == '/' {
			ref = ref[2:]
		}
		for len(ref) >= 3 && ref[0] == '.' && ref[1] == '.' && ref[2] == '/' {
			ref, up = ref[3:], max(up-1, 0)
		}
	}
	return r.appendPlainPath(dst, base.url[:base.dirs[up]], ref, plainColon)
}

// appendPlainPath appends prefix, which ends in '/', and the path and query of ref. Bytes of class stop and
// above end the path.
func (r *Resolver) appendPlainPath(dst, prefix, ref []byte, stop uint8) (out []byte, ok bool) {
	end, last, odd := len(ref), uint8(plainSlash), uint8(0)
	classes := r.plain
	for i, c := range ref {
		class := classes[c]
		odd |= class & (last << 1) // a plainDot after a plainSlash may begin a dot segment
		if last = class; class >= stop {
			end = i
			break
		}
	}
	if odd&plainDot != 0 {
		return dst, false
	}
	if end < len(ref) && ref[end] != '#' {
		return r.appendPlainQuery(dst, prefix, ref, end)
	}
	return append(append(dst, prefix...), ref[:end]...), true
}

// appendPlainQuery appends prefix, the path ref[:at] and, if one starts at at, the query.
func (r *Resolver) appendPlainQuery(dst, prefix, ref []byte, at int) (out []byte, ok bool) {
	if ref[at] != '?' {
		return dst, false
	}
	end, stops := at+1, r.queryStops
	for end < len(ref) && byteClass[ref[end]]&stops == 0 {
		end++
	}
	if end < len(ref) && ref[end] != '#' {
		return dst, false
	}
	return append(append(dst, prefix...), ref[:end]...), true
}

// appendPlainAbsolute handles "http://" and "https://" with a host that is a name in lower case.
func (r *Resolver) appendPlainAbsolute(dst, ref []byte) (out []byte, ok bool) {
	start := 0
	switch {
	case len(ref) > 7 && string(ref[:7]) == "http://":
		start = 7
	case len(ref) > 8 && string(ref[:8]) == "https://":
		start = 8
	default:
		return dst, false
	}
	label, end := start, len(ref)
	for i, c := range ref[start:] {
		class := plainHostClass[c]
		if class == hostDot {
			label = start + i + 1
		}
		if class == hostStop {
			end = start + i
			break
		}
	}
	// A last label that begins with a digit may be part of an address. An empty one is rare.
	if end-start > MaxHostBytes || label == end || byteClass[ref[label]]&isAlpha == 0 {
		return dst, false
	}
	if end == len(ref) {
		return append(append(dst, ref...), '/'), true
	}
	switch ref[end] {
	case '/':
		return r.appendPlainPath(dst, ref[:end+1], ref[end+1:], plainStop)
	case '#':
		return append(append(dst, ref[:end]...), '/'), true
	}
	return dst, false
}
