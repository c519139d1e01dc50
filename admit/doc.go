// Package admit decides which links become URLs of the crawl.
//
// A Policy holds the settings. Batch.Admit checks a link, after URL rules have rewritten it, in this order:
// blacklist, scope rules, depth, redirects, port, --scope, trap guards, the filter, and the size of the
// page's records. Seeds are exempt from --scope and the trap guards. Each check that drops a link has a counter
// (state.CountLinksBlocked and so on); a dropped seed also gets a line in the seed log. Package
// state/explain checks URLs with the same Policy, built from the options of the last run.
//
// A Batch admits the links of one page. One goroutine owns it and reuses it for the next page, so a link
// allocates nothing once the buffers have grown. The Batch encodes the admitted links as tuples for
// URLseen, edges between PLDs for STAR, and names of hosts and PLDs. The owner sends these in one
// transaction with the page's end. The Batch computes once a page what all URLs of an origin share, and
// counts a repeated link like its first occurrence.
//
// Lists are the scope rules and the blacklist in force. A reload replaces them while batches, lookups and
// requests read them. Sites are the hosts or PLDs that --scope allows: at most maxScope, from the seeds and
// their redirects.
//
// A plain link costs 30 to 42 ns, the default trap guards 52 ns more (docs/how-it-works/benchmarks.md).
package admit
