package beast

import "encoding/binary"

// Number is the absolute number of a queue, from 1 in the order of reading. 0 is before the first.
type Number int64

// Failed is the number that stands for QF.
const Failed Number = -1

// LedgerBytes is the length of a coded Ledger.
const LedgerBytes = 16

// Ledger is what has to be known of one PLD to place its next URL. The zero Ledger is that of a new PLD.
//
// Coding, little-endian: offset 0, 8 bytes Next; offset 8, 4 bytes Used; offset 12, 4 bytes Epoch.
type Ledger struct {
	Next  Number // the queue that gets the next URL, if Used is below the budget
	Used  uint32 // URLs placed into Next
	Epoch uint32 // of the budget function; of another epoch, the ledger counts as new
}

// DecodeLedger reads a coded ledger.
func DecodeLedger(b *[LedgerBytes]byte) Ledger {
	return Ledger{
		Next:  Number(binary.LittleEndian.Uint64(b[0:])),
		Used:  binary.LittleEndian.Uint32(b[8:]),
		Epoch: binary.LittleEndian.Uint32(b[12:]),
	}
}

// Encode writes the ledger's coding.
func (l Ledger) Encode(b *[LedgerBytes]byte) {
	binary.LittleEndian.PutUint64(b[0:], uint64(l.Next))
	binary.LittleEndian.PutUint32(b[8:], l.Used)
	binary.LittleEndian.PutUint32(b[12:], l.Epoch)
}

// place is the rule of the package comment. current is s, horizon h.
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
