// Package lease lets one node at a time visit a network, an IPv4 /24 or IPv6 /48, so that the delays and
// limits of addresses and networks hold over all nodes of a cluster.
//
// A lease is a value "net.<network>" of cluster.BucketNet. It names its holder. The node that creates the
// value has the lease; all further changes are compare-and-set. The package so depends on Create and Update
// alone, and Get may return old values. A node takes the lease of each network that has URLs in its RAM, and
// gives it back after idleFor without URLs. It never visits a network without its lease
// (polite.Options.Leased).
//
// Hand-over. A node that wants a network polls its holder. The holder keeps a network in use for `stay` (one
// without URLs for at most recheckUnused). Then it stops new requests there and names the next holder in the
// lease, with the rest of the queue of waiting nodes, the exchanges still in progress and the back-offs of
// servers. Its message to the next holder contains the value. The next holder needs no call of the transport,
// unless the message answers an earlier wait or names back-offs. It waits the plain delays from the time at
// which it learns of the hand-over. No clocks are compared. If an exchange takes longer than Options.Longest,
// its node reports it to the current holder of the network. The next holder does not learn what a request
// that outlives the lease finds out, such as a back-off. The lease's value keeps the inherited back-offs,
// with the holder's time. A killed process may not have saved them in a checkpoint; the node's next process
// finds its own lease and subtracts the elapsed time. Another node that takes the lease of a dead node cannot
// use that time, so it counts the whole back-off again.
//
// Heartbeats. Each node writes its heartbeat, "beat.<node>", every TTL/60. A node fetches nothing if its last
// acknowledged heartbeat was sent more than 9/10 of TTL ago. It then sends some heartbeats, claims its leases
// again, and only then continues. A node takes another's leases after it has read no heartbeat of it for TTL
// while connected. The end of that time is the sending of its own last heartbeat that it has read back: a
// process that was frozen has not yet read the messages that came meanwhile. The last heartbeat of a node
// says that it has ended. No node asks for a lease of a node whose heartbeat is late. The questions that
// await a node's answer are bounded, so a hung node delays nothing else.
//
// An undecodable value counts as another node's lease. If it names a node, that node's heartbeat decides.
// Else it is replaced TTL after this node first read it, and reported to Options.Problem.
//
// Start. A process starts as if after a silence, so its first request follows three heartbeats. If the node's
// last process did not end in order, the new one first watches its heartbeat for three intervals. Two
// processes for one node so do not fetch at once: the later one is refused. Only heartbeats with a revision
// later than the start count, because a replica that was away returns old ones as if they were new. No start
// skips this, not even the first of a crawl on an empty broker: the broker may have lost all marks and
// leases, while other nodes continue with leases that they hold. Leases that follow others in their process
// (Options.Before) begin at once if the others have read the heartbeats of these, a moment ago, and the
// broker has lost nothing since. If those were suspended, not ended, these have their leases, too, and know when
// each server was visited: to the others it looks as if the process was frozen meanwhile.
//
// A broker may lose acknowledged changes. After each connection, if the bucket's revisions have fallen, or if
// its heartbeat was set back, a node claims all its leases again, before its next heartbeat. It opens
// networks acquired later only when all other nodes have sent two heartbeats since, and so claimed theirs, or
// after TTL. Two gaps remain. A broker with replicas may lose changes of the last seconds without breaking
// connections, while as many others are made. A process that is frozen for longer than a tenth of TTL between
// its check of the time and its request sends that request late.
//
// Room. The broker refuses new leases when 7/8 of its room are in use, so that existing ones can be handed
// over. The network then waits, and Options.Problem is called. Giving a lease back needs no room, and a
// heartbeat no more than before. A lease of an ended or killed process is deleted if it has no information
// for the next holder: by End, or by the running node with the lowest number. A lease with back-offs stays
// until a node wants its network.
//
// All times are of Options.Clock, which runs while the machine sleeps.
//
// Cost: two changes of a value for each stay of a network in RAM; one change and one message for each
// hand-over; three more calls for each network that another node holds. RAM: some 300 bytes a network. At
// most maxSteps calls of the transport run at once.
package lease
