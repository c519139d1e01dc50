// Package beast holds URLs back until the budgets of their PLDs let them through.
//
// It implements BEAST (budget enforcement with anti-spam tactics) of the IRLbot paper, §VII.B and Figure 5:
// queues Q1 … Qj that are read one after the other, each with at most a budget's worth of URLs of any PLD,
// and QF for the URLs that fit into none. QF is read again at exponentially increasing intervals, each time
// into twice the queues, which keeps the disk rate bounded (Theorem 7, model.go) where re-reading it after
// every queue would not (Theorem 6).
//
// # Placement
//
// Queues have absolute numbers in the order in which they are read. s is the current one, h the horizon (the
// paper's j, from 1, doubling, to QueuesMax). A PLD's Ledger is (next, used). To place one URL of a PLD with
// budget Bx:
//
//	if Bx == 0            -> QF
//	if next <= s          next, used = s+1, 0
//	if used >= Bx         next, used = next+1, 0
//	if next > s+h         -> QF, ledger unchanged
//	used++                -> queue `next`
//
// s moves when its queue is read to the end, to the lowest queue that is not empty. A scan of QF is due when
// s has moved h queues since the last one. It doubles h, reads the old generation of QF once, and what fails
// again goes to a new generation. When there is no queue to move to, a scan may be started before it is due;
// it leaves h as it is, since all h queues are free.
//
// # Departures
//
// The paper keeps the left-over budgets of all PLDs in a local array in RAM; here the ledger travels with the
// PLD's record on disk (package star), so enforcement takes no RAM per PLD. The paper reuses queue files in a
// circle and places into j queues fixed until the next scan; here the window slides with s.
//
// # Contract
//
// Nothing is discarded. A queue holds at most the largest budget in force while it was filled, of each PLD.
// Records of one queue come out in the order in which they came in. Between Place and Append of a record s
// does not reach its number, if both stand between Pin and the release of the pin. A record appended is in
// the next checkpoint; the protocol of checkpoints (Freeze, Save, Commit) is that of package queue, of which
// each number and each generation of QF is one, created when first used and destroyed after it was read to
// its end and a checkpoint has been made without it.
//
// # Concurrency
//
// Place, Append, Pin and the counts may be called from any goroutine; Peek and Advance from one, the scan's
// methods from one (another), Freeze while none of the others but Place is running. No goroutines are owned.
//
// # Memory and disk
//
// (h+3) tail buffers of at most BlockBytes each, which grow from nothing, and two read buffers. Disk: the
// records, compressed by queue.
//
// Files: those of package queue, under state/<Name>/q<number> and state/<Name>/failed<generation>.
package beast
