// Package strategy says which URLs a crawl prefers.
//
// The paper crawls in the order of BEAST's queues, in which all URLs of a PLD are equal. Here BEAST has up to
// beast.MaxLanes lanes, and a Strategy maps each URL to one of them; 0 is the best. Lanes are read
// alternately, by their weights, and each has its share of every PLD's budget. So the better URLs of a PLD go
// first within its budget, the worst still move, and nothing is discarded.
//
// # Contract
//
// A Strategy is a value that does not change. Lane is a function of the record alone: of its depth, its flags and its
// score. So an audit, an explanation and a later run compute the same lane. It is called when a URL goes to STAR's
// check, also when it goes there again: after a scan of QF, for a revisit, and after a change of the strategy.
//
// What a record does not hold from its beginning, links get as a score from the page that has them: Strategy.Scores
// says which figure. A score is one byte (ScoreOf), which takes room only in the records of crawls that have scores. A
// URL keeps the score of the first page on which it was found. A redirect hands its score to its target.
//
// # Strategies
//
//	none     one lane, or the first of several
//	depth    by the links from the nearest seed: 0 and 1, 2 and 3, 4 to 7, 8 and more
//	indegree by the budget of the linking page's PLD, which follows its in-degree
//	hook     by the score that the hook gave the linking page
//	sitemap  by <priority> in the sitemap that names the URL
//
// URLs without a score are in the middle lane, seeds always in lane 0.
//
// The budget that counts for indegree is that of the PLD with the link, not of the URL's own PLD: the latter is the
// same for all URLs of a PLD, and already says how many of them are read. A link from a PLD of large in-degree costs a
// spammer more than a link from a farm. Links within a PLD have the budget of that PLD.
//
// The package does no I/O and starts no goroutines. All functions are safe for concurrent use.
package strategy
