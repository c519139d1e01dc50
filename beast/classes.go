package beast

import "math"

// The classes of a PLD's URLs in a lane have a ledger each, and share the PLD's budget by fixed weights: a class has
// twice the weight of the one below. They follow the rule of the package comment, with two changes. A class counts
// from its first URL on, until s is recentQueues past the last queue that had a URL of it. If the budget has fewer
// pages than classes that count, one that has no URLs in queues stops to count as soon as a class below needs its
// place.
//
//	budget of a class    1 + (Bx-n)·w/Σw, rounded down, of the n classes that count; Bx if n = 1
//	URL of one that      after the last queue that another one has reached
//	does not count yet
//
// So a queue holds at most the PLD's budget. The shares add up to Bx or less. A share grows only when a class has
// stopped to count, which then has no URLs in queues after s. It shrinks only when a class begins, in queues in which
// the others have nothing yet. A class alone has all of Bx.
//
// A class counts even if there is no queue for its first URL. The others then leave room for it in the queues that
// come next. Otherwise a class with URLs without end, which fills each queue as it comes in reach, could keep it out.

// recentQueues is for how many queues the share of a class without URLs stays free, so that its next URLs find room
// in the next queues, not behind those of a class that has filled all queues in reach.
const recentQueues = 16

// PlaceClass is Place for a URL in one of the classes of a PLD, given the ledgers of all classes in the lane, which it
// may change. In a budget of fewer pages than classes that count, the highest ones have a page each.
func (l *Lanes) PlaceClass(lane int, ledgers []Ledger, class int, budget uint32) Number {
	b := l.lanes[lane]
	share := b.share(ledgers, class, l.turns.Load().Share(lane, budget))
	return b.Place(&ledgers[class], share)
}

// share returns the budget of a class, and makes the class count.
func (b *Beast) share(ledgers []Ledger, class int, budget uint32) uint32 {
	s, epoch := b.base(), uint16(b.epoch.Load())
	counts := func(l *Ledger) bool { return l.Epoch == epoch && l.Next > max(0, s-recentQueues) }
	var others, above, weights uint32
	var last Number
	for i := range ledgers {
		if i == class || !counts(&ledgers[i]) {
			continue
		}
		others, weights, last = others+1, weights+1<<i, max(last, ledgers[i].Next)
		if i > class {
			above++
		}
	}
	if others == 0 || budget == 0 {
		return budget
	}
	if own := &ledgers[class]; !counts(own) {
		if own.Epoch != epoch {
			*own = Ledger{Epoch: epoch}
		}
		own.Fill = Fill{Next: last, Used: math.MaxUint32}
	}
	if n := others + 1; budget >= n {
		return 1 + uint32(uint64(budget-n)<<class/uint64(weights+1<<class))
	}
	// Of the classes above, those without URLs in queues stop to count. If none has any, no queue would come in which
	// they have stopped.
	for i := class + 1; i < len(ledgers) && above >= budget; i++ {
		if l := &ledgers[i]; counts(l) && l.Next <= s {
			*l = Ledger{}
			above--
		}
	}
	if above < budget {
		return 1
	}
	return 0
}
