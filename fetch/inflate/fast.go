//tidy:long one loop whose variables stay in registers

package inflate

import "encoding/binary"

const (
	maxMatch = 258
	// copyBytes is what a match is copied by: thrice at once, which does for nine in ten of HTML's, then one by one.
	copyBytes = 16
	// inputEdge: two loads of 8 bytes, the second at most 7 bytes further.
	inputEdge = 16
	// outputEdge: three literals, a match, and what its last step writes beyond.
	outputEdge = 3 + maxMatch + 3*copyBytes
)

// fast decodes symbols while no edge of the input or of the room is near, errEdge. Bits are taken from bits, which is
// filled up to 56 at least: enough for three literals found in the first table (30) and a length (20), or for a distance
// (28) after another refill.
func (d *Decoder) fast(out []byte, op, room int) (int, error) {
	src := d.src
	literals, distances := &d.tables.literals, &d.tables.distances
	at, bits, have, base := d.at, d.bits, d.have, d.base
	inSafe, outSafe := len(d.src)-inputEdge, room-outputEdge
	err := errEdge
	for at <= inSafe && op <= outSafe {
		bits |= load(src, at) << (have & 63)
		at += int((63 - have) >> 3)
		have |= 56
		e := literals[bits&(1<<literalRoot-1)]
		if int32(e) < 0 {
			bits >>= e & takeMask
			have -= uint(e & takeMask)
			out[op] = byte(e >> valueShift)
			op++
			e = literals[bits&(1<<literalRoot-1)]
			if int32(e) < 0 {
				bits >>= e & takeMask
				have -= uint(e & takeMask)
				out[op] = byte(e >> valueShift)
				op++
				e = literals[bits&(1<<literalRoot-1)]
				if int32(e) < 0 {
					bits >>= e & takeMask
					have -= uint(e & takeMask)
					out[op] = byte(e >> valueShift)
					op++
					continue
				}
			}
		}
		if e&isSpecial != 0 {
			if e&isLink != 0 {
				bits >>= literalRoot
				have -= literalRoot
				e = literals[(uint64(e>>valueShift)+bits&(1<<(e>>widthShift&widthMask)-1))&(literalEntries-1)]
				if int32(e) < 0 {
					bits >>= e & takeMask
					have -= uint(e & takeMask)
					out[op] = byte(e >> valueShift)
					op++
					continue
				}
			}
			if e&isSpecial != 0 {
				if err = ErrCorrupt; e&isEnd != 0 {
					bits >>= e & takeMask
					have -= uint(e & takeMask)
					err = nil
				}
				break
			}
		}
		length := int(e>>valueShift) + int(bits&(1<<(e&takeMask)-1)>>(e>>widthShift&widthMask))
		bits >>= e & takeMask
		have -= uint(e & takeMask)

		if have < 28 {
			bits |= load(src, at) << (have & 63)
			at += int((63 - have) >> 3)
			have |= 56
		}
		e = distances[bits&(1<<distanceRoot-1)]
		if e&isSpecial != 0 {
			if e&isLink != 0 {
				bits >>= distanceRoot
				have -= distanceRoot
				e = distances[(uint64(e>>valueShift)+bits&(1<<(e>>widthShift&widthMask)-1))&(distanceEntries-1)]
			}
			if e&isSpecial != 0 {
				err = ErrCorrupt
				break
			}
		}
		distance := int(e>>valueShift) + int(bits&(1<<(e&takeMask)-1)>>(e>>widthShift&widthMask))
		bits >>= e & takeMask
		have -= uint(e & takeMask)
		if distance > op-base {
			err = ErrCorrupt
			break
		}
		from, end := op-distance, op+length
		switch {
		case distance >= copyBytes:
			t, f := (*[3 * copyBytes]byte)(out[op:op+48:op+48]), (*[3 * copyBytes]byte)(out[from:from+48:from+48])
			*(*[16]byte)(t[:16]) = *(*[16]byte)(f[:16])
			*(*[16]byte)(t[16:32]) = *(*[16]byte)(f[16:32])
			*(*[16]byte)(t[32:]) = *(*[16]byte)(f[32:])
			for op += 3 * copyBytes; op < end; op += copyBytes {
				copy16(out, op, op-distance)
			}
		case distance == 1:
			word := uint64(out[from]) * 0x0101010101010101
			for op < end {
				store(out, op, word)
				op += 8
			}
		default:
			step := min(distance, 8)
			for op < end {
				store(out, op, load(out, from))
				op += step
				from += step
			}
		}
		op = end
	}
	d.at, d.bits, d.have = at, bits, have
	return op, err
}

func load(p []byte, i int) uint64 {
	return binary.LittleEndian.Uint64(p[i : i+8 : i+8])
}

func store(p []byte, i int, v uint64) {
	binary.LittleEndian.PutUint64(p[i:i+8:i+8], v)
}

func copy16(p []byte, to, from int) {
	*(*[16]byte)(p[to : to+16 : to+16]) = *(*[16]byte)(p[from : from+16 : from+16])
}
