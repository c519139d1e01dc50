package beast

import "encoding/binary"

// Number is the absolute number of a queue, from 1 in the order of reading. 0 is the position before the
// first.
type Number int64

// Failed is the number of QF.
const Failed Number = -1

// LedgerBytes is the length of an encoded Ledger.
const LedgerBytes = 16

// Ledger is the data about a PLD needed to place its next URL. The zero Ledger is that of a new PLD.
//
// Encoding, little-endian: 8 bytes Next at offset 0, 4 bytes Used at offset 8, 4 bytes Epoch at offset 12.
type Ledger struct {
	Next  Number // queue for the next URL, if Used is below the budget
	Used  uint32 // URLs placed into Next
	Epoch uint32 // epoch of the budget function; in another epoch the ledger counts as new
}

// DecodeLedger decodes a ledger.
func DecodeLedger(b *[LedgerBytes]byte) Ledger {
	return Ledger{
		Next:  Number(binary.LittleEndian.Uint64(b[0:])),
		Used:  binary.LittleEndian.Uint32(b[8:]),
		Epoch: binary.LittleEndian.Uint32(b[12:]),
	}
}

// Encode writes the encoded ledger to b.
func (l Ledger) Encode(b *[LedgerBytes]byte) {
	binary.LittleEndian.PutUint64(b[0:], uint64(l.Next))
	binary.LittleEndian.PutUint32(b[8:], l.Used)
	binary.LittleEndian.PutUint32(b[12:], l.Epoch)
}

// place applies the rule of the package comment. current is s, horizon is h.
func (l *Ledger) place(budget uint32, current, horizon Number, epoch uint32) Number {
	if l.Epoch != epoch {
		*l = Ledger{Epoch: epoch}
	}
	if budget == 0 {
		return Failed
	}
	next, used := l.Next, l.Used
	if next <= current {
		next, used = current+1, 0
	}
	if used >= budget {
		next, used = next+1, 0
	}
	if next > current+horizon {
		return Failed
	}
	l.Next, l.Used = next, used+1
	return next
}
