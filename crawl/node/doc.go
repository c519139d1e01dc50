// Package node has what makes a running crawl one node of a cluster: so far the leases of networks. The
// sending and taking of links, the marks, the configuration and the end are still in package crawl.
//
// Leases join the scheduler of package polite with package cluster/lease: the scheduler grants nothing in a
// network without its lease. They say why nothing may be fetched, and give all leases back at the end, so
// that other nodes need not wait. A crawl of one node has no leases: each method then says that requests may
// begin.
//
// Contract: while MayFetch is false, no request may begin. A URL that waits long for a network moves to disk, in a
// transaction, so that RAM has room for others.
//
// Concurrency: all methods are safe for concurrent use after Open. Start starts the goroutines "leases" and
// "leasewait".
//
// Memory: that of cluster/lease, for networks of the hosts in RAM. Disk: nothing.
//
// Files: leases.go.
package node
