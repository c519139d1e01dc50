// Package lease makes one node at a time the visitor of a network, an IPv4 /24 or IPv6 /48, so that the delays and
// limits of addresses and networks hold over all nodes of a cluster.
//
// A lease is a value "net.<network>" of exchange.BucketNet. It names its holder. Whoever creates the value has the
// lease; all further changes are compare-and-set, so the package depends on Create and Update alone: what Get returns
// may be old. A node takes the lease of each network that has URLs in its RAM, and gives it back after idleFor without
// any. It never visits a network without its lease (polite.Options.Leased).
//
// Hand-over. Who wants a network that another node holds asks that node, again and again. The holder keeps a network
// that it uses for stay (one without URLs: recheckUnused at most), then lets no more requests begin there, and writes the next node's name into the lease, with
// those that wait behind it, the exchanges still in progress and the back-offs of servers. The message that says so holds the
// value, so the next holder asks the engine for nothing, unless the message tells of an earlier wait or of back-offs. It waits the
// plain delays from the instant at which it learns of it. No clocks are compared. Exchanges that take
// longer than Options.Longest are told of by the node that makes them, to whoever holds the network then. What an exchange finds out that
// outlives its lease, such as a back-off, the next holder does not know. What a holder was told stays in the lease's value,
// with the holder's time: a process that is killed may not have had a checkpoint since, and the next one of its node finds its
// own lease and takes off what has passed. Another node that takes the lease of a node that is gone does not know that time, so
// it counts the whole back-off again.
//
// Life. Each node writes its beat, "beat.<node>", all TTL/60. A node whose last acknowledged beat was sent more than 9/10
// of TTL ago fetches nothing; when it beats again, it lets the others hear some beats, claims its leases again, and only
// then continues. A node that has seen no beat of another for TTL, connected all the while, takes that node's leases. That time
// ends when it sent a beat of its own that it has seen since among those of all: a process that was frozen has not yet read
// what came meanwhile. A node that has ended says so in its beat. A node whose beat is late is asked for no lease, and only some
// questions wait for a node's answer at once, so one that hangs holds up nothing else.
//
// A value that cannot be decoded is another node's. If it names one, that node's beat decides; else it is replaced TTL after
// this node has seen it first, and Options.Problem is told.
//
// Start. A process begins as after a silence, so its first request comes three beats after its start. If the process before
// it was killed, it first looks for three beats whether that one still beats, so two processes for one node do not fetch at
// once: the later one is refused. No start skips this, not even the first of a crawl on an empty broker: the broker may have
// lost everything, and the marks and leases with it, while other nodes go on with leases that they hold.
//
// A broker may lose what it acknowledged. After each connection, if the bucket's revisions have fallen, and if a node's
// beat was set back, the node claims all its leases again, before its next beat. Networks that it gets later are opened
// only when all other nodes have beaten twice since, so that they have claimed theirs, or after TTL. Left over: changes of
// the last seconds that a broker with replicas loses without breaking connections, while as many others are made; and a
// process that is frozen for longer than a tenth of TTL between its check of the time and its request, which then sends
// that request late.
//
// Room. The broker refuses new leases when 7/8 of its room are in use, so that those that are there can be handed over: then the
// network waits, and Options.Problem is told. Giving a lease back needs no room, and a beat no more than before. Leases of processes
// that have ended or were killed, and that tell nothing, are deleted: at End, and by the lowest node that beats. One that tells
// of back-offs stays until somebody wants its network.
//
// Times are those of Options.Clock, a clock that runs while a machine sleeps.
//
// Cost: two changes of a value for each stay of a network in RAM; for each hand-over one, and one message; for each network that
// another node is found to hold, three calls more. Some 300 bytes of RAM a network. At most maxSteps calls of the engine run at once.
package lease
