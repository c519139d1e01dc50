// Package star gives every URL the budget that the reputation of its PLD has earned.
//
// It implements STAR (spam tracking and avoidance through reputation) of the IRLbot paper, §VI and Figure 4.
// The reputation of a PLD is its in-degree: how many other PLDs link to it, which costs a spammer a domain
// each. A budget function turns the in-degree into the number of pages that may pass per queue of BEAST.
//
// # Structure
//
//	links ──> recent edges (RAM) ──> <Name>-edges (drum) ──new──> <Name>-indegree (drum) ──> Emit
//	unique URLs, scanned QF ───────────────────────────────────────────^
//
// The edges drum has each pair (x, y), x != y, so that both can be read back; a pair that is new adds one to
// y. The indegree drum has a record (PLD) of 40 bytes for each PLD, with the ledger of BEAST in it. A check
// finds the budget and calls Place, which changes the ledger in the same round.
//
// # Departures
//
// The paper keeps in-degree, budget and the hashes of all neighbours in one record, so that a check of a
// popular PLD rewrites megabytes; two drums give the same in-degree. The paper's constants (K = 10,000 PLDs
// share budgets up to 10,000 pages, of 33 million) are upper bounds here: with V PLDs known, K = V/100, the
// top budget is V·B0/100 between B0 and the maximum, and all budgets are scaled up until V of them make
// QueuePages, so that small crawls do not scan QF all the time. PLDs of equal in-degree get equal budgets,
// the least of their ranks; those tied with rank K+1 get B0. The function changes only in Refresh, which the
// owner calls when BEAST moves to another queue; an in-degree that rises in between counts at once.
//
// # Contract
//
// Results come in order of arrival within a bucket's round. Emit, Place and the order of checkpoints are
// those of package drum; Place is called in the round whose Emit follows, and its round is applied again if a
// crash comes before the checkpoint that has the emission. Pin is held from before a round's first Place
// until after its last Emit.
//
// # Concurrency
//
// AddEdges, Check, Fetched, Refresh, Full, the counts and Pause/Resume may be called from any goroutine; Pass
// from one at a time; Freeze between Pause and Resume while no adds run. No goroutines are owned.
//
// # Memory and disk
//
// RAM: that of two drums, of Recent, and (Ranks+1)·40 bytes for the ranking. Disk: about (64-log2 E)/8+8.2
// bytes for each of E edges, 40 + 8 for each PLD, and the buckets.
//
// Files: those of package drum under state/<Name>-edges and state/<Name>-indegree; the ranking goes into the
// checkpoint's tail.
package star
