// Package polite decides which of the URLs in RAM may be fetched now, and from which address.
//
// It implements the two heaps of the IRLbot paper, §VII.A: the host heap with delay τh (40 s for low-ranked
// PLDs, scaled down with the budget Bx to a minimum) and the IP heap with delay τs (1 s, scaled down with
// the mean budget on that IP). A host whose delay has passed waits in the first-in-first-out line of one
// server. The server that became ready first grants its first host. A host has at most one connection open
// at any time. Beyond the paper, two more entities are limited: the PLD, whose hosts may be thousands on as
// many servers, and the network (IPv4 /24, IPv6 /48), whose servers may share one uplink. All four limits
// apply together.
//
// Departures from the paper. A server is an IPv4 address or an IPv6 /64. The delay of a host counts from the
// end of the last exchange and is the maximum of τh·B0/Bx, the robots.txt Crawl-delay (capped), a multiple
// of the last response time and a back-off that the caller names. Requests for robots.txt are subject to the
// host delay like all others (the paper exempts them, which suits only the first fetch) and go to the front
// of their host's line. RAM is bounded, with shares for hosts, servers and PLDs. An item beyond a share is
// returned with a time at which to offer it again.
//
// Adaptive delays (Options.Adaptive, off by default). A host whose answers stay quick and clean is visited
// sooner, by steps down to HostDelayMin, and at its base delay again at the first sign of strain. adapt.go has
// the arithmetic and what always holds. A restart, and the end of a host's entry, bring back the base delay.
//
// Contract. An item leaves the scheduler once: by Next, which must be followed by Done or Drop, or by an
// eviction. Landed may come before Done: it frees the host, the server and the connection as Done does, while
// the item stays in RAM until its Done. Items of a host are granted in the order of admission, robots items first.
// Between Done(now) for an item of a host and the next grant for that host at least the host's delay passes. A server
// gets no grant between a grant and its Started (or Done, if Started is not called), nor for τs after that. So the
// gaps hold on the server's clock however long it takes to connect. A PLD is held in the same way, and its delay also
// counts from start to start. A network is not held, because one unresponsive server would then stop all others. Its
// limit is a number of starts in a window, and a grant counts from the grant until its start leaves the window; so
// this limit also holds on the servers' clock. With Options.StartAtGrant the grant itself counts as the start. No item
// starves: hosts, servers and networks are served in the order in which they became ready.
//
// Terms. An item may carry Terms, delays that replace those of Options for its host and its PLD. The latest item
// decides. A host of the operator's may have several connections: see Terms. SetTerms replaces them for all items in
// RAM, so a change by the operator binds the next visit.
//
// First. An item with First goes before the other pages of its host, behind earlier First items and robots.txt, and
// needs no share. When its host is due, the host goes to the front of the line of its PLD and of its server, and the
// server before others that are ready, so the item waits for delays and limits only. The caller bounds their number.
//
// Lines. A host that is due waits in the line of its PLD until the PLD is ready, then in that of one of its
// servers. A server that is ready waits in the line of its network until the network has room. No entity in a
// line is blocked by the delay of another: a host whose server cannot be visited at once lets the next host
// of its PLD pass; a server skips hosts whose PLD is not ready, and sends them back if it finds no other
// (pick); and slow exchanges of one server take at most half of its network's connections. The share of a PLD
// or network in RAM is what can be sent to it in Options.Ahead. A connection left open for the next item of a
// host counts as a connection of the network; at most half of a network's connections may be left open.
//
// Leases. With Options.Leased other crawlers visit the same networks. A network is then visited only between
// Hold and Release (lease.go); whoever waits for one is in its line as if it had no room. After Hold its
// servers and limits count as just visited, and exchanges that others have left open count as connections. So
// all gaps and limits of servers and networks hold over all crawlers, whatever their clocks say. Hosts and
// PLDs must be one crawler's.
//
// Deferral. A host with more URLs than its share could be offered them again and again. So each deferred item
// gets its own time in a line of future slots, one spacing (the host's delay) apart. There is a line for each
// number of past deferrals: items that return in one batch, because the disk keeps distant times coarsely,
// are spread over the time until the next batch. So an item is deferred at most about log4(URLs/share) times.
//
// Restart. Plain delays need no record: with Options.Visited, hosts, PLDs, servers and networks count as
// visited at the restart. Delays returns longer delays, and Restore of the next run sets them.
//
// Parts. A Scheduler keeps the items in RAM, their shares and the flights, and has three parts:
//
//   - hosts: the hosts with their connections, terms and delays; adapt.go, delay.go and terms.go belong to them;
//   - networks: the limits, the open connections and the leases of networks;
//   - heaps: who is due when. They are the hosts in their delay, the servers and the PLDs by time, and the lines in
//     which hosts wait that are due.
//
// Calls go down only: from the Scheduler to the heaps, from both to hosts and networks. These two know nobody above
// them, nor each other (TestPartsPointDown). So these hold whenever no method runs (TestInvariants):
//
//   - A host is at one place: in the heap of delays, in the line of its PLD or of a server, in flight, or stopped.
//   - A queued item is in the line of its host. Each item in RAM counts once for its PLD, for each of its servers, and
//     for the network of each of these.
//   - A server is in the line of its network, in one heap or in none, as place says; likewise PLDs and networks.
//   - The items of networks without lease add up to networks.unheld.
//
// Concurrency. All methods are safe for concurrent use. They hold one mutex for O(log n), except EvictLater,
// EvictForFirst, EvictUnheld, Each and Snapshot for O(items), and Delays and Restore for O(table entries). A mutex for
// each part would gain nothing: Admit, Next, Started and Done all change hosts, heaps and networks together, and would
// have to take all three. The package has no goroutines and no clock: callers pass now, which should have a monotonic
// reading. Ready and Room are channels of capacity one, for one receiver each.
//
// Memory. There are at most MaxItems items (Rec + ItemOverhead bytes each) and MaxHosts entries in each of
// the tables of hosts (336 bytes), servers (256), PLDs (208), networks (376, and 8 for each start in the
// window) and deferral lines (288). Together they take at most MaxBytes as long as the tables take at most
// half of it. At these bounds Admit returns Full until an item is granted or evicted or the delay of an
// entry has passed. Deferral lines are instead dropped at random, which costs further deferrals but no URL.
//
// The package uses no files. format.go has the coding of a Delay for the caller's checkpoint.
package polite
