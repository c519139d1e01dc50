// Package beast delays URLs until the budgets of their PLDs admit them.
//
// It implements BEAST (budget enforcement with anti-spam tactics) of the IRLbot paper, section VII.B and
// Figure 5: queues Q1 … Qj that are read one after another, each with at most one budget of URLs of any
// PLD, and QF for the URLs that fit into none. QF is read again at exponentially growing intervals, each
// time into twice the number of queues. That bounds the disk rate (Theorem 7, model.go); re-reading QF
// after every queue does not (Theorem 6).
//
// # Placement
//
// Queues have absolute numbers in the order of reading. s is the current one. h is the horizon, the paper's
// j: it starts at 1 and doubles up to QueuesMax. The Ledger of a PLD is (next, used). A URL of a PLD with
// budget Bx is placed as follows:
//
//	if Bx == 0            -> QF
//	if next <= s          next, used = s+1, 0
//	if used >= Bx         next, used = next+1, 0
//	if next > s+h         -> QF, ledger unchanged
//	used++                -> queue `next`
//
// A URL may be limited to a part of the budget (PlacePart). Such URLs of a PLD share that part and follow
// the same rule with a (next, used) of their own. They take nothing from the PLD's other URLs, and never
// more than their part.
//
// When queue s is read to the end, s moves to the lowest non-empty queue. A scan of QF is due when s has
// moved h queues since the last scan. It doubles h and reads the old generation of QF once. URLs that fail
// again go to a new generation. When there is no queue to move to, a scan may start before it is due; it
// leaves h unchanged, since all h queues are free.
//
// # Another budget function
//
// Replace takes all queues after s out of use. Their URLs are to be checked again and placed again, above the
// numbers of those queues; the ledgers of an earlier epoch count as new. The current queue stays as it is.
//
// # Lanes
//
// Lanes are up to 8 Beasts that share the budgets: lane l, of weight w_l, has w_l/Σw of each PLD's budget in
// its queues, and of the records read. In a round each lane reads one queue, so a PLD gets no more than its
// budget in a round, in whatever lanes its URLs are. (Lanes that went on alone would give a PLD that is alone
// in a lane the lane's whole share: priorities that sites set themselves, as in sitemaps, would buy it.) A
// lane without records gives its turns away. Each lane has its own horizon, QF and scans, so Theorem 7 holds
// in each: see Model.RateBound.
//
// # Departures
//
// The paper keeps the left-over budgets of all PLDs in a local array in RAM. Here the ledger is part of the
// PLD's record on disk (package star), so enforcement takes no RAM per PLD. The paper reuses queue files in
// a circle and places into j queues fixed until the next scan. Here the window moves with s.
//
// # Contract
//
// No URL is discarded. Of each PLD, a queue holds at most the largest budget in force while it was filled,
// and at most the largest part of one beside it. Records of a queue come out in the order of Append. If Place
// and Append of a record both happen between Pin and the release of the pin, s does not reach its number in
// between. An appended record is part of the next checkpoint. The checkpoint protocol (Freeze, Save, Commit)
// is that of package queue. Each number and each generation of QF is a queue. It is created when first used,
// and destroyed once it has been read to its end and a checkpoint without it is durable.
//
// # Concurrency
//
// Place, Append, Pin and the counts are safe for concurrent use. Peek and Advance are for one goroutine,
// the scan's methods for one (possibly another) goroutine. During Freeze only Place may run. The package
// starts no goroutines.
//
// # Memory and disk
//
// RAM of each lane: up to h+3 tail buffers, which grow on demand to at most BlockBytes each, and two read
// buffers, one more for a scan that leaves blocks in QF as they are stored (ScanKeep). Disk: the records,
// compressed by package queue.
//
// The files are those of package queue under state/<Name>/q<number> and state/<Name>/failed<generation>. Lane
// 1 and further ones have names <Name>-1 and so on. The state of one lane is that of a Beast, version 1; of
// several, version 2.
package beast
