// Package nodes simulates a crawl of many nodes in virtual time: what they exchange, how long links wait, and how evenly
// the work is spread. docs/SCALING.md draws its conclusions.
//
// The paper has one server. Nothing here is from it but the politeness: a host is visited once in a delay.
//
// # The web
//
// The sizes of PLDs follow a power law: a PLD of rank r has C·r^(-1/α) URLs, so the share of PLDs with at least x URLs
// falls as x^-α. One PLD may be given a share of all URLs. A PLD has a host for each 150 URLs. URL k of a PLD
// links to its URLs 2k+1 and 2k+2, and the first URL of PLD r to those of PLDs 8r+1 to 8r+8: so every URL is found. All
// further links are drawn: a share leads to other PLDs, in proportion to their URLs, the rest to the page's own. Within a
// PLD a link leads to URL n·u^11 of n, u uniform, which gives in-degrees whose distribution falls as x^-1.1, as on the web.
//
// # The nodes
//
// The owner of a PLD is that of cluster.Table, from a random key. A node fetches at most Rate pages in a second, from
// hosts whose delay is over. A cache of recent links (2^16 of a node, direct-mapped) stands in front of URLseen and of
// the outboxes. A link to another node is published at the next checkpoint of its sender, arrives a second later, and
// stays in the outbox until a checkpoint of its receiver. A node with few URLs makes checkpoints early, as package crawl
// does. Messages have the sizes of cluster.TrafficOf, marks that of cluster.MarkBytes.
//
// Left out: robots.txt, budgets, failures, passes of DRUM, leases of networks, and the broker's own limits.
//
// # Contract
//
// The same options give the same result. Each URL is fetched once: the simulation counts, and the report checks it.
//
// # Concurrency and memory
//
// One goroutine. RAM is 5 bytes a URL, 20 a PLD and 16 a host, and 12 for each link that waits for a checkpoint. 10^7
// URLs on 64 nodes take 380 MB, and 90 s of a processor for both webs.
package nodes
