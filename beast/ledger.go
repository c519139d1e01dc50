package beast

import "encoding/binary"

// Number is the absolute number of a queue, from 1 in the order of reading. 0 is the position before the
// first. Numbers have 40 bits.
type Number int64

// OverBudget is the number of QF.
const OverBudget Number = -1

// LedgerBytes is the length of an encoded Ledger.
const LedgerBytes = 16

// MaxPart is the largest part of a budget that PlacePart uses; larger ones count as MaxPart.
const MaxPart = 1<<16 - 1

// Ledger is the data about a PLD needed to place its next URL. The zero Ledger is that of a new PLD.
//
// Encoding, little-endian: 5 bytes Next at offset 0, 3 bytes Part.Next-Next (signed) at offset 5, 4 bytes Used
// at offset 8, 2 bytes Epoch at offset 12, 2 bytes Part.Used at offset 14.
type Ledger struct {
	Fill         // of the URLs that may use the whole budget
	Part  Fill   // of those that share a part of it
	Epoch uint16 // epoch of the budget function, modulo 2^16; in another epoch the ledger counts as new
}

// Fill is how far a budget has been used.
type Fill struct {
	Next Number // queue for the next URL, if Used is below the budget
	Used uint32 // URLs placed into Next
}

// maxDelta limits Part.Next-Next in the encoding. It is more than a horizon. So a fill further back than that is
// behind s, where its numbers no longer count.
const maxDelta = 1<<23 - 1

// DecodeLedger decodes a ledger.
func DecodeLedger(b *[LedgerBytes]byte) (l Ledger) {
	first := binary.LittleEndian.Uint64(b[0:])
	l.Next = Number(first & (1<<40 - 1))
	l.Used = binary.LittleEndian.Uint32(b[8:])
	l.Epoch = binary.LittleEndian.Uint16(b[12:])
	l.Part.Next = l.Next + Number(int64(first)>>40)
	l.Part.Used = uint32(binary.LittleEndian.Uint16(b[14:]))
	return l
}

// Encode writes the encoded ledger to b.
func (l Ledger) Encode(b *[LedgerBytes]byte) {
	l.Next = max(l.Next, l.Part.Next-maxDelta)
	delta := max(l.Part.Next-l.Next, -maxDelta)
	binary.LittleEndian.PutUint64(b[0:], uint64(l.Next)|uint64(delta)<<40)
	binary.LittleEndian.PutUint32(b[8:], l.Used)
	binary.LittleEndian.PutUint16(b[12:], l.Epoch)
	binary.LittleEndian.PutUint16(b[14:], uint16(l.Part.Used))
}

// FillOf returns the fill that a URL uses: Part if it may use only a part of the budget.
func (l *Ledger) FillOf(part bool) *Fill {
	if part {
		return &l.Part
	}
	return &l.Fill
}

// place applies the rule of the package comment to a budget, or to a part of one. current is s, horizon is h.
func (l *Ledger) place(budget uint32, part bool, current, horizon Number, epoch uint32) Number {
	if l.Epoch != uint16(epoch) {
		*l = Ledger{Epoch: uint16(epoch)}
	}
	if budget == 0 {
		return OverBudget
	}
	f := l.FillOf(part)
	next, used := f.Next, f.Used
	if next <= current {
		next, used = current+1, 0
	}
	if used >= budget {
		next, used = next+1, 0
	}
	if next > current+horizon {
		return OverBudget
	}
	f.Next, f.Used = next, used+1
	return next
}
