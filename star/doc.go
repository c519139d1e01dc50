// Package star gives every URL a budget according to the reputation of its PLD.
//
// It implements STAR (spam tracking and avoidance through reputation) of the IRLbot paper, section VI and
// Figure 4. The reputation of a PLD is its in-degree: the number of other PLDs that link to it. Each one
// costs a spammer a domain. A budget function maps the in-degree to the number of pages that may pass per
// queue of BEAST.
//
// # Structure
//
//	links ──> recent edges (RAM) ──> <Name>-edges (drum) ──new──> <Name>-indegree (drum) ──> Emit
//	unique URLs, scanned QF ───────────────────────────────────────────^
//
// The edges drum stores each pair (x, y), x != y, in a form that gives both back. A new pair adds one to
// the in-degree of y. The indegree drum has a record (PLD) of 40 bytes for each PLD, which includes the
// ledger of BEAST. A check finds the budget and calls Place, which changes the ledger in the same round.
//
// # Departures
//
// The paper keeps in-degree, budget and the hashes of all neighbours in one record, so a check of a popular
// PLD rewrites megabytes. Two drums give the same in-degree. The paper's constants (K = 10,000 of 33 million
// PLDs share budgets up to 10,000 pages) are upper bounds here. With V PLDs known, K = V/100, and the top
// budget is V·B0/100, limited to the range from B0 to the maximum. All budgets are scaled up until V default
// budgets add up to QueuePages, so that small crawls do not scan QF all the time. PLDs of equal in-degree get
// equal budgets: the lowest of their ranks. PLDs tied with rank K+1 get B0. If several Stars share a crawl, K
// is this one's share of that of all, and V in the top budget is the number of all PLDs (Budgets.Share). Only
// Refresh changes the function; the owner calls it when BEAST moves to another queue, or after SetBudgets. A
// growing in-degree counts at once.
//
// Lists of ranks may give PLDs prior in-degrees (priors.go).
//
// # Contract
//
// Results come in order of arrival within a bucket's round. Package drum defines the order of Emit, Place
// and checkpoints. Place is called in the round whose Emit follows. If a crash comes before the checkpoint
// that has the emission, the round is applied again. A pin is held from before a round's first Place until
// after its last Emit. A round has at most 32,768 checks, or as many as its bucket has PLDs if those are more.
//
// # Concurrency
//
// AddEdges, Check, Fetched, Refresh, Full, the counts, Pause and Resume are safe for concurrent use. Pass
// runs in one goroutine at a time. Freeze must be called between Pause and Resume while nothing is being
// added. The package starts no goroutines, except those of the edges drum with several workers.
//
// # Memory and disk
//
// RAM: two drums, Recent, 40 bytes for each ranked PLD (Ranks+1 by in-degree, 1000 by pages and 1000 by bytes), and
// 64 bytes for each prior. Disk: about (64-log2 E)/8+8.2 bytes for each of E edges, 40 + 8 bytes for each PLD, and the
// buckets.
//
// The files are those of package drum under state/<Name>-edges and state/<Name>-indegree. The rankings are
// in the checkpoint's tail.
package star
