// Package polite decides which of the URLs in RAM may be fetched now, and from which address.
//
// It implements the two heaps of the IRLbot paper, §VII.A: the host heap with delay τh (40 s for low-ranked
// PLDs, scaled down with the budget Bx to a minimum) and the IP heap with delay τs (1 s, scaled down with the
// mean budget on that IP). A host whose delay has passed waits in the first-in-first-out line of one server;
// the server whose turn came first grants its first host. At most one connection is open to a host at any
// time. Beyond the paper two more owners are spared: the PLD, whose hosts may be thousands on as many servers,
// and the network (IPv4 /24, IPv6 /48), whose servers may share one uplink. All four limits hold at once.
//
// Departures from the paper. A server is an IPv4 address or an IPv6 /64. The delay of a host counts from the
// end of the last exchange and is the largest of τh·B0/Bx, the robots.txt Crawl-delay (capped), a multiple of
// the last response time and a back-off that the caller names. Requests for robots.txt take the host slot as
// any other (the paper lets them skip it, which is true of the first fetch only) and stand in front of the
// line of their host. RAM is bounded, with shares for hosts, servers and PLDs; what exceeds a share is handed
// back with a time at which to come again.
//
// Contract. An item is given out once: by Next, which must be answered by Done, or by an Evict. Items of a host
// are granted in the order of admission, robots items first. From Done(now) of one item of a host to the next
// grant for that host at least the host's delay passes. A server is granted to nobody between a grant and its
// Started (or Done, if Started is not called), and for τs after; so gaps hold on the server's clock whatever
// a connection set-up takes. A PLD is held in the same way, and its delay, too, counts from start to start. A
// network is not held, or one server that doesn't answer would stop all others: its limit is so many starts in a
// window, a grant counting until its start is forgotten; so that holds on the servers' clock, too. With
// Options.StartAtGrant the grant itself counts as start. No item waits for ever: hosts, servers and networks are served in
// the order in which their time came.
//
// Lines. A host that is due stands in the line of its PLD until the PLD's turn, then in that of one of its servers; a
// server whose turn came stands in the line of its network until there is room. Nobody waits in a line for another's
// delay: a host whose server can't be visited at once lets the next of its PLD pass, a server looks past hosts whose PLD
// isn't to be visited yet, and sends them back if it finds none (pick), and the slow exchanges of one server take
// half of its network's connections at most. What a PLD or a network can be sent in Options.Ahead, and no more, is
// kept in RAM of it. Connections left open for a host's next item count as connections of their network: half of those it
// may have at most are left open.
//
// Deferral. A host with more URLs than its share could be offered them again and again. So each deferred item
// gets a time of its own in a line of future slots, one spacing apart (the host's delay), kept by number of
// past deferrals: a batch that returns together, because far times are kept coarsely on disk, is spread over
// the time until the next batch. An item is thus deferred about log4(URLs/share) times at most.
//
// Restart. Plain delays need no record: with Options.Visited hosts, PLDs, servers and networks count as visited at the
// restart.
// Longer ones are read by Delays and given to Restore of the next run.
//
// Concurrency. All methods may be called from any goroutine; one mutex, O(log n) under it except Evict,
// EvictLater, Each and Snapshot, which are O(items), and Delays and Restore, which are O(table entries). No
// goroutines, no clock: callers pass now, which should carry a monotonic reading. Ready and Room are channels of
// capacity one: one waiter each.
//
// Memory: MaxItems items (Rec + ItemOverhead each) and MaxHosts entries in each of the tables, of hosts (336 bytes), servers (256), PLDs
// (208), networks (320, and 8 for each start in the window) and deferral lines (288). All together take MaxBytes at most as long as
// the tables keep to half of it. At these bounds Admit says Full, until an item is granted or evicted or an entry's delay has passed;
// deferral lines are dropped at random instead, which costs further deferrals, no URL.
//
// No files. The coding of a Delay, for the caller's checkpoint, is in format.go.
package polite
