// Package admit decides which links become URLs of the crawl.
//
// A Policy asks, in this order: blacklist, scope rules, depth, redirects, port, --scope, the rules for names and traps, and the
// operator's filter. Each no is a counter of its own (state.CountLinksBlocked and so on), so that nothing is dropped in silence; for
// a seed it is a line of the seed log as well. Explain asks the same Policy about a URL, made from the options that the last run
// noted.
//
// A Batch takes the links of one page. It is owned by one goroutine and used again for the next page; nothing is allocated for a
// link once its buffers have grown. What it takes it codes into tuples for URLseen, edges between PLDs for STAR, and names of hosts
// and PLDs; whoever owns it sends them in one transaction with the page's own end. What is the same for all URLs of an origin is found
// out once a page, and a link that repeats another one of its page counts as that one did.
//
// Lists are the scope rules and the blacklist in force; a reload replaces them while batches, lookups and exchanges ask. Sites are
// the hosts or PLDs that --scope allows, from the seeds and their redirects, at most maxScope of them.
//
// A plain link costs 30 to 42 ns, the default trap guards 52 ns more (docs/BENCHMARKS.md).
package admit
