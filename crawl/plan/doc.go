// Package plan divides RAM and disk among the structures of a crawl, and computes from the formulas how large
// and how fast the crawl becomes.
//
// Make divides Options.RAMBytes by fixed shares, after what must be set aside: the heap of the connections,
// of a hook, of rendering, of the exchange with other nodes. It chooses the geometry of each store by the
// paper's Theorem 2 and its optimum k0 = R/4M (section IV). Plan.Forecast applies equation (14), Theorem 3
// and Theorem 7 to an expected Load, whose defaults are the numbers of sections IV.D, VII and VIII.
// Plan.Nodes adds what the nodes of a cluster exchange.
//
// Departures from the paper: URLseen compresses its keys and text, so its cost is that of package drum,
// beside the paper's alpha. The paper plans URLseen only.
//
// Contract: the parts of Plan.RAM add up to RAMBytes, and no store takes more than its share. A plan depends
// on its Options only. Errors name the flags that cause them.
//
// Concurrency: all functions are pure; a Plan may be read by any number of goroutines. Memory: a Plan takes a
// KiB. Disk: nothing is read or written.
//
// Files: plan.go (shares, stores), forecast.go (sizes and rates), nodes.go (the exchange between nodes).
package plan
