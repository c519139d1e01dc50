// Package limits is a room of the running crawl: it has the limits of requests per second, bytes per second and
// concurrent exchanges that are in force, by the options or by the operator.
//
// The dispatcher asks Wait before it asks package polite for a grant. So a grant never waits for a limit, and
// hosts and servers keep their order. An unused grant is given back to the limits. For bandwidth this is only
// a gate, which avoids opening connections that would then be throttled; package fetch enforces the limit
// itself as it reads. The paper's crawler is limited by its uplink only.
//
// # Contract
//
// A request counts against all limits from Take on, unless Give takes it back. A new limit holds for the next
// request. Rates are those of all nodes of a cluster; each node takes its share.
//
// # Concurrency
//
// All methods are safe for concurrent use after Open. There is no lock of its own.
//
// # Memory and disk
//
// A few words; nothing on disk. The operator's limits are in the journal of changes.
//
// Files: limits.go.
package limits
