package inflate

// huffman decodes symbols up to the block's end.
func (d *Decoder) huffman(out []byte, op, room int) (int, error) {
	if d.length > 0 {
		if op = d.copyMatch(out[:room], op); d.length > 0 {
			return op, ErrRoom
		}
	}
	op, err := d.fast(out, op, room)
	if err == errEdge {
		op, err = d.careful(out[:room], op)
	}
	if err == nil {
		d.stage = atBlock
	}
	return op, err
}

// careful decodes symbols one by one up to the block's end, the end of the input or of the room. 56 bits are enough for
// a whole match (15 + 5 + 15 + 13); those behind the input's end are zero.
func (d *Decoder) careful(out []byte, op int) (int, error) {
	for {
		d.refill()
		e, bits, used := lookUp(d.tables.literals[:], literalRoot, d.bits)
		switch {
		case e&isSpecial != 0 && e&isEnd == 0:
			return op, ErrCorrupt
		case used > d.have:
			return op, ErrTruncated
		case e&isEnd != 0:
			d.take(used)
			return op, nil
		case e&isLiteral != 0:
			if op == len(out) {
				return op, ErrRoom
			}
			d.take(used)
			out[op] = byte(e >> valueShift)
			op++
			continue
		}
		length := value(e, bits)
		f, bits, more := lookUp(d.tables.distances[:], distanceRoot, bits>>(e&takeMask))
		if f&isSpecial != 0 {
			return op, ErrCorrupt
		}
		if used += more; used > d.have {
			return op, ErrTruncated
		}
		d.take(used)
		d.length, d.dist = length, value(f, bits)
		if d.dist > op-d.base {
			return op, ErrCorrupt
		}
		if op = d.copyMatch(out, op); d.length > 0 {
			return op, ErrRoom
		}
	}
}

// lookUp returns the entry for the symbol that bits begins with, bits with the code's part that led to a second table
// taken off, and how many bits the symbol takes in all.
func lookUp(table []uint32, root uint, bits uint64) (e uint32, _ uint64, used uint) {
	e = table[bits&(1<<root-1)]
	if e&isLink != 0 {
		bits >>= root
		used = root
		e = table[uint64(e>>valueShift)+bits&(1<<(e>>widthShift&widthMask)-1)]
	}
	return e, bits, used + uint(e&takeMask)
}

// value is the length or distance of an entry with the extra bits that follow its code.
func value(e uint32, bits uint64) int {
	return int(e>>valueShift) + int(bits&(1<<(e&takeMask)-1)>>(e>>widthShift&widthMask))
}

// copyMatch copies what is left of a match, as far as there is room.
func (d *Decoder) copyMatch(out []byte, op int) int {
	n := min(d.length, len(out)-op)
	for i := op; i < op+n; i++ {
		out[i] = out[i-d.dist]
	}
	d.length -= n
	return op + n
}
