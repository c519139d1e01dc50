//tidy:long one loop whose variables stay in registers

package inflate

import "encoding/binary"

const (
	maxMatch = 258
	// copyBytes is the unit of copying a match. The first three units are copied unconditionally, which
	// covers nine in ten matches of HTML; then units follow one by one.
	copyBytes = 16
	// inputEdge allows for three loads of 8 bytes, each at most 7 bytes after the previous one.
	inputEdge = 24
	// outputEdge allows for three literals, a match, and the overrun of its last copy.
	outputEdge = 3 + maxMatch + 3*copyBytes
)

// fast decodes symbols until it comes near an end of the input or the room, and then returns errEdge. Each
// round refills bits to at least 56: enough for three literals from the first table (30 bits), or two and a
// length (20 + 20), and for the next lookup; or, after another refill if needed, for a distance (28). next
// is looked up as soon as 10 bits are available, before the round refills. This takes the refill out of the
// dependency chain and gains 6 %.
func (d *Decoder) fast(out []byte, op, room int) (int, error) {
	src := d.src
	literals, distances := &d.tables.literals, &d.tables.distances
	at, bits, have, base := d.at, d.bits, d.have, d.base
	inSafe, outSafe := len(src)-inputEdge, room-outputEdge
	err := errEdge
	if at > inSafe {
		return op, err
	}
	bits |= load(src, at) << (have & 63)
	at += int((63 - have) >> 3)
	have |= 56
	next := literals[bits&(1<<literalRoot-1)]
	for at <= inSafe && op <= outSafe {
		bits |= load(src, at) << (have & 63)
		at += int((63 - have) >> 3)
		have |= 56
		e := next
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
					next = literals[bits&(1<<literalRoot-1)]
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
					next = literals[bits&(1<<literalRoot-1)]
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
		if have < literalRoot {
			bits |= load(src, at) << (have & 63)
			at += int((63 - have) >> 3)
			have |= 56
		}
		next = literals[bits&(1<<literalRoot-1)]
		from, end := op-distance, op+length
		switch {
		case distance >= copyBytes:
			copy48(out, op, from)
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

// Slices with constant length and capacity need only one bounds check.

func load(p []byte, i int) uint64 { return binary.LittleEndian.Uint64(p[i : i+8 : i+8]) }

func store(p []byte, i int, v uint64) { binary.LittleEndian.PutUint64(p[i:i+8:i+8], v) }

func copy16(p []byte, to, from int) {
	*(*[16]byte)(p[to : to+16 : to+16]) = *(*[16]byte)(p[from : from+16 : from+16])
}

// copy48 copies 16 bytes three times, in order, because the source may overlap bytes just written.
func copy48(p []byte, to, from int) {
	t, f := (*[48]byte)(p[to:to+48:to+48]), (*[48]byte)(p[from:from+48:from+48])
	*(*[16]byte)(t[:16]) = *(*[16]byte)(f[:16])
	*(*[16]byte)(t[16:32]) = *(*[16]byte)(f[16:32])
	*(*[16]byte)(t[32:]) = *(*[16]byte)(f[32:])
}
