// Package trapscore finds hosts whose pages say the same again and again: calendars without end, shops that sort
// one list in a hundred ways, mirrors of themselves. The crawl gives their URLs a small part of the budget that
// their PLD has (option --budget traps, package star).
//
// STAR trusts PLDs. A PLD with many in-links gets a large budget, and one endless host below it may spend all
// of it. The IRLbot paper leaves reputation below the PLD to future work (section VIII.B). A trap score is one
// such measure. It needs no list of patterns, because it looks at what the pages say.
//
// # Score
//
// A page is repeated if its simhash (package internal/simhash) differs in at most NearBits bits from that of an
// earlier page of the same host. The score of a host is the share of its pages that are repeated, from LeastPages
// pages on. The counts are halved at MaxPages, so the score follows what the host serves now. A host with a score
// of one half or more is a trap: Score.Part says how much of the budget is left to it, from 8/16 at one half to
// 1/16 at one.
//
// Pages without a simhash, because they have hardly any text, do not count.
//
// # Memory
//
// A Table has a fixed size. Half of it holds hosts, 16 bytes each, in sets of four, so a lookup reads one cache
// line. Half holds hashes of pages: each page under its four blocks of 16 bits, because two hashes that differ
// in at most three bits have a block in common. New entries displace those of their set that were used longest
// ago; a trap stays longer than another host. So a host forgotten is a host that the crawl has not visited while
// it visited millions of others, or one that never repeated itself. The hashes of a trap are few, since they are
// equal or nearly so, and each repetition refreshes them.
//
// A Table is safe for concurrent use.
package trapscore
