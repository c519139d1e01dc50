package inflate

// huffman decodes symbols up to the end of the block.
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

// careful decodes symbols one by one until the end of the block, the input or the room. 56 bits suffice for
// a whole match (15 + 5 + 15 + 13). Bits after the end of the input are zero.
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

// lookUp returns the entry of the next symbol in bits, bits without the part of the code that led to a
// second table, and the number of bits that the symbol takes in total.
func lookUp(table []uint32, root uint, bits uint64) (e uint32, _ uint64, used uint) {
	e = table[bits&(1<<root-1)]
	if e&isLink != 0 {
		bits >>= root
		used = root
		e = table[uint64(e>>valueShift)+bits&(1<<(e>>widthShift&widthMask)-1)]
	}
	return e, bits, used + uint(e&takeMask)
}

// value returns the length or distance of an entry, including the extra bits after its code.
func value(e uint32, bits uint64) int {
	return int(e>>valueShift) + int(bits&(1<<(e&takeMask)-1)>>(e>>widthShift&widthMask))
}

// copyMatch copies the rest of a match as far as there is room.
func (d *Decoder) copyMatch(out []byte, op int) int {
	n := min(d.length, len(out)-op)
	for i := op; i < op+n; i++ {
		out[i] = out[i-d.dist]
	}
	d.length -= n
	return op + n
}
