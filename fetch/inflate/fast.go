//tidy:long one loop whose variables stay in registers

package inflate

import "encoding/binary"

const (
	maxMatch = 258
	// copyBytes is what a match is copied by: thrice at once, which does for nine in ten of HTML's, then one by one.
	copyBytes = 16
	// inputEdge: three loads of 8 bytes, each at most 7 bytes behind the one before.
	inputEdge = 24
	// outputEdge: three literals, a match, and what its last step writes beyond.
	outputEdge = 3 + maxMatch + 3*copyBytes
)

// fast decodes symbols while no edge of the input or of the room is near, errEdge. Each round fills bits up to 56 at least:
// enough for three literals found in the first table (30), or two and a length (20 + 20), and for the next lookup; or, after
// another fill if need be, for a distance (28). next is looked up before the round fills bits, as soon as there are 10: that
// takes the fill out of the chain of instructions that wait for each other, and gains 6 %.
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

// Slices whose length and capacity are constants need one check, and no care for ends of memory.

func load(p []byte, i int) uint64 {
	return binary.LittleEndian.Uint64(p[i : i+8 : i+8])
}

func store(p []byte, i int, v uint64) {
	binary.LittleEndian.PutUint64(p[i:i+8:i+8], v)
}

func copy16(p []byte, to, from int) {
	*(*[16]byte)(p[to : to+16 : to+16]) = *(*[16]byte)(p[from : from+16 : from+16])
}

// copy48 copies 16 bytes thrice, in order: the second and third may be what the ones before have written.
func copy48(p []byte, to, from int) {
	t, f := (*[48]byte)(p[to:to+48:to+48]), (*[48]byte)(p[from:from+48:from+48])
	*(*[16]byte)(t[:16]) = *(*[16]byte)(f[:16])
	*(*[16]byte)(t[16:32]) = *(*[16]byte)(f[16:32])
	*(*[16]byte)(t[32:]) = *(*[16]byte)(f[32:])
}
