// Package gate is a room of the running crawl: it decides whether a URL may be fetched from its host, by the
// health of the host. It also reads sitemaps.
//
// # Contract
//
// Hosts learns how each exchange ended, in the transaction that settles its URL, and tells RobotsCache. It
// defers or refuses the URLs of a host in back-off, or given up, wherever they pass.
//
// # Concurrency
//
// Hosts and Sitemaps have no goroutine and are safe for concurrent use.
//
// # Memory and disk
//
// The table of hosts in trouble is bounded by package health. Each checkpoint has a copy.
package gate
