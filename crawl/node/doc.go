// Package node makes a running crawl one node of a cluster: it exchanges links, edges and scope
// extensions with the other nodes, agrees with them on the configuration and the end, shares pages with them, and
// takes the leases of networks. The values at the broker are those of package cluster.
//
// Node is what a crawl calls. Each of its parts owns its state:
//
//   - abandoned: the nodes that are lost for good; heard: the last mark and status of each node; doubts: impossible
//     marks and messages. These use no other part.
//   - outboxes: records for other nodes, and their publishers; earlySaver: asks for checkpoints, before which
//     nothing is published.
//   - configKeeper: the configuration; crawlEnd: the agreement to the end; pageShares: Options.MaxPages.
//   - intake: messages of other nodes, and the quarantine of unreadable ones.
//   - tables: the table of owners while it changes, and the slots that move here. The table of a run does not change:
//     the run ends, and the next one has another (Turn).
//   - orders: those of the operator that all nodes carry out.
//   - marks: what a durable checkpoint covers, and the marks of others; statuses: figures for people.
//
// Leases join the scheduler of package polite with package cluster/lease: the scheduler grants nothing in a
// network without its lease. They say why nothing may be fetched, and give all leases back at the end, so
// that other nodes need not wait. A crawl of one node has neither parts nor leases: its methods do nothing, and report
// that requests may begin and that no other node has work.
//
// Contract: a record stays in the outbox for another node until a durable checkpoint of that node covers it.
// The intake takes messages in order, each in a transaction that also withdraws the agreement to the end. A node agrees
// under the exclusive transaction lock, so no agreement can come between. Nothing depends on the
// broker's memory. While Leases.MayFetch is false, no request may begin. A URL that waits long for a network moves
// to disk, in a transaction, so that RAM has room for others.
//
// Locks: the transaction lock comes before all locks of this package. Their order is marks, crawlEnd, statuses. The
// locks of doubts, of tables and of outboxes are innermost: no other is taken under them. Under the exclusive
// transaction lock, only those of crawlEnd, of tables and of outboxes are taken (Freeze, AgreeToEnd).
//
// Concurrency: methods are safe for concurrent use after Open, unless they say otherwise.
//
// Memory: cluster.OutboxRAM for each other node, and the entries of cluster/lease for the networks of the hosts in
// RAM. Disk: the outboxes, and a quarantine of at most Options.QuarantineBytes (256 MiB).
//
// Files: node.go, options.go; asks.go: requests to the owner of a host; leases.go; a file for each part. The intake
// has intake.go and quarantine.go, the end has end.go and rejoin.go.
package node
