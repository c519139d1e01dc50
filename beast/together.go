package beast

// PlaceTogether is Place without a budget, for a lane in which each queue has all URLs of a few PLDs. A PLD's first URL
// assigns a queue to it: the last queue that was assigned, or the next one if that has plds of them. ledger is that of
// the PLD in the lane. Once the queue has been reached (Reached), a further URL assigns another one.
//
// The assignments are not part of a checkpoint: after a restart the next PLD begins another queue. PlaceTogether is for
// one goroutine.
func (l *Lanes) PlaceTogether(lane int, ledger *Ledger, plds int) Number {
	b := l.lanes[lane]
	if ledger.Epoch == uint16(b.epoch.Load()) && ledger.Next > b.base() {
		return b.Place(ledger, Unbounded) // its queue
	}
	was, t := *ledger, &l.together[lane]
	n := max(t.last, b.highest(), b.base())
	if n != t.last || n == b.base() || t.plds >= plds {
		n++ // another queue
	}
	*ledger = Ledger{Fill: Fill{Next: n}, Epoch: uint16(b.epoch.Load())}
	if n = b.Place(ledger, Unbounded); n == OverBudget {
		*ledger = was
		return OverBudget
	}
	if n != t.last {
		t.last, t.plds = n, 0
	}
	t.plds++
	return n
}

// Reached reports whether the queue that PlaceTogether assigned has been reached, so that its URLs are read or were.
func (l *Lanes) Reached(lane int, ledger *Ledger) bool {
	b := l.lanes[lane]
	return ledger.Next > 0 && ledger.Epoch == uint16(b.epoch.Load()) && ledger.Next <= b.current.load()
}

// BestDry reports whether the first of several lanes has no record, while the others may have some.
func (l *Lanes) BestDry() bool {
	return len(l.lanes) > 1 && l.lanes[0].AtEnd() && l.lanes[0].Waiting() == Empty
}

// together is the state of PlaceTogether in a lane.
type together struct {
	last Number // the queue that was assigned last; 0 after a start
	plds int    // PLDs to which it was assigned
}

// highest returns the highest number of a queue with records, or of a queue that was moved.
func (b *Beast) highest() Number {
	b.mu.RLock()
	defer b.mu.RUnlock()
	n := b.floor.load()
	for q := range b.queues {
		n = max(n, q)
	}
	return n
}
